"""The definitions as loops over Python numbers: floats, fractions or mpmath's, whatever the entries are.

Slow, short, and with nothing to get wrong; other oracles differentiate them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Rows = Sequence[Sequence[Any]]


def scores(q: Rows, k: Rows, scale: Any, bias: Rows | None) -> list[list[Any]]:
    """s_ij = scale * sum_c q_ic k_jc + bias_ij."""
    out = []
    for i in range(len(q)):
        row = []
        for j in range(len(k)):
            total = 0
            for c in range(len(q[i])):
                total = total + q[i][c] * k[j][c]
            row.append(scale * total + (0 if bias is None else bias[i][j]))
        out.append(row)
    return out


def weights(s: Rows, visible: Sequence[Sequence[bool]], exp: Callable[[Any], Any]) -> list[list[Any]]:
    """a_ij = exp s_ij / sum over the visible k of exp s_ik; zeros on masked pairs and empty rows."""
    out = []
    for i in range(len(s)):
        total = 0
        for j in range(len(s[i])):
            if visible[i][j]:
                total = total + exp(s[i][j])
        out.append([exp(s[i][j]) / total if visible[i][j] else 0 for j in range(len(s[i]))])
    return out


def context(a: Rows, v: Rows, multiplier: Rows) -> list[list[Any]]:
    """g_ic = sum_j a_ij D_ij v_jc."""
    out = []
    for i in range(len(a)):
        row = []
        for c in range(len(v[0]) if v else 0):
            total = 0
            for j in range(len(v)):
                total = total + a[i][j] * multiplier[i][j] * v[j][c]
            row.append(total)
        out.append(row)
    return out


def inner(u: Rows, g: Rows) -> Any:
    """sum_ic u_ic g_ic."""
    total = 0
    for i in range(len(u)):
        for c in range(len(u[i])):
            total = total + u[i][c] * g[i][c]
    return total


def cross_entropy(z: Rows, t: Rows, exp: Callable[[Any], Any], log: Callable[[Any], Any]) -> Any:
    """- sum_ic t_ic log(exp z_ic / sum_d exp z_id)."""
    total = 0
    for i in range(len(z)):
        normaliser = 0
        for c in range(len(z[i])):
            normaliser = normaliser + exp(z[i][c])
        for c in range(len(z[i])):
            total = total - t[i][c] * (z[i][c] - log(normaliser))
    return total


def linear(x: Rows, W: Rows, c: Sequence[Any]) -> list[list[Any]]:
    """x W + c."""
    out = []
    for i in range(len(x)):
        row = []
        for b in range(len(c)):
            total = c[b]
            for a in range(len(W)):
                total = total + x[i][a] * W[a][b]
            row.append(total)
        out.append(row)
    return out


def columns(x: Rows, start: int, stop: int) -> list[list[Any]]:
    """The columns start, ..., stop - 1."""
    return [list(row[start:stop]) for row in x]

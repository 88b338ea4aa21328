r"""Error per dtype against 50 digits, ours and that of PyTorch's explicit operations, over a fixed seeded ensemble.

.. math:: \text{error} = \max_{ij} |x_{ij} - \hat x_{ij}| \,/\, \max_{ij} |\hat x_{ij}|

for each output x (context, dL/ds, dL/dq, dL/dk, dL/dv) of one head, and for the mean cross-entropy of its upstream
array taken as logits and that loss's gradient, where x-hat is computed by mpmath from the very
numbers that both sides are given (already rounded to the dtype). The explicit operations are those that anybody would
write, differentiated by autograd, in the same dtype throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np
import torch

import bayesgrad as bg

DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
OUTPUTS = ("context", "scores", "queries", "keys", "values", "loss", "logits")
KINDS = ("plain", "wide scores", "near one-hot", "offset values", "masked")
DIGITS = 50


@dataclass(frozen=True)
class Row:
    """One line of the table: the errors of both sides over the ensemble."""

    dtype: str
    output: str
    cases: int
    median: float
    peer_median: float
    largest: float
    peer_largest: float

    @property
    def holds(self) -> bool:
        """No worse than twice the peer, in the median and at worst."""
        return self.median <= 2 * self.peer_median and self.largest <= 2 * self.peer_largest


def draw(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """One input of the ensemble: q, k, v, u and a mask; the kind goes round."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, m, d_k, d_v = (int(rng.integers(low, high)) for low, high in ((2, 5), (3, 7), (1, 4), (2, 6)))
    t = {name: rng.normal(size=s) for name, s in (("q", (n, d_k)), ("k", (m, d_k)), ("v", (m, d_v)), ("u", (n, d_v)))}
    t["q"] *= {"wide scores": 8.0, "near one-hot": 3.0}.get(kind, 1.0)
    if kind == "offset values":
        t["v"] += 30.0
    mask = np.ones((n, m), dtype=bool)
    if kind == "masked":
        mask = rng.random((n, m)) < 0.6
        mask[:, 0] = True
    return t, mask


def exact(t: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs by loops from the definitions, in 50 digits."""
    with mpmath.workdps(DIGITS):
        q, k, v, u = ([[mpmath.mpf(float(x)) for x in row] for row in t[name]] for name in "qkvu")
        n, m, d_k, d_v = len(q), len(k), len(q[0]), len(v[0])
        scale = 1 / mpmath.sqrt(d_k)
        out = dict.fromkeys(OUTPUTS)
        a = [[mpmath.mpf(0)] * m for _ in range(n)]
        for i in range(n):
            e = {j: mpmath.exp(scale * mpmath.fdot(q[i], k[j])) for j in range(m) if mask[i, j]}
            for j, x in e.items():
                a[i][j] = x / mpmath.fsum(e.values())
        b = [[mpmath.fdot(u[i], v[j]) for j in range(m)] for i in range(n)]
        ds = [[a[i][j] * (b[i][j] - mpmath.fdot(a[i], b[i])) for j in range(m)] for i in range(n)]
        out["context"] = [[mpmath.fsum(a[i][j] * v[j][e] for j in range(m)) for e in range(d_v)] for i in range(n)]
        out["scores"] = ds
        out["queries"] = [
            [scale * mpmath.fsum(ds[i][j] * k[j][e] for j in range(m)) for e in range(d_k)] for i in range(n)
        ]
        out["keys"] = [
            [scale * mpmath.fsum(ds[i][j] * q[i][e] for i in range(n)) for e in range(d_k)] for j in range(m)
        ]
        out["values"] = [[mpmath.fsum(a[i][j] * u[i][e] for i in range(n)) for e in range(d_v)] for j in range(m)]
        # Mean cross-entropy of the rows of 4 u, row i with target i mod d_v.
        e = [[mpmath.exp(4 * x) for x in row] for row in u]
        p = [[x / mpmath.fsum(row) for x in row] for row in e]
        out["loss"] = [[-mpmath.fsum(mpmath.log(p[i][i % d_v]) for i in range(n)) / n]]
        out["logits"] = [[(p[i][c] - (c == i % d_v)) / n for c in range(d_v)] for i in range(n)]
        return {name: np.asarray([[float(x) for x in row] for row in rows]) for name, rows in out.items()}


def ours(t: dict[str, torch.Tensor], mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """This package."""
    got = bg.attention_gradients(**t, mask=mask)
    made = bg.attention(t["q"], t["k"], t["v"], mask=mask)
    loss, r = bg.cross_entropy(4 * t["u"], _targets(t["u"]))
    return {"context": made.context, "loss": loss, "logits": r} | {name: getattr(got, name) for name in OUTPUTS[1:5]}


def _targets(z: torch.Tensor) -> torch.Tensor:
    return torch.arange(z.shape[0]) % z.shape[1]


def explicit(t: dict[str, torch.Tensor], mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """The peer: explicit operations under autograd, all in the dtype of the inputs."""
    q, k, v = (t[name].clone().requires_grad_() for name in "qkv")
    s = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]))
    s.retain_grad()
    g = torch.softmax(s.masked_fill(~mask, -math.inf), -1) @ v
    g.backward(t["u"])
    z = (4 * t["u"]).requires_grad_()
    loss = torch.nn.functional.cross_entropy(z, _targets(z))
    loss.backward()
    head = {"context": g.detach(), "scores": s.grad, "queries": q.grad, "keys": k.grad, "values": v.grad}
    return head | {"loss": loss.detach(), "logits": z.grad}


def errors(count: int, dtype: str) -> dict[str, tuple[list[float], list[float]]]:
    """Per output the errors of both sides over ``count`` inputs."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in OUTPUTS}
    for seed in range(count):
        t, mask = draw(seed)
        inputs = {name: torch.tensor(x).to(DTYPES[dtype]) for name, x in t.items()}
        truth = exact({name: x.double().numpy() for name, x in inputs.items()}, mask)
        for side, compute in enumerate((ours, explicit)):
            for name, x in compute(inputs, torch.tensor(mask)).items():
                size = np.abs(truth[name]).max()
                if size > 0:
                    found[name][side].append(float(np.abs(x.double().numpy() - truth[name]).max() / size))
    return found


def table(count: int = 250) -> list[Row]:
    """The whole table: every dtype and output."""
    rows = []
    for dtype in DTYPES:
        for name, (mine, theirs) in errors(count, dtype).items():
            figures = (float(f(x)) for f in (np.median, np.max) for x in (mine, theirs))
            rows.append(Row(dtype, name, len(mine), *figures))
    return rows


def markdown(rows: list[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "| dtype | output | inputs | median | explicit | worst | explicit | within twice |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r.dtype} | {r.output} | {r.cases} | {r.median:.1e} | {r.peer_median:.1e} | {r.largest:.1e} | "
            f"{r.peer_largest:.1e} | {'yes' if r.holds else 'NO'} |"
        )
    return "\n".join(lines)

r"""Everything that the laws say about one head, in one object that can be read and drawn.

.. math::

    a_{ij}, \quad b_{ij} = u_i \cdot v_j, \quad A_{ij} = \bar b_i - b_{ij}, \quad N_j = \sum_i a_{ij}; \qquad
    ds_{ij} = \eta\, a_{ij} A_{ij}, \quad dv_j = -\eta \sum_i a_{ij} u_i, \quad
    dL = -\eta \sum_{ij} (a_{ij} A_{ij})^2 \ \text{and} \ -\eta \sum_j \Big|\sum_i a_{ij} u_i\Big|^2
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesgrad import _arrays, _validate
from bayesgrad._attention import Attention
from bayesgrad._head import (
    AttentionGradients,
    advantage_of,
    context_of,
    prepare_head,
    run_backward,
    run_forward,
    used_weights,
)
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real

_SHOWN = 8
"""Queries and keys that the repr shows at most."""


def _first(x: Any, axes: int) -> np.ndarray[Any, np.dtype[Any]]:
    """The first of the leading axes as a NumPy array, to print or to draw."""
    found = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=float)
    shape = found.shape[found.ndim - axes :]
    return np.asarray(found.reshape(-1, *shape)[0]) if found.size else found.reshape(shape)


class Explanation(NamedTuple, Generic[ArrayT]):
    """What one head does and what a step of size ``eta`` of its scores or of its values would do, to first order.

    Attributes:
        attention: scores, weights a, context g.
        gradients: dL/da = b, dL/ds, dL/dv, dL/dq, dL/dk.
        compatibility, advantage: b and A (..., n, m).
        mean_compatibility: bbar (..., n).
        effective_count: N (..., m).
        score_step: ds (..., n, m).
        value_step: dv (..., m, d_v).
        loss_by_scores, loss_by_values: the predicted dL of each step (no axes).
        advantage_change: dA (..., n, m) after the value step, with a and u held fixed.
        eta: the step size (no axes).
    """

    attention: Attention[ArrayT]
    gradients: AttentionGradients[ArrayT]
    compatibility: ArrayT
    advantage: ArrayT
    mean_compatibility: ArrayT
    effective_count: ArrayT
    score_step: ArrayT
    value_step: ArrayT
    loss_by_scores: ArrayT
    loss_by_values: ArrayT
    advantage_change: ArrayT
    eta: ArrayT

    @property
    def weights(self) -> ArrayT:
        """a (..., n, m)."""
        return self.attention.weights

    def __repr__(self) -> str:
        *leading, n, m = self.weights.shape
        which = f"the first of {tuple(leading)} heads, " if leading else ""
        lines = [
            f"Explanation: {which}{n} queries, {m} keys, step eta = {float(_first(self.eta, 0)):g}",
            f"  predicted dL: {float(_first(self.loss_by_scores, 0)):.4g} by a step of the scores, "
            f"{float(_first(self.loss_by_values, 0)):.4g} by a step of the values",
        ]
        names = ("a", "b", "A", "ds")
        tables = [_first(x, 2) for x in (self.weights, self.compatibility, self.advantage, self.score_step)]
        N = _first(self.effective_count, 1)
        keys = min(m, _SHOWN)
        lines.append("  " + " " * 14 + "".join(f"{f'key {j}':>10}" for j in range(keys)) + (" ..." if m > keys else ""))
        for i in range(min(n, _SHOWN)):
            for name, table in zip(names, tables, strict=True):
                head = f"query {i}" if name == "a" else ""
                cells = "".join(f"{table[i, j]:>10.4f}" for j in range(keys))
                lines.append(f"  {head:<10}{name:>3} {cells}")
        if n > _SHOWN:
            lines.append("  ...")
        lines.append(f"  {'all':<10}{'N':>3} " + "".join(f"{N[j]:>10.4f}" for j in range(keys)))
        lines.append(
            "  a weight, b = u.v compatibility, A advantage (descent raises the score where A > 0), N effective count"
        )
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Heat maps of weights, advantages and score steps of the (first) head.

        Args:
            axes: three matplotlib axes, made if not given.

        Returns:
            The matplotlib figure.

        Raises:
            ImportError: matplotlib is not installed; the message says how to get it.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot: matplotlib is not installed; pip install 'bayesgrad[plot]'") from None
        if axes is None:
            _, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
        panels = (("weights a", self.weights), ("advantage A", self.advantage), ("score step ds", self.score_step))
        for ax, (title, values) in zip(axes, panels, strict=True):
            shown = _first(values, 2)
            signed = title != "weights a"
            top = float(np.nanmax(np.abs(shown), initial=0)) or 1.0
            image = ax.imshow(
                shown, cmap="RdBu_r" if signed else "Greys", vmin=-top if signed else 0, vmax=top if signed else 1
            )
            ax.set(title=title, xlabel="key j", ylabel="query i")
            ax.figure.colorbar(image, ax=ax, shrink=0.8)
        return axes[0].figure


def explain(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
    eta: Real = 1.0,
) -> Explanation[ArrayT]:
    """Weights, compatibilities, advantages, effective counts and predicted first-order changes of one head.

    Args:
        q, k, v, u, mask, bias, scale, dropout: as in :func:`bayesgrad.attention_gradients`.
        eta: the step size of the predicted changes.

    Returns:
        :class:`Explanation`, in the library, dtype and device of the inputs; it prints as a table.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    >>> import numpy as np
    >>> q, k, v, u = np.zeros((1, 2)), np.zeros((2, 2)), np.asarray([[1.0], [3.0]]), np.ones((1, 1))
    >>> print(explain(q, k, v, u))
    Explanation: 1 queries, 2 keys, step eta = 1
      predicted dL: -0.5 by a step of the scores, -0.5 by a step of the values
                         key 0     key 1
      query 0     a     0.5000    0.5000
                  b     1.0000    3.0000
                  A     1.0000   -1.0000
                 ds     0.5000   -0.5000
      all         N     0.5000    0.5000
      a weight, b = u.v compatibility, A advantage (descent raises the score where A > 0), N effective count
    """
    _validate.floats(u=u)
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    xp = head.xp
    step = _validate.real(xp, "eta", eta)
    made = run_forward(head)
    weights, context = made.weights, context_of(head, made)
    got = run_backward(head, made)
    value_step = got.values * -step
    change = xp.matmul(head.u, _arrays.transpose(xp, value_step))
    change = change if head.dropout is None else change * head.dropout
    found = {
        "compatibility": got.weights,
        "advantage": advantage_of(xp, weights, got.weights),
        # With dropout the context holds a D: u.g is the mean of b all the same.
        "mean_compatibility": xp.sum(head.u * context, axis=-1),
        "effective_count": xp.sum(used_weights(head, weights), axis=-2),
        "score_step": got.scores * -step,
        "value_step": value_step,
        "loss_by_scores": xp.sum(got.scores * got.scores) * -step,
        "loss_by_values": xp.sum(got.values * got.values) * -step,
        "advantage_change": advantage_of(xp, weights, change),
        "eta": _arrays.full_like(xp, context, (), 1.0) * step,
    }
    return Explanation(
        attention=Attention(*_arrays.narrow_all(xp, q, made.scores, weights, context)),
        gradients=AttentionGradients(*_arrays.narrow_all(xp, q, *got)),
        **{name: _arrays.narrow(xp, q, x) for name, x in found.items()},
    )

r"""Where a token stands: rotary embeddings and linear biases, with their gradients.

.. math::

    q'_i = q_i R_i^T \;\Rightarrow\; dq_i = dq'_i R_i, \qquad
    s_{ij} = t_{ij} - m_h\, |\mathrm{pos}(i) - j| \;\Rightarrow\;
    \frac{\partial L}{\partial m_h} = - \sum_{ij} \frac{\partial L}{\partial s_{ij}}\, |\mathrm{pos}(i) - j|

:math:`R_i` turns pair p of the features by the angle :math:`\text{position}_i \cdot \text{base}^{-2p/d}`; being
orthogonal, it is undone by the opposite angle, and :math:`q'_i \cdot k'_j` depends on the positions through their
difference alone. The pairs are features p and p + d/2 ("halves", as in Llama and NeoX) or 2p and 2p + 1 ("pairs", as
in GPT-J). Weights trained with one layout are wrong with the other.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from bayesgrad import _arrays, _validate
from bayesgrad._types import Align, Array, ArrayT, Floats, Ints, Real
from bayesgrad.masks import ALIGNMENTS

Layout = Literal["halves", "pairs"]
"""Which features are turned together."""

LAYOUTS = get_args(Layout)


def _turned(x: Any, positions: Any, base: Real, layout: str, sign: float, name: str) -> Any:
    xp = _validate.floats(**{name: x})
    _validate.shapes(**{name: (x, "n d")})
    _validate.choice("layout", layout, LAYOUTS)
    base = _validate.real(xp, "base", base, positive=True)
    n, d = tuple(x.shape)[-2:]
    if d % 2:
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected an even number of features (pairs are turned)")
    if positions is None:
        place = xp.arange(n, device=_arrays.device_of(x))
    else:
        _validate.integers(xp, "positions", positions, x)
        _validate.broadcastable("positions", positions, tuple(x.shape)[:-1])
        place = positions
    wide = _arrays.widen(xp, x)
    log_base = math.log(base) if isinstance(base, float) else xp.log(base)
    # Angles in float64 where the library has it: in float32 a position of 100,000 has lost its last digits.
    exact = wide.dtype if getattr(xp, "__name__", "") == "jax.numpy" else xp.float64
    steps = xp.astype(xp.arange(d // 2, device=_arrays.device_of(x)), exact)
    angle = xp.expand_dims(xp.astype(place, exact), axis=-1) * xp.exp(steps * (-2 / max(d, 1) * log_base))
    cos, sin = xp.astype(xp.cos(angle), wide.dtype), xp.astype(xp.sin(angle), wide.dtype) * sign
    if layout == "halves":
        first, second = wide[..., : d // 2], wide[..., d // 2 :]
    else:
        first, second = wide[..., 0::2], wide[..., 1::2]
    turned = first * cos - second * sin, first * sin + second * cos
    if layout == "halves":
        out = xp.concat(list(turned), axis=-1)
    else:
        out = xp.reshape(xp.stack(list(turned), axis=-1), tuple(x.shape))
    return _arrays.narrow(xp, x, out)


def rotary(
    x: Floats[ArrayT, "*batch n d"],
    *,
    positions: Ints[Array, "*_"] | None = None,
    base: Real = 10000.0,
    layout: Layout,
) -> Floats[ArrayT, "*batch n d"]:
    """Rotary embedding of queries or keys.

    Args:
        x: (..., n, d), d even.
        positions: integers that broadcast to (..., n), 0..n-1 by default; with a key/value cache of m - n earlier
            tokens the queries stand at m - n .. m - 1.
        base: theta, positive. layout: "halves" or "pairs": which features are turned together.

    Returns:
        (..., n, d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.rotary. Source: standard.

    >>> import numpy as np
    >>> rotary(np.asarray([[1.0, 0.0], [1.0, 0.0]]), layout="halves").round(6).tolist()
    [[1.0, 0.0], [0.540302, 0.841471]]
    """
    out: ArrayT = _turned(x, positions, base, layout, 1.0, "x")
    return out


def rotary_gradient(
    d_rotated: Floats[ArrayT, "*batch n d"],
    *,
    positions: Ints[Array, "*_"] | None = None,
    base: Real = 10000.0,
    layout: Layout,
) -> Floats[ArrayT, "*batch n d"]:
    """The gradient before the rotation from that after it: turned back.

    Args:
        d_rotated: dL/dq' (..., n, d). positions, base, layout: as in :func:`rotary`.

    Returns:
        dL/dq (..., n, d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.rotary. Source: ours (standard).

    >>> import numpy as np
    >>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> rotary_gradient(rotary(x, layout="pairs"), layout="pairs").round(12).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    out: ArrayT = _turned(d_rotated, positions, base, layout, -1.0, "d_rotated")
    return out


def _distances(like: Any, n: int, m: int, align: Align) -> tuple[Any, Any]:
    xp = _validate.floats(slopes=like)
    n, m = _validate.natural("n", n), _validate.natural("m", m)
    _validate.choice("align", align, ALIGNMENTS)
    device = _arrays.device_of(like)
    offset = 0 if align == "upper-left" else m - n
    rows = xp.expand_dims(xp.arange(n, device=device) + offset, axis=-1)
    return xp, xp.astype(xp.abs(rows - xp.arange(m, device=device)), _arrays.widen(xp, like).dtype)


def alibi_bias(
    slopes: Floats[ArrayT, " heads"], n: int, m: int, *, align: Align
) -> Floats[ArrayT, "heads queries keys"]:
    """The bias -m_h |pos(i) - j| of every head, for ``bias=``.

    Args:
        slopes: m_h (H,). n, m: numbers of queries and keys.
        align: query i stands at key i ("upper-left") or at i + m - n ("lower-right").

    Returns:
        (H, n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.score-map. Source: standard (ALiBi).

    >>> import numpy as np
    >>> alibi_bias(np.asarray([0.5]), 1, 3, align="lower-right").tolist()
    [[[-1.0, -0.5, -0.0]]]
    """
    xp, distance = _distances(slopes, n, m, align)
    _validate.shapes(slopes=(slopes, "heads"))
    _validate.vector("slopes", slopes, "heads", slopes.shape[-1])
    wide = _arrays.widen(xp, slopes)
    return _arrays.narrow(xp, slopes, -wide[:, None, None] * distance)


def alibi_slope_gradient(
    d_bias: Floats[ArrayT, "*batch heads queries keys"], *, align: Align
) -> Floats[ArrayT, " heads"]:
    """dL/dm_h = -sum_ij (dL/ds_ij) |pos(i) - j|, summed over the leading axes too.

    Args:
        d_bias: dL/dbias = dL/ds (..., H, n, m). align: as in :func:`alibi_bias`.

    Returns:
        (H,).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.score-map. Source: ours (standard).

    >>> import numpy as np
    >>> alibi_slope_gradient(np.ones((1, 1, 3)), align="lower-right").tolist()
    [-3.0]
    """
    xp = _validate.floats(d_bias=d_bias)
    _, size = _validate.shapes(d_bias=(d_bias, "heads n m"))
    _, distance = _distances(d_bias, size["n"], size["m"], align)
    each = -xp.sum(_arrays.widen(xp, d_bias) * distance, axis=(-2, -1))
    leading = tuple(range(len(each.shape) - 1))
    return _arrays.narrow(xp, d_bias, xp.sum(each, axis=leading) if leading else each)

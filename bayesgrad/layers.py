r"""What stands around attention: norms and perceptrons, each with the gradients of everything that goes in.

.. math::

    \text{RMS norm: } & \rho = \sqrt{\textstyle\operatorname{mean}_e x_e^2 + \varepsilon}, \quad y = \gamma x / \rho,
    \quad w = \gamma\, dy, \\
    & dx = \frac1\rho \Big(w - \frac{x}{\rho} \operatorname{mean}\big(w\, x / \rho\big)\Big), \quad
    d\gamma = \sum dy\, x / \rho

.. math::

    \text{layer norm: } & \rho = \sqrt{\operatorname{var} x + \varepsilon}, \quad
    \hat x = (x - \operatorname{mean} x) / \rho, \quad y = \gamma \hat x + \beta, \\
    & dx = \frac1\rho \big(w - \operatorname{mean} w - \hat x \operatorname{mean}(w \hat x)\big), \quad
    d\gamma = \sum dy\, \hat x, \quad d\beta = \sum dy

.. math::

    \text{perceptron: } h = x W_1 + c_1, \quad y = \varphi(h) W_2 + c_2; \qquad
    \text{gated: } y = \big(\varphi(x W_g) * (x W_u)\big) W_d

Means run over the features of a position (var is the biased one), sums over positions and leading axes. A residual
path y = x + f(x) adds dy to f's product at dy: that is one addition, and no function of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._parameters import over_positions, over_rows
from bayesgrad._types import ArrayT, Floats, Generic, Real


class Activation(NamedTuple):
    """phi and its derivative, each a function of an array and its namespace: ``value(xp, h)``, ``slope(xp, h)``."""

    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]


def _sigmoid(xp: Any, h: Any) -> Any:
    # Of -|h|, so that nothing overflows.
    small = xp.exp(-xp.abs(h))
    return xp.where(h >= 0, 1 / (1 + small), small / (1 + small))


def _silu_slope(xp: Any, h: Any) -> Any:
    s = _sigmoid(xp, h)
    return s * (1 + h * (1 - s))


_GELU = math.sqrt(2 / math.pi), 0.044715


def _gelu_tanh(xp: Any, h: Any) -> Any:
    return 0.5 * h * (1 + xp.tanh(_GELU[0] * (h + _GELU[1] * h * h * h)))


def _gelu_tanh_slope(xp: Any, h: Any) -> Any:
    t = xp.tanh(_GELU[0] * (h + _GELU[1] * h * h * h))
    return 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * _GELU[0] * (1 + 3 * _GELU[1] * h * h)


def _tanh_slope(xp: Any, h: Any) -> Any:
    t = xp.tanh(h)
    return 1 - t * t


def _sigmoid_slope(xp: Any, h: Any) -> Any:
    s = _sigmoid(xp, h)
    return s * (1 - s)


ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda xp, h: h, lambda xp, h: xp.ones_like(h)),
    "relu": Activation(
        lambda xp, h: xp.where(h < 0, xp.zeros_like(h), h),
        lambda xp, h: xp.where(h > 0, xp.ones_like(h), xp.zeros_like(h)),
    ),
    "silu": Activation(lambda xp, h: h * _sigmoid(xp, h), _silu_slope),
    "gelu_tanh": Activation(_gelu_tanh, _gelu_tanh_slope),
    "tanh": Activation(lambda xp, h: xp.tanh(h), _tanh_slope),
    "sigmoid": Activation(_sigmoid, _sigmoid_slope),
}
"""By name. "gelu_tanh" is GPT-2's; the one with erf, which array libraries do not share, is an :class:`Activation` of
the caller's. ReLU's slope at exactly 0 is 0, as PyTorch's."""


class RmsNormGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the input and of gamma."""

    x: ArrayT
    gamma: ArrayT


class LayerNormGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the input, of gamma and of beta."""

    x: ArrayT
    gamma: ArrayT
    beta: ArrayT


class MlpGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the input, of both matrices and of both biases (0 where none was given: then of a bias of 0)."""

    x: ArrayT
    W_1: ArrayT
    c_1: ArrayT
    W_2: ArrayT
    c_2: ArrayT


class GatedMlpGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the input and of the three matrices: gate, up, down."""

    x: ArrayT
    W_gate: ArrayT
    W_up: ArrayT
    W_down: ArrayT


def _epsilon(xp: Any, eps: Real) -> Any:
    eps = _validate.real(xp, "eps", eps)
    if isinstance(eps, float) and eps < 0:
        raise ValueError(f"eps: got {eps!r}, expected a number of at least 0")
    return eps


def _norm_arguments(
    x: Any, gamma: Any, eps: Real, d_y: Any = None, optional: dict[str, Any] | None = None
) -> tuple[Any, Any]:
    """The namespace and eps; shapes match."""
    optional = optional or {}
    xp = _validate.floats({"d_y": d_y, **optional}, x=x, gamma=gamma)
    _validate.shapes(x=(x, "features"))
    if d_y is not None:
        _validate.same_shape("d_y", d_y, x.shape, "x")
    for name, vector in {"gamma": gamma, **optional}.items():
        _validate.vector(name, vector, "features", x.shape[-1])
    return xp, _epsilon(xp, eps)


def _mean(xp: Any, x: Any) -> Any:
    return xp.sum(x, axis=-1, keepdims=True) / max(x.shape[-1], 1)


def _rms(xp: Any, x: Any, eps: Any) -> Any:
    return xp.sqrt(_mean(xp, x * x) + eps)


def rms_norm(
    x: Floats[ArrayT, "*batch features"], gamma: Floats[ArrayT, " features"], *, eps: Real
) -> Floats[ArrayT, "*batch features"]:
    """y = gamma x / sqrt(mean x^2 + eps).

    Args:
        x: (..., d). gamma: (d,). eps: a number of at least 0; with 0, x = 0 has no norm and gives NaN.

    Returns:
        (..., d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.rms-norm. Source: standard.

    >>> import numpy as np
    >>> rms_norm(np.asarray([3.0, 3.0]), np.asarray([1.0, 2.0]), eps=0.0).tolist()
    [1.0, 2.0]
    """
    xp, eps = _norm_arguments(x, gamma, eps)
    wide, g = _arrays.widen(xp, x, gamma)
    return _arrays.narrow(xp, x, g * (wide / _rms(xp, wide, eps)))


def rms_norm_gradient(
    x: Floats[ArrayT, "*batch features"],
    gamma: Floats[ArrayT, " features"],
    d_y: Floats[ArrayT, "*batch features"],
    *,
    eps: Real,
) -> RmsNormGradients[ArrayT]:
    """Gradients of :func:`rms_norm`: dx = (w - (x/rho) mean(w x/rho)) / rho with w = gamma dy.

    Args:
        x, gamma, eps: as there. d_y: the upstream gradient dL/dy (..., d).

    Returns:
        :class:`RmsNormGradients`; gamma's is summed over every leading axis. x . dx is 0 for eps = 0 alone.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.rms-norm. Source: ours (standard).

    >>> import numpy as np
    >>> got = rms_norm_gradient(np.asarray([[1.0, 1.0]]), np.ones(2), np.asarray([[1.0, 3.0]]), eps=0.0)
    >>> got.x.tolist(), got.gamma.tolist()
    ([[-1.0, 1.0]], [1.0, 3.0])
    """
    _validate.floats(d_y=d_y)
    xp, eps = _norm_arguments(x, gamma, eps, d_y)
    wide, g, dy = _arrays.widen(xp, x, gamma, d_y)
    rho = _rms(xp, wide, eps)
    unit, w = wide / rho, g * dy
    dx = (w - unit * _mean(xp, w * unit)) / rho
    return RmsNormGradients(*_arrays.narrow_all(xp, x, dx, over_rows(xp, dy * unit)))


def _standard(xp: Any, x: Any, eps: Any) -> tuple[Any, Any]:
    """rho and (x - mean x) / rho."""
    centred = x - _mean(xp, x)
    rho = _rms(xp, centred, eps)
    return rho, centred / rho


def layer_norm(
    x: Floats[ArrayT, "*batch features"],
    gamma: Floats[ArrayT, " features"],
    *,
    beta: Floats[ArrayT, " features"] | None = None,
    eps: Real,
) -> Floats[ArrayT, "*batch features"]:
    """y = gamma (x - mean x) / sqrt(var x + eps) + beta, with the biased variance.

    Args:
        x: (..., d). gamma, beta: (d,), no beta is 0. eps: a number of at least 0.

    Returns:
        (..., d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.layer-norm. Source: standard.

    >>> import numpy as np
    >>> layer_norm(np.asarray([1.0, 3.0]), np.ones(2), beta=np.asarray([0.0, 5.0]), eps=0.0).tolist()
    [-1.0, 6.0]
    """
    xp, eps = _norm_arguments(x, gamma, eps, None, {"beta": beta})
    wide, g, b = _arrays.widen(xp, x, gamma, beta)
    y = g * _standard(xp, wide, eps)[1]
    return _arrays.narrow(xp, x, y if b is None else y + b)


def layer_norm_gradient(
    x: Floats[ArrayT, "*batch features"],
    gamma: Floats[ArrayT, " features"],
    d_y: Floats[ArrayT, "*batch features"],
    *,
    eps: Real,
) -> LayerNormGradients[ArrayT]:
    """Gradients of :func:`layer_norm`: dx = (w - mean w - xh mean(w xh)) / rho with w = gamma dy.

    Args:
        x, gamma, eps: as there; beta changes no gradient. d_y: the upstream gradient dL/dy (..., d).

    Returns:
        :class:`LayerNormGradients`; those of gamma and beta are summed over every leading axis.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.layer-norm. Source: ours (standard).

    >>> import numpy as np
    >>> got = layer_norm_gradient(np.asarray([[1.0, 3.0]]), np.ones(2), np.asarray([[1.0, 2.0]]), eps=0.0)
    >>> got.x.tolist(), got.gamma.tolist(), got.beta.tolist()
    ([[0.0, 0.0]], [-1.0, 2.0], [1.0, 2.0])
    """
    _validate.floats(d_y=d_y)
    xp, eps = _norm_arguments(x, gamma, eps, d_y)
    wide, g, dy = _arrays.widen(xp, x, gamma, d_y)
    rho, unit = _standard(xp, wide, eps)
    w = g * dy
    dx = (w - _mean(xp, w) - unit * _mean(xp, w * unit)) / rho
    return LayerNormGradients(*_arrays.narrow_all(xp, x, dx, over_rows(xp, dy * unit), over_rows(xp, dy)))


def activation_of(activation: str | Activation) -> Activation:
    """The activation of a name, or the pair of functions that was given.

    Args:
        activation: a key of :data:`ACTIVATIONS`, or an :class:`Activation`.

    Returns:
        An :class:`Activation`.

    Raises:
        TypeError, ValueError: neither of the two.

    Source: ours.

    >>> import numpy as np
    >>> activation_of("relu").slope(np, np.asarray([-1.0, 2.0])).tolist()
    [0.0, 1.0]
    """
    if isinstance(activation, Activation):
        return activation
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        kind = ValueError if isinstance(activation, str) else TypeError
        got = repr(activation) if isinstance(activation, str) else type(activation).__name__
        names = ", ".join(map(repr, ACTIVATIONS))
        raise kind(f"activation: got {got}, expected one of {names}, or an Activation(value, slope)")
    return ACTIVATIONS[activation]


def _mlp_arguments(
    x: Any, W_1: Any, W_2: Any, c_1: Any, c_2: Any, activation: Any, d_y: Any = None
) -> tuple[Any, Activation]:
    xp = _validate.floats({"c_1": c_1, "c_2": c_2, "d_y": d_y}, x=x, W_1=W_1, W_2=W_2)
    _validate.shapes(x=(x, "n features"))
    _validate.matrix("W_1", W_1, ("features", x.shape[-1]), ("hidden", None))
    _validate.matrix("W_2", W_2, ("hidden", W_1.shape[1]), ("out", None))
    _validate.vector("c_1", c_1, "hidden", W_1.shape[1])
    _validate.vector("c_2", c_2, "out", W_2.shape[1])
    if d_y is not None:
        _validate.same_shape("d_y", d_y, (*tuple(x.shape)[:-1], W_2.shape[1]), "x W_1 W_2")
    return xp, activation_of(activation)


def _affine(xp: Any, x: Any, W: Any, c: Any) -> Any:
    out = xp.matmul(x, W)
    return out if c is None else out + c


def mlp(
    x: Floats[ArrayT, "*batch n features"],
    W_1: Floats[ArrayT, "features hidden"],
    W_2: Floats[ArrayT, "hidden out"],
    *,
    c_1: Floats[ArrayT, " hidden"] | None = None,
    c_2: Floats[ArrayT, " out"] | None = None,
    activation: str | Activation,
) -> Floats[ArrayT, "*batch n out"]:
    """y = phi(x W_1 + c_1) W_2 + c_2.

    Args:
        x: (..., n, d). W_1: (d, h). W_2: (h, e). c_1: (h,). c_2: (e,); none is 0.
        activation: a key of :data:`ACTIVATIONS`, or an :class:`Activation`.

    Returns:
        (..., n, e).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.mlp. Source: standard.

    >>> import numpy as np
    >>> mlp(np.asarray([[1.0], [-1.0]]), np.ones((1, 1)), np.asarray([[2.0]]), activation="relu").tolist()
    [[2.0], [0.0]]
    """
    xp, phi = _mlp_arguments(x, W_1, W_2, c_1, c_2, activation)
    wide, w1, w2, b1, b2 = _arrays.widen(xp, x, W_1, W_2, c_1, c_2)
    return _arrays.narrow(xp, x, _affine(xp, phi.value(xp, _affine(xp, wide, w1, b1)), w2, b2))


def mlp_gradient(
    x: Floats[ArrayT, "*batch n features"],
    W_1: Floats[ArrayT, "features hidden"],
    W_2: Floats[ArrayT, "hidden out"],
    d_y: Floats[ArrayT, "*batch n out"],
    *,
    c_1: Floats[ArrayT, " hidden"] | None = None,
    activation: str | Activation,
) -> MlpGradients[ArrayT]:
    """Gradients of :func:`mlp`: dh = phi'(h) * (dy W_2^T), dW_2 = sum phi(h)^T dy, dW_1 = sum x^T dh, dx = dh W_1^T.

    Args:
        x, W_1, W_2, c_1, activation: as there; c_2 changes no gradient. d_y: the upstream gradient dL/dy (..., n, e).

    Returns:
        :class:`MlpGradients`, those of the parameters summed over every leading axis.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.mlp. Source: ours (standard).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> got = mlp_gradient(np.asarray([[3.0]]), one, 2 * one, one, activation="relu")
    >>> got.x.tolist(), got.W_1.tolist(), got.W_2.tolist()
    ([[2.0]], [[6.0]], [[3.0]])
    """
    _validate.floats(d_y=d_y)
    xp, phi = _mlp_arguments(x, W_1, W_2, c_1, None, activation, d_y)
    wide, w1, w2, b1, dy = _arrays.widen(xp, x, W_1, W_2, c_1, d_y)
    h = _affine(xp, wide, w1, b1)
    dh = phi.slope(xp, h) * xp.matmul(dy, _arrays.transpose(xp, w2))
    found = (
        xp.matmul(dh, _arrays.transpose(xp, w1)),
        over_positions(xp, wide, dh),
        over_rows(xp, dh),
        over_positions(xp, phi.value(xp, h), dy),
        over_rows(xp, dy),
    )
    return MlpGradients(*_arrays.narrow_all(xp, x, *found))


def _gated_arguments(
    x: Any, W_gate: Any, W_up: Any, W_down: Any, activation: Any, d_y: Any = None
) -> tuple[Any, Activation]:
    xp = _validate.floats({"d_y": d_y}, x=x, W_gate=W_gate, W_up=W_up, W_down=W_down)
    _validate.shapes(x=(x, "n features"))
    _validate.matrix("W_gate", W_gate, ("features", x.shape[-1]), ("hidden", None))
    _validate.matrix("W_up", W_up, ("features", x.shape[-1]), ("hidden", W_gate.shape[1]))
    _validate.matrix("W_down", W_down, ("hidden", W_gate.shape[1]), ("out", None))
    if d_y is not None:
        _validate.same_shape("d_y", d_y, (*tuple(x.shape)[:-1], W_down.shape[1]), "x W_up W_down")
    return xp, activation_of(activation)


def gated_mlp(
    x: Floats[ArrayT, "*batch n features"],
    W_gate: Floats[ArrayT, "features hidden"],
    W_up: Floats[ArrayT, "features hidden"],
    W_down: Floats[ArrayT, "hidden out"],
    *,
    activation: str | Activation,
) -> Floats[ArrayT, "*batch n out"]:
    """y = (phi(x W_gate) * (x W_up)) W_down, Llama's perceptron with ``activation="silu"``.

    Args:
        x: (..., n, d). W_gate, W_up: (d, h). W_down: (h, e). activation: as in :func:`mlp`.

    Returns:
        (..., n, e).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.mlp. Source: standard.

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> gated_mlp(3 * one, one, 2 * one, one, activation="identity").tolist()
    [[18.0]]
    """
    xp, phi = _gated_arguments(x, W_gate, W_up, W_down, activation)
    wide, wg, wu, wd = _arrays.widen(xp, x, W_gate, W_up, W_down)
    return _arrays.narrow(xp, x, xp.matmul(phi.value(xp, xp.matmul(wide, wg)) * xp.matmul(wide, wu), wd))


def gated_mlp_gradient(
    x: Floats[ArrayT, "*batch n features"],
    W_gate: Floats[ArrayT, "features hidden"],
    W_up: Floats[ArrayT, "features hidden"],
    W_down: Floats[ArrayT, "hidden out"],
    d_y: Floats[ArrayT, "*batch n out"],
    *,
    activation: str | Activation,
) -> GatedMlpGradients[ArrayT]:
    """Gradients of :func:`gated_mlp`, with G = x W_gate and U = x W_up.

    dm = dy W_down^T, dG = phi'(G) * U * dm, dU = phi(G) * dm, dx = dG W_gate^T + dU W_up^T.

    Args:
        x, W_gate, W_up, W_down, activation: as there. d_y: the upstream gradient dL/dy (..., n, e).

    Returns:
        :class:`GatedMlpGradients`, those of the matrices summed over every leading axis.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.mlp. Source: ours (standard).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> gated_mlp_gradient(3 * one, one, 2 * one, one, one, activation="identity").x.tolist()
    [[12.0]]
    """
    _validate.floats(d_y=d_y)
    xp, phi = _gated_arguments(x, W_gate, W_up, W_down, activation, d_y)
    wide, wg, wu, wd, dy = _arrays.widen(xp, x, W_gate, W_up, W_down, d_y)
    G, U = xp.matmul(wide, wg), xp.matmul(wide, wu)
    open_ = phi.value(xp, G)
    dm = xp.matmul(dy, _arrays.transpose(xp, wd))
    dG, dU = phi.slope(xp, G) * U * dm, open_ * dm
    found = (
        xp.matmul(dG, _arrays.transpose(xp, wg)) + xp.matmul(dU, _arrays.transpose(xp, wu)),
        over_positions(xp, wide, dG),
        over_positions(xp, wide, dU),
        over_positions(xp, open_ * U, dy),
    )
    return GatedMlpGradients(*_arrays.narrow_all(xp, x, *found))

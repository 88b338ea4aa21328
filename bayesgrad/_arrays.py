"""What the array-API standard leaves out: one namespace for a call, wide accumulation, empty rows, hidden pairs.

Every public function takes arrays of one namespace (NumPy, PyTorch, array-api-strict, JAX) and returns arrays of the
same namespace, dtype and device. Nothing is ever written to an input and no branch depends on a value, so that the same
lines run under tracing and on symbols.

**Symbols.** A namespace may carry ``__bayesgrad_symbolic__ = True``. Its arrays hold expressions; masks and targets are
then NumPy arrays. The helpers below that deal with -inf and NaN do their work with ``where`` alone for such arrays,
because a symbol is neither; everything else is the same code.
"""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from bayesgrad._types import ArrayT

Namespace: TypeAlias = Any


def symbolic(xp: Namespace) -> bool:
    """Whether the arrays of ``xp`` hold expressions instead of numbers."""
    return bool(getattr(xp, "__bayesgrad_symbolic__", False))


def namespace_of(x: Any) -> Namespace:
    """The array-API namespace of one array; TypeError for anything else."""
    # The two common cases by hand: quick, without the caches that torch.compile warns about, and imported at first use
    # (NumPy's compatible namespace alone costs five times this whole package).
    if isinstance(x, np.ndarray):
        import array_api_compat.numpy as numpy_namespace

        return numpy_namespace
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        import array_api_compat.torch as torch_namespace

        return torch_namespace
    if hasattr(type(x), "__array_namespace__"):
        return x.__array_namespace__()
    return array_api_compat.array_namespace(x)


def device_of(x: Any) -> Any:
    """Where an array lives."""
    return x.device if type(x).__module__.startswith("torch") else array_api_compat.device(x)


def is_torch(xp: Namespace) -> bool:
    """Whether a namespace is PyTorch's."""
    return getattr(xp, "__name__", "") == "array_api_compat.torch"


_VALUELESS = {"FakeTensor", "FunctionalTensor", "DTensor"}
"""Tensors of PyTorch that stand for values which are not there, or not here; named, not imported."""


def concrete(x: Any) -> bool:
    """Whether values may be looked at: not under jit, compile or vmap, and not symbolic."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if torch.compiler.is_compiling() or x.device.type == "meta":
            return False
        plain = type(x) in (torch.Tensor, torch.nn.Parameter)
        unknown = not plain and any(c.__name__ in _VALUELESS for c in type(x).__mro__)
        return not unknown and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.core.Tracer):
        return False
    return not symbolic(namespace_of(x))


def holds(condition: Any) -> bool:
    """Whether a condition is known and true: a constant may turn into an unknown inside of jit."""
    return concrete(condition) and bool(condition)


# --- dtypes -----------------------------------------------------------------------------------------------------------


def wide_dtype(xp: Namespace, dtype: Any) -> Any:
    """The dtype to accumulate in: float32 for 16-bit (and 8-bit) floats, otherwise ``dtype`` itself."""
    if symbolic(xp):
        return dtype
    return xp.float32 if xp.finfo(dtype).bits < 32 else dtype


def widen(xp: Namespace, *arrays: Any) -> Any:
    """The arrays in their accumulation dtype; None stays None."""
    out = []
    for x in arrays:
        wide = x if x is None else wide_dtype(xp, x.dtype)
        out.append(x if x is None or wide == x.dtype else xp.astype(x, wide))
    return out[0] if len(out) == 1 else tuple(out)


def narrow(xp: Namespace, like: ArrayT, x: Any) -> ArrayT:
    """A result in the dtype of an input, and of its type to a type checker."""
    out: ArrayT = x if x.dtype == like.dtype else xp.astype(x, like.dtype)
    return out


def narrow_all(xp: Namespace, like: ArrayT, *arrays: Any) -> tuple[ArrayT, ...]:
    """Several results in the dtype of an input."""
    return tuple(narrow(xp, like, x) for x in arrays)


def transpose(xp: Namespace, x: Any) -> Any:
    """The last two axes exchanged. The attribute, which all of PyTorch's transformations know, where there is one."""
    return x.mT if hasattr(x, "mT") else xp.matrix_transpose(x)


def beside(xp: Namespace, x: Any, column: Any) -> Any:
    """Columns appended on the last axis. PyTorch's older vmap, behind batched gradients, knows ``cat`` alone."""
    return sys.modules["torch"].cat((x, column), -1) if is_torch(xp) else xp.concat([x, column], axis=-1)


def full_like(xp: Namespace, x: Any, shape: tuple[int, ...], value: float) -> Any:
    """An array of one value with the dtype and device of ``x``."""
    if symbolic(xp):
        return xp.zeros(shape) if value == 0 else xp.ones(shape) * value
    return xp.full(shape, value, dtype=x.dtype, device=device_of(x))


# --- visibility -------------------------------------------------------------------------------------------------------


def visibility(xp: Namespace, mask: Any, bias: Any, queries: int, keys: int) -> Any:
    """The visible pairs (..., n, m) as booleans, or None if all are: the mask, and a bias of -inf hides as well."""
    if bias is not None and not symbolic(xp):
        # `!=` and not `>`: a NaN bias is visible, so that it propagates.
        unhidden = bias != -math.inf
        mask = unhidden if mask is None else xp.logical_and(mask, unhidden)
    if mask is None:
        return None
    own = namespace_of(mask)
    return own.broadcast_to(mask, (*tuple(mask.shape)[:-2], queries, keys))


def any_along(mask: Any, axis: int) -> Any:
    """Whether some entry along one axis is True."""
    own = namespace_of(mask)
    if is_torch(own) and mask.shape[axis]:
        # PyTorch's any() of booleans is fifty times slower than the largest byte.
        return mask.to(own.uint8).amax(axis).to(own.bool)
    return own.any(mask, axis=axis)


def seen_keys(mask: Any) -> Any:
    """(..., m, 1): whether some query sees the key."""
    return namespace_of(mask).expand_dims(any_along(mask, -2), axis=-1)


def seeing_queries(mask: Any) -> Any:
    """(..., n, 1): whether the query sees some key; False marks an empty row."""
    return namespace_of(mask).expand_dims(any_along(mask, -1), axis=-1)


def keep(xp: Namespace, condition: Any, x: Any) -> Any:
    """``x`` where the condition holds, otherwise exactly 0: a product with 0 would let NaN through."""
    return xp.where(condition, x, xp.zeros_like(x))


def hide(xp: Namespace, scores: Any, mask: Any) -> Any:
    """-inf at the hidden pairs. The identity for symbols, whose hidden pairs :func:`exp_visible` sets to 0."""
    if mask is None or symbolic(xp):
        return scores
    return xp.where(mask, scores, full_like(xp, scores, (), -math.inf))


def constant(xp: Namespace, x: Any) -> Any:
    """``x`` as a constant for PyTorch's and JAX's own differentiation: a shift that changes nothing has no gradient."""
    if is_torch(xp):
        return x.detach()
    return sys.modules["jax"].lax.stop_gradient(x) if getattr(xp, "__name__", "") == "jax.numpy" else x


def quiet(xp: Namespace) -> Any:
    """No warnings from NumPy where s - top overflows to -inf (whose exponential, 0, is right) or is inf - inf."""
    numpy_based = getattr(xp, "__name__", "") in ("array_api_compat.numpy", "array_api_strict")
    return np.errstate(over="ignore", invalid="ignore") if numpy_based else contextlib.nullcontext()


def exp_visible(xp: Namespace, scores: Any, mask: Any) -> tuple[Any, Any, Any]:
    """exp(s - top) with 0 at hidden pairs, its row sums (1 on empty rows), and top, the largest visible score.

    Why the maximum: it is the one shift for which nothing overflows and the sum is at least 1, and `softmax.shift-
    invariance` makes every shift legitimate. An empty row has top 0 and a sum of 1, so that it divides to 0.
    """
    scores = hide(xp, scores, mask)
    top = xp.max(scores, axis=-1, keepdims=True)
    if symbolic(xp):
        terms = xp.exp(scores - top)
        if mask is None:
            return terms, xp.sum(terms, axis=-1, keepdims=True), top
        terms = keep(xp, mask, terms)
        total = xp.sum(terms, axis=-1, keepdims=True)
        return terms, xp.where(seeing_queries(mask), total, total * 0 + 1), top
    top = constant(xp, xp.where(top == -math.inf, xp.zeros_like(top), top))
    with quiet(xp):
        terms = xp.exp(scores - top)
    total = xp.sum(terms, axis=-1, keepdims=True)
    return terms, xp.where(total == 0, xp.ones_like(total), total), top


def outside_any_graph(x: Any) -> bool:
    """Whether a PyTorch tensor takes part in no differentiation, tracing or vmap: its copies may be written to."""
    return concrete(x) and not x.requires_grad and sys.modules["torch"].autograd.forward_ad._current_level < 0


def all_known(x: Any) -> bool:
    """Whether booleans are known to be all True at no cost: on a CPU, outside tracing. False says nothing."""
    if isinstance(x, np.ndarray):
        return bool(x.all())
    return is_torch(namespace_of(x)) and concrete(x) and x.device.type == "cpu" and bool(x.all())


def times_in_place(xp: Namespace, ours: Any, other: Any) -> Any:
    """ours * other, written over ``ours``, which no caller holds: another large array costs more than the product."""
    if isinstance(ours, np.ndarray) or (is_torch(xp) and outside_any_graph(ours) and outside_any_graph(other)):
        ours *= other
        return ours
    return ours * other


def unbroadcast(xp: Namespace, x: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of broadcasting from ``shape`` to that of ``x``: sums over the axes that were repeated."""
    extra = len(x.shape) - len(shape)
    if extra:
        x = xp.sum(x, axis=tuple(range(extra)))
    axes = tuple(i for i, (have, want) in enumerate(zip(x.shape, shape, strict=True)) if want == 1 and have != 1)
    return xp.sum(x, axis=axes, keepdims=True) if axes else x


def wide_integers(x: Any) -> Any:
    """Indices in a signed dtype that holds every class and every index to ignore: int8 cannot hold 300."""
    own = namespace_of(x)
    if x.dtype in (own.int32, own.int64):
        return x
    return own.astype(x, own.int32 if getattr(own, "__name__", "") == "jax.numpy" else own.int64)


def one_hot(xp: Namespace, targets: Any, classes: int) -> Any:
    """Booleans (..., C): True at the target's class, False everywhere for a target outside 0..C-1."""
    own = namespace_of(targets)
    device = {} if isinstance(targets, np.ndarray) else {"device": device_of(targets)}
    return own.expand_dims(targets, axis=-1) == own.arange(classes, dtype=targets.dtype, **device)


def log_or_hidden(xp: Namespace, x: Any) -> Any:
    """log x with log 0 = -inf, without a warning and with derivative 0 there."""
    none = x == 0
    return xp.where(none, full_like(xp, x, (), -math.inf), xp.log(xp.where(none, xp.ones_like(x), x)))


def support(xp: Namespace, weights: Any) -> Any:
    """Where a weight is not 0, or None for symbols, which count as positive. NaN is in the support: it propagates."""
    return None if symbolic(xp) else weights != 0


def multiply_in(xp: Namespace, prior: Any, log_likelihood: Any) -> Any:
    """Bayes' rule on the last axis, prior_j exp(log_likelihood_j) / Z; a row of zeros stays one.

    The largest exponent on the prior's support is taken out, so that Z is at least the prior there: never 0.
    """
    if prior.shape[-1] == 0:
        return prior
    terms, _, _ = exp_visible(xp, log_likelihood, support(xp, prior))
    terms = prior * terms
    total = xp.sum(terms, axis=-1, keepdims=True)
    return terms / (total if symbolic(xp) else xp.where(total == 0, xp.ones_like(total), total))

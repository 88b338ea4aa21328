"""Reverse mode in JAX: jax.vjp on explicit operations in float64, every example inside a block of one fixed size.

JAX compiles a function anew for every shape, which takes a second; an example takes a tenth of a millisecond. So an
example of n queries and m keys is put into a block of N >= n and M >= m, and the answers are cut out of it:

    further keys are hidden; further queries see the first key and have u = 0 (their target does not count);
    further widths, classes and heads are filled with zeros (further classes are left out of the sum over classes).

No such entry can change an answer, because it meets a weight, an upstream gradient or a matrix entry that is exactly 0.
A stage s, a, g, ... gets its gradient from a variable that is added to it and is 0.

JAX is imported at the first call. Where it is not installed :func:`installed` is false and the checks do without.
Double precision is switched on around each call, so that the rest of the process keeps JAX's own default.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array, Head, Mixture


@functools.cache
def installed() -> bool:
    """Whether JAX can be imported; looked up without importing it."""
    if "jax" in sys.modules:
        return sys.modules["jax"] is not None
    return importlib.util.find_spec("jax") is not None


@functools.cache
def jax_module() -> ModuleType:
    import jax

    return jax


def double() -> Any:
    """A block in which JAX computes in double precision."""
    jax = jax_module()
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()  # its name until JAX 0.7


def call(function: Callable[[], Callable[..., Any]], *given: Any) -> Any:
    """The results of a compiled function, as NumPy arrays."""
    with double():
        return jax_module().tree.map(np.asarray, function()(*given))


def into(x: Array, *shape: int) -> Array:
    """``x`` in the first places of zeros (of False, of the integer -100) of another shape."""
    block = np.full(shape, -100 if x.dtype.kind == "i" else 0, dtype=x.dtype)
    block[tuple(slice(0, size) for size in x.shape)] = x
    return block


def seen_in(visible: Array, N: int, M: int) -> Array:
    """The mask of the block: further queries see the first key, further keys are hidden."""
    seen = into(visible, N, M)
    seen[visible.shape[0] :, 0] = True
    return seen


def at_least(least: int, *sizes: int) -> int:
    """The size of the block on one axis: the usual one, or what the example needs."""
    return max(least, *sizes)


def softmax(s: Any, seen: Any) -> Any:
    jax, xp = jax_module(), jax_module().numpy
    hidden = xp.where(seen, s, -xp.inf)
    e = xp.exp(hidden - jax.lax.stop_gradient(xp.max(hidden, axis=-1, keepdims=True)))
    return e / xp.sum(e, axis=-1, keepdims=True)


def log_softmax(z: Any, seen: Any) -> Any:
    """log of the same; 0 where hidden, so that a product with a target of 0 is 0."""
    jax, xp = jax_module(), jax_module().numpy
    hidden = xp.where(seen, z, -xp.inf)
    top = jax.lax.stop_gradient(xp.max(hidden, axis=-1, keepdims=True))
    total = xp.sum(xp.exp(hidden - top), axis=-1, keepdims=True)
    return xp.where(seen, z - top - xp.log(total), 0.0)


# --- one head ---------------------------------------------------------------------------------------------------------


def _head_loss(variables: Mapping[str, Any], u: Any, seen: Any, multiplier: Any) -> tuple[Any, dict[str, Any]]:
    xp = jax_module().numpy
    x = variables
    s = x["scale"] * (x["q"] @ x["k"].T) + x["bias"] + x["s"]
    a = softmax(s, seen) + x["a"]
    g = (a * multiplier) @ x["v"] + x["g"]
    return xp.sum(u * g), {"s": s, "a": a, "g": g}


@functools.cache
def _head_program() -> Callable[..., Any]:
    jax = jax_module()

    def program(variables: Any, u: Any, seen: Any, multiplier: Any) -> Any:
        loss, pull, stages = jax.vjp(lambda x: _head_loss(x, u, seen, multiplier), variables, has_aux=True)
        return pull(jax.numpy.ones_like(loss))[0], {**stages, "L": loss}

    return jax.jit(program)


def run_head(head: Head) -> tuple[dict[str, Array], dict[str, Array]]:
    """(name -> dL/d(name) for every stage and parameter, name -> the stage s, a, g or L), L = sum u g."""
    (n, d_k), (m, d_v) = head.q.shape, head.v.shape
    N, M, K, V = at_least(5, n), at_least(5, m), at_least(5, d_k), at_least(5, d_v)
    bias = np.zeros((n, m)) if head.bias is None else head.bias
    variables = {
        "q": into(head.q, N, K),
        "k": into(head.k, M, K),
        "v": into(head.v, M, V),
        "bias": into(bias, N, M),
        "scale": np.asarray(head.the_scale),
        "s": np.zeros((N, M)),
        "a": np.zeros((N, M)),
        "g": np.zeros((N, V)),
    }
    given = (into(head.u, N, V), seen_in(head.visible, N, M), into(head.multiplier, N, M))
    slopes, stages = call(_head_program, variables, *given)
    ends = {"q": (n, d_k), "k": (m, d_k), "v": (m, d_v), "g": (n, d_v), "scale": (), "L": ()}

    def cut(name: str, x: Array) -> Array:
        return x[tuple(slice(0, end) for end in ends.get(name, (n, m)))]

    return ({k: cut(k, x) for k, x in slopes.items()}, {k: cut(k, x) for k, x in stages.items()})


def gradients(head: Head, *names: str) -> dict[str, Array]:
    """dL/d(name) for the named stages or parameters, L = sum u g."""
    found, _ = run_head(head)
    return {name: found[name] for name in names}


@functools.cache
def _jacobian_program() -> Callable[..., Any]:
    jax = jax_module()
    return jax.jit(jax.jacrev(softmax))


def softmax_jacobian(head: Head) -> Array:
    """da_ij / ds_lk as an array (i, j, l, k), by jax.jacrev."""
    n, m = head.visible.shape
    N, M = at_least(5, n), at_least(5, m)
    found = call(_jacobian_program, into(head.scores(), N, M), seen_in(head.visible, N, M))
    return found[:n, :m, :n, :m]


@functools.cache
def _information_program() -> Callable[..., Any]:
    jax, xp = jax_module(), jax_module().numpy

    def surprise(s: Any, seen: Any, weights: Any) -> Any:
        return -xp.sum(weights * log_softmax(s, seen))

    def one(s: Any, seen: Any) -> Any:
        return jax.hessian(surprise)(s, seen, softmax(s, seen))

    return jax.jit(jax.vmap(one))


def information(head: Head) -> Array:
    """-E[d^2 log a_j / ds ds] a row (n, m, m), the expectation under a_i, by jax.hessian (forward over reverse)."""
    n, m = head.visible.shape
    N, M = at_least(5, n), at_least(5, m)
    return call(_information_program, into(head.scores(), N, M), seen_in(head.visible, N, M))[:n, :m, :m]


# --- a mixture --------------------------------------------------------------------------------------------------------


@functools.cache
def _mixture_program() -> Callable[..., Any]:
    jax, xp = jax_module(), jax_module().numpy

    def loss(costs: Any, pi: Any) -> Any:
        return -xp.log(xp.sum(pi * xp.exp(-costs)))

    def program(costs: Any, pi: Any, change: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(costs, pi)
        _, along = jax.jvp(lambda c: loss(c, pi), (costs,), (change,))
        return {"l": value, "r": gradient, "dl": along}

    return jax.jit(program)


def mixture(example: Mixture) -> dict[str, Array]:
    """l = -log sum pi exp(-c), r = dl/dc by reverse mode, and dl along the change of the costs by jax.jvp."""
    m = len(example.pi)
    M = at_least(5, m)
    found = call(_mixture_program, *(into(x, M) for x in (example.costs, example.pi, example.change)))
    return {**found, "r": found["r"][:m]}

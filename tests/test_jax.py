"""JAX: the same functions under jit, vmap and grad; values are not looked at while tracing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesgrad as bg
from bayesgrad import dynamics


def draw(seed=0, lead=()):
    rng = np.random.default_rng(seed)
    shapes = ((3, 2), (4, 2), (4, 5), (3, 5))
    return [jnp.asarray(rng.normal(size=(*lead, *s))) for s in shapes]


MASK = jnp.asarray(np.asarray([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=bool))


def same(got, wanted):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_jit_and_vmap():
    q, k, v, u = draw(lead=(6,))

    def f(q, k, v, u):
        return bg.attention(q, k, v, mask=MASK), bg.attention_gradients(q, k, v, u, mask=MASK, bias=jnp.ones((3, 4)))

    same(jax.jit(f)(q[0], k[0], v[0], u[0]), f(q[0], k[0], v[0], u[0]))
    batched, one_by_one = jax.jit(jax.vmap(f))(q, k, v, u), [f(*(x[i] for x in (q, k, v, u))) for i in range(6)]
    same(batched, jax.tree.map(lambda *x: jnp.stack(x), *one_by_one))


def test_the_closed_forms_equal_jax_s_own_gradients():
    q, k, v, u = draw()
    got = bg.attention_gradients(q, k, v, u, mask=MASK, scale=0.3)
    own = jax.grad(lambda *t: (bg.attention(*t, mask=MASK, scale=0.3).context * u).sum(), argnums=(0, 1, 2))(q, k, v)
    same((got.queries, got.keys, got.values), own)
    y = jnp.asarray([1, -100, 0, 2])
    z = v[:, :3]
    same(bg.cross_entropy(z, y).logit_gradient, jax.grad(lambda z: bg.cross_entropy(z, y).loss)(z))


def test_the_whole_block_under_jit():
    rng = np.random.default_rng(1)
    x, y = jnp.asarray(rng.normal(size=(2, 4, 3))), jnp.asarray(rng.integers(0, 5, size=(2, 4)))
    W = [jnp.asarray(rng.normal(size=s)) for s in ((3, 4), (3, 2), (3, 2), (4, 5))]
    mask = jnp.asarray(np.tri(4, dtype=bool))

    def f(x, *W):
        got = bg.attention_block_gradients(x, *W, y, heads=2, kv_heads=1, mask=mask)
        return got.loss, got.x, got.W_Q, got.W_K, got.W_V, got.W_O

    got = jax.jit(f)(x, *W)
    same(got[1:], jax.jit(jax.grad(lambda *t: f(*t)[0], argnums=range(5)))(x, *W))
    wanted = bg.attention_block_gradients(*map(np.asarray, (x, *W, y)), heads=2, kv_heads=1, mask=np.asarray(mask))
    same(got, (wanted.loss, wanted.x, wanted.W_Q, wanted.W_K, wanted.W_V, wanted.W_O))


def test_values_are_looked_at_in_eager_mode_only():
    z, y = jnp.zeros((1, 3)), jnp.asarray([7])
    with pytest.raises(ValueError, match="targets: got 7"):
        bg.cross_entropy(z, y)
    assert float(jax.jit(lambda z, y: bg.cross_entropy(z, y).loss)(z, y)) == 0
    rows = jnp.ones((1, 2))
    with pytest.raises(ValueError, match="weights: got rows"):
        dynamics.replicator_step(rows, rows, eta=1.0)
    jax.jit(lambda a, b: dynamics.replicator_step(a, b, eta=1.0))(rows, rows)
    with pytest.raises(ValueError, match="k: got shape"):
        jax.jit(bg.attention)(jnp.ones((3, 2)), jnp.ones((3, 4)), jnp.ones((3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_accumulate_in_thirty_two(dtype):
    arrays = [x.astype(dtype) for x in draw()]
    got, wanted = bg.attention_gradients(*arrays), bg.attention_gradients(*(x.astype("float32") for x in arrays))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == dtype
        assert bool((a == b.astype(dtype)).all())

"""Right at the rim of the formats: small inputs with known answers on every backend, identities on extreme domains."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bayesgrad as bg
from bayesgrad import bayes, em, fused
from tests.conftest import EVERY

LIBRARIES = EVERY | {"dask": lambda x: da.from_array(np.asarray(x), chunks=-1)}


class Foreign:
    """An array library of its own: no ``.mT``, and whoever turns it into NumPy without asking is refused."""

    def __init__(self, data):
        self.data = np.asarray(data)

    def __array_namespace__(self, api_version=None):
        return ForeignLibrary()

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    device = "elsewhere"

    def __bool__(self):
        return bool(self.data)

    def __int__(self):
        return int(self.data)

    def __getitem__(self, key):
        return Foreign(self.data[key.data if isinstance(key, Foreign) else key])


def _bare(x):
    return x.data if isinstance(x, Foreign) else x


OPERATORS = "add radd sub rsub mul rmul truediv rtruediv pow neg lt le gt ge eq ne and or matmul"
for _name in OPERATORS.split():
    setattr(
        Foreign,
        f"__{_name}__",
        lambda self, *other, _name=f"__{_name}__": Foreign(getattr(self.data, _name)(*map(_bare, other))),
    )


class ForeignLibrary:
    """What NumPy does, behind its own arrays; one object is the namespace, as a module is."""

    _only = None
    __name__ = "foreign"

    def __new__(cls):
        cls._only = cls._only or super().__new__(cls)
        return cls._only

    def __getattr__(self, name):
        import array_api_compat.numpy as real

        found = getattr(real, name)
        if isinstance(found, type) or not callable(found) or name in ("finfo", "isdtype"):
            return found

        def call(*arguments, **options):
            options.pop("device", None)
            bare = [list(map(_bare, x)) if isinstance(x, list | tuple) else _bare(x) for x in arguments]
            out = found(*bare, **{key: _bare(x) for key, x in options.items()})
            return Foreign(out) if isinstance(out, np.ndarray | np.generic) else out

        return call


LIBRARIES["without mT"] = Foreign


@pytest.fixture(params=list(LIBRARIES))
def make(request):
    return LIBRARIES[request.param]


def read(x):
    return np.asarray(x.data if isinstance(x, Foreign) else x)


ROOT = 2**-0.5
Q, K = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
V, U = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 1.0]]


def test_the_first_example_is_right_in_every_library(make):
    got = bg.attention_gradients(*map(make, (Q, K, V, U)))
    exact = {
        "scores": [[-0.8022241854, 0, 0.8022241854], [-0.4759816254, -0.1631212800, 0.6391029054]],
        "queries": [[0, 0.5672581615], [0.1153441632, 0.3365698350]],
        "keys": [[-0.5672581615, -0.3365698350], [0, -0.1153441632], [0.5672581615, 0.4519139983]],
        "values": [[0.4011120927, 0.1977758146], [0.1977758146, 0.4011120927], [0.4011120927, 0.4011120927]],
    }
    for name, right in exact.items():
        np.testing.assert_allclose(read(getattr(got, name)), right, atol=1e-9)


def test_a_query_that_sees_nothing_in_every_library(make):
    mask = make([[True, True, True], [False, False, False]])
    got = bg.attention_gradients(*map(make, (Q, K, V, U)), mask=mask)
    np.testing.assert_allclose(read(got.queries), [[0, 0.5672581615], [0, 0]], atol=1e-9)
    np.testing.assert_allclose(read(got.keys), [[-0.5672581615, 0], [0, 0], [0.5672581615, 0]], atol=1e-9)
    np.testing.assert_allclose(read(got.values), [[0.4011120927, 0], [0.1977758146, 0], [0.4011120927, 0]], atol=1e-9)


def test_causal_lower_right_in_every_library(make):
    q, k = [[1.0], [1.0]], [[1.0], [2.0], [3.0]]
    v, u = [[1.0], [0.0], [2.0]], [[1.0], [1.0]]
    mask = make(bg.causal_mask(2, 3, align="lower-right"))
    got = bg.attention_gradients(*map(make, (q, k, v, u)), mask=mask, scale=1)
    context = read(bg.attention(*map(make, (q, k, v)), mask=mask, scale=1).context)
    np.testing.assert_allclose(context[:, 0], [0.26894, 1.42051], atol=1e-5)
    np.testing.assert_allclose(read(got.queries)[:, 0], [-0.19661, 0.42336], atol=1e-5)
    np.testing.assert_allclose(read(got.keys)[:, 0], [0.15875, -0.54425, 0.38550], atol=1e-5)
    np.testing.assert_allclose(read(got.values)[:, 0], [0.35897, 0.97579, 0.66524], atol=1e-5)


@pytest.mark.parametrize("zero", ["n", "m", "d_k", "d_v"])
@pytest.mark.parametrize("name", ["numpy", "torch", "array-api-strict"])
def test_any_size_may_be_zero(zero, name):
    size = {"n": 2, "m": 3, "d_k": 2, "d_v": 4} | {zero: 0}
    shapes = (("n", "d_k"), ("m", "d_k"), ("m", "d_v"), ("n", "d_v"))
    arrays = [LIBRARIES[name](np.ones([size[s] for s in shape])) for shape in shapes]
    got = bg.attention_gradients(*arrays)
    for found, x in zip((got.queries, got.keys, got.values), arrays, strict=False):
        assert tuple(found.shape) == tuple(x.shape)
        assert np.isfinite(read(found)).all()


def test_the_tiled_block_takes_values_without_width():
    x, empty = np.ones((3, 2)), np.ones((2, 0))
    got = fused.attention_block_gradients(x, np.ones((2, 2)), np.ones((2, 2)), empty, np.ones((0, 4)), np.zeros(3, int))
    dense = bg.attention_block_gradients(x, np.ones((2, 2)), np.ones((2, 2)), empty, np.ones((0, 4)), np.zeros(3, int))
    assert got.loss == pytest.approx(np.log(4))
    assert dense.loss == pytest.approx(np.log(4))
    assert got.W_V.shape == dense.W_V.shape == (2, 0)


# --- cross-entropy, log-sum-exp ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_autograd_through_the_loss_is_zero_in_an_ignored_row(reduction, bad):
    z = torch.tensor([[1.0, 2.0, 3.0], [bad, bad, 0.0], [3.0, 1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    got = bg.cross_entropy(z, torch.tensor([2, -100, 0]), reduction=reduction)
    got.loss.sum().backward()
    assert torch.equal(z.grad[1], torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(z.grad, got.logit_gradient.detach(), rtol=1e-12, atol=1e-15)
    assert torch.isfinite(got.loss).all()


def test_a_soft_row_without_mass_takes_no_part_either():
    z = torch.tensor([[float("nan"), 1.0], [0.0, 1.0]], requires_grad=True)
    got = bg.cross_entropy(z, torch.tensor([[0.0, 0.0], [0.5, 0.5]]), reduction="sum")
    got.loss.backward()
    assert torch.isfinite(got.loss)
    assert torch.equal(z.grad[0], torch.zeros(2))


@pytest.mark.parametrize("name", ["numpy", "torch", "array-api-strict", "jax"])
def test_the_largest_score_decides_where_it_is_infinite(name):
    rows = [[np.inf, 0.0], [-np.inf, 0.0], [-np.inf, -np.inf], [np.nan, np.inf], [np.inf, np.inf]]
    got = read(bg.logsumexp(LIBRARIES[name](np.asarray(rows))))
    np.testing.assert_array_equal(got, [np.inf, 0.0, -np.inf, np.nan, np.inf])


# --- the routing law under an offset ----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_an_offset_of_the_compatibilities_costs_no_digits(offset):
    rng = np.random.default_rng(0)
    a = bg.softmax(rng.normal(size=(5, 7)).astype(np.float32))
    b = (rng.normal(size=(5, 7)) + offset).astype(np.float32)
    wide = b.astype(np.float64) - offset
    A = (a * wide).sum(-1, keepdims=True) / a.astype(np.float64).sum(-1, keepdims=True) - wide
    np.testing.assert_allclose(bg.score_gradient(a, b), -a * A, atol=3e-7)
    np.testing.assert_allclose(bg.advantage(a, b), A, atol=3e-6)


def test_a_sink_keeps_the_law_as_it_stands():
    """Rows that sum to less than 1, which only ``validate=False`` lets through, keep their mean as it is."""
    a, b = np.asarray([[0.2, 0.3]]), np.asarray([[1.0, 3.0]])
    with pytest.raises(ValueError, match="weights: got rows"):
        bg.score_gradient(a, b)
    np.testing.assert_allclose(bg.score_gradient(a, b, validate=False), a * (b - (a * b).sum()))


# --- exact posteriors and divergences ---------------------------------------------------------------------------------

GAPS = st.floats(min_value=0.0, max_value=110.0, width=32)


@given(st.lists(st.tuples(GAPS, GAPS), min_size=1, max_size=5), st.sampled_from([np.float32, np.float64]))
def test_risk_is_entropy_plus_divergence_for_any_gap_of_the_logits(gaps, dtype):
    """The format's own distributions, as softmax gives them: in float32 a gap of 103 is the last that is not 0."""
    p = bg.softmax(np.asarray([[0.0, -g, -h] for g, h in gaps], dtype=dtype))
    q = bg.softmax(np.asarray([[-h, -g, 0.0] for g, h in gaps], dtype=dtype))
    contexts = np.full(len(gaps), 1 / len(gaps), dtype=dtype)
    with np.errstate(all="raise", under="ignore"):
        R = bayes.risk(contexts, p, q, units="nats")
        H = bayes.conditional_entropy(contexts, p, units="nats")
        KL = (contexts * bayes.kl_divergence(p, q, units="nats")).sum()
    wide = p.astype(np.float64), q.astype(np.float64)
    finite = bool(((wide[1] > 0) | (wide[0] == 0)).all())
    assert np.isfinite(R) == finite == np.isfinite(KL)
    if finite:
        assert pytest.approx(H + KL, rel=64 * float(np.finfo(dtype).eps), abs=64 * float(np.finfo(dtype).eps)) == R


def test_a_finite_divergence_is_finite():
    q = bg.softmax(np.asarray([0.0, -95.0], np.float32))
    with np.errstate(all="raise"):
        got = bayes.kl_divergence(np.asarray([0.5, 0.5], np.float32), q, units="nats")
    assert got == pytest.approx(46.8068, rel=1e-5)


@pytest.mark.parametrize("distance", [1e-8, 1e-5, 1e-3, 0.1, 0.3])
def test_near_distributions_keep_their_digits(distance):
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(200))
    q = p * np.exp(distance * rng.normal(size=200))
    q = q / q.sum()
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(x), mpmath.mpf(y)) for x, y in zip(p.tolist(), q.tolist(), strict=True)]
        exact = float(sum(x * mpmath.log(x / y) - x + y for x, y in pairs))
    assert bayes.kl_divergence(p, q, units="nats") == pytest.approx(exact, rel=1e-13)
    assert bayes.kl_divergence(p, p, units="nats") == 0.0


def test_a_small_probability_hides_no_missed_outcome():
    contexts, p = np.asarray([1 - 1e-30, 1e-30], np.float32), np.asarray([[1.0, 0.0], [1.0, 1e-30]], np.float32)
    q = np.asarray([[1.0, 0.0], [1.0, 0.0]], np.float32)
    assert bayes.risk(contexts, p, q, units="nats") == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["numpy", "torch", "array-api-strict", "jax"])
def test_a_state_that_was_all_but_excluded_comes_back(name, dtype):
    xp = LIBRARIES[name]
    E = np.asarray([[0.999, 0, 0.001], [0.01, 0.98, 0.01]], dtype)
    observations = np.asarray([0] * 200 + [1])
    got = bayes.hmm_filter(xp(np.asarray([0.5, 0.5], dtype)), xp(np.eye(2, dtype=dtype)), xp(E), xp(observations))
    np.testing.assert_array_equal(read(got.posterior)[-1], [0, 1])
    expected = np.log(0.5) + 200 * np.log(0.01) + np.log(0.98)
    assert float(got.log_likelihood) == pytest.approx(expected, rel=1e-5 if dtype == np.float32 else 1e-13)


def test_only_what_is_impossible_is_refused():
    E = np.asarray([[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="observations: got something of probability 0 at position 1"):
        bayes.hmm_filter(np.asarray([0.5, 0.5]), np.eye(2), E, np.asarray([0, 1]))


@pytest.mark.parametrize("far", [15.0, 60.0, 1e10, 1e30])
def test_every_density_is_positive(far):
    P, x = np.eye(2, dtype=np.float32), np.asarray([[0.0], [far]], np.float32)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        got = bayes.sticky_markov_predictive(x, x, P, initial=np.asarray([0.5, 0.5], np.float32))
    np.testing.assert_allclose(got[0], [1, 0], atol=1e-30)
    if far < 1e19:
        np.testing.assert_allclose(got[1], [0.5, 0.5], rtol=1e-5)


def test_em_takes_infinite_costs():
    got = em.em_identity(np.asarray([0.5, 0.5]), np.asarray([0, np.inf]), np.asarray([1.0, 0.0]))
    assert got.loss_change == pytest.approx(got.cost_change - got.divergence)
    assert got.cost_change == 1.0
    assert em.mixture_loss(np.asarray([0.5, 0.5]), np.asarray([0.0, -np.inf])) == -np.inf


# --- the axis of heads ------------------------------------------------------------------------------------------------


def _block(batch, heads=4, n=5):
    rng = np.random.default_rng(7)
    x, targets = rng.normal(size=(batch, n, 8)), rng.integers(0, 6, size=(batch, n))
    return rng, (x, *(rng.normal(size=s) for s in ((8, 8), (8, 8), (8, 12), (12, 6))), targets), {"heads": heads}


@pytest.mark.parametrize("batch", [2, 4, 1])
def test_a_pattern_of_three_axes_belongs_to_heads_also_where_the_batch_is_as_large(batch):
    rng, arguments, options = _block(batch)
    bias, mask = rng.normal(size=(4, 5, 5)), rng.random((4, 5, 5)) < 0.7
    got = bg.attention_block_gradients(*arguments, bias=bias, mask=mask, **options)
    full = np.broadcast_to(bias, (batch, 4, 5, 5)), np.broadcast_to(mask, (batch, 4, 5, 5))
    wanted = bg.attention_block_gradients(*arguments, bias=full[0], mask=full[1], **options)
    assert got.bias.shape == bias.shape
    np.testing.assert_allclose(got.bias, wanted.bias.sum(0), atol=1e-12)
    np.testing.assert_allclose(got.W_Q, wanted.W_Q, atol=1e-12)
    without = bg.attention_block_gradients(*arguments, mask=mask, **options)
    np.testing.assert_allclose(
        fused.attention_block_gradients(*arguments, mask=mask, tile=2, **options).W_K, without.W_K, atol=1e-12
    )


@pytest.mark.parametrize("name", ["mask", "bias", "dropout"])
@pytest.mark.parametrize(
    ("shape", "remedy"), [((2, 5, 5), ":, None"), ((2, 1, 5), ":, None"), ((2, 5), "..., None, None, :")]
)
def test_a_pattern_for_each_example_is_refused_with_the_remedy(name, shape, remedy):
    _, arguments, options = _block(2)
    x = np.ones(shape, dtype=bool if name == "mask" else float)
    functions = [bg.attention_block_gradients] + [fused.attention_block_gradients] * (name == "mask")
    for function in functions:
        with pytest.raises(ValueError, match=f"^{name}: got shape") as caught:
            function(*arguments, **{name: x}, **options)
        assert f"one for each example is {name}[{remedy}]" in str(caught.value)
        function(*arguments, **{name: eval(f"x[{remedy}]")}, **options)


# --- shapes and sizes that broke kernels ------------------------------------------------------------------------------


def _against_autograd(n, m, d, *, scale=None, mask=None, bias=None, lead=()):
    from tests.reference import attend

    rng = np.random.default_rng(n + m + d)
    shapes = ((*lead, n, d), (*lead, m, d), (*lead, m, d + 1), (*lead, n, d + 1))
    q, k, v, u = (torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes)
    t = {"mask": None if mask is None else torch.tensor(mask)}
    if bias is not None:
        t["bias"] = torch.tensor(bias, requires_grad=True)
    wanted = torch.autograd.grad(
        (attend(q, k, v, scale=scale, **t) * u).sum(), [q, k, v, *([t["bias"]] if bias is not None else [])]
    )
    arrays = [x.detach().numpy() for x in (q, k, v, u)]
    got = bg.attention_gradients(*arrays, scale=scale, mask=mask, bias=bias)
    for ours, theirs in zip((got.queries, got.keys, got.values, got.bias), wanted, strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-11 * max(1, n))


@pytest.mark.parametrize(("n", "m", "d"), [(1025, 3, 2), (3, 1025, 2), (1, 700, 4), (1025, 1025, 1)])
def test_just_beyond_a_power_of_two(n, m, d):
    _against_autograd(n, m, d)


@pytest.mark.parametrize("d", [72, 80, 96, 104, 128, 192, 256])
def test_wide_heads(d):
    _against_autograd(5, 7, d)


def test_rows_whose_first_keys_are_hidden_and_left_padding():
    mask = np.arange(130) >= np.asarray([[64], [100], [0], [130]])
    _against_autograd(4, 130, 3, mask=mask)
    padded = (np.arange(9) >= np.asarray([[3], [0]]))[:, None, None] & np.tri(9, dtype=bool)
    _against_autograd(9, 9, 4, mask=padded, lead=(2, 3))


@pytest.mark.parametrize("shape", [(1, 7), (3, 1, 1), (3, 5, 7), (7,), (2, 1, 5, 1)])
def test_broadcast_biases_and_a_scale_above_one(shape):
    _against_autograd(5, 7, 3, scale=3.5, bias=np.random.default_rng(1).normal(size=shape), lead=(2, 3))

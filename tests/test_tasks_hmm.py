"""The HMM task against every hidden path in exact rationals; its data pipeline; its encodings; its floors."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest

from bayesgrad.tasks import hmm
from bayesgrad.tasks import hmm_encoding as encoding
from bayesgrad.tasks import hmm_floors as floors


def rational(matrix: np.ndarray) -> list[list[Fraction]]:
    """Hundredths as what they are meant to be."""
    return [[Fraction(round(100 * x), 100) for x in row] for row in matrix.tolist()]


def enumerated(start, T, E, seen) -> tuple[list[Fraction], list[Fraction]]:
    """Posterior of the last state and law of the next symbol, summed over every path of hidden states."""
    states, joint = len(T), [Fraction(0)] * len(T)
    for path in itertools.product(range(states), repeat=len(seen)):
        weight = start[path[0]] * E[path[0]][seen[0]]
        for t in range(1, len(seen)):
            weight *= T[path[t - 1]][path[t]] * E[path[t]][seen[t]]
        joint[path[-1]] += weight
    total = sum(joint)
    posterior = [x / total for x in joint]
    following = [
        sum(posterior[s] * T[s][r] * E[r][o] for s in range(states) for r in range(states)) for o in range(len(E[0]))
    ]
    return posterior, following


def kept(T) -> list[Fraction]:
    """The stationary distribution, by Gauss-Jordan elimination on pi (T - I) = 0 and sum pi = 1."""
    n = len(T)
    rows = [[T[i][j] - (i == j) for i in range(n)] + [Fraction(0)] for j in range(n - 1)] + [[Fraction(1)] * (n + 1)]
    for j in range(n):
        pivot = next(i for i in range(j, n) if rows[i][j])
        rows[j], rows[pivot] = rows[pivot], rows[j]
        rows[j] = [x / rows[j][j] for x in rows[j]]
        for i in range(n):
            if i != j:
                rows[i] = [x - rows[i][j] * y for x, y in zip(rows[i], rows[j], strict=True)]
    return [row[n] for row in rows]


SHAPES = [(2, 2, 5), (2, 4, 4), (3, 2, 5), (3, 3, 4), (4, 3, 3)]


@pytest.mark.parametrize(("states", "symbols", "steps"), SHAPES)
def test_filter_and_windows_sum_over_every_path(states, symbols, steps):
    drawn = hmm.sample(np.random.default_rng(states), 4, steps=steps, states=states, symbols=symbols)
    posterior, following = (f(drawn.T, drawn.E, drawn.shown) for f in (hmm.filter_posterior, hmm.predictive))
    windows = {w: hmm.window_predictive(drawn.T, drawn.E, drawn.shown, w) for w in range(1, steps + 2)}
    uniform = [Fraction(1, states)] * states
    for b in range(4):
        T, E, seen = rational(drawn.T[b]), rational(drawn.E[b]), drawn.shown[b].tolist()
        pi = kept(T)
        np.testing.assert_allclose(hmm.stationary(drawn.T)[b], [float(x) for x in pi], rtol=1e-13)
        for t in range(steps):
            want = enumerated(uniform, T, E, seen[: t + 1])
            np.testing.assert_allclose(posterior[b, t], [float(x) for x in want[0]], rtol=1e-13)
            np.testing.assert_allclose(following[b, t], [float(x) for x in want[1]], rtol=1e-13)
            for w, got in windows.items():
                start = uniform if w > t else pi
                _, want_w = enumerated(start, T, E, seen[max(0, t - w + 1) : t + 1])
                np.testing.assert_allclose(got[b, t], [float(x) for x in want_w], rtol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_a_ring_has_one_stationary_law_however_long_and_two_rings_have_none(n):
    ring = np.roll(np.eye(n), 1, axis=-1)
    np.testing.assert_allclose(hmm.stationary(ring[None]), np.full((1, n), 1 / n), rtol=1e-13)
    with pytest.raises(ValueError, match=r"^T: got matrix 1 with several stationary"):
        hmm.stationary(np.stack([np.roll(np.eye(2 * n), 1, axis=-1), np.kron(np.eye(2), ring)]))


def test_long_memory_filter_sums_over_every_path():
    drawn = hmm.sample(np.random.default_rng(8), 3, steps=4, states=3, symbols=3, generator="long-memory", rho=0.75)
    T = 4 * drawn.T - 3 * np.eye(3)  # rho = 3/4 and hundredths: everything is a multiple of 1/400
    for b in range(3):
        mixed = [[x / 4 + Fraction(3, 4) * (i == j) for j, x in enumerate(r)] for i, r in enumerate(rational(T[b]))]
        got = hmm.predictive(drawn.T, drawn.E, drawn.shown)[b]
        for t in range(4):
            _, want = enumerated([Fraction(1, 3)] * 3, mixed, rational(drawn.E[b]), drawn.shown[b, : t + 1].tolist())
            np.testing.assert_allclose(got[t], [float(x) for x in want], rtol=1e-13)


@pytest.mark.parametrize("states", [2, 5, 18, 20])
@pytest.mark.parametrize("symbols", [3, 5])
def test_rows_are_hundredths_of_at_least_five(states, symbols):
    for x in hmm.sample_matrices(np.random.default_rng(0), 300, states=states, symbols=symbols):
        cents = np.rint(100 * x).astype(int)
        np.testing.assert_array_equal(cents / 100, x)
        assert (cents.sum(-1) == 100).all()
        assert cents.min() >= 5


def test_long_memory_mixes_in_the_identity_and_nothing_else():
    (T, E), (mixed, same) = (
        hmm.sample_matrices(np.random.default_rng(1), 50, generator=g, rho=0.6) for g in hmm.GENERATORS
    )
    np.testing.assert_array_equal(E, same)
    np.testing.assert_allclose(mixed, 0.6 * np.eye(5) + 0.4 * T, rtol=1e-15)
    np.testing.assert_allclose(mixed.sum(-1), 1.0, rtol=1e-15)


def test_samples_follow_their_matrices():
    """Counts of starts, moves and emissions, each against its own matrix: sums of independent errors of variance
    p (1 - p), and none more than five standard deviations away."""
    drawn = hmm.sample(np.random.default_rng(2), 4000, steps=20, states=3, symbols=4, generator="long-memory", rho=0.5)
    rows, s = np.arange(4000)[:, None], drawn.states
    moves, shows = drawn.T[rows, s[:, :-1]], drawn.E[rows, s]
    for law, came in (
        (np.full((4000, 3), 1 / 3), s[:, 0]),
        (moves, s[:, 1:]),
        (shows, drawn.observations),
    ):
        error = np.eye(law.shape[-1])[came] - law
        for weight in (np.ones(law.shape), law):  # the second weighs the rows by what they say
            total = (weight * error).reshape(-1, law.shape[-1]).sum(0)
            spread = np.sqrt((weight**2 * law * (1 - law)).reshape(-1, law.shape[-1]).sum(0))
            assert (np.abs(total) < 5 * spread).all()


@pytest.mark.parametrize("generator", hmm.GENERATORS)
def test_same_seed_same_numbers(generator):
    one, two, other = (hmm.sample(np.random.default_rng(seed), 30, steps=7, generator=generator) for seed in (3, 3, 4))
    for name in ("T", "E", "states", "observations"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert (getattr(one, name) != getattr(other, name)).any()
    np.testing.assert_array_equal(one.shown[:, 1:], one.targets[:, :-1])


def shown_at(tokens: np.ndarray, supervised: np.ndarray, kind: str) -> np.ndarray:
    at = tokens[:, supervised]
    return at - encoding.FIRST_SYMBOL if kind == "published" else at[..., -4:].argmax(-1)


@pytest.mark.parametrize("kind", encoding.ENCODINGS)
def test_no_supervised_position_has_its_target_to_its_left_or_on_itself(kind):
    drawn = hmm.sample(np.random.default_rng(5), 200, steps=6, states=3, symbols=4)
    T, E, shown = drawn.T, drawn.E, drawn.shown
    whole = encoding.encode(T, E, shown, kind)
    assert whole.tokens.shape[1] == whole.supervised[-1] + 1
    np.testing.assert_array_equal(shown_at(whole.tokens, whole.supervised, kind), shown)
    assert (shown_at(whole.tokens, whole.supervised, kind) != drawn.targets).mean() > 0.5
    for t, position in enumerate(whole.supervised):
        later = shown.copy()
        later[:, t + 1 :] = (later[:, t + 1 :] + 1) % 4  # every target from t on, but the last one, changes
        changed = encoding.encode(T, E, later, kind).tokens
        np.testing.assert_array_equal(changed[:, : position + 1], whole.tokens[:, : position + 1])
        assert t == 5 or (changed[:, position + 1 :] != whole.tokens[:, position + 1 :]).any()


def test_rows_encoding_says_the_matrices_and_who_is_who():
    drawn = hmm.sample(np.random.default_rng(6), 9, steps=4, states=3, symbols=4, generator="long-memory")
    x = encoding.encode(drawn.T, drawn.E, drawn.shown, "rows")
    assert x.tokens.shape == (9, 6 + 4, encoding.width("rows", 3, 4)) == (9, 10, 14)
    row_T, row_E, who, what = np.split(x.tokens, [3, 7, 10], axis=-1)
    np.testing.assert_array_equal(row_T[:, :3], drawn.T)
    np.testing.assert_array_equal(row_E[:, 3:6], drawn.E)
    np.testing.assert_array_equal(who[:, :6], np.broadcast_to(np.tile(np.eye(3), (2, 1)), (9, 6, 3)))
    np.testing.assert_array_equal(what[:, 6:], np.eye(4)[drawn.shown])
    for part, used in ((row_T, slice(0, 3)), (row_E, slice(3, 6)), (who, slice(0, 6)), (what, slice(6, 10))):
        assert part.sum() == pytest.approx(part[:, used].sum())  # and nothing stands elsewhere


def test_published_encoding_has_the_published_length_and_order():
    drawn = hmm.sample(np.random.default_rng(7), 4, steps=3)
    x = encoding.encode(drawn.T, drawn.E, drawn.shown, "published")
    T, E = (np.rint(100 * m).astype(int).reshape(4, 25) for m in (drawn.T, drawn.E))
    for b in range(4):
        pairs = [token for o in drawn.shown[b] for token in (104, 105 + o)]
        assert x.tokens[b].tolist() == [101, *T[b], 102, *E[b], 103, *pairs]
    assert x.supervised.tolist() == [54, 56, 58]
    assert x.tokens.max() < encoding.width("published") == 110


def test_windows_get_better_as_they_grow_until_they_are_the_filter():
    drawn = hmm.sample(np.random.default_rng(9), 500, steps=12, generator="long-memory")
    table = floors.floors(drawn.T, drawn.E, drawn.shown, range(1, 14))
    order = ["stationary", *(f"window {w}" for w in range(1, 12))]
    kl = np.array([table[name].kl_bits.mean() for name in order])
    assert (np.diff(kl) < 0).all()
    assert table["window 12"].kl_bits.max() < 1e-14
    assert table["window 13"].entropy_mae_bits.max() < 1e-13
    for w in (1, 3, 5):  # exact as long as the window reaches the first observation, and not one position longer
        assert table[f"window {w}"].kl_bits[:w].max() < 1e-14 < 1e-5 < table[f"window {w}"].kl_bits[w]


def test_window_is_the_library_filter_on_what_it_sees():
    drawn = hmm.sample(np.random.default_rng(10), 20, steps=9, generator="long-memory")
    got = hmm.window_posterior(drawn.T, drawn.E, drawn.shown, 4)
    for t in range(4, 9):
        seen = drawn.shown[:, t - 3 : t + 1]
        want = hmm.hmm_filter(hmm.stationary(drawn.T), drawn.T, drawn.E, seen).posterior[:, -1]
        np.testing.assert_allclose(got[:, t], want, rtol=1e-12)


# Mean over positions 1..20, and the standard deviation of that figure over draws of 2000 sequences (measured once over
# 20 draws): each is to lie within four of them, and within half a unit of the last digit, of what other programs found.
PUBLISHED_KL = {
    "uniform": (0.0987, 0.0013),
    "stationary": (0.0050, 0.0001),
    "window 1": (0.00063, 0.00002),
    "window 2": (0.000087, 0.000004),
}
PUBLISHED_ENTROPY = {
    "uniform": (0.4145, 0.0026),
    "emission": (0.159, 0.0017),
    "stationary x emission": (0.087, 0.0008),
    "window 2": (0.025, 0.0003),
}
LONG_KL = {
    "window 1": (0.0452, 0.0006),
    "window 2": (0.0234, 0.0004),
    "window 3": (0.0126, 0.0002),
    "window 5": (0.0041, 0.0001),
    "window 8": (0.0009, 0.00004),
    "window 12": (0.00013, 0.00001),
}


@functools.cache
def table_of(generator: hmm.Generator) -> dict[str, floors.Floor]:
    drawn = hmm.sample(np.random.default_rng(0), 2000, steps=20, generator=generator)
    return floors.floors(drawn.T, drawn.E, drawn.shown)


@pytest.mark.parametrize(
    ("generator", "figure", "known"),
    [
        ("published", "kl_bits", PUBLISHED_KL),
        ("published", "entropy_mae_bits", PUBLISHED_ENTROPY),
        ("long-memory", "kl_bits", LONG_KL),
    ],
)
def test_floors_are_those_that_other_programs_found(generator, figure, known):
    table = table_of(generator)
    for name, (value, spread) in known.items():
        last_digit = 10.0 ** -len(str(f"{value:f}").rstrip("0").partition(".")[2])
        assert abs(getattr(table[name], figure).mean() - value) < 4 * spread + last_digit / 2, name


def test_equivalent_memory_interpolates_in_log_and_never_beyond():
    windows, kl = [1, 2, 5], [0.08, 0.02, 0.005]
    assert [floors.equivalent_memory(x, windows, kl).observations for x in kl] == pytest.approx([1, 2, 5])
    assert floors.equivalent_memory(0.04, windows, kl).observations == pytest.approx(1.5)
    assert floors.equivalent_memory(0.01, windows, kl) == floors.Memory(pytest.approx(3.5), "=")
    assert floors.equivalent_memory(0.0, windows, kl) == floors.Memory(5.0, ">=")
    assert str(floors.equivalent_memory(0.004, windows, kl)) == ">= 5.0"
    assert floors.equivalent_memory(0.09, windows, kl) == floors.Memory(1.0, "<=")
    assert floors.equivalent_memory(0.16, windows, kl, 0.32).observations == pytest.approx(0.5)
    assert floors.equivalent_memory(0.33, windows, kl, 0.32) == floors.Memory(0.0, "<=")


def identity() -> np.ndarray:
    return np.eye(3)[None].copy()


def good(n: int = 3) -> np.ndarray:
    return np.full((1, n, n), 1 / n)


def with_row(row: list[float]) -> np.ndarray:
    x = good()
    x[0, 2] = row
    return x


def column_zero() -> np.ndarray:
    return np.broadcast_to([0.5, 0.0, 0.5], (1, 3, 3)).copy()


def leaving() -> np.ndarray:
    """State 0 is left for ever: what only it emits has no place under the stationary law."""
    return np.array([[[0.5, 0.5], [0.0, 1.0]]])


SEEN = np.array([[0, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: hmm.sample(rng, 2, steps=0), r"^steps: got 0"),
        (lambda rng: hmm.sample(rng, 0, steps=1), r"^count: got 0"),
        (lambda rng: hmm.sample(rng, 2, steps=1, rho=1.0, generator="long-memory"), r"^rho: got 1.0"),
        (lambda rng: hmm.sample(rng, 2, steps=1, rho=-0.1), r"^rho: got -0.1"),
        (lambda rng: hmm.sample(rng, 2, steps=1, rho=float("nan")), r"^rho: got nan"),
        (lambda rng: hmm.sample(rng, 2, steps=1, generator="short"), r"^generator: got 'short'"),
        (lambda rng: hmm.sample(rng, 2, steps=1, states=1), r"^states: got 1"),
        (lambda rng: hmm.sample(rng, 2, steps=1, symbols=21), r"^symbols: got 21"),
        (lambda rng: hmm.predictive(with_row([0.3, 0.3, 0.3]), good(), SEEN), r"^T: got row 2 of matrix 0"),
        (lambda rng: hmm.predictive(good(), with_row([1.5, -0.5, 0.0]), SEEN), r"^E: got row 2 of matrix 0"),
        (lambda rng: hmm.predictive(good(), with_row([np.nan, 0.5, 0.5]), SEEN), r"^E: got row 2 of matrix 0"),
        (lambda rng: hmm.predictive(column_zero(), good(), SEEN), r"^T: got matrix 0 with no way into state 1"),
        (lambda rng: hmm.predictive(good(), column_zero(), SEEN), r"^E: .*no state that emits symbol 1"),
        (lambda rng: hmm.predictive(identity(), identity(), SEEN), r"^observations: .*probability 0"),
        (lambda rng: hmm.predictive(good(), good(), SEEN + 2), r"^observations: got 3"),
        (lambda rng: hmm.predictive(good()[0], good(), SEEN), r"^T: got shape"),
        (lambda rng: hmm.predictive(good(), good(4), SEEN), r"^E: got shape"),
        (lambda rng: hmm.window_predictive(good(), good(), SEEN, 0), r"^window: got 0"),
        (lambda rng: hmm.window_predictive(good(), good(), SEEN - 1, 1), r"^observations: got -1"),
        (lambda rng: hmm.window_predictive(good(), good(), SEEN[0], 1), r"^observations: got shape"),
        (lambda rng: hmm.window_predictive(with_row([0, 0, 1]), identity(), 2 - SEEN, 2), r"^observations: .*bility 0"),
        (lambda rng: hmm.stationary(identity()), r"^T: got matrix 0 with several stationary"),
        (lambda rng: encoding.encode(good(), good(), SEEN, "columns"), r"^encoding: got 'columns'"),
        (lambda rng: encoding.width("columns"), r"^encoding: got 'columns'"),
        (lambda rng: encoding.encode(good(), good(), SEEN, "published"), r"^T: got 0.333.* expected hundredths"),
        (lambda rng: encoding.encode(good(), good(), SEEN[:, :0], "rows"), r"^observations: got shape"),
        (lambda rng: encoding.encode(good(), good(), SEEN + 2, "rows"), r"^observations: got 2..3"),
        (lambda rng: floors.guesses(leaving(), np.eye(2)[None], np.array([[0]])), r"^observations: .*probability 0"),
        (lambda rng: floors.equivalent_memory(-0.1, [1], [0.1]), r"^kl_bits: got -0.1"),
        (lambda rng: floors.equivalent_memory(0.1, [1, 2], [0.1]), r"^window_kl_bits: got 1"),
        (lambda rng: floors.equivalent_memory(0.1, [], []), r"^window_kl_bits: got 0"),
        (lambda rng: floors.equivalent_memory(0.1, [2, 1], [0.2, 0.1]), r"^windows: got \[2, 1\]"),
        (lambda rng: floors.equivalent_memory(0.1, [1, 2], [0.1, 0.2]), r"^window_kl_bits: got \[0.1, 0.2\]"),
        (lambda rng: floors.equivalent_memory(0.1, [1, 2], [0.1, 0.0]), r"^window_kl_bits: got \[0.1, 0.0\]"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call(np.random.default_rng(0))
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)

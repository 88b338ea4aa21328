"""Family B, second half: the laws of one attention head under any differentiable loss of its contexts.

    g_i = sum_j a_ij v_j        u_i = dL/dg_i        b_ij = u_i . v_j        bbar_i = sum_k a_ik b_ik

Every law is a function of a :class:`Head`, so that self-attention, where queries and keys share one input, gets the
same proof as the general case.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from derivations.laws import Part, axes, equation, instance_of, proves
from derivations.notation import HEAD, Head, d_k, d_v
from derivations.proof import AtMost, Chain, Equation
from derivations.softmax import SEES, Softmax, fisher_entry
from derivations.terms import At, Diff, Entry, Index, Lookup, Tensor, Term, delta, exp, inv, lift, total

Proved = tuple[Equation, Chain]
c, e = Index("c", d_v), Index("e", d_k)


def weights(H: Head) -> Proved:
    """dL/da_ij = b_ij."""
    claim = Equation(Diff(H.L(), H.a(H.i, H.j)), H.b(H.i, H.j), sample={H.a: None, H.v: None})
    by = H.a(H.i, H.j)
    over = (H.rows, d_v)
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, c: H.u(r, c) * Diff(H.g(r, c), by), over=over), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, c: H.u(r, c) * Diff(total(lambda k: H.a(r, k) * H.v(k, c), over=H.columns), by), over=over),
            "a context is the weighted sum of the values",
            H.g,
        )
        .differentiate(
            total(
                lambda r, c: H.u(r, c) * total(lambda k: delta(r, H.i) * delta(k, H.j) * H.v(k, c), over=H.columns),
                over=over,
            ),
            "it is linear in the weights",
        )
        .algebra(total(lambda c: H.u(H.i, c) * H.v(H.j, c), over=d_v), "the deltas pick query i and key j")
        .definition(claim.rhs, "which is the compatibility", H.b)
    )
    return claim, proof


def scores(H: Head, onto_weights: Equation, jacobian: Equation) -> Proved:
    """The routing law: dL/ds_ij = a_ij (b_ij - bbar_i)."""
    i, j = H.i, H.j
    claim = Equation(Diff(H.L(), H.s(i, j)), H.a(i, j) * (H.b(i, j) - H.bbar(i)), sample={H.s: None, H.v: None})
    over = (H.rows, H.columns)
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, k: Diff(H.L(), H.a(r, k)) * Diff(H.a(r, k), H.s(i, j)), over=over),
            "scores act on the loss through the weights alone",
            H.a,
        )
        .rewrite(
            total(lambda r, k: H.b(r, k) * Diff(H.a(r, k), H.s(i, j)), over=over),
            "the gradient in a weight is the compatibility",
            onto_weights,
        )
        .rewrite(
            total(lambda r, k: H.b(r, k) * delta(r, i) * H.a(r, k) * (delta(k, j) - H.a(r, j)), over=over),
            "the softmax Jacobian",
            jacobian,
        )
        .algebra(
            H.a(i, j) * H.b(i, j) - H.a(i, j) * total(lambda k: H.a(i, k) * H.b(i, k), over=H.columns),
            "only query i is left",
        )
        .definition(claim.rhs, "the sum is the mean compatibility", H.bbar)
    )
    return claim, proof


def values(H: Head) -> Proved:
    """dL/dv_j = sum_i a_ij u_i."""
    claim = Equation(
        Diff(H.L(), H.v(H.j, c)), total(lambda i: H.a(i, H.j) * H.u(i, c), over=H.rows), sample={H.a: None}
    )
    by = H.v(H.j, c)
    over = (H.rows, d_v)
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, f: H.u(r, f) * Diff(H.g(r, f), by), over=over), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, f: H.u(r, f) * Diff(total(lambda k: H.a(r, k) * H.v(k, f), over=H.columns), by), over=over),
            "a context is the weighted sum of the values",
            H.g,
        )
        .differentiate(
            total(
                lambda r, f: H.u(r, f) * total(lambda k: H.a(r, k) * delta(k, H.j) * delta(f, c), over=H.columns),
                over=over,
            ),
            "it is linear in the values",
        )
        .algebra(claim.rhs, "the deltas pick key j and component c; every query that attends to j is left")
    )
    return claim, proof


def _by_scores(
    H: Head, variable: Entry, slope: Callable[[Index, Index], Term], right: Term, routing: Equation, last: str
) -> Proved:
    """dL/dX for anything that acts through the scores alone; ``slope(r, k)`` is ds_rk/dX."""
    claim = Equation(Diff(H.L(), variable), right, sample=H.free)
    over = (H.rows, H.columns)

    def onto(slope_at: Callable[[Index, Index], Term]) -> Term:
        return total(lambda r, k: Diff(H.L(), H.s(r, k)) * slope_at(r, k), over=over)

    proof = (
        Chain(claim.lhs)
        .through(onto(lambda r, k: Diff(H.s(r, k), variable)), "it acts on the loss through the scores alone", H.s)
        .definition(
            onto(lambda r, k: Diff(H.scale() * H.product(r, k) + H.bias(r, k), variable)),
            "a score is a scaled inner product plus a bias",
            H.s,
        )
        .differentiate(onto(slope), "which is linear in it", variable.tensor)
        .rewrite(
            total(lambda r, k: H.a(r, k) * (H.b(r, k) - H.bbar(r)) * slope(r, k), over=over),
            "the routing law",
            routing,
        )
        .algebra(right, last)
    )
    return claim, proof


def queries(H: Head, routing: Equation) -> Proved:
    """dL/dq_i = scale * sum_j a_ij (b_ij - bbar_i) k_j."""
    i = H.i
    right = H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.key(j, e), over=H.columns)
    return _by_scores(
        H, H.q(i, e), lambda r, k: H.scale() * delta(r, i) * H.key(k, e), right, routing, "only query i is left"
    )


def keys(H: Head, routing: Equation) -> Proved:
    """dL/dk_j = scale * sum_i a_ij (b_ij - bbar_i) q_i."""
    j = H.j
    right = H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=H.rows)
    return _by_scores(
        H, H.key(j, e), lambda r, k: H.scale() * delta(k, j) * H.q(r, e), right, routing, "only key j is left"
    )


class Laws:
    """The four laws of a head other than the standard one, proved again for it."""

    def __init__(self, H: Head):
        self.jacobian = instance_of("softmax.jacobian", *Softmax(H.a, H.s, H.Z, H.M).jacobian())
        onto_weights = instance_of("attention.weight-gradient", *weights(H))
        self.routing = instance_of("attention.routing-law", *scores(H, onto_weights, self.jacobian))
        self.values = instance_of("attention.value-law", *values(H))
        self.queries = instance_of("attention.query-law", *queries(H, self.routing))
        self.keys = instance_of("attention.key-law", *keys(H, self.routing))


# -- the entries of the book ---------------------------------------------------------------------------------------

H = HEAD
i, j, k = H.i, H.j, H.k
n, m = H.rows, H.columns
EVERY_ROW_SEES = Equation(SEES.lhs, SEES.rhs, (i,), says="every query sees at least one key")


@proves("attention.weight-gradient")
def weight_gradient() -> list[Part]:
    return [Part("weights", *weights(H), "Weights taken as free variables.")]


@proves("attention.routing-law")
def routing_law() -> list[Part]:
    law, proof = scores(H, equation("attention.weight-gradient"), equation("softmax.jacobian"))
    law = instance_of("attention.routing-law", law, proof)
    return [
        Part("scores", law, proof),
        _by_advantage(law),
        _by_fisher(law),
        _rows_sum_to_zero(law),
        _masked(law),
        _single_key(law),
        _bias(law),
    ]


def _by_advantage(law: Equation) -> Part:
    claim = Equation(law.lhs, -(H.a(i, j) * H.A(i, j)), sample=law.sample)
    proof = Chain(law.lhs).rewrite(law.rhs, "the law", law).definition(claim.rhs, "the advantage is bbar - b", H.A)
    return Part("advantage", claim, proof, "Descent raises a score where the compatibility is below its mean.")


def _by_fisher(law: Equation) -> Part:
    is_jacobian = equation("softmax.fisher", "jacobian")
    claim = Equation(law.lhs, total(lambda k: Diff(H.a(i, j), H.s(i, k)) * H.b(i, k), over=m), sample=law.sample)
    proof = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .definition(
            total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m), "diag(a) b minus a times the mean", H.bbar
        )
        .rewrite(
            claim.rhs,
            "F_i is the Jacobian of row i",
            is_jacobian,
            lambda hole: total(lambda k: hole(*_as(is_jacobian, i, j, k)) * H.b(i, k), over=m),
        )
    )
    return Part("fisher", claim, proof, "The score gradient is (F_i b_i)_j.")


def _as(eq: Equation, row: Index, left: Index, right: Index) -> tuple[Index, ...]:
    """The hole's indices in the order in which the equation's free indices were made."""
    given = {"i": row, "j": left, "k": right}
    return tuple(given[x.name] for x in sorted(axes(eq.lhs, eq.rhs), key=lambda x: x.uid))


def _rows_sum_to_zero(law: Equation) -> Part:
    normalised = equation("softmax.jacobian", "normalisation")
    claim = Equation(total(lambda j: Diff(H.L(), H.s(i, j)), over=m), lift(0), given=(SEES,), sample=law.sample)
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)), over=m), "the law", law)
        .definition(
            H.bbar(i) - H.bbar(i) * total(lambda j: H.a(i, j), over=m), "the first sum is the mean itself", H.bbar
        )
        .rewrite(lift(0), "the weights sum to one", normalised, lambda h: H.bbar(i) - H.bbar(i) * h(i))
    )
    return Part("row-sum", claim, proof, "In a row that sees nothing every term is 0.")


def _masked(law: Equation) -> Part:
    hidden = 1 - H.M(i, j)
    claim = Equation(hidden * Diff(H.L(), H.s(i, j)), lift(0), sample=law.sample)
    proof = (
        Chain(claim.lhs)
        .rewrite(hidden * H.a(i, j) * (H.b(i, j) - H.bbar(i)), "the law", law)
        .definition(lift(0), "a masked pair has weight 0", H.a)
    )
    return Part("masked", claim, proof, "Masked pairs have gradient exactly 0.")


def _single_key(law: Equation) -> Part:
    only: At = Lookup("j", (), m)()
    alone = Equation(
        H.M(i, k),
        delta(k, only),
        (k,),
        says="query i sees one key only",
        sample={H.M: lambda r, k: delta(k, only)},
    )
    claim = Equation(Diff(H.L(), H.s(i, k)), lift(0), given=(alone,), sample=law.sample)
    visible = H.M(i, k) * exp(H.s(i, k)) * inv(total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m))
    mean = total(lambda r: H.M(i, r) * exp(H.s(i, r)) * H.b(i, r), over=m) * inv(
        total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m)
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(H.a(i, k) * (H.b(i, k) - H.bbar(i)), "the law", law)
        .definition(visible * (H.b(i, k) - mean), "write the weights out", H.a, H.Z, H.bbar)
        .rewrite(lift(0), "the mean is the compatibility of that key", alone)
    )
    return Part("single-key", claim, proof, "A single visible key gets no routing gradient.")


def _bias(law: Equation) -> Part:
    claim, proof = _by_scores(
        H, H.bias(i, j), lambda r, k: delta(r, i) * delta(k, j), law.rhs, law, "only the pair (i, j) is left"
    )
    return Part("bias", claim, proof, "The gradient in an additive bias is the score gradient.")


@proves("attention.delta-identity")
def delta_identity() -> list[Part]:
    claim = Equation(
        total(lambda k: H.a(i, k) * H.b(i, k), over=m),
        total(lambda c: H.u(i, c) * H.g(i, c), over=d_v),
        sample={H.a: None, H.v: None},
    )
    proof = (
        Chain(claim.lhs)
        .definition(
            total(lambda k: H.a(i, k) * total(lambda c: H.u(i, c) * H.v(k, c), over=d_v), over=m),
            "a compatibility is an inner product",
            H.b,
        )
        .algebra(
            total(lambda c: H.u(i, c) * total(lambda k: H.a(i, k) * H.v(k, c), over=m), over=d_v),
            "sum over keys first",
        )
        .definition(claim.rhs, "which is the context", H.g)
    )
    return [Part("delta", claim, proof, "The mean compatibility needs no weights: kernels call it delta.")]


@proves("attention.value-law")
def value_law() -> list[Part]:
    law, proof = values(H)
    law = instance_of("attention.value-law", law, proof)
    N = Tensor("N", (m,), body=lambda j: total(lambda i: H.a(i, j), over=n))
    ubar = Tensor(
        "ubar", (m, d_v), body=lambda j, c: total(lambda i: H.a(i, j) * H.u(i, c), over=n) * inv(N(j)), tex=r"\bar u"
    )
    attended = Equation(N(j) * inv(N(j)), lift(1), says="some query attends to key j")
    claim = Equation(law.lhs, N(j) * ubar(j, c), given=(attended,), sample=law.sample)
    pull = total(lambda i: H.a(i, j) * H.u(i, c), over=n)
    step = (
        Chain(law.lhs)
        .rewrite(pull, "the law", law)
        .rewrite(pull * (N(j) * inv(N(j))), "the responsibility is not zero", attended, lambda h: pull * h())
        .definition(claim.rhs, "the mean pull, times the responsibility", ubar)
    )
    return [
        Part("values", law, proof),
        Part("responsibility", claim, step, "N_j is the responsibility of key j, ubar_j the mean pull of its queries."),
    ]


@proves("attention.query-law")
def query_law() -> list[Part]:
    law, proof = queries(H, equation("attention.routing-law"))
    normalised = equation("softmax.jacobian", "normalisation")
    law = instance_of("attention.query-law", law, proof)
    mean = total(lambda j: H.a(i, j) * H.key(j, e), over=m)
    covariance = H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * (H.key(j, e) - mean), over=m)
    claim = Equation(law.lhs, covariance, given=(SEES,), sample=law.sample)
    rest = H.scale() * mean * H.bbar(i)
    steps = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .rewrite(
            law.rhs + rest * total(lambda j: H.a(i, j), over=m) - rest,
            "the weights sum to one",
            normalised,
            lambda h: law.rhs + rest * h(i) - rest,
        )
        .definition(covariance, "the mean key can be taken from each key", H.bbar)
    )
    return [
        Part("queries", law, proof),
        Part("covariance", claim, steps, "The covariance of compatibility and keys under the weights."),
        _scale_gradient(equation("attention.routing-law")),
    ]


def _scale_gradient(routing: Equation) -> Part:
    right = total(lambda i, j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.product(i, j), over=(n, m))
    claim, proof = _by_scores(H, H.scale(), lambda r, k: H.product(r, k), right, routing, "every pair counts")
    return Part("scale", claim, proof, "The gradient in the scale.")


@proves("attention.key-law")
def key_law() -> list[Part]:
    law, proof = keys(H, equation("attention.routing-law"))
    law = instance_of("attention.key-law", law, proof)
    claim = Equation(
        total(lambda j: Diff(H.L(), H.key(j, e)), over=m), lift(0), given=(EVERY_ROW_SEES,), sample=law.sample
    )
    factor = lambda i: H.scale() * H.bbar(i) * H.q(i, e)
    everywhere = every_row_normalised()
    steps = (
        Chain(claim.lhs)
        .rewrite(
            total(
                lambda j: H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=n),
                over=m,
            ),
            "the law",
            law,
        )
        .definition(
            total(lambda i: factor(i) * (1 - total(lambda j: H.a(i, j), over=m)), over=n),
            "the first sum over keys is the mean itself",
            H.bbar,
        )
        .rewrite(
            lift(0),
            "the weights of every row sum to one",
            everywhere,
            lambda h: total(lambda i: factor(i) * (1 - h(i)), over=n),
        )
    )
    return [
        Part("keys", law, proof),
        Part("sum", claim, steps, "So a shift that all keys share, such as a key bias, has gradient exactly 0."),
    ]


@cache
def every_row_normalised() -> Equation:
    """The weights of each row sum to one, where every row sees a key."""
    claim = Equation(total(lambda j: H.a(i, j), over=m), lift(1), given=(EVERY_ROW_SEES,), sample={H.s: None})
    proof = (
        Chain(claim.lhs)
        .definition(total(lambda j: H.M(i, j) * exp(H.s(i, j)), over=m) * inv(H.Z(i)), "one common denominator", H.a)
        .definition(H.Z(i) * inv(H.Z(i)), "which is the mass of the row", H.Z)
        .rewrite(claim.rhs, "and that is not zero", EVERY_ROW_SEES, lambda h: h(i))
    )
    return instance_of("softmax.jacobian", claim, proof)


def _gap(i: Index, j: Index, k: Index) -> Term:
    """The difference of the compatibilities of two visible keys; its square plus 1/4 is at least its size."""
    return H.M(i, j) * H.M(i, k) * (H.b(i, j) - H.b(i, k))


@proves("attention.saturation-bound")
def saturation_bound() -> list[Part]:
    return [*(_saturation(sign) for sign in (1, -1)), _two_keys()]


def _two_keys() -> Part:
    one, two = Lookup("j", (), m)(), Lookup("k", (), m)()
    pair = Equation(
        H.a(i, k),
        delta(k, one) * H.a(i, one) + delta(k, two) * H.a(i, two),
        (k,),
        says="query i sees two keys only, j and k",
        sample={H.M: lambda i, r: delta(r, one) + delta(r, two)},
    )
    claim = Equation(
        Diff(H.L(), H.s(i, one)),
        H.a(i, one) * (1 - H.a(i, one)) * (H.b(i, one) - H.b(i, two)),
        given=(SEES, pair),
        sample={H.s: None, H.v: None},
    )
    weight, other = H.a(i, one), H.a(i, two)
    near, far = H.b(i, one), H.b(i, two)
    normalised = equation("softmax.jacobian", "normalisation")
    left = lambda total_weight: weight * (total_weight * near - weight * near - other * far)
    proof = (
        Chain(claim.lhs)
        .rewrite(weight * (near - H.bbar(i)), "the routing law", equation("attention.routing-law"))
        .definition(weight * (near - total(lambda r: H.a(i, r) * H.b(i, r), over=m)), "the mean", H.bbar)
        .rewrite(
            left(lift(1)),
            "two terms are left of the mean",
            pair,
            lambda h: weight * (near - total(lambda r: h(r) * H.b(i, r), over=m)),
        )
        .rewrite(
            left(total(lambda r: H.a(i, r), over=m)),
            "the weights sum to one",
            normalised,
            lambda h: left(h(i)),
        )
        .rewrite(left(weight + other), "two terms again", pair, lambda h: left(total(lambda r: h(r), over=m)))
        .algebra(weight * other * (near - far), "the key's own term cancels")
        .algebra(weight * (weight + other - weight) * (near - far), "a_ik is what a_ij leaves")
        .rewrite(
            weight * (total(lambda r: H.a(i, r), over=m) - weight) * (near - far),
            "two terms once more",
            pair,
            lambda h: weight * (total(lambda r: h(r), over=m) - weight) * (near - far),
        )
        .rewrite(claim.rhs, "the weights sum to one", normalised, lambda h: weight * (h(i) - weight) * (near - far))
    )
    return Part("two-keys", claim, proof, "Equality in every row with two visible keys.")


def _saturation(sign: int) -> Part:
    claim, _, proof = saturation_claim(sign, SEES, equation("softmax.jacobian", "normalisation"))
    name = "upper" if sign > 0 else "lower"
    return Part(name, claim, proof, "R_i may be the range of b_i over the visible keys.")


def saturation_claim(sign: int, sees: Equation, normalised: Equation) -> tuple[AtMost, Tensor, Chain]:
    """a_ij (1 - a_ij) R - (+-) dL/ds_ij is a sum of weights times what R leaves above a difference."""
    routing = equation("attention.routing-law")
    R = Tensor("R", (n,), "nonnegative")
    near, far = Index("j", m), Index("k", m)
    up = sign * (H.b(i, near) - H.b(i, far))
    both = H.M(i, near) * H.M(i, far)
    spread = AtMost(
        both * up,
        both * R(i),
        (i, near, far),
        says="R_i is at least every difference of compatibilities of two visible keys",
        sample={
            R: lambda i: Fraction(1, 4) + total(lambda j, k: _gap(i, j, k) ** 2, over=(m, m)) * Fraction(1, 2),
        },
    )
    slack = Tensor(
        "slack",
        (n, m, m),
        "nonnegative",
        lambda i, j, k: H.M(i, j) * H.M(i, k) * R(i) - H.M(i, j) * H.M(i, k) * (sign * (H.b(i, j) - H.b(i, k))),
        fact=spread,
    )
    gradient = Diff(H.L(), H.s(i, j))
    claim = AtMost(
        sign * gradient,
        H.a(i, j) * (1 - H.a(i, j)) * R(i),
        (i, j),
        (sees, spread),
        sample={H.s: None, H.v: None},
    )
    one = total(lambda k: H.a(i, k), over=m)
    pairs = H.a(i, j) * total(lambda k: H.a(i, k) * (1 - delta(j, k)) * (R(i) - sign * (H.b(i, j) - H.b(i, k))), over=m)
    other = Tensor("different", (m, m), "indicator", lambda j, k: 1 - delta(j, k), tex=r"\bar\delta")
    mean = total(lambda k: H.a(i, k) * H.b(i, k), over=m)
    proof = (
        Chain(claim.rhs - claim.lhs)
        .rewrite(
            H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * H.a(i, j) * (H.b(i, j) - H.bbar(i)),
            "the routing law",
            routing,
        )
        .definition(
            H.a(i, j) * ((1 - H.a(i, j)) * R(i) - sign * (1 * H.b(i, j) - mean)), "the mean, written out", H.bbar
        )
        .rewrite(
            H.a(i, j) * ((one - H.a(i, j)) * R(i) - sign * (one * H.b(i, j) - mean)),
            "the weights sum to one",
            normalised,
            lambda h: H.a(i, j) * ((h(i) - H.a(i, j)) * R(i) - sign * (h(i) * H.b(i, j) - mean)),
        )
        .algebra(pairs, "the difference to each other key, weighted; key j itself drops out")
        .definition(
            H.a(i, j) * total(lambda k: H.a(i, k) * other(j, k) * slack(i, j, k), over=m),
            "each term is at least 0, since R is at least the difference",
            other,
            slack,
            H.a,
        )
    )
    return claim, R, proof

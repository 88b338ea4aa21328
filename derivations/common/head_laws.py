"""The laws of the head as they stand in the catalogue, with their corollaries.

dL/ds_ij = a_ij (b_ij - bbar_i)        dL/dv_j = sum_i a_ij u_i        dL/dq_i = scale * Cov_{a_i}(b_i, k)
"""

from __future__ import annotations

from functools import cache

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import exp, inv, lift, total
from derivations.common.notation import HEAD
from derivations.common.softmax import SEES
from derivations.laws import instance_of

H = HEAD

i, j, k = H.i, H.j, H.k

n, m = H.rows, H.columns

EVERY_ROW_SEES = Equation(SEES.lhs, SEES.rhs, (i,), says="every query sees at least one key")


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

"""Family C: what one plain gradient step of size eta does, to first order unless a part says exactly.

    dv_j = -eta sum_l a_lj u_l        ds_ij = eta a_ij A_ij        A_ij = bbar_i - b_ij

First order means: the derivative along the step. A step is a tensor that depends on a time h, and its effect is the
derivative by h.
"""

from __future__ import annotations

from bayesgrad.symbolic.terms import Index, Tensor, Term, total
from derivations.common.notation import HEAD, d_v

H = HEAD

n, m = H.rows, H.columns

i, j, k, l = H.i, H.j, H.k, H.l

c = Index("c", d_v)

eta = Tensor("eta", kind="positive", tex=r"\eta")

h = Tensor("h")

DRAWN = {H.s: None, H.v: None}


def pull(key: Index, component: Index) -> Term:
    """The value gradient: what the queries that attend to a key send it."""
    return total(lambda l: H.a(l, key) * H.u(l, component), over=n)

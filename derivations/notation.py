"""The letters: sizes, indices and tensors of one attention head, as the proofs use them.

    s_ij = scale * sum_e q_ie k_je + beta_ij        a_ij = M_ij exp(s_ij) / Z_i        Z_i = sum_k M_ik exp(s_ik)
    g_ic = sum_j a_ij v_jc                          L = L(g), u_ic = dL/dg_ic: any downstream network
    b_ij = sum_c u_ic v_jc                          bbar_i = sum_j a_ij b_ij       A_ij = bbar_i - b_ij

M is the indicator of an arbitrary set of visible pairs. A row that sees no key has Z_i = 0, hence weights 0, since
1/0 := 0 throughout.
"""

from __future__ import annotations

from derivations.terms import Index, Size, Tensor, exp, inv, total

n = Size("n")
m = Size("m")
d_x = Size("d_x")
d_k = Size("d_k")
d_v = Size("d_v")
C = Size("C", nonempty=True)

i, l = Index("i", n), Index("l", n)
j, k = Index("j", m), Index("k", m)
c = Index("c", d_v)
e = Index("e", d_k)

M = Tensor("M", (n, m), "indicator")
q = Tensor("q", (n, d_k))
key = Tensor("k", (m, d_k))
v = Tensor("v", (m, d_v))
bias = Tensor("beta", (n, m), tex=r"\beta")
scale = Tensor("scale", tex=r"\varsigma")

s = Tensor("s", (n, m), body=lambda i, j: scale() * total(lambda e: q(i, e) * key(j, e), over=d_k) + bias(i, j))
Z = Tensor("Z", (n,), "nonnegative", body=lambda i: total(lambda k: M(i, k) * exp(s(i, k)), over=m))
a = Tensor("a", (n, m), "nonnegative", body=lambda i, j: M(i, j) * exp(s(i, j)) * inv(Z(i)))
g = Tensor("g", (n, d_v), body=lambda i, c: total(lambda j: a(i, j) * v(j, c), over=m))
u = Tensor("u", (n, d_v))
L = Tensor("L", through=(g, u))

b = Tensor("b", (n, m), body=lambda i, j: total(lambda c: u(i, c) * v(j, c), over=d_v))
bbar = Tensor("bbar", (n,), body=lambda i: total(lambda j: a(i, j) * b(i, j), over=m), tex=r"\bar b")
A = Tensor("A", (n, m), body=lambda i, j: bbar(i) - b(i, j))

# the read-out: logits, predicted probabilities and a cross-entropy with any soft targets
z = Tensor("z", (n, C))
Zc = Tensor("Z'", (n,), "positive", body=lambda i: total(lambda d: exp(z(i, d)), over=C))
p = Tensor("p", (n, C), "positive", body=lambda i, d: exp(z(i, d)) * inv(Zc(i)))

"""The letters: sizes, indices and tensors of one attention head, as the proofs use them.

    q_ie = sum_f x_if W_Q,fe (+ c_Q,e)   k, v likewise from x'    s_ij = scale * sum_e q_ie k_je + beta_ij
    a_ij = M_ij exp(s_ij) / Z_i          Z_i = sum_k M_ik exp(s_ik)
    g_ic = sum_j a_ij v_jc               L = L(g), u_ic = dL/dg_ic: any downstream network
    b_ij = sum_c u_ic v_jc               bbar_i = sum_j a_ij b_ij       A_ij = bbar_i - b_ij

M is the indicator of an arbitrary set of visible pairs. A row that sees no key has Z_i = 0, hence weights 0, since
1/0 := 0 throughout. x and x' are the inputs of queries and of keys and values; in self-attention they are one tensor.
"""

from __future__ import annotations

from bayesgrad.symbolic.terms import Index, Size, Tensor, Term, exp, inv, total

n = Size("n")

m = Size("m")

d_x = Size("d_x")

d_k = Size("d_k")

d_v = Size("d_v")

C = Size("C", nonempty=True)

c = Index("c", d_v)

e = Index("e", d_k)

f = Index("f", d_x)


class Head:
    """The tensors of one head with ``rows`` queries and ``columns`` keys; ``x`` is shared in self-attention."""

    def __init__(self, rows: Size = n, columns: Size = m, shared: bool = False):
        self.rows, self.columns = rows, columns
        self.i, self.j, self.l, self.k = (
            Index("i", rows),
            Index("j", columns),
            Index("l", rows),
            Index("k", columns),
        )
        self.x = Tensor("x", (rows, d_x))
        self.memory = self.x if shared else Tensor("x'", (columns, d_x))
        self.W_Q, self.c_Q = Tensor("W_Q", (d_x, d_k), tex="W^Q"), Tensor("c_Q", (d_k,), tex="c^Q")
        self.W_K, self.c_K = Tensor("W_K", (d_x, d_k), tex="W^K"), Tensor("c_K", (d_k,), tex="c^K")
        self.W_V, self.c_V = Tensor("W_V", (d_x, d_v), tex="W^V"), Tensor("c_V", (d_v,), tex="c^V")
        self.M = Tensor("M", (rows, columns), "indicator")
        self.bias = Tensor("beta", (rows, columns), tex=r"\beta")
        self.scale = Tensor("scale", tex=r"\varsigma")
        self.q = Tensor("q", (rows, d_k), body=lambda i, e: self.projected(self.x, self.W_Q, i, e) + self.c_Q(e))
        self.key = Tensor(
            "k", (columns, d_k), body=lambda j, e: self.projected(self.memory, self.W_K, j, e) + self.c_K(e)
        )
        self.v = Tensor(
            "v", (columns, d_v), body=lambda j, c: self.projected(self.memory, self.W_V, j, c) + self.c_V(c)
        )
        self.s = Tensor("s", (rows, columns), body=lambda i, j: self.scale() * self.product(i, j) + self.bias(i, j))
        self.Z = Tensor(
            "Z",
            (rows,),
            "nonnegative",
            lambda i: total(lambda k: self.M(i, k) * exp(self.s(i, k)), over=columns),
        )
        self.a = Tensor(
            "a", (rows, columns), "nonnegative", lambda i, j: self.M(i, j) * exp(self.s(i, j)) * inv(self.Z(i))
        )
        self.g = Tensor("g", (rows, d_v), body=lambda i, c: total(lambda j: self.a(i, j) * self.v(j, c), over=columns))
        self.u = Tensor("u", (rows, d_v))
        self.L = Tensor("L", through=(self.g, self.u))
        self.b = Tensor("b", (rows, columns), body=lambda i, j: total(lambda c: self.u(i, c) * self.v(j, c), over=d_v))
        self.bbar = Tensor(
            "bbar",
            (rows,),
            body=lambda i: total(lambda j: self.a(i, j) * self.b(i, j), over=columns),
            tex=r"\bar b",
        )
        self.A = Tensor("A", (rows, columns), body=lambda i, j: self.bbar(i) - self.b(i, j))

    @staticmethod
    def projected(x: Tensor, W: Tensor, at: Index, component: Index) -> Term:
        """One component of a projected input."""
        return total(lambda f: x(at, f) * W(f, component), over=d_x)

    def product(self, i: Index, j: Index) -> Term:
        """The inner product of a query and a key."""
        return total(lambda e: self.q(i, e) * self.key(j, e), over=d_k)

    @property
    def free(self) -> dict[Tensor, None]:
        """What the evaluator draws directly: queries, keys and values, although they are projections."""
        return {self.q: None, self.key: None, self.v: None}


HEAD = Head()

i, j, l, k = HEAD.i, HEAD.j, HEAD.l, HEAD.k

M, bias, scale = HEAD.M, HEAD.bias, HEAD.scale

q, key, v, s, Z, a, g = HEAD.q, HEAD.key, HEAD.v, HEAD.s, HEAD.Z, HEAD.a, HEAD.g

u, L, b, bbar, A = HEAD.u, HEAD.L, HEAD.b, HEAD.bbar, HEAD.A

# the read-out: logits, predicted probabilities and a cross-entropy with any soft targets
z = Tensor("z", (n, C))

Zc = Tensor("Z'", (n,), "positive", body=lambda i: total(lambda d: exp(z(i, d)), over=C))

p = Tensor("p", (n, C), "positive", body=lambda i, d: exp(z(i, d)) * inv(Zc(i)))

"""A head with a soft cap, a sink and an ALiBi slope: all of its gradients."""

from sympy import Derivative, Function, IndexedBase, Sum, exp, symbols, tanh

from bayesgrad.symbolic import derive, let

n, m, d, d_v = symbols("n m d d_v", integer=True, nonnegative=True)
i, j, k, e, c = symbols("i j k e c", integer=True)
scale, slope, sigma = symbols("scale slope sigma")
cap, L = symbols("cap", positive=True), Function("L")
q, K = IndexedBase("q", shape=(n, d)), IndexedBase("k", shape=(m, d))
v, g, u = IndexedBase("v", shape=(m, d_v)), *(IndexedBase(x, shape=(n, d_v)) for x in "gu")
M, dist, t, s, a, b = (IndexedBase(x, shape=(n, m)) for x in ("M", "dist", "t", "s", "a", "b"))
Z, a_0, bbar = (IndexedBase(x, shape=(n,)) for x in ("Z", "a_0", "bbar"))

let(M[i, j], kind="indicator")  # 1 where query i may see key j
let(t[i, j], scale * Sum(q[i, e] * K[j, e], (e, 0, d - 1)) - slope * dist[i, j])
let(s[i, j], cap * tanh(t[i, j] / cap))
let(Z[i], exp(sigma) + Sum(M[i, k] * exp(s[i, k]), (k, 0, m - 1)), kind="positive")
let(a[i, j], M[i, j] * exp(s[i, j]) / Z[i], kind="nonnegative")
let(g[i, c], Sum(a[i, j] * v[j, c], (j, 0, m - 1)))
let(u[i, c], Derivative(L(g), g[i, c]))  # any loss of the contexts

let(a_0[i], exp(sigma) / Z[i], kind="positive")  # letters to say the gradients with
let(b[i, j], Sum(u[i, c] * v[j, c], (c, 0, d_v - 1)))
let(bbar[i], Sum(a[i, j] * b[i, j], (j, 0, m - 1)))

for x in (s[i, j], t[i, j], q[i, e], K[j, e], v[j, c], scale, slope, sigma, cap):
    derive(L(g), x)

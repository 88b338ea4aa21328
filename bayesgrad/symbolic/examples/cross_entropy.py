"""Cross-entropy with soft targets: the gradient in the logits, and the least risk of a prediction."""

from sympy import Eq, IndexedBase, Le, Sum, exp, log, symbols

from bayesgrad.symbolic import derive, let, prove

n, C = symbols("n", integer=True, nonnegative=True), symbols("C", integer=True, positive=True)
i, c, k = symbols("i c k", integer=True)
z, p, tau = (IndexedBase(name, shape=(n, C)) for name in ("z", "p", "tau"))
Z, m, L = IndexedBase("Z", shape=(n,)), IndexedBase("m", shape=(n,)), symbols("L")
q, r = (IndexedBase(name, shape=(C,), positive=True) for name in "qr")

let(Z[i], Sum(exp(z[i, k]), (k, 0, C - 1)), kind="positive")
let(p[i, c], exp(z[i, c]) / Z[i], kind="positive")
let(m[i], Sum(tau[i, c], (c, 0, C - 1)))
let(L, -Sum(tau[i, c] * log(p[i, c]), (c, 0, C - 1), (i, 0, n - 1)))

derive(L, z[i, c])
sums = [Eq(Sum(x[k], (k, 0, C - 1)), 1) for x in (q, r)]  # q and r are distributions
entropy, risk = (-Sum(q[c] * log(x[c]), (c, 0, C - 1)) for x in (q, r))
prove(Le(entropy, risk), given=sums)

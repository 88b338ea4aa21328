"""RMSNorm with a gain: the gradients, and the one that forgets the mean term."""

from sympy import Derivative, Eq, Function, IndexedBase, Sum, sqrt, symbols

from bayesgrad.symbolic import derive, let, prove

n, d = symbols("n", integer=True, nonnegative=True), symbols("d", integer=True, positive=True)
i, e, f = symbols("i e f", integer=True)
x, xhat, y, u, w = (IndexedBase(name, shape=(n, d)) for name in ("x", "xhat", "y", "u", "w"))
gamma, rho, mu = IndexedBase("gamma", shape=(d,)), IndexedBase("rho", shape=(n,)), IndexedBase("mu", shape=(n,))
eps, L = symbols("eps", positive=True), Function("L")

let(rho[i], sqrt(Sum(x[i, f] ** 2, (f, 0, d - 1)) / d + eps), kind="positive")
let(xhat[i, e], x[i, e] / rho[i])
let(y[i, e], gamma[e] * xhat[i, e])
let(u[i, e], Derivative(L(y), y[i, e]))
let(w[i, e], gamma[e] * u[i, e])
let(mu[i], Sum(w[i, f] * xhat[i, f], (f, 0, d - 1)) / d)

derive(L(y), x[i, e])
derive(L(y), gamma[e])
prove(Eq(Sum(x[i, e] * Derivative(L(y), x[i, e]), (e, 0, d - 1)), eps * d * mu[i] / rho[i] ** 2))

"""Proximal steps are minimisers, the mixture is the softmax, and the pair is not variational."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import bayesgrad as bg
from bayesgrad import em

RNG = np.random.default_rng(1)


def test_the_em_identity(xp):
    pi = RNG.dirichlet(np.ones(5), size=3)
    pi[0] = [0.25, 0.25, 0.5, 0, 0]
    c0, c1 = RNG.normal(size=(2, 3, 5)) * 3
    got = em.em_identity(xp(pi), xp(c0), xp(c1))
    direct = -np.log((pi * np.exp(-c1)).sum(-1)) + np.log((pi * np.exp(-c0)).sum(-1))
    r0, r1 = ((pi * np.exp(-c)) / (pi * np.exp(-c)).sum(-1, keepdims=True) for c in (c0, c1))
    np.testing.assert_allclose(np.asarray(got.loss_change), direct, atol=1e-13)
    np.testing.assert_allclose(np.asarray(got.cost_change), (r0 * (c1 - c0)).sum(-1), atol=1e-13)
    kl = np.where(r0 > 0, r0 * np.log(np.where(r0 > 0, r0, 1) / np.where(r1 > 0, r1, 1)), 0).sum(-1)
    np.testing.assert_allclose(np.asarray(got.divergence), kl, atol=1e-13)
    np.testing.assert_allclose(
        np.asarray(got.loss_change), np.asarray(got.cost_change) - np.asarray(got.divergence), atol=1e-12
    )


def test_responsibilities_are_the_gradient_of_the_loss(xp):
    pi, c, dc = RNG.dirichlet(np.ones(4), size=2), RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4))
    h = 1e-6
    slope = (em.mixture_loss(pi, c + h * dc) - em.mixture_loss(pi, c - h * dc)) / (2 * h)
    np.testing.assert_allclose(np.asarray(em.mixture_loss_change(xp(pi), xp(c), xp(dc))), slope, atol=1e-8)
    np.testing.assert_allclose(np.asarray(em.mixture_responsibilities(xp(pi), xp(c))).sum(-1), 1, rtol=1e-14)


def test_costs_of_any_size(xp):
    got = em.mixture_loss(xp([0.5, 0.5]), xp([5000.0, 5001.0]))
    assert float(got) == pytest.approx(5000 - math.log(0.5 + 0.5 * math.exp(-1)), rel=1e-14)
    assert float(em.mixture_loss(xp([0.5, 0.5]), xp([1.0, np.inf]))) == pytest.approx(1 + math.log(2))


def test_the_e_step_minimises_over_the_simplex(xp):
    a0, b, eta = RNG.dirichlet(np.ones(4), size=(2, 3)), RNG.normal(size=(2, 3, 4)), 0.7
    a0[0, 0] = [0.5, 0.5, 0, 0]
    got = np.asarray(em.proximal_e_step(xp(a0), xp(b), eta=eta))

    def objective(a):
        positive = a > 0
        return (
            a * b + np.where(positive, a * np.log(np.where(positive, a / np.where(a0 > 0, a0, 1), 1)), 0) / eta
        ).sum(-1)

    least = objective(got)
    for _ in range(200):
        other = RNG.dirichlet(np.ones(4), size=(2, 3)) * (a0 > 0)
        other = got + RNG.random() * (other / other.sum(-1, keepdims=True) - got)
        assert np.all(objective(other) >= least - 1e-12)


def test_the_m_step_minimises(xp):
    v0, a, u, eta = RNG.normal(size=(4, 2)), RNG.dirichlet(np.ones(4), size=3), RNG.normal(size=(3, 2)), 0.3
    got = np.asarray(em.proximal_m_step(xp(v0), xp(a), xp(u), eta=eta))

    def objective(v):
        return (a * (u @ v.T)).sum() + ((v - v0) ** 2).sum() / (2 * eta)

    for _ in range(100):
        d = RNG.normal(size=v0.shape)
        # A quadratic: its minimum exceeds nothing, and the excess is |d|^2/(2 eta) in every direction.
        assert objective(got + d) - objective(got) == pytest.approx((d**2).sum() / (2 * eta), rel=1e-9)


def test_attention_is_a_gaussian_mixture(xp):
    q, k, pi, scale = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 5, 4)), RNG.random((2, 5)), 0.6
    pi[0, 1] = 0
    got = np.asarray(em.gaussian_mixture_responsibilities(xp(q), xp(k), priors=xp(pi), scale=scale))
    with np.errstate(divide="ignore"):
        wanted = bg.softmax(scale * q @ k.swapaxes(-1, -2) + np.log(pi)[:, None])
    np.testing.assert_allclose(got, wanted, atol=1e-13)
    # The densities themselves, with priors prop. to pi exp(scale |k|^2 / 2).
    rho = pi * np.exp(scale * (k**2).sum(-1) / 2)
    density = np.exp(-scale * ((q[:, :, None] - k[:, None]) ** 2).sum(-1) / 2) * rho[:, None]
    np.testing.assert_allclose(got, density / density.sum(-1, keepdims=True), atol=1e-13)


def test_the_witness_at_one():
    got = em.not_variational_witness(1.0)
    np.testing.assert_array_equal(got.v, [[5], [-3]])
    np.testing.assert_allclose(
        [got.start, got.after_values, got.after_plain_routing, got.after_natural_routing],
        [1.40761, 1.26111, 2.2359, 3.1035],
        atol=5e-5,
    )


@pytest.mark.parametrize("eta", [1e-3, 0.01, 0.5, 1, 3, 100, 1e4])
def test_a_witness_for_every_step_size_in_high_precision(eta):
    got = em.not_variational_witness(eta)
    assert got.after_values < got.start < min(got.after_plain_routing, got.after_natural_routing)
    with mpmath.workdps(50):
        w, v = mpmath.mpf(float(got.W_O[0, 1])), [mpmath.mpf(float(x)) for x in got.v[:, 0]]

        def loss_and_u(v, a):
            g = sum(x * y for x, y in zip(a, v, strict=True))
            e = [mpmath.exp(x) for x in (0, w * g, -w * g)]
            return mpmath.log(sum(e)), w * (e[1] - e[2]) / sum(e)

        a = [mpmath.mpf(1) / 2] * 2
        start, u = loss_and_u(v, a)
        v = [x - eta * y * u for x, y in zip(v, a, strict=True)]
        middle, u = loss_and_u(v, a)
        mean = sum(x * u * y for x, y in zip(a, v, strict=True))
        natural = [-eta * u * x for x in v]
        plain = [-eta * x * (u * y - mean) for x, y in zip(a, v, strict=True)]
        ends = []
        for s in (plain, natural):
            e = [mpmath.exp(x) for x in s]
            ends.append(loss_and_u(v, [x / sum(e) for x in e])[0])
        for found, exact in zip(got[2:], (start, middle, *ends), strict=True):
            assert found == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("eta", [0.0, -1.0, float("inf")])
def test_eta_is_positive(eta):
    with pytest.raises(ValueError, match="eta: got"):
        em.proximal_e_step(np.ones((1, 1)), np.ones((1, 1)), eta=eta)
    with pytest.raises(ValueError, match="eta: got"):
        em.not_variational_witness(eta)

"""Instances with known right answers that refute a naive reading: each is a theorem whose proof is one example."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import permutations, product

import numpy as np

import bayesgrad
from bayesgrad import bayes, dynamics, em


def check_mixture_without_the_second_condition() -> None:
    """P(theta=c) = 2/3, P(x=theta) = 3/4, P(y=theta) = 4/5: at (c,x) = (0,1) the truth is 14/25, the mixture 2/5."""

    def chance(agree: bool, yes: F) -> F:
        return yes if agree else 1 - yes

    table = {
        (theta, x, y): chance(theta == 0, F(2, 3)) * chance(x == theta, F(3, 4)) * chance(y == theta, F(4, 5))
        for theta, x, y in product((0, 1), repeat=3)
    }
    seen = sum(p for (_, x, _), p in table.items() if x == 1)
    truth = sum(p for (_, x, y), p in table.items() if x == 1 and y == 1) / seen
    mixture = sum(chance(theta == 0, F(2, 3)) * chance(theta == 1, F(4, 5)) for theta in (0, 1))
    assert (truth, mixture) == (F(14, 25), F(2, 5))
    outcomes = np.array([[0.8, 0.2], [0.2, 0.8]])
    naive = bayes.posterior_predictive(np.array([2 / 3, 1 / 3]), outcomes)
    right = bayes.posterior_predictive(np.array([0.4, 0.6]), outcomes)
    assert np.allclose((naive[1], right[1]), (0.4, 0.56), rtol=1e-15)


def check_entropies_that_say_nothing() -> None:
    """(1,0) against (0,1): equal entropies, infinite divergence. (1/3,2/3) against (2/3,1/3): one third of a bit."""
    sure, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert bayes.entropy(sure, units="bits") == bayes.entropy(other, units="bits") == 0
    assert bayes.kl_divergence(sure, other, units="bits") == np.inf
    p, q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])
    assert bayes.entropy(p, units="bits") == bayes.entropy(q, units="bits")
    assert np.isclose(bayes.kl_divergence(p, q, units="bits"), 1 / 3, rtol=1e-14)


def check_inputs_that_know_the_outcome() -> None:
    """x_2 := y_1 breaks the chain rule with inputs: y_1, y_2 fair coins, p(y_1|x) is certain, p(y_1|x_1) is not."""
    together = {}
    for y_1, y_2 in product((0, 1), repeat=2):
        together[(y_1, y_2, y_1)] = F(1, 4)  # (y_1, y_2, x_2)
    given_all = together[(0, 0, 0)] / sum(p for key, p in together.items() if key[2] == 0)
    position_by_position = F(1, 2) * F(1, 2)
    assert (given_all, position_by_position) == (F(1, 2), F(1, 4))


def check_keys_that_know_the_permutation() -> None:
    """key := inverse of value 0: the shown value is 0 in every permutation, not one of V."""
    for size in (2, 3, 4):
        shown = [pi[pi.index(0)] for pi in permutations(range(size))]
        assert set(shown) == {0}
        naive = bayes.bijection_predictive(np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.asarray(0), size=size)
        assert np.allclose(naive, 1 / size)


def check_one_query_gains_what_two_lose() -> None:
    """Feedback reverses: query 1 alone gains eta/9 on its favourite key, with query 2 it loses eta/18."""
    a, u = np.array([[2 / 3, 1 / 3], [3 / 4, 1 / 4]]), np.array([[1.0], [-1.0]])
    alone = dynamics.feedback(a[:1], u[:1], eta=1.0).advantage[0, 0]
    together = dynamics.feedback(a, u, eta=1.0).advantage[0, 0]
    assert np.allclose((alone, together), (1 / 9, -1 / 18), rtol=1e-14)


def check_uniform_attention_behind_a_mask_is_not_neutral() -> None:
    """Causal 2 x 2, uniform where visible, u = (1, 1): dA_21 = eta / 2. Without the mask it is 0."""
    u = np.ones((2, 1))
    causal = dynamics.feedback(np.array([[1.0, 0.0], [0.5, 0.5]]), u, eta=1.0).advantage
    assert causal[1, 0] == 0.5
    assert np.array_equal(dynamics.feedback(np.full((2, 2), 0.5), u, eta=1.0).advantage, np.zeros((2, 2)))


def check_frozen_upstream_has_the_wrong_sign() -> None:
    """One query, a = (2/3,1/3), v = (-1,2), W_O = (-1,1), y = 0: frozen u says +eta/9, the truth is -4 eta/9."""
    a, v, W_O = np.array([[2 / 3, 1 / 3]]), np.array([[-1.0], [2.0]]), np.array([[-1.0, 1.0]])
    z = a @ v @ W_O
    r = bayesgrad.cross_entropy(z, np.array([0])).logit_gradient
    frozen = dynamics.feedback(a, r @ W_O.T, eta=1.0).advantage[0, 0]
    full = dynamics.feedback_full(a, v, r, bayesgrad.softmax(z), W_O, totals=np.ones(1), eta=1.0).advantage[0, 0]
    assert np.allclose((frozen, full), (1 / 9, -4 / 9), rtol=1e-13)


def check_value_gradients_can_vanish_too() -> None:
    """Two equal one-hot rows with opposite pulls: the value gradient is 0."""
    a, u = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.5], [-1.5]])
    assert np.array_equal(bayesgrad.value_gradient(a, u), np.zeros((2, 1)))


def check_the_witness_against_em() -> None:
    """eta = 1, v = (5,-3), W_O = (0,1,-1): the value step lowers the loss, either routing step raises it above the
    start.
    """
    got = em.not_variational_witness(1.0)
    assert got.v.ravel().tolist() == [5.0, -3.0]
    assert got.W_O.ravel().tolist() == [0.0, 1.0, -1.0]
    losses = (got.start, got.after_values, got.after_plain_routing, got.after_natural_routing)
    assert np.allclose(losses, (1.40761, 1.26111, 2.2359, 3.1035), atol=5e-5)


def check_smoothing_with_weights_is_no_smoothed_target() -> None:
    """Class weights and smoothing do not commute into w_i (p_i - smoothed target)."""
    z, y = np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]), np.array([2, 0])
    omega, eps = np.array([0.2, 0.3, 0.5]), 0.2
    got = bayesgrad.cross_entropy(z, y, reduction="sum", class_weights=omega, label_smoothing=eps).logit_gradient
    smoothed = (1 - eps) * np.eye(3)[y] + eps / 3
    naive = omega[y][:, None] * (bayesgrad.softmax(z) - smoothed)
    assert np.abs(got - naive).max() > 1e-2
    assert np.allclose(got.sum(-1), 0, atol=1e-16)

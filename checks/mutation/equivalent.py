"""Mutants that cannot change a result, each with its reason: they survive, and that is no defect of the checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """Why a mutant cannot change a result: ``function``, and where given what stood there ``before`` and ``after``."""

    function: str
    before: str
    after: str
    reason: str

    def covers(self, name: str) -> bool:
        """Whether this explains the mutant of that name."""
        where, _, change = name.partition(": ")
        before, _, after = change.partition(" -> ")
        return where == self.function and self.before in ("", before) and self.after in ("", after)


_NEGATIVE = "axes counted from the end instead of from the start: the same axes"
_NOTHING = "it fills an array that has no entries"
_SQUARED = "only the square of the difference is used"
_SHIFT = "a common shift of the scores changes nothing (softmax.shift-invariance)"
_CHECKS = "it only chooses what an argument check looks at"

_SYMMETRIC = "the distance is symmetric"

EQUIVALENT: tuple[Explained, ...] = (
    *(
        Explained("bayes._excess", before, after, "both branches are right there: where they meet is a choice")
        for before, after in (
            ("q <= 1.5 * p", "q < 1.5 * p"),
            ("q >= 0.75 * p", "q > 0.75 * p"),
            ("0.75 * p", "0.75"),
            ("1.5 * p", "1.5"),
            ("1.5", "2.5"),
            ("0.75", "1.75"),
            ("0.75 * p", "p"),
            ("1.5 * p", "p"),
        )
    ),
    Explained("bayes.total_variation", "_two(p, q, validate)", "_two(q, p, validate)", _SYMMETRIC),
    Explained("bayes.total_variation", "p_ - q_", "q_ - p_", _SYMMETRIC),
    Explained("bayes.bijection_predictive", "xp.ones", "xp.zeros", "only its dtype is used"),
    Explained("bayes._filter", "xp.zeros_like", "xp.ones_like", _NOTHING),
    Explained("bayes.hmm_filter", "", "_filter(xp, pi, T, likelihood, 'observations', validate)", _CHECKS),
    Explained("bayes.sticky_markov_predictive", "", "_filter(xp, pi, P, exponent, 'x', validate)", _CHECKS),
    Explained("_cross_entropy.cross_entropy", "xp.zeros_like", "xp.ones_like", "the target mass there is 0"),
    *(
        Explained("dynamics._visible_range", before, after, "without keys the bound has no entries to put it into")
        for before, after in (
            ("xp.sum(b, axis=-1, keepdims=True)", "xp.sum(b, axis=-2, keepdims=True)"),
            ("-1", "1"),
            ("1", "0"),
        )
    ),
    Explained("_softmax.weights_of", "xp.zeros_like", "xp.ones_like", _NOTHING),
    Explained("_softmax.log_weights_of", "xp.zeros_like", "xp.ones_like", _NOTHING),
    Explained(
        "_softmax.weights_of",
        "weights.device.type == 'cpu'",
        "weights.device.type != 'cpu'",
        "both branches give the same weights; which is quicker depends on the device",
    ),
    Explained("_softmax.fisher", "-1", "1", "the axis is added to a vector: its last place is also its second"),
    Explained("_cross_entropy.target_mass", "1", "2", "with one class probabilities and gradients do not depend on it"),
    Explained(
        "_cross_entropy.target_mass", "1", "0", "without classes or positions it divides an array without entries"
    ),
    Explained(
        "_cross_entropy.cross_entropy", "0", "1", "a row without target mass has gradient 0 from the formula as well"
    ),
    Explained(
        "_head._value_centre", "1", "2", "any centre of the values gives the same results, and with m = 1 half is one"
    ),
    Explained(
        "_head.scores_and_weights",
        "None if not _arrays.symbolic(xp) else head.mask",
        "head.mask if not _arrays.symbolic(xp) else None",
        "the scores of hidden pairs are -inf already, so that the mask changes nothing a second time",
    ),
    Explained("gradients.mean_compatibility", "", "_arrays.widen(xp, context, u)", "the product of u and g commutes"),
    Explained(
        "_head.run_backward", "u * made.relative", "u", "the mean is taken out a second time: it costs digits only"
    ),
    *(Explained("heads._exchanged", f"axes - {number}", f"-{number}", _NEGATIVE) for number in (1, 2, 3)),
    Explained("_parameters.over_positions", "", "len(product.shape) >= 2", "a sum over no axes is the array itself"),
    Explained("block.attention_block_gradients", "True", "False", _CHECKS),
    Explained("dynamics.loss_decrease", "0", "1", "which gradient gives the sum its dtype: all have the same"),
    Explained("dynamics.loss_change", "", "_arrays.widen(xp, step, gradient)", "gradient times step commutes"),
    Explained(
        "em.gaussian_mixture_responsibilities",
        "xp.expand_dims(wide_q, axis=-2) - xp.expand_dims(wide_k, axis=-3)",
        "xp.expand_dims(wide_k, axis=-3) - xp.expand_dims(wide_q, axis=-2)",
        _SQUARED,
    ),
    Explained(
        "em.not_variational_witness", "np.ones", "np.zeros", "queries of 0 and of 1 have the same scores on keys of 0"
    ),
    Explained("em.not_variational_witness", "np.zeros", "np.ones", _SHIFT),
    Explained(
        "em.not_variational_witness",
        "v - rate * got.values",
        "rate * got.values - v",
        "the two classes that are not the target change roles: the losses are symmetric in them",
    ),
    Explained("em.not_variational_witness", "s - rate * got.scores", "-(rate * got.scores)", "the scores s are 0"),
    Explained("em.not_variational_witness", "s - rate * got.weights", "-(rate * got.weights)", "the scores s are 0"),
)
"""Survivors that are no defects of the checks, each with its reason."""


def explanation(name: str) -> str:
    """Why the mutant of that name is equivalent, or nothing."""
    return next((row.reason for row in EQUIVALENT if row.covers(name)), "")

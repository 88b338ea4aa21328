"""Code mutants that cannot change a result, each with its reason: they survive, and that is no defect of the checks.

A mutant is named by its function, its operator and which of the function's mutants by that operator it is, so that a
new layout or a renamed variable orphans no reason. `python -m checks --mutants` prints the three of every survivor, and
fails where a check kills a mutant that is explained here.
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.mutation.mutate import Key


@dataclass(frozen=True)
class Explained:
    """Why mutants of one function by one operator cannot change a result; ``nth`` says which, counted from 1."""

    function: str
    operator: str
    nth: tuple[int, ...]
    reason: str


_NEGATIVE = "axes counted from the end instead of from the start: the same axes"
_NOTHING = "it fills an array that has no entries"
_SHIFT = "a common shift of the scores changes nothing (softmax.shift-invariance)"
_CHECKS = "it only chooses what an argument check looks at"
_LENGTHS = "strict compares two lengths, which are equal"
_TILE = "how many queries are in a tile changes no result"
_CLEARED = "a row that sees nothing is masked again in its context and in its upstream gradient"
_EARLIER = "a corner may begin earlier: what it shows there is computed"
_ONE_COLUMN = "a mask of one column is the same after it was cut to the keys of the tile"
_SYMMETRIC = "the distance is symmetric"

EQUIVALENT: tuple[Explained, ...] = (
    Explained("_softmax.weights_of", "operation exchanged", (1,), _NOTHING),
    Explained(
        "_softmax.weights_of",
        "boundary moved",
        (2,),
        "both branches give the same weights; which is quicker depends on the device",
    ),
    Explained("_softmax.log_weights_of", "operation exchanged", (1,), _NOTHING),
    Explained(
        "_softmax.fisher", "sign flipped", (2,), "the axis is added to a vector: its last place is also its second"
    ),
    Explained(
        "_cross_entropy.target_mass",
        "constant changed",
        (8,),
        "with one class probabilities and gradients do not depend on it",
    ),
    Explained(
        "_cross_entropy.target_mass",
        "constant changed",
        (9, 13),
        "without classes or positions it divides an array without entries",
    ),
    Explained(
        "_cross_entropy.cross_entropy",
        "constant changed",
        (3,),
        "a row without target mass has gradient 0 from the formula as well",
    ),
    Explained("_cross_entropy.cross_entropy", "operation exchanged", (2, 3), "the target mass there is 0"),
    Explained(
        "_head.scores_and_weights",
        "operation exchanged",
        (1,),
        "the scores of hidden pairs are -inf already, so that the mask changes nothing a second time",
    ),
    Explained(
        "_head._value_centre",
        "constant changed",
        (4,),
        "any centre of the values gives the same results, and with m = 1 half is one",
    ),
    Explained("_parameters.over_positions", "boundary moved", (1,), "a sum over no axes is the array itself"),
    Explained("gradients.mean_compatibility", "arguments swapped", (2,), "the product of u and g commutes"),
    Explained("heads._exchanged", "term dropped", (4, 6, 8), _NEGATIVE),
    Explained("block.attention_block_gradients", "constant changed", (7,), _CHECKS),
    Explained(
        "dynamics.loss_decrease", "constant changed", (5,), "which gradient gives the sum its dtype: all have the same"
    ),
    Explained("dynamics.loss_change", "arguments swapped", (2,), "gradient times step commutes"),
    Explained("dynamics._visible_range", "axis changed", (1,), "without keys the bound has no entries to put it into"),
    Explained("dynamics._visible_range", "sign flipped", (2,), "without keys the bound has no entries to put it into"),
    Explained(
        "dynamics._visible_range", "constant changed", (4,), "without keys the bound has no entries to put it into"
    ),
    Explained("em.em_identity", "operation exchanged", (2,), "it is multiplied by a responsibility of 0"),
    Explained(
        "em.gaussian_mixture_responsibilities", "arguments swapped", (4,), "only the square of the difference is used"
    ),
    Explained(
        "em.not_variational_witness",
        "operation exchanged",
        (1,),
        "queries of 0 and of 1 have the same scores on keys of 0",
    ),
    Explained("em.not_variational_witness", "operation exchanged", (2, 3), _SHIFT),
    Explained(
        "em.not_variational_witness",
        "arguments swapped",
        (13,),
        "the two classes that are not the target change roles: the losses are symmetric in them",
    ),
    Explained("em.not_variational_witness", "term dropped", (14, 18), "the scores s are 0"),
    Explained("bayes._excess", "boundary moved", (3, 4), "both branches are right there: where they meet is a choice"),
    Explained(
        "bayes._excess", "operation exchanged", (4,), "where only one of both is 0, their ratio is not near 1 already"
    ),
    Explained("bayes._excess", "operation exchanged", (5,), "the series is used only where the ratio is near 1"),
    Explained(
        "bayes._excess", "operation exchanged", (6,), "one more term of the series, 0.04^12: below float64's rounding"
    ),
    Explained("bayes.total_variation", "arguments swapped", (1, 6), _SYMMETRIC),
    Explained("bayes.bijection_predictive", "operation exchanged", (1,), "only its dtype is used"),
    Explained("bayes._filter", "operation exchanged", (2,), _NOTHING),
    Explained("bayes.hmm_filter", "arguments swapped", (19,), _CHECKS),
    Explained("bayes.sticky_markov_predictive", "arguments swapped", (21,), _CHECKS),
    Explained(
        "bayes.sticky_markov_predictive", "constant changed", (10,), "any exponent of that size stands for certainty"
    ),
    Explained("bayes.sticky_markov_predictive", "boundary moved", (1, 2), "at the boundary both branches are equal"),
    Explained("fused.attention_block_gradients", "constant changed", (7,), _LENGTHS),
    Explained("fused.attention_block_gradients", "constant changed", (12, 13, 14), _TILE),
    Explained("fused.attention_block_gradients", "term dropped", (1, 2), _TILE),
    Explained("fused._Sweep.block", "constant changed", (17,), _LENGTHS),
    Explained("fused._Sweep._empty", "constant changed", (1,), _LENGTHS),
    Explained(
        "fused._Sweep._problem",
        "operation exchanged",
        (3,),
        "a bias alone at keys that nobody sees is finite and meets weights of 0",
    ),
    Explained("fused._Sweep._problem", "sign flipped", (4, 5, 6), _NEGATIVE),
    Explained("fused._Sweep._tiles", "sign flipped", (5,), "0 - 0 is 0 + 0"),
    Explained("_tiles.NumPyOperations.clear", "constant changed", (1,), _CLEARED),
    Explained("_tiles.TorchOperations.clear", "constant changed", (1,), _CLEARED),
    Explained("_tiles.NumPyOperations.log_softmax", "sign flipped", (2, 4), _NEGATIVE),
    Explained("_tiles.TorchOperations.log_softmax", "sign flipped", (1,), _NEGATIVE),
    Explained("_tiles.TorchOperations.take_out_mean", "arguments swapped", (1,), "the product commutes"),
    Explained("_tiles.operations", "operation exchanged", (1,), "what is of neither library is refused later"),
    Explained("_tiles.Visibility._corner", "sign flipped", (1,), _EARLIER),
    Explained("_tiles.Visibility._corner", "term dropped", (1, 4), _EARLIER),
    Explained("_tiles.Visibility._corner", "constant changed", (3,), _EARLIER),
    Explained("_tiles.Visibility._corner", "boundary moved", (1,), "a corner without columns hides nothing"),
    Explained("_tiles.Visibility._corner", "sign flipped", (8,), _NEGATIVE),
    Explained("_tiles.Visibility.visible", "boundary moved", (2,), _ONE_COLUMN),
    Explained("_tiles.Visibility.visible", "constant changed", (7,), _ONE_COLUMN),
    Explained(
        "_tiles.Visibility.hide", "boundary moved", (1,), "where every row of a tile sees a key nothing is cleared"
    ),
    Explained("_tiles.Visibility.hide", "sign flipped", (3,), _NEGATIVE),
    Explained("_tiles.Visibility.seen", "constant changed", (3,), "every query is written below"),
    Explained("_tiles.Visibility.seen", "sign flipped", (2,), _NEGATIVE),
    Explained("_tiles.Targets.__init__", "sign flipped", (1, 2), _NEGATIVE),
    Explained(
        "_tiles.Targets.__init__", "constant changed", (3,), "without target mass the residual is 0 by its formula"
    ),
    Explained("_tiles.Targets.residual", "operation exchanged", (1,), "it is multiplied by a target mass of 0"),
)
"""Survivors that are no defects of the checks, each with its reason."""

REASONS: dict[Key, str] = {(row.function, row.operator, nth): row.reason for row in EQUIVALENT for nth in row.nth}


def explanation(key: Key) -> str:
    """Why the mutant of that key is equivalent, or nothing."""
    return REASONS.get(key, "")

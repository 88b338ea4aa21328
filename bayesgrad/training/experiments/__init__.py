"""The experiments by id. Each is a plan of runs, criteria written before them, and a summary that fills the record."""

from bayesgrad.training.experiments.base import SIZES, Experiment
from bayesgrad.training.experiments.bijection import BIJECTION
from bayesgrad.training.experiments.frame_precision import FRAME_PRECISION
from bayesgrad.training.experiments.hmm import HMM
from bayesgrad.training.experiments.laws_in_training import LAWS_IN_TRAINING
from bayesgrad.training.experiments.sticky_markov import STICKY_MARKOV

EXPERIMENTS: dict[str, Experiment] = {
    e.id: e for e in (LAWS_IN_TRAINING, STICKY_MARKOV, FRAME_PRECISION, BIJECTION, HMM)
}

__all__ = ["EXPERIMENTS", "SIZES", "Experiment", "experiment"]


def experiment(name: str) -> Experiment:
    """The experiment called ``name``; ValueError with the known names otherwise."""
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment: got {name!r}, expected one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]

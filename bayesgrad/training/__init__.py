"""The harness: train small attention models, watch the laws while they learn, judge claims by criteria fixed before.

A run is a pure function of (config, seed); an experiment is a plan of runs and a summary; a record is what remains of
an experiment and all that a report may read. ``python -m bayesgrad.training --list`` shows what there is. Modules that
decide *what* to run (config, experiments, records) import no torch, so that finding everything fresh stays instant;
torch is imported only by the modules that compute (loop, model, gradients, updates, laws).
"""

from bayesgrad.training.config import Config, from_json

__all__ = ["Config", "from_json"]

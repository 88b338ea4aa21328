"""Measured budgets: ``python -m benchmarks`` prints each budget beside its measurement, against peers in the same
run."""

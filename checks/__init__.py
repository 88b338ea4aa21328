"""Numbers against theorems: every law on random tiny inputs, against oracles that share no code with it.

``pytest checks/`` ends with the ledger; ``python -m checks`` does the same unless nothing changed since the last run.
"""

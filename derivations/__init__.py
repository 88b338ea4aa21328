"""Proofs of the gradient laws for symbolic sizes.

Only :mod:`bayesgrad.symbolic.proof` may say "proved"; ``python -m derivations`` lists what there is.
"""

"""The proof engine: a language of indexed sums and derivatives, rules, and the kernel that decides.

Only :mod:`bayesgrad.symbolic.proof` may say "proved".
"""

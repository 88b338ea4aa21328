"""Oracles: more independent ways to the same numbers, and the tables that bind them to the quantities of the checks.

``padded``       reverse mode: JAX on explicit operations, float64, in blocks of one size; where JAX is installed
``tangents``     forward mode: PyTorch's dual numbers on explicit operations, float64
``differences``  central differences in 50 digits (mpmath) of loops written from the definition, with Taylor remainders
``loops``        the definitions as loops over Python numbers: floats, fractions or mpmath's
``exact``        posteriors by enumeration in fractions

``heads``, ``layers``, ``dynamics``, ``em`` and ``chances`` are the tables, a file a family; the oracles that they share
with the judge of kernels are in :mod:`bayesgrad.testing.oracles`.
"""

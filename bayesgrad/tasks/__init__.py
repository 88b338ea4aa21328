"""Samplers and exact predictives (NumPy only): every number is a pure function of an explicit generator.

A task answers three questions: what does the model see, what should it say, and what would Bayes say? No supervised
position may have its own target as its input; each sampler returns what a test needs to assert that.

Every task is a module with a sampler, ``predictive(...)``, the exact answer at every position, and floors: what is left
without context, or with a window of it.
"""

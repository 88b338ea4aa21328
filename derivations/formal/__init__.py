"""Proofs in Coq, for all sizes, of the statements in ``Statements.v``.

``python -m derivations.formal`` (``make formal``) compiles everything from clean, compares every theorem with its
committed statement, looks at the axioms it rests on, and writes the evidence.
"""

"""Lemmas that carry the inequalities."""

"""Closed-form gradients of attention under cross-entropy."""

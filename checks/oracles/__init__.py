"""Oracles bound to the quantities that the checks ask about, a file a family."""

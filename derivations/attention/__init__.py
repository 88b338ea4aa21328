"""The head."""

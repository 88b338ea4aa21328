"""The loss at the read-out."""

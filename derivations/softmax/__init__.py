"""The softmax of the scores."""

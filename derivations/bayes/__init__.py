"""Cross-entropy and Bayes."""

"""What several results share: letters, the laws of any head, lemmas over any set; no module here is a result."""

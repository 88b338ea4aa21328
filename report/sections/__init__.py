"""The report's sections, in the order in which a reader needs them; each builds its part of the document tree."""

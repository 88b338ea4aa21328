"""Other ways to the same laws: exact instances at small sizes, the shipped code on symbols, enumeration."""

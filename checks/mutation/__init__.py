"""Code mutants: changed sources of the package, each of which some check must notice."""

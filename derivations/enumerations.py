"""Results about finite families of models, established by listing every case in exact rationals."""

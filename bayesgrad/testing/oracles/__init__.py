"""Independent ways to the same numbers; none imports bayesgrad's forward map, and none another's.

``reverse``      reverse mode: PyTorch autograd on explicit operations, float64
``padded``       reverse mode: JAX on explicit operations, float64, in blocks of one size; where JAX is installed
``tangents``     forward mode: PyTorch's dual numbers on explicit operations, float64
``forward``      forward mode: jets on their own forward map, in NumPy, with running error bounds
``differences``  central differences in 50 digits (mpmath) of loops written from the definition, with Taylor remainders
``loops``        the definitions as loops over Python numbers: floats, fractions or mpmath's
"""

"""Independent ways to the same numbers; none imports bayesgrad's forward map, and none another's.

``reverse``      PyTorch autograd on explicit operations, float64
``forward``      jets: forward mode on its own forward map, in NumPy, with running error bounds
``differences``  central differences in 50 digits (mpmath) of loops written from the definition, with Taylor remainders
``loops``        the definitions as loops over Python numbers: floats, fractions or mpmath's
"""

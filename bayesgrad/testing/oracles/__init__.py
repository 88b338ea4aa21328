"""Independent ways to the same numbers; none imports bayesgrad's forward map, and none another's.

``reverse``   reverse mode: PyTorch autograd on explicit operations, float64
``forward``   forward mode: jets on their own forward map, in NumPy, with running error bounds
``textbook``  the formulas by hand in the format under test, with the rounding errors that they may make
"""

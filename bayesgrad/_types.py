"""Shapes in annotations, free at run time: ``Floats[Array, "*batch queries keys"]``.

The words are those of the notation: ``queries`` (n), ``keys`` (m), ``width`` (d_k), ``values`` (d_v), ``classes`` (C).
jaxtyping is imported only where somebody imported it already (the tests do, through its import hook, and then beartype
enforces every shape). Otherwise a stand-in with the same spelling costs nothing, so that ``import bayesgrad`` stays
cheap.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

Array = Any
"""Any array of an array-API namespace, or a symbolic array (see :mod:`bayesgrad._arrays`)."""

if TYPE_CHECKING:
    from jaxtyping import Bool as Bools
    from jaxtyping import Float as Floats
    from jaxtyping import Int as Ints
elif "jaxtyping" in sys.modules:
    from jaxtyping import AbstractDtype

    class Floats(AbstractDtype):
        """Real floating numbers, or the objects of a symbolic array."""

        dtypes = ("float16", "bfloat16", "float32", "float64", "object_", "object")

    class Bools(AbstractDtype):
        """Booleans."""

        dtypes = ("bool", "bool_")

    class Ints(AbstractDtype):
        """Integers."""

        dtypes = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
else:

    class _Anything:
        def __class_getitem__(cls, _: object) -> Any:
            return Any

    class Floats(_Anything):
        """Real floating numbers."""

    class Bools(_Anything):
        """Booleans."""

    class Ints(_Anything):
        """Integers."""


Scale = Any
"""A real number, or an array without axes."""

Real = float | int
"""A real number; NumPy's own scalars count."""

"""Types of the public functions: the caller's array type in and out, with shapes that cost nothing at run time.

``Floats[ArrayT, "*batch queries keys"]`` is, to a type checker, the caller's own array type: NumPy in, NumPy out. The
words of a shape are those of the notation: ``queries`` (n), ``keys`` (m), ``width`` (d_k), ``values`` (d_v),
``classes`` (C).

The tests load the package through jaxtyping's import hook, and then beartype checks every shape in every call.
Otherwise a stand-in with the same spelling keeps ``import bayesgrad`` cheap and free of jaxtyping.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar

__all__ = ["Align", "Array", "ArrayT", "Bools", "Floats", "Generic", "Ints", "Real", "Reduction", "Units"]

Align = Literal["upper-left", "lower-right"]
"""Where a causal mask starts: query i stands at key i, or at key i + m - n."""

Reduction = Literal["mean", "sum", "none"]
"""How the losses of the positions become one."""

Units = Literal["nats", "bits"]
"""The unit of an information."""

if TYPE_CHECKING:
    # To a type checker a shape is a remark beside the array's type.
    from typing import Annotated as Bools
    from typing import Annotated as Floats
    from typing import Annotated as Ints
    from typing import Generic, Protocol

    class Array(Protocol):
        """Any array of an array-API library, or a symbolic array (see :mod:`bayesgrad._arrays`)."""

        @property
        def shape(self) -> tuple[Any, ...]: ...

        @property
        def dtype(self) -> Any: ...

    ArrayT = TypeVar("ArrayT", bound=Array)

    Real = float | Array
    """A real number, or an array without axes."""
else:
    # At run time annotations are shapes alone: a symbolic array and a traced array are arrays too.
    Array = Real = Any
    ArrayT = TypeVar("ArrayT")

    class _NoBase:
        def __mro_entries__(self, _: object) -> tuple[type, ...]:
            return ()

    class Generic:
        """``class Result(NamedTuple, Generic[ArrayT])`` is a plain named tuple at run time.

        beartype, which the tests put under every annotation, refuses generic named tuples.
        """

        def __class_getitem__(cls, _: object) -> _NoBase:
            return _NoBase()

    if "jaxtyping" in sys.modules:
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

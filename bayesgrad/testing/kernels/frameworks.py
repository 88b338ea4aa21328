"""The array libraries that a kernel may be written in: how arrays get in and out, and who takes the derivative.

A library is used in the process of the kernel only, and imported there. Arrays come in by DLPack, or a copy where a
library has none; results come out by DLPack, in whatever dtype they have. Libraries whose arrays cannot be written to
have no memory layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Forward = Callable[..., tuple[Any, ...]]


def arranged(x: np.ndarray, memory: str, library: Any = np) -> tuple[Any, Callable[[Any], Any]]:
    """An array to copy, and the view of the copy that has the entries of ``x``: NaN lies between and beside them."""
    if memory == "transposed" and x.ndim > 1:
        return x.swapaxes(-1, -2), lambda base: base.swapaxes(-1, -2)
    if memory == "sliced" and x.ndim > 0:
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 2)], constant_values=np.nan), lambda base: base[..., 1:-2]
    if memory == "every" and x.ndim > 0:
        wide = np.full((*x.shape, 2), np.nan, dtype=x.dtype)
        wide[..., 0] = x
        return wide.reshape(*x.shape[:-1], -1), lambda base: base[..., ::2]
    if memory == "expanded" and x.size:
        return x.reshape(-1)[:1], lambda base: library.broadcast_to(base, x.shape)
    return x, lambda base: base


class Numpy:
    """NumPy arrays; only backward functions."""

    derives: tuple[str, ...] = ()
    mutable = True
    placed = False

    def __init__(self, device: str = "") -> None:
        pass

    def give(self, x: np.ndarray, dtype: str, memory: str) -> Any:
        """An array of the library, in memory as asked."""
        base, view = arranged(x, memory)
        return view(np.array(base, order="C"))

    def take(self, y: Any) -> tuple[np.ndarray, str]:
        """NumPy's view of a result, if it can be one, and the name of its dtype. Raises TypeError if it is no array."""
        x = y if isinstance(y, np.ndarray) or not hasattr(y, "__dlpack__") else np.from_dlpack(y)
        x = np.asarray(x)
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{type(y).__name__}, dtype {x.dtype}")
        return x, x.dtype.name

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """The function's results."""
        with np.errstate(all="ignore"):
            return function(*arguments)


class Torch(Numpy):
    """PyTorch tensors on a device (cpu, cuda, ...)."""

    derives = ("vjp", "jvp", "second")
    placed = True

    def __init__(self, device: str = "") -> None:
        import torch

        self.torch, self.device = torch, torch.device(device or "cpu")
        torch.zeros(1, device=self.device)

    def give(self, x: np.ndarray, dtype: str, memory: str) -> Any:
        base, view = arranged(x, memory, self.torch)
        base = np.array(base, order="C")
        tensor = self.torch.from_numpy(base) if base.dtype == bool or not base.size else self.torch.from_dlpack(base)
        return view(tensor.to(self.device, getattr(self.torch, dtype)))

    def take(self, y: Any) -> tuple[np.ndarray, str]:
        if not isinstance(y, self.torch.Tensor):
            return super().take(y)
        name = str(y.dtype).removeprefix("torch.")
        y = y.detach().cpu()
        return (y.float() if y.dtype == self.torch.bfloat16 else y).numpy(), name

    def _cotangents(self, outs: tuple[Any, ...], given: Sequence[Any]) -> list[Any]:
        return [c.to(o.dtype) for o, c in zip(outs, given, strict=True)]

    def vjp(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
        """Results, and the gradients of sum <cotangent, result>."""
        leaves = [x.detach().requires_grad_() for x in leaves]
        outs = f(*leaves)
        used = outs[: len(cotangents)]
        # Not autograd.grad: a kernel may use checkpoints, which only know a plain backward pass.
        self.torch.autograd.backward(used, self._cotangents(used, cotangents))
        return tuple(o.detach() for o in outs), [x.grad for x in leaves]

    def jvp(self, f: Forward, leaves: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The change of the first result along tangents."""
        return self.torch.func.jvp(lambda *x: f(*x)[0], tuple(leaves), tuple(tangents))[1]

    def second(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any], along: Sequence[Any]) -> Any:
        """Gradients of sum <along, gradient> in the leaves and the first cotangent."""
        grad = self.torch.autograd.grad
        leaves = [x.detach().requires_grad_() for x in leaves]
        cotangents = [cotangents[0].detach().requires_grad_(), *cotangents[1:]]
        outs = f(*leaves)[: len(cotangents)]
        first = grad(outs, leaves, self._cotangents(outs, cotangents), create_graph=True)
        total = sum((x * r).sum() for x, r in zip(first, along, strict=False))
        return grad(total, [*leaves, cotangents[0]], allow_unused=True)


class Jax(Numpy):
    """JAX arrays; double precision is switched on by the first float64 that is asked."""

    derives = ("vjp", "jvp", "second")
    placed = True
    mutable = False

    def __init__(self, device: str = "") -> None:
        import jax

        self.jax, self.device = jax, jax.devices(device or None)[0]

    def give(self, x: np.ndarray, dtype: str, memory: str) -> Any:
        if dtype == "float64":
            self.jax.config.update("jax_enable_x64", True)
        return self.jax.device_put(self.jax.numpy.asarray(x, dtype=dtype), self.device)

    def take(self, y: Any) -> tuple[np.ndarray, str]:
        if not isinstance(y, self.jax.Array):
            return super().take(y)
        return np.asarray(y.astype("float32") if y.dtype == "bfloat16" else y), str(y.dtype)

    def vjp(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
        outs, back = self.jax.vjp(lambda *x: tuple(f(*x)), *leaves)
        zeros = [self.jax.numpy.zeros_like(o) for o in outs[len(cotangents) :]]
        given = [c.astype(o.dtype) for o, c in zip(outs, cotangents, strict=False)]
        return outs, back((*given, *zeros))

    def jvp(self, f: Forward, leaves: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return self.jax.jvp(lambda *x: f(*x)[0], tuple(leaves), tuple(tangents))[1]

    def second(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any], along: Sequence[Any]) -> Any:
        def total(*x: Any) -> Any:
            first = self.vjp(f, x[:-1], [x[-1], *cotangents[1:]])[1]
            return sum((g * r).sum() for g, r in zip(first, along, strict=False))

        return self.jax.grad(total, argnums=tuple(range(len(leaves) + 1)))(*leaves, cotangents[0])


class Mlx(Numpy):
    """MLX arrays on the default device."""

    derives = ("vjp", "jvp")
    mutable = False

    def __init__(self, device: str = "") -> None:
        import mlx.core

        self.mx = mlx.core

    def give(self, x: np.ndarray, dtype: str, memory: str) -> Any:
        return self.mx.array(x).astype(getattr(self.mx, "bool_" if dtype == "bool" else dtype))

    def take(self, y: Any) -> tuple[np.ndarray, str]:
        if not isinstance(y, self.mx.array):
            return super().take(y)
        name = str(y.dtype).removeprefix("mlx.core.")
        return np.array(y.astype(self.mx.float32) if name == "bfloat16" else y), name

    def vjp(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
        return self.mx.vjp(lambda *x: list(f(*x)[: len(cotangents)]), list(leaves), list(cotangents))

    def jvp(self, f: Forward, leaves: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return self.mx.jvp(lambda *x: [f(*x)[0]], list(leaves), list(tangents))[1][0]


class Tinygrad(Numpy):
    """tinygrad tensors on the default device."""

    derives = ("vjp",)
    mutable = False

    def __init__(self, device: str = "") -> None:
        import tinygrad

        self.Tensor, self.dtypes = tinygrad.Tensor, tinygrad.dtypes

    def give(self, x: np.ndarray, dtype: str, memory: str) -> Any:
        return self.Tensor(np.ascontiguousarray(x)).cast(getattr(self.dtypes, dtype))

    def take(self, y: Any) -> tuple[np.ndarray, str]:
        if not isinstance(y, self.Tensor):
            return super().take(y)
        names = {"double": "float64", "float": "float32", "half": "float16", "__bf16": "bfloat16"}
        name = names.get(y.dtype.name, y.dtype.name)
        return (y.cast(self.dtypes.float32) if name == "bfloat16" else y).numpy(), name

    def vjp(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
        outs = f(*leaves)
        total = sum(((o * c).sum() for o, c in zip(outs, cotangents, strict=False)), start=self.Tensor(0.0))
        return outs, total.gradient(*leaves)


class Autograd(Numpy):
    """autograd's wrapped NumPy."""

    derives = ("vjp",)
    mutable = False

    def __init__(self, device: str = "") -> None:
        import autograd

        self.autograd = autograd

    def vjp(self, f: Forward, leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, Any]:
        def total(*x: Any) -> Any:
            return sum((o * c).sum() for o, c in zip(f(*x), cotangents, strict=False))

        return f(*leaves), self.autograd.grad(total, tuple(range(len(leaves))))(*leaves)


FRAMEWORKS: dict[str, type[Numpy]] = {
    "numpy": Numpy,
    "torch": Torch,
    "jax": Jax,
    "mlx": Mlx,
    "tinygrad": Tinygrad,
    "autograd": Autograd,
}

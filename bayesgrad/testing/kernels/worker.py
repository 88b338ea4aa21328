"""The process of the kernel: it loads the kernel, calls it on the arrays that come in, and sends back what it returns.

No expected value ever comes here. Frames go through what were standard input and output; whatever the kernel prints
goes to standard error. Every answer carries the number of its question.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from typing import Any

import numpy as np

from bayesgrad.testing.kernels import wire
from bayesgrad.testing.kernels.frameworks import FRAMEWORKS, Numpy


def load(path: str) -> Any:
    """The function that "package.module:name" or "file.py:name" names. Raises ValueError with one sentence."""
    where, _, name = path.rpartition(":")
    if not where or not name:
        raise ValueError(f"function: got {path!r}, expected module:name or file.py:name")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location("function_under_test", where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
    except (Exception, SystemExit) as error:
        raise ValueError(f"function: {where} cannot be imported ({type(error).__name__}: {error})") from None
    if not callable(found):
        raise ValueError(f"function: {where} has no function {name!r}")
    return found


class Kernel:
    """The loaded kernel: how it is called, and how its results are read."""

    def __init__(self, said: dict[str, Any], pickled: bytes) -> None:
        try:
            self.framework: Numpy = FRAMEWORKS[said["framework"]](said["device"])
        except ImportError as error:
            name = said["framework"]
            raise ValueError(f"framework: {name} cannot be imported ({error}); install it, or choose another") from None
        if pickled:
            import cloudpickle

            self.function = cloudpickle.loads(pickled)
        else:
            self.function = load(said["path"])
        self.kind, self.names, self.options = said["kind"], said["names"], said["options"]

    def refusal(self, keywords: list[str]) -> str:
        """Why the function cannot be called with the claimed arguments, or nothing."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return ""
        given = ("q", "k", "v") if self.kind == "forward" else ("q", "k", "v", "u")
        try:
            signature.bind(*given, **{self._name(name)[0]: 0 for name in keywords}, **self.options)
        except TypeError as error:
            return f"function: cannot be called as {', '.join((*given, *keywords))}: {error}"
        return ""

    def optional(self, keywords: list[str]) -> list[str]:
        """Which of some keywords the function takes by name."""
        try:
            parameters = inspect.signature(self.function).parameters
        except (TypeError, ValueError):
            return []
        every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return [name for name in keywords if every or self._name(name)[0] in parameters]

    def _name(self, name: str) -> tuple[str, bool]:
        """The kernel's own name of an argument, and whether it is turned round (True: may not attend)."""
        own = self.names.get(name, name)
        return own.removeprefix("~"), own.startswith("~")

    def _keywords(self, given: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, x in given.items():
            own, turned = self._name(name)
            found[own] = ~x if turned else x
        return {**found, **self.options}

    def call(self, given: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Results by name. ``wanted``: "leaves" that gradients are taken in, "lse" ("yes" or "gradient")."""
        f, of = self.framework, dict(given)
        extra = {name: of.pop(name) for name in list(of) if name.startswith(("tangent ", "second "))}
        if self.kind == "backward":
            positional = [of.pop(name) for name in ("q", "k", "v", "u")]
            got = f.call(lambda *x: self.function(*x, **self._keywords(of)), positional)
            if isinstance(got, dict):
                return got
            if not isinstance(got, tuple | list) or len(got) != 3:
                raise Shape(f"got {type(got).__name__}, expected three arrays (dq, dk, dv), or a dict of them")
            return dict(zip("qkv", got, strict=True))
        cotangents = [of.pop("u")] + ([of.pop("dlse")] if "dlse" in of else [])
        leaves, names = [of[name] for name in wanted["leaves"]], wanted["leaves"]
        number = 1 if wanted["lse"] == "no" else 2

        def forward(*x: Any) -> tuple[Any, ...]:
            now = {**of, **dict(zip(names, x, strict=True))}
            three = [now.pop(name) for name in "qkv"]
            out = self.function(*three, **self._keywords(now))
            if isinstance(out, dict):
                out = tuple(out[name] for name in ("context", "lse") if name in out)
            out = tuple(out) if isinstance(out, tuple | list) else (out,)
            if len(out) < number:
                raise Shape(f"got {len(out)} result, expected the context and the log-sum-exp")
            return out[:number]

        with np.errstate(all="ignore"):
            outs, found = f.vjp(forward, leaves, cotangents)  # type: ignore[attr-defined]
            results = dict(zip(("context", "lse"), outs, strict=False)) | dict(zip(names, found, strict=True))
            three = lambda *x: forward(*x, *leaves[3:])
            if "tangent q" in extra:
                tangents = [extra[f"tangent {name}"] for name in "qkv"]
                results["jvp"] = f.jvp(three, leaves[:3], tangents)  # type: ignore[attr-defined]
            if "second q" in extra:
                along = [extra[f"second {name}"] for name in "qkv"]
                second = f.second(three, leaves[:3], cotangents, along)  # type: ignore[attr-defined]
                results |= {f"second {name}": x for name, x in zip("qkvu", second, strict=True)}
        return results

    def read(self, results: dict[str, Any]) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Results as descriptions and bytes; one that is no array is described by "no"."""
        said, blobs = [], []
        for name, y in results.items():
            try:
                x, dtype = self.framework.take(y)
                about, blob = wire.packed(x)
                said.append({"name": name, "as": dtype, **about})
            except Exception as error:
                said.append({"name": name, "no": f"{type(error).__name__}: {error}"})
                blob = b""
            blobs.append(blob)
        return said, blobs


class Shape(Exception):
    """A result of another form than it must have."""


def _digest(framework: Numpy, x: Any) -> str:
    return hashlib.blake2b(framework.take(x)[0].tobytes(), digest_size=16).hexdigest()


def answer(kernel: Kernel, calls: list[dict[str, Any]], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Call after call; results are read at once, and those that are to be held are read again after the last call."""
    f, said, out = kernel.framework, [], []
    kept: dict[str, Any] = {}
    held: list[dict[str, Any]] = []
    supply = iter(blobs)
    for call in calls:
        given: dict[str, Any] = dict(call["numbers"])
        report: dict[str, Any] = {}
        results: dict[str, Any] = {}
        arrays = [wire.unpacked(about, next(supply)) for about in call["arrays"]]
        try:
            for about, x in zip(call["arrays"], arrays, strict=True):
                name = about["name"]
                before = kept.get(name)
                if call["reuse"] and before is not None and before.shape == x.shape:
                    before[...] = f.give(x, about["as"], "plain")
                    given[name] = before
                    continue
                given[name] = f.give(x, about["as"], about["memory"])
                if call["readonly"]:
                    given[name].flags.writeable = False
            kept = {name: given[name] for about in call["arrays"] if (name := about["name"])}
            results = kernel.call(given, call["wanted"])
        except Shape as error:
            report = {"failed": "shape", "why": str(error)}
        except (Exception, SystemExit) as error:
            first = (str(error).strip().splitlines() or [""])[0]
            report = {"failed": "raised", "why": f"{type(error).__name__}: {first}"}
        report["inputs"] = {name: _digest(f, x) for name, x in kept.items()} if f.mutable else {}
        report["results"], more = kernel.read(results)
        report["shared"] = _shared(f, results, kept)
        out += more
        said.append(report)
        held.append(results if call["hold"] else {})
    for report, results in zip(said, held, strict=True):
        report["held"], more = kernel.read(results)
        out += more
    return {"calls": said}, out


def _shared(framework: Numpy, results: dict[str, Any], inputs: dict[str, Any]) -> list[list[str]]:
    """Pairs of a result and an input (or an earlier result) that lie in the same memory."""
    if not framework.mutable:
        return []
    views: dict[str, np.ndarray] = {}
    found = []
    for name, y in (*((f"its input {n}", x) for n, x in inputs.items()), *((f"d{n}", x) for n, x in results.items())):
        try:
            x = framework.take(y)[0]
            if name.startswith("d"):
                found += [[name, other] for other, z in views.items() if np.shares_memory(x, z, max_work=10000)]  # type: ignore[arg-type]
        except Exception:  # no array, or too entangled to tell: both are other findings
            continue
        views[name] = x
    return found


def main() -> None:
    """Answer until the stream ends."""
    asked, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    kernel: Kernel | None = None
    while (frame := wire.receive(asked)) is not None:
        header, blobs = frame
        reply: tuple[dict[str, Any], list[bytes]]
        if header["job"] == "load":
            try:
                kernel = Kernel(header, blobs[0])
                refused = kernel.refusal(header["keywords"])
                name = getattr(kernel.function, "__qualname__", type(kernel.function).__name__)
                reply = ({"refused": refused, "name": name, "optional": kernel.optional(header["optional"])}, [])
            except (Exception, SystemExit) as error:
                said_ = str(error) if isinstance(error, ValueError) else f"function: {type(error).__name__}: {error}"
                reply = ({"refused": " ".join(said_.split())}, [])
        else:
            assert kernel is not None
            reply = answer(kernel, header["calls"], blobs)
        wire.send(said, {**reply[0], "nonce": header["nonce"]}, reply[1])

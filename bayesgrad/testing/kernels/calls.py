"""One call: a block in the layout of the kernel, what came back in that of the package, and what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array
from bayesgrad.testing.kernels import wire
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.definition import truth
from bayesgrad.testing.kernels.formats import Format
from bayesgrad.testing.kernels.suspect import Finding, Suspect
from bayesgrad.testing.tolerance import compare

KEYWORDS = {"mask": "mask", "scale": "scale", "bias": "bias", "slopes": "slopes", "cap": "softcap", "sink": "sink",
            "dropout": "dropout", "dlse": "dlse"}  # fmt: skip
"""An input of a block -> the keyword by which a kernel gets it, unless it has a name of its own."""

MOVED = ("q", "k", "v", "u", "context", "jvp", "second q", "second k", "second v", "second u")
LAID = ("q", "k", "v", "u")
GIVEN_BACK = ("context", "lse", "q", "k", "v", "bias", "slopes", "sink", "jvp", "second q", "second k", "second v",
              "second u")  # fmt: skip


def keywords(can: Claims, kind: str) -> tuple[str, ...]:
    """What a kernel with these claims must take by keyword."""
    used = {
        "mask": can.handed != "none",
        "scale": can.scale,
        "bias": can.bias != "no",
        "slopes": can.alibi != "no",
        "softcap": can.softcap,
        "sink": can.sink != "no",
        "dropout": can.dropout,
        "dlse": can.lse == "gradient" and kind == "backward",
    }
    return tuple(name for name, needed in used.items() if needed)


@dataclass(frozen=True)
class Question:
    """A kernel with its claims, in one format: what it takes to ask and to judge."""

    suspect: Suspect
    can: Claims
    format: Format
    kind: str = "backward"
    framework: str = "numpy"

    def out(self, name: str, x: Array) -> Array:
        """An input in the kernel's layout."""
        if self.can.layout == "nd":
            return x[0, 0] if x.ndim == 4 else x[0] if name == "dlse" else x
        if self.can.handed == "keys" and name == "mask":
            return x[:, 0, 0]
        return x.swapaxes(1, 2) if self.can.layout == "bnhd" and name.split()[-1] in LAID else x

    def back(self, name: str, x: Array, block: Block) -> Array:
        """A result in the layout of the package."""
        if self.can.layout == "bnhd" and name in MOVED and x.ndim == 4:
            x = x.swapaxes(1, 2)
        shape = self.shape(name, block)
        if self.can.layout == "nd" and x.shape == self.out(name, np.empty(shape)).shape:
            return x.reshape(shape)
        return x

    @staticmethod
    def shape(name: str, block: Block) -> tuple[int, ...]:
        """The shape of a result by its name."""
        if name == "lse":
            return block.q.shape[:3]
        return tuple(getattr(block, {"context": "u", "jvp": "u"}.get(name, name.split()[-1])).shape)

    def message(
        self, block: Block, *, further: Mapping[str, Array] = {}, **how: bool
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The call as a header and bytes. ``how``: reuse (of buffers), readonly, hold (results are read again)."""
        asked = {**block.inputs(), **further}
        n, m = block.q.shape[2], block.k.shape[2]
        numbers: dict[str, Any] = {}
        arrays, blobs = [], []
        must = keywords(self.can, self.kind)
        for name, word in (("mask", "mask"), ("scale", "scale")):
            if word in must or word in self.suspect.optional:
                numbers[word] = None if name == "mask" else block.the_scale
        if block.cap is not None:
            numbers["softcap"] = block.cap
        for name, x in asked.items():
            if not isinstance(x, np.ndarray):
                continue
            if name == "mask" and self.can.handed != "keys":
                x = np.broadcast_to(x, (*x.shape[:2], n, m))
            x = self.out(name, x)
            dtype = "bool" if x.dtype == bool else self.format.array
            native = (
                "bfloat16"
                if self.format.name == "bfloat16" and self.framework != "numpy" and dtype != "bool"
                else dtype
            )
            about, blob = wire.packed(x.astype(dtype))
            memory = block.memory if name in LAID else "plain"
            memory = "plain" if memory == "expanded" and name != "u" else memory
            arrays.append({"name": KEYWORDS.get(name, name), "as": native, "memory": memory, **about})
            blobs.append(blob)
        leaves = ["q", "k", "v"]
        leaves += [name for name in ("bias", "sink") if getattr(self.can, name) == "gradient" and name in asked]
        wanted = {"leaves": leaves, "lse": self.can.lse}
        flags = {"reuse": False, "readonly": False, "hold": False, **how}
        return {"arrays": arrays, "numbers": numbers, "wanted": wanted, **flags}, blobs

    def ask(self, *messages: tuple[dict[str, Any], list[bytes]]) -> list[Answer]:
        """One answer a call, in order. Raises :class:`Finding` if there is none."""
        calls = [call for call, _ in messages]
        reports, blobs = self.suspect.ask(calls, [blob for _, more in messages for blob in more])
        supply = iter(blobs)
        try:
            answers = [
                Answer(report, {}, {}, call, given) for report, (call, given) in zip(reports, messages, strict=True)
            ]
            for part in ("results", "held"):
                for report, answer in zip(reports, answers, strict=True):
                    for said in report[part]:
                        blob = next(supply)
                        x = said if "no" in said else wire.unpacked(said, blob)
                        getattr(answer, part)[str(said["name"])] = (x, str(said.get("as", "")))
        except Exception as error:
            raise Finding("no verdict", f"what came back cannot be read ({type(error).__name__}: {error})") from None
        return answers

    def verdict(self, block: Block, answer: Answer, known: dict[str, tuple[Array, Array]]) -> float:
        """The worst error in tolerances. Raises :class:`Finding` with the first thing that is wrong."""
        report = answer.report
        if "failed" in report:
            raise Finding(str(report["failed"]), str(report["why"]))
        for about, blob in zip(answer.call["arrays"], answer.given, strict=True):
            digest = report["inputs"].get(about["name"])
            if digest is not None and digest != hashlib.blake2b(blob, digest_size=16).hexdigest():
                raise Finding("wrote", f"the kernel changed its input {about['name']}")
        for name, of in report["shared"]:
            raise Finding("shared", f"{name} lies in the memory of {of}")
        return max((self._one(name, block, answer, known) for name in self._judged(answer, known)), default=0.0)

    def _judged(self, answer: Answer, known: dict[str, Any]) -> list[str]:
        needed = {"q", "k", "v", *answer.call["wanted"]["leaves"]}
        missing = sorted(needed - set(answer.results))
        if missing:
            raise Finding("shape", f"d{missing[0]} is missing")
        unknown = sorted(set(answer.results) - set(GIVEN_BACK))
        if unknown:
            raise Finding("shape", f"got a result called {unknown[0]!r}, expected some of {', '.join(GIVEN_BACK)}")
        return [name for name in GIVEN_BACK if name in answer.results and name in known]

    def _one(self, name: str, block: Block, answer: Answer, known: dict[str, tuple[Array, Array]]) -> float:
        x, dtype = answer.results[name]
        word = spoken(name)
        if isinstance(x, dict):
            raise Finding("shape", f"{word} is no array ({x['no']})")
        of = self.back(name, x, block)
        shape = self.shape(name, block)
        if of.shape != shape:
            wanted = self.out(name, np.empty(shape)).shape
            raise Finding("shape", f"{word} has shape {x.shape}, expected {wanted}")
        native = next(about["as"] for about in answer.call["arrays"] if about["name"] == "q")
        if dtype != native and not (name == "lse" and dtype == "float32"):
            raise Finding("dtype", f"{word} is {dtype}, expected {native}, as the inputs")
        expected, admitted = known[name]
        asked = ~np.isnan(expected)
        if not np.all(np.isfinite(of[asked])):
            at = tuple(int(i) for i in np.argwhere(asked & ~np.isfinite(of))[0])
            raise Finding("nan", f"{word}{_place(at, of)} = {float(of[at])!r}, expected {float(expected[at])!r}")
        found = compare(np.where(asked, of, np.nan), expected, admitted)
        if not found.agrees:
            raise Finding(
                "wrong",
                f"{word}{_place(found.index, of)} = {found.got:.9g}, expected {found.expected:.9g} "
                f"(off by {found.in_tolerance:.3g} tolerances of {found.tolerance:.3g})",
            )
        return found.in_tolerance


@dataclass
class Answer:
    """What came back from one call: name -> (array, dtype), at once and after the last call of the question."""

    report: dict[str, Any]
    results: dict[str, tuple[Any, str]]
    held: dict[str, tuple[Any, str]]
    call: dict[str, Any]
    given: list[bytes] = field(default_factory=list)

    def bits(self, part: str = "results") -> dict[str, bytes]:
        """The results as bytes."""
        return {name: b"" if isinstance(x, dict) else x.tobytes() for name, (x, _) in getattr(self, part).items()}


def spoken(name: str) -> str:
    """What a result is called in a report."""
    if name in ("context", "lse", "jvp"):
        return name
    return f"second derivative in {name.split()[1]}" if name.startswith("second") else f"d{name}"


def _place(index: tuple[int, ...], x: Array) -> str:
    """The index, without the leading axes of a single batch and head."""
    lead = 0
    while lead < x.ndim - 2 and x.shape[lead] == 1:
        lead += 1
    return str(list(index[lead:]))


def known(
    block: Block, format: Format, exact: bool, further: Mapping[str, Array] = {}
) -> dict[str, tuple[Array, Array]]:
    """The truth about a block, with the tangents and directions that are asked along."""
    parts = {
        word: {n.split()[1]: x for n, x in further.items() if n.startswith(word)} for word in ("tangent", "second")
    }
    return truth(block, format, exact_scores=exact, tangents=parts["tangent"] or None, second=parts["second"] or None)

"""What somebody else's kernel claims to do: what lies outside is not asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from bayesgrad.testing.kernels.blocks import ALIGNMENTS
from bayesgrad.testing.kernels.formats import FORMATS

LAYOUTS = ("nd", "bhnd", "bnhd")
HANDED = ("none", "keys", "any")
BANDS = ("causal", "window", *(f"{band}-{align}" for band in ("causal", "window") for align in ALIGNMENTS))
USED = ("no", "yes", "gradient")


@dataclass(frozen=True)
class Claims:
    """Declared capabilities. Raises ValueError, with one sentence, for a claim that makes no sense.

    ``masks``: joined by +, at most one of "none", "keys" (padding: one row of booleans a batch) and "any", which the
    kernel is handed, and at most one of "causal-upper-left", "causal-lower-right", "window-..." and, where ``square``
    says n = m, "causal" and "window", which it makes by itself. ``window`` is "left:right", both included.
    ``bias``, ``sink`` and ``lse`` are "no", "yes" or "gradient": the gradient in it (``lse``: from it) is asked too.
    The rest is in ``docs/judge.md``.
    """

    layout: str = "nd"
    masks: str = "any"
    window: str = ""
    square: bool = False
    empty_rows: bool = False
    unseen_nan: bool = False
    no_keys: bool = False
    heads: bool = True
    groups: bool = False
    equal_widths: bool = False
    widths: int = 1
    lengths: int = 1
    largest: int = 130
    widest: int = 256
    fixed_shapes: bool = False
    scale: bool = True
    bias: str = "no"
    alibi: str = "no"
    softcap: bool = False
    sink: str = "no"
    dropout: bool = False
    lse: str = "no"
    huge: bool = True
    subnormal: bool = True
    dtypes: tuple[str, ...] = ("float64", "float32")
    strided: bool = True
    readonly: bool = True
    deterministic: bool = True
    forward_mode: bool = False
    second: bool = False
    seconds: int = 20
    memory: int = 4096

    def __post_init__(self) -> None:
        for field in fields(self):
            value, usual = getattr(self, field.name), field.default
            if isinstance(usual, bool) and not isinstance(value, bool):
                raise ValueError(f"claims: {field.name}: got {value!r}, expected yes or no")
            least = 2 if field.name == "largest" else 1
            if type(usual) is int and (type(value) is not int or value < least):
                raise ValueError(f"claims: {field.name}: got {value!r}, expected a whole number of at least {least}")
        for name, known in (
            ("layout", LAYOUTS),
            ("bias", USED),
            ("sink", USED),
            ("lse", USED),
            ("alibi", ("no", *ALIGNMENTS)),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"claims: {name}: got {getattr(self, name)!r}, expected one of {', '.join(known)}")
        if isinstance(self.dtypes, str) or not self.dtypes or set(self.dtypes) - set(FORMATS):
            raise ValueError(f"claims: dtypes: got {self.dtypes!r}, expected some of {', '.join(FORMATS)}")
        self._look_at_masks()
        for unit, most in ((self.lengths, self.largest), (self.widths, self.widest)):
            if unit > most:
                raise ValueError(f"claims: got multiples of {unit} up to {most}, expected at least one of them")
        if self.layout == "nd" and self.groups:
            raise ValueError("claims: groups: got yes for layout nd, expected a layout with heads, bhnd or bnhd")
        if self.alibi != "no" and self.align not in (None, self.alibi):
            raise ValueError(f"claims: alibi: got {self.alibi} beside masks {self.masks}, expected the same alignment")

    def _look_at_masks(self) -> None:
        words = self.masks.split("+")
        kinds = [[word for word in words if word in known] for known in (HANDED, BANDS)]
        if len(words) != sum(map(len, kinds)) or max(map(len, kinds)) > 1:
            raise ValueError(
                f"claims: masks: got {self.masks!r}, expected at most one of {', '.join(HANDED)} "
                f"and one of {', '.join(BANDS)}, with + between them"
            )
        if kinds[1] and "-" not in kinds[1][0] and not self.square:
            raise ValueError(
                f"claims: masks: got {kinds[1][0]!r}, expected {kinds[1][0]}-upper-left (the first query at the first "
                f"key), {kinds[1][0]}-lower-right (the last at the last), or square, for n = m only"
            )
        parts = self.window.split(":") if self.window else []
        if bool(parts) != any(word.startswith("window") for word in kinds[1]):
            raise ValueError("claims: window: expected masks=window-... and window=left:right, both or neither")
        if parts and (len(parts) != 2 or not all(part.isdecimal() for part in parts)):
            raise ValueError(f"claims: window: got {self.window!r}, expected left:right, such as 4:0")

    @property
    def handed(self) -> str:
        """The kind of mask that the kernel is handed: none, keys or any."""
        return next((word for word in self.masks.split("+") if word in HANDED), "none")

    @property
    def band(self) -> dict[str, Any]:
        """align, left and right of the band that it makes by itself, as a Block has them."""
        word = next((word for word in self.masks.split("+") if word in BANDS), "")
        align = self.align or (self.alibi if self.alibi != "no" else None)
        left, _, right = self.window.partition(":")
        if not word:
            return {"align": align} if align else {}
        return {
            "align": align or "upper-left",
            "left": int(left) if left else None,
            "right": int(right) if right else 0,
        }

    @property
    def align(self) -> str | None:
        """The alignment of its band, where one is claimed."""
        return next((a for a in ALIGNMENTS if self.masks.endswith(a)), None)

    @classmethod
    def parse(cls, text: str | Mapping[str, Any]) -> Claims:
        """Claims from "equal_widths,masks=keys+causal-lower-right,dtypes=float32+float16": a bare name means yes."""
        if not isinstance(text, str):
            if unknown := sorted(set(text) - {field.name for field in fields(cls)}):
                raise ValueError(
                    f"claims: got {unknown[0]!r}, expected some of {', '.join(f.name for f in fields(cls))}"
                )
            return cls(**text)
        claims: dict[str, Any] = {}
        known = {field.name: field.default for field in fields(cls)}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = item.partition("=")
            if name not in known:
                raise ValueError(f"claims: got {name!r}, expected some of {', '.join(known)}")
            if isinstance(known[name], bool):
                claims[name] = {"": True, "yes": True, "no": False}.get(value, value)
            elif isinstance(known[name], int):
                claims[name] = int(value) if value.isdecimal() else value
            else:
                claims[name] = tuple(value.split("+")) if name == "dtypes" else value or "yes"
        return cls(**claims)

    def sentence(self) -> str:
        """What is claimed, where it differs from claiming nothing special."""
        said = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("layout", "masks", "dtypes", "largest") or value != field.default:
                shown = "+".join(value) if isinstance(value, tuple) else {True: "yes", False: "no"}.get(value, value)
                said.append(f"{field.name}={shown}")
        return ", ".join(said)

    def unclaimed(self) -> list[str]:
        """Corners that are asked of nobody who does not claim them, in words."""
        can = {
            "queries without a key": self.empty_rows,
            "NaN at keys that nobody sees": self.unseen_nan,
            "no keys at all": self.no_keys,
            "scores beyond the range of exp": self.huge,
            "subnormal gradients": self.subnormal,
            "other scales than 1/sqrt(d_k)": self.scale,
        }
        return [what for what, claimed in can.items() if not claimed]

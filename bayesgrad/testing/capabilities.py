"""What somebody else's backward function claims to do: what lies outside is not asked of it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from bayesgrad.testing.tolerance import ROUNDOFF

DTYPES = tuple(ROUNDOFF)
MASKS = {"any": "any mask", "rows": "masks that leave each query a key", "none": "no mask"}


@dataclass(frozen=True)
class Capabilities:
    """Declared capabilities; the default claims every case in float64 and float32.

    ``equal_widths``: only d_v = d_k. ``widths``: both are multiples of this. ``masks``: "any", "rows" (no query without
    a key) or "none". ``scale``: any real scale (False: only 1/sqrt(d_k)). ``dtypes``: of float64, float32, float16 and
    bfloat16; NumPy has no bfloat16, so there the arrays are float32 with entries that bfloat16 represents, and a claim
    of it stands alone. ``largest``: the largest n and m. ``empty``: no keys at all. ``unseen_nan``: a key that nobody
    sees may be NaN. ``huge``: scores beyond the range of exp, with weights
    that are exact all the same.

    Raises ValueError, with one sentence, for a claim that makes no sense.
    """

    equal_widths: bool = False
    widths: int = 1
    masks: str = "any"
    scale: bool = True
    dtypes: tuple[str, ...] = ("float64", "float32")
    largest: int = 130
    empty: bool = True
    unseen_nan: bool = True
    huge: bool = True

    def __post_init__(self) -> None:
        for name in ("equal_widths", "scale", "empty", "unseen_nan", "huge"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: got {getattr(self, name)!r}, expected True or False")
        for name, least in (("widths", 1), ("largest", 2)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{name}: got {number!r}, expected a whole number of at least {least}")
        if self.masks not in MASKS:
            raise ValueError(f"masks: got {self.masks!r}, expected any, rows or none")
        if isinstance(self.dtypes, str) or not self.dtypes or set(self.dtypes) - set(DTYPES):
            raise ValueError(f"dtypes: got {self.dtypes!r}, expected some of {', '.join(DTYPES)}")
        if "bfloat16" in self.dtypes and len(self.dtypes) > 1:
            raise ValueError("dtypes: bfloat16 arrives in float32 arrays, so claim it alone, in a run of its own")

    @classmethod
    def parse(cls, text: str) -> Capabilities:
        """Claims from "equal_widths,masks=rows,empty=no,dtypes=float32+float16": a bare name means yes."""
        claims: dict[str, object] = {}
        known = {field.name: field.default for field in fields(cls)}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = item.partition("=")
            if name not in known:
                raise ValueError(f"claims: got {name!r}, expected one of {', '.join(known)}")
            if isinstance(known[name], bool):
                if value not in ("", "yes", "no"):
                    raise ValueError(f"claims: got {item!r}, expected {name}=yes or {name}=no")
                claims[name] = value != "no"
            elif isinstance(known[name], int):
                claims[name] = int(value) if value.isdecimal() else value
            else:
                claims[name] = tuple(value.split("+")) if name == "dtypes" else value
        return cls(**claims)  # type: ignore[arg-type]

    def sentence(self) -> str:
        """What is claimed, in words."""
        said = [MASKS[self.masks], "any scale" if self.scale else "the scale 1/sqrt(d_k) only"]
        said += ["values as wide as keys only"] if self.equal_widths else ["any widths"]
        said += [f"widths that are multiples of {self.widths}"] if self.widths > 1 else []
        said += [f"up to {self.largest} queries and keys", ", ".join(self.dtypes)]
        can = {"no keys": self.empty, "NaN at unseen keys": self.unseen_nan, "huge scores": self.huge}
        return ", ".join((*said, *(what for what, claimed in can.items() if claimed)))

    def padded(self, d_k: int, d_v: int) -> tuple[int, int]:
        """The widths that stand in for d_k and d_v: columns of zeros are added up to what is claimed."""
        if self.equal_widths:
            d_k = d_v = max(d_k, d_v)
        return tuple(-(-d // self.widths) * self.widths for d in (d_k, d_v))  # type: ignore[return-value]

    def claims_corner(self, name: str) -> bool:
        """Whether the corner of that name is claimed."""
        if name == "empty rows":
            return self.masks == "any"
        if name == "a single visible key":
            return self.masks != "none"
        if name == "an unseen key that is NaN":
            return self.unseen_nan and self.masks != "none"
        if name == "no keys":
            return self.empty
        return self.huge or name not in ("tied huge scores", "scores saturated by large queries")

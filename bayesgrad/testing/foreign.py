"""Our checks against somebody else's backward function.

    f(q, k, v, u, *, mask, scale) -> (dq, dk, dv)

takes NumPy arrays q (n, d_k), k (m, d_k), v (m, d_v), u = dL/dg (n, d_v), mask (n, m) of booleans, True = may attend,
or None, and a float scale, and returns the gradients of L = sum u g in q, k and v. What it does not claim to do is
declared as :class:`Capabilities`; a case outside is *not claimed* and counts neither way.

Every case ends in one of: ok, wrong (numbers outside the tolerance, with the smallest example found), nan (not finite
where it must be), shape, wrote (an input was changed), raised. None of these ends the run.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from .corners import CORNERS, Corner
from .engine import derived_seed
from .examples import Array, Head
from .oracles import forward, reverse
from .strategies import heads
from .tolerance import compare, tolerance, unit_roundoff

Backward = Callable[..., Any]
NAMES = ("q", "k", "v")


@dataclass(frozen=True)
class Capabilities:
    """What a function claims to do; the default claims everything.

    ``equal_widths``: only d_v = d_k. ``masks``: "any", "rows" (no query without a key) or "none". ``scale``: any real
    scale (False: only 1/sqrt(d_k)). ``dtypes``: float64 and/or float32. ``largest``: the largest n and m. ``empty``:
    no keys at all. ``unseen_nan``: a key that nobody sees may be NaN. ``huge``: scores beyond the range of exp.
    """

    equal_widths: bool = False
    masks: str = "any"
    scale: bool = True
    dtypes: tuple[str, ...] = ("float64", "float32")
    largest: int = 5
    empty: bool = True
    unseen_nan: bool = True
    huge: bool = True

    def __post_init__(self) -> None:
        if self.masks not in ("any", "rows", "none"):
            raise ValueError(f"masks: got {self.masks!r}, expected any, rows or none")
        unknown = set(self.dtypes) - {"float64", "float32"}
        if unknown or not self.dtypes:
            raise ValueError(f"dtypes: got {self.dtypes!r}, expected float64, float32 or both")

    def sentence(self) -> str:
        """What is claimed, in words."""
        masks = {"any": "any mask", "rows": "masks that leave each query a key", "none": "no mask"}[self.masks]
        said = [masks, "any scale" if self.scale else "the scale 1/sqrt(d_k) only"]
        said += ["values as wide as keys only"] if self.equal_widths else ["any widths"]
        said += [f"up to {self.largest} queries and keys", " and ".join(self.dtypes)]
        said += [what for what, can in (("no keys", self.empty), ("NaN at unseen keys", self.unseen_nan)) if can]
        return ", ".join((*said, "huge scores")) if self.huge else ", ".join(said)


@dataclass
class Case:
    """One line of the ledger of a foreign function."""

    name: str
    verdict: str = "ok"
    detail: str = ""
    example: str = ""
    tried: int = 0
    worst: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the function here."""
        return self.verdict in ("ok", "not claimed")


@dataclass
class Ledger:
    """What the checks found about one function."""

    function: str
    capabilities: Capabilities
    cases: list[Case] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether every claimed case is ok."""
        return all(case.good for case in self.cases)

    def lines(self) -> list[str]:
        """The ledger as plain text."""
        width = max(len(case.name) for case in self.cases)
        out = [f"{self.function}", f"claims: {self.capabilities.sentence()}", "-" * (width + 44)]
        shown: dict[str, str] = {}
        for case in self.cases:
            numbers = f"{case.tried} examples, worst error {case.worst:.2g} tolerances" if case.verdict == "ok" else ""
            out.append(f"{case.name.ljust(width)}  {case.verdict.ljust(11)}  {numbers}".rstrip())
            out += [f"    {line}" for line in case.detail.splitlines()]
            if case.example:
                # The same block in two precisions, or with and without masks, is printed once.
                before = shown.setdefault(case.example, case.name)
                out.append(f"    smallest: {case.example if before == case.name else f'the same as for {before}'}")
        bad = [case for case in self.cases if not case.good]
        claimed = [case for case in self.cases if case.verdict != "not claimed"]
        out += ["", f"{len(claimed) - len(bad)} of {len(claimed)} claimed cases are ok"]
        if bad:
            out += [
                f"not ok: {', '.join(f'{case.name} ({case.verdict})' for case in bad)}",
                "a random block again: from bayesgrad.testing import *; from bayesgrad.testing.foreign import judge; "
                "import numpy as np; judge(your_function, Head(...))",
            ]
        return out


class Finding(AssertionError):
    """What is wrong with one call: a verdict and a sentence."""

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict, self.detail = verdict, detail


def call(function: Backward, head: Head, dtype: str = "float64") -> tuple[Array, Array, Array]:
    """Call the function on copies; Finding if it raises, writes to an input, or returns something of another shape."""
    given_ = [getattr(head, name).astype(dtype) for name in (*NAMES, "u")]
    mask = None if head.mask is None else head.mask.copy()
    before = [x.copy() for x in given_]
    try:
        with np.errstate(all="ignore"):
            got = function(*given_, mask=mask, scale=head.the_scale)
    except Exception as error:
        raise Finding("raised", f"{type(error).__name__}: {error}") from None
    for name, x, old in zip((*NAMES, "u"), given_, before, strict=True):
        if not np.array_equal(x, old, equal_nan=True):
            raise Finding("wrote", f"the function changed its input {name}")
    if mask is not None and not np.array_equal(mask, head.mask):  # type: ignore[arg-type]
        raise Finding("wrote", "the function changed its input mask")
    if not isinstance(got, tuple | list) or len(got) != 3:
        raise Finding("shape", f"got {type(got).__name__}, expected three arrays (dq, dk, dv)")
    arrays = []
    for name, x in zip(NAMES, got, strict=True):
        try:
            array = np.asarray(x)
        except Exception as error:
            raise Finding("shape", f"d{name} is no array: {type(error).__name__}: {error}") from None
        if array.shape != getattr(head, name).shape or array.dtype.kind != "f":
            expected = getattr(head, name).shape
            raise Finding(
                "shape", f"d{name} has shape {array.shape} and dtype {array.dtype}, expected {expected}, real"
            )
        arrays.append(array.astype(np.float64))
    return tuple(arrays)  # type: ignore[return-value]


def judge(function: Backward, head: Head, dtype: str = "float64") -> float:
    """Compare one call with both oracles; the worst difference in tolerances, or Finding."""
    got = dict(zip(NAMES, call(function, head, dtype), strict=True))
    bounded, worst = forward.gradients(head, *NAMES), 0.0
    oracles: list[tuple[str, Any]] = [
        ("forward jets", bounded),
        ("PyTorch reverse mode", reverse.gradients(head, *NAMES)),
    ]
    for oracle, said in oracles:
        for name in NAMES:
            expected = bounded[name][0] if said is bounded else np.asarray(said[name])
            if not np.all(np.isfinite(got[name])):
                raise Finding("nan", f"d{name} is not finite")
            found = compare(got[name], expected, tolerance(bounded[name][1], dtype))
            if not found.agrees:
                raise Finding(
                    "wrong",
                    f"d{name}{list(found.index)} = {found.got!r}, expected {found.expected!r} by {oracle} "
                    f"(off by {found.in_tolerance:.3g} tolerances of {found.tolerance:.3g})",
                )
            worst = max(worst, found.in_tolerance)
    return worst


def _within(capabilities: Capabilities, mask: bool) -> st.SearchStrategy[Head]:
    wide = [(1, 2), (1, 3), (2, 3), (3, 2), (2, 4), (4, 3), (3, 4), (3, 5), (5, 2), (4, 5)]
    pairs = [(n, m) for n, m in wide if max(n, m) <= capabilities.largest]
    sizes: list[tuple[int, ...]] = []
    for n, m in pairs:
        for d in (1, 2, 3, 4):
            other = d if capabilities.equal_widths else d % 4 + 1
            sizes.append((n, m, d, other))
    scales = (None, 1.0, 0.5, -0.75) if capabilities.scale else (None,)
    return heads(sizes=sizes, masks=mask, biases=False, dropout=False, scales=scales, squares=False)


def _search(name: str, strategy: st.SearchStrategy, one: Callable[[Any], float], examples: int, seed: int) -> Case:
    case = Case(name)

    @seeded(derived_seed(f"foreign/{name}", seed))
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy)
    def run(example: Any) -> None:
        last.clear()
        last.append(example)
        case.tried += 1
        case.worst = max(case.worst, one(example))

    last: list[Any] = []
    try:
        run()
    except Finding as finding:
        smallest = last[-1].head if isinstance(last[-1], Corner) else last[-1]
        case.verdict, case.detail, case.example = finding.verdict, finding.detail, repr(smallest)
    return case


def _corner(function: Backward, corner: Corner) -> float:
    exact, worst = {"q": "queries", "k": "keys", "v": "values"}, 0.0
    got = dict(zip(NAMES, call(function, corner.head), strict=True))
    for name, label in exact.items():
        if not np.all(np.isfinite(got[name])):
            raise Finding("nan", f"d{name} is not finite")
        expected = corner.exact.get(label)
        if expected is None:
            continue
        # Somebody else's kernel may round where ours is exact: zeros are asked for to a few roundings of the inputs.
        size = float(np.abs(corner.head.u).sum() * (1 + np.nanmax(np.abs(corner.head.v), initial=0.0)))
        admitted = corner.atol.get(label, 0.0) + 64 * unit_roundoff() * size
        gap = np.where(np.isnan(expected), 0.0, np.abs(got[name] - np.nan_to_num(expected)))
        if np.any(gap > admitted):
            at = tuple(int(i) for i in np.argwhere(gap > admitted)[0])
            raise Finding(
                "wrong",
                f"d{name}{list(at)} = {float(got[name][at])!r}, expected exactly {float(expected[at])!r} "
                f"(admitted {admitted:.3g})",
            )
        worst = max(worst, float(np.max(gap, initial=0.0)) / admitted if admitted else 0.0)
    return worst


def _claims(capabilities: Capabilities, name: str) -> bool:
    if name in ("empty rows",):
        return capabilities.masks == "any"
    if name in ("a single visible key",):
        return capabilities.masks != "none"
    if name in ("an unseen key that is NaN",):
        return capabilities.unseen_nan and capabilities.masks != "none"
    if name in ("no keys",):
        return capabilities.empty
    return capabilities.huge or name != "tied scores"


LEFT_OUT = ("saturated scores", "values with a common offset")
"""Corners that need a bias, or that ask for more accuracy than a backward function promises."""


def _fits(capabilities: Capabilities, strategy: st.SearchStrategy[Corner]) -> st.SearchStrategy[Corner]:
    """The corner with values as wide as keys where only that is claimed: both are cut to the narrower one."""
    if not capabilities.equal_widths:
        return strategy

    def cut(corner: Corner) -> Corner:
        h = corner.head
        d = min(h.q.shape[1], h.v.shape[1])
        head = Head(h.q[:, :d], h.k[:, :d], h.v[:, :d], h.u[:, :d], h.mask, h.bias, h.dropout, h.scale)
        names = ("queries", "keys", "values")
        exact = {name: x[:, :d] for name, x in corner.exact.items() if name in names and x.ndim == 2}
        return Corner(head, exact, corner.finite, corner.atol)

    return strategy.map(cut)


def without_bias(corner: Corner) -> Corner:
    """A foreign function takes no bias; a default scale is made explicit."""
    h = corner.head
    return Corner(Head(h.q, h.k, h.v, h.u, h.mask, None, None, h.scale), corner.exact, corner.finite, corner.atol)


def check(
    function: Backward,
    capabilities: Capabilities | None = None,
    *,
    name: str = "",
    examples: int = 200,
    seed: int = 0,
) -> Ledger:
    """Run all cases against ``function`` within its declared capabilities; never raises for what the function does."""
    can = capabilities or Capabilities()
    ledger = Ledger(name or getattr(function, "__qualname__", repr(function)), can)
    for dtype in ("float64", "float32"):
        for mask in (False, True):
            title = f"random blocks, {dtype}{', masks' if mask else ''}"
            if dtype not in can.dtypes or (mask and can.masks == "none"):
                ledger.cases.append(Case(title, "not claimed"))
                continue

            def one(head: Head, dtype: str = dtype) -> float:
                return judge(function, head, dtype)

            ledger.cases.append(_search(title, _within(can, mask), one, examples, seed))
    for corner, strategy in CORNERS.items():
        if corner in LEFT_OUT:
            continue
        if not _claims(can, corner) or "float64" not in can.dtypes:
            ledger.cases.append(Case(f"corner: {corner}", "not claimed"))
            continue
        fitting = _fits(can, strategy.map(without_bias))
        case = _search(f"corner: {corner}", fitting, lambda c: _corner(function, c), max(examples // 8, 8), seed)
        ledger.cases.append(case)
    return ledger


def load(path: str) -> Any:
    """The object that "package.module:name" or "file.py:name" names. Raises ValueError with one sentence."""
    where, _, name = path.partition(":")
    if not name:
        raise ValueError(f"function: got {path!r}, expected module:name or file.py:name")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location("function_under_test", where)
            if spec is None or spec.loader is None:
                raise ImportError(f"no such file {where}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except (ImportError, OSError) as error:
        raise ValueError(f"function: {where} cannot be imported ({error})") from None
    if not hasattr(module, name):
        raise ValueError(f"function: {where} has no {name!r}")
    return getattr(module, name)

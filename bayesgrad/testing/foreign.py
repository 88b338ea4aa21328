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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bayesgrad.testing.capabilities import Capabilities
from bayesgrad.testing.cases import Case, Finding, Ledger
from bayesgrad.testing.corners import WITHOUT_BIAS, Corner
from bayesgrad.testing.draws import run_on_draws
from bayesgrad.testing.engine import derived_seed
from bayesgrad.testing.examples import Array, Head
from bayesgrad.testing.large import Recipe, recipes
from bayesgrad.testing.oracles import forward, reverse, textbook
from bayesgrad.testing.strategies import heads
from bayesgrad.testing.tolerance import compare

Backward = Callable[..., Any]
NAMES = ("q", "k", "v")
LABELS = {"q": "queries", "k": "keys", "v": "values"}
EVERYTHING = Capabilities()


def _wide(x: Array, width: int) -> Array:
    return np.pad(x, ((0, 0), (0, width - x.shape[1])))


def call(
    function: Backward, head: Head, dtype: str = "float64", can: Capabilities = EVERYTHING
) -> tuple[Array, Array, Array]:
    """Call the function on copies; Finding if it raises, writes to an input, or returns something of another shape.

    Widths that it does not claim are reached with columns of zeros, whose gradients must be zeros.
    """
    d_k, d_v = can.padded(head.q.shape[1], head.v.shape[1])
    inputs = {"q": (head.q, d_k), "k": (head.k, d_k), "v": (head.v, d_v), "u": (head.u, d_v)}
    given_ = {name: _wide(x, d).astype("float32" if dtype == "bfloat16" else dtype) for name, (x, d) in inputs.items()}
    mask = None if head.mask is None else head.mask.copy()
    before = {name: x.copy() for name, x in given_.items()}
    try:
        with np.errstate(all="ignore"):
            got = function(*given_.values(), mask=mask, scale=head.the_scale)
    except (Exception, SystemExit) as error:
        raise Finding("raised", f"{type(error).__name__}: {error}") from None
    for name, x in given_.items():
        if not np.array_equal(x, before[name], equal_nan=True):
            raise Finding("wrote", f"the function changed its input {name}")
    if mask is not None and not np.array_equal(mask, head.mask):  # type: ignore[arg-type]
        raise Finding("wrote", "the function changed its input mask")
    if not isinstance(got, tuple | list) or len(got) != 3:
        raise Finding("shape", f"got {type(got).__name__}, expected three arrays (dq, dk, dv)")
    return tuple(_result(name, x, given_[name], inputs[name][0]) for name, x in zip(NAMES, got, strict=True))  # type: ignore


def _result(name: str, x: Any, padded: Array, bare: Array) -> Array:
    """One gradient in float64, without the columns that were added."""
    try:
        array = np.asarray(x)
    except Exception as error:
        raise Finding("shape", f"d{name} is no array: {type(error).__name__}: {error}") from None
    if array.shape != padded.shape or array.dtype.kind != "f":
        raise Finding(
            "shape", f"d{name} has shape {array.shape} and dtype {array.dtype}, expected {padded.shape}, real"
        )
    width = bare.shape[1]
    if not np.all(np.isfinite(array)):
        raise Finding("nan", f"d{name} is not finite")
    added = array[:, width:]
    if np.any(added):
        i, c = (int(index) for index in np.argwhere(added)[0])
        raise Finding(
            "wrong", f"d{name}[{i}, {width + c}] = {float(added[i, c])!r}, expected 0: columns of zeros fill the width"
        )
    return array[:, :width].astype(np.float64)


def judge(
    function: Backward, example: Head | Recipe | Corner, dtype: str = "float64", can: Capabilities = EVERYTHING
) -> float:
    """Compare one call with the oracles; the worst difference in tolerances. Raises :class:`Finding`."""
    head = example if isinstance(example, Head) else example.head
    got = dict(zip(NAMES, call(function, head, dtype, can), strict=True))
    said: dict[str, dict[str, Array]] = {}
    if isinstance(example, Corner):
        said["what is known exactly"] = {
            name: example.exact[label] for name, label in LABELS.items() if label in example.exact
        }
        admitted = textbook.tolerances(head, dtype, exact_scores=example.huge)
        admitted = {name: x + example.atol.get(LABELS[name], 0.0) for name, x in admitted.items()}
    else:
        bounds = None if isinstance(example, Recipe) else forward.gradients(head, *NAMES)
        if bounds is not None:
            said["forward jets"] = {name: value for name, (value, _) in bounds.items()}
        said["PyTorch reverse mode"] = reverse.gradients(head, *NAMES)
        admitted = textbook.tolerances(head, dtype, bounds)
    worst = 0.0
    for oracle, known in said.items():
        for name, expected in known.items():
            # NaN in what is known exactly stands for "not specified".
            actual = np.where(np.isnan(expected), np.nan, got[name])
            found = compare(actual, expected, admitted[name])
            if not found.agrees:
                raise Finding(
                    "wrong",
                    f"d{name}{list(found.index)} = {found.got!r}, expected {found.expected!r} by {oracle} "
                    f"(off by {found.in_tolerance:.3g} tolerances of {found.tolerance:.3g})",
                )
            worst = max(worst, found.in_tolerance)
    return worst


def _fit(can: Capabilities, head: Head) -> Head:
    """The head without bias and dropout, and without what is not claimed: a mask, another scale than the default."""
    scale = head.scale if can.scale else can.padded(head.q.shape[1], head.v.shape[1])[0] ** -0.5
    return replace(head, mask=None if can.masks == "none" else head.mask, bias=None, dropout=None, scale=scale)


_BLOCKS = [(1, 2), (1, 3), (2, 3), (3, 2), (2, 4), (4, 3), (3, 4), (3, 5), (5, 2), (4, 5)]


def _small(can: Capabilities, masks: bool) -> st.SearchStrategy[Head]:
    pairs = [(n, m) for n, m in _BLOCKS if max(n, m) <= can.largest]
    sizes: list[tuple[int, ...]] = [
        (n, m, d, d if can.equal_widths else d % 4 + 1) for n, m in pairs for d in (1, 2, 3, 4)
    ]
    return heads(sizes=sizes, masks=masks, biases=False, dropout=False, squares=False).map(partial(_fit, can))


def _cases(can: Capabilities) -> Iterator[tuple[str, str, st.SearchStrategy[Any] | None, int]]:
    """(name, dtype, what is drawn or None where nothing is claimed, one in how many of the usual examples)."""
    for dtype in can.dtypes:
        yield f"{dtype}: random blocks", dtype, _small(can, False), 1
        yield f"{dtype}: random blocks, masks", dtype, _small(can, True) if can.masks != "none" else None, 1
        if can.largest > 5:
            yield f"{dtype}: larger blocks", dtype, recipes(can), 8
        for name, make in WITHOUT_BIAS.items():
            claimed = can.claims_corner(name)
            yield f"{dtype}: {name}", dtype, make(partial(_fit, can), dtype) if claimed else None, 8


def _search(name: str, strategy: st.SearchStrategy, one: Callable[[Any], float], examples: int, seed: int) -> Case:
    case = Case(name)
    last: list[Any] = []

    def run(example: Any) -> None:
        last[:] = [example]
        case.tried += 1
        case.worst = max(case.worst, one(example))

    try:
        run_on_draws(run, strategy, examples=examples, seed=derived_seed(f"foreign/{name}", seed))
    except Finding as finding:
        smallest = last[-1].head if isinstance(last[-1], Corner) else last[-1]
        case.verdict, case.detail, case.example = finding.verdict, finding.detail, repr(smallest)
    return case


def check(
    function: Backward,
    capabilities: Capabilities | None = None,
    *,
    name: str = "",
    examples: int = 200,
    seed: int = 0,
    only: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Ledger:
    """Run all cases against ``function`` within its declared capabilities; never raises for what the function does.

    ``only``: the cases whose names contain one of these; ``progress`` is told the name of each before it runs. Raises
    ValueError for a number of examples below 1 and for an ``only`` that fits no case.
    """
    if examples < 1:
        raise ValueError(f"examples: got {examples}, expected at least 1")
    can = capabilities or EVERYTHING
    ledger = Ledger(name or getattr(function, "__qualname__", repr(function)), can)
    cases = [row for row in _cases(can) if not only or any(text in row[0] for text in only)]
    if not cases:
        known = "; ".join(row[0] for row in _cases(can))
        raise ValueError(f"only: no case has {' or '.join(map(repr, only))} in its name, expected one of {known}")
    for title, dtype, strategy, share in cases:
        if strategy is None:
            ledger.cases.append(Case(title, "not claimed"))
            continue
        if progress is not None:
            progress(title)
        one = partial(judge, function, dtype=dtype, can=can)
        ledger.cases.append(_search(title, strategy, one, max(examples // share, min(examples, 8)), seed))
    return ledger


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
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except Exception as error:
        raise ValueError(f"function: {where} cannot be imported ({type(error).__name__}: {error})") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"function: {where} has no function {name!r}")
    return found

"""What the mistake probably is: the results are held against wrong laws, each a twist of the closed form.

A twist is named if it explains every result that is wrong, to the tolerance of the right one. Then come a sign, a
factor, a transposition, a narrower format; and where the wrong entries lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.definition import truth
from bayesgrad.testing.kernels.formats import FORMATS, Format

Results = dict[str, Array]
Known = dict[str, tuple[Array, Array]]
ZERO = "0 throughout"


def closed_form(block: Block, **twist: Any) -> Results:
    """The textbook pass in float64. ``twist`` changes one thing of it; none gives the right results."""
    q, k, v, u = (block.grouped(name) for name in "qkvu")
    if twist.get("reads") == "modulo":  # head h reads key head h % groups
        groups, share = k.shape[1], q.shape[2]
        order = np.arange(groups * share) % groups
        k, v = (x[:, order].reshape(x.shape[0], groups, share, *x.shape[2:]) for x in (k[:, :, 0], v[:, :, 0]))
    scale, visible = block.the_scale, block.by_group(twist.get("visible", block.visible))
    s = scale * (q @ k.swapaxes(-1, -2))
    slope = np.ones_like(s)
    if block.cap is not None:
        s = block.cap * np.tanh(s / block.cap)
        slope = slope if twist.get("cap") == "slope" else 1 - (s / block.cap) ** 2
    if block.bias is not None and twist.get("bias") != "ignored":
        s = s + block.grouped("bias")
    if block.slopes is not None and twist.get("alibi") != "ignored":
        s = s - block.grouped("slopes") * block.distance
    top = np.where(visible, s, -np.inf).max(-1, keepdims=True, initial=-1e300)
    E = np.where(visible, np.exp(np.where(visible, s - top, 0.0)), 0.0)
    Z = E.sum(-1, keepdims=True)
    if block.sink is not None and twist.get("sink") != "ignored":
        Z = Z + np.exp(block.grouped("sink") - top)
    a = E / np.where(Z > 0, Z, 1.0)
    D = np.ones_like(a) if block.dropout is None else block.by_group(block.dropout)
    g = (a * D) @ v
    lse = np.log(Z) + top
    if "behind" in twist:  # the backward pass remakes the weights from lse under another mask
        behind = block.by_group(twist["behind"])
        a = np.where(behind, np.exp(np.where(behind, s - lse, 0.0)), 0.0)
    D_back = {"ignored": np.ones_like(D), "transposed": D.swapaxes(-1, -2)}.get(twist.get("dropout", ""), D)
    D_back = D_back if D_back.shape == D.shape else D
    b = u @ v.swapaxes(-1, -2) * (np.ones_like(D) if twist.get("dropout") == "of b" else D_back)
    # Many backward passes take the mean from the context that the forward pass left.
    mean = (u * g).sum(-1, keepdims=True) if twist.get("mean") == "forward" else (a * b).sum(-1, keepdims=True)
    if twist.get("mean") == "none":
        mean = 0.0 * mean
    elif twist.get("mean") == "plain":
        mean = np.where(visible, b, 0.0).sum(-1, keepdims=True) / np.maximum(visible.sum(-1, keepdims=True), 1)
    elif twist.get("mean") == "all":
        mean = b.mean(-1, keepdims=True)
    elif twist.get("mean") == "queries":
        mean = (a * b).sum(-2, keepdims=True)
    ds = a * (b - mean)
    if block.dlse is not None and twist.get("dlse") != "ignored":
        ds = ds + a * block.grouped("dlse")
    ds = ds * slope
    of_k, of_v = ds.swapaxes(-1, -2) @ q * scale, (a * D_back).swapaxes(-1, -2) @ u
    if twist.get("group") == "first":
        of_k, of_v = of_k[:, :, :1], of_v[:, :, :1]
    elif twist.get("group") == "last":
        of_k, of_v = of_k[:, :, -1:], of_v[:, :, -1:]
    elif twist.get("group") == "mean":
        of_k, of_v = of_k.mean(2), of_v.mean(2)
    else:
        of_k, of_v = of_k.sum(2), of_v.sum(2)
    found = {"context": g, "lse": lse, "q": ds @ k * scale, "k": of_k, "v": of_v}
    return {name: block.bare(name, x) for name, x in found.items()}


def twists(block: Block) -> Iterator[tuple[str, dict[str, Any]]]:
    """The wrong laws that a block can tell from the right one, in words."""
    yield "the mean of b under the weights is missing in the gradient of the scores", {"mean": "none"}
    yield "the mean of b is taken over the keys, not under the weights", {"mean": "plain"}
    yield "the mean of b is taken over all keys, hidden ones too, not under the weights", {"mean": "all"}
    yield "the mean of b is taken over the queries, not the keys", {"mean": "queries"}
    open_ = np.ones_like(block.visible)
    masks: dict[str, Array] = {}
    if not block.visible.all():
        masks["ignored"] = open_
    if block.left is not None or block.right is not None:
        handed = open_ if block.mask is None else np.broadcast_to(block.mask, open_.shape)
        masks["of the handed mask alone"] = handed
        n, m = block.q.shape[2], block.k.shape[2]
        for align, offset in (("upper-left", 0), ("lower-right", m - n)):
            for more, said in ((0, ""), (1, ", and one key wider"), (-1, ", and one key narrower")):
                ahead = np.arange(m) - np.arange(n)[:, None] - offset
                band = np.ones((n, m), dtype=bool)
                if block.left is not None:
                    band &= ahead >= -block.left - (more if block.left else 0)
                if block.right is not None:
                    band &= ahead <= block.right + (more if block.left is None else 0)
                if not np.array_equal(band & handed, block.visible):
                    masks[f"aligned {align}{said}"] = band & handed
    for said, visible in masks.items():
        for mean in ("forward", "backward"):
            yield f"the mask is {said}, in the backward pass only", {"behind": visible, "mean": mean}
        yield f"the mask is {said}", {"visible": visible}
    if block.mask is not None and not block.mask.all():
        yield "the mask is read the other way round", {"visible": ~np.broadcast_to(block.mask, open_.shape)}
    if block.dropout is not None:
        yield "the dropout multiplier is ignored in the backward pass", {"dropout": "ignored"}
        yield "the dropout multiplier is missing in b = D u.v", {"dropout": "of b"}
        yield "the dropout multiplier is transposed in the backward pass", {"dropout": "transposed"}
    if block.q.shape[1] != block.k.shape[1]:
        for which in ("first", "last", "mean"):
            said = "averaged" if which == "mean" else f"taken from the {which} head alone"
            yield f"dk and dv of a group are {said}, not summed over its heads", {"group": which}
        yield "head h reads key head h % groups, not h // (heads of a group)", {"reads": "modulo"}
    for name, said in (
        ("cap", "the derivative of the soft cap is missing"),
        ("bias", "the bias is ignored"),
        ("slopes", "the slopes of ALiBi are ignored"),
        ("sink", "the sink is ignored"),
        ("dlse", "the gradient of the log-sum-exp is ignored"),
    ):
        if getattr(block, name) is not None:
            key = {"slopes": "alibi"}.get(name, name)
            yield said, {key: "slope" if name == "cap" else "ignored"}


def _wrong(got: Results, known: Known) -> list[str]:
    return [name for name, x in got.items() if name in known and not _agree(x, known[name][0], known[name][1])]


def _agree(got: Array, expected: Array, admitted: Array) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - expected) <= admitted
        return bool(np.all(near | (got == expected) | np.isnan(expected)))


def _factors(block: Block, name: str) -> Iterator[tuple[float, str]]:
    scale, n, m = block.the_scale, block.q.shape[2], block.k.shape[2]
    share = block.q.shape[1] // block.k.shape[1]
    if name in ("q", "k"):
        yield scale, "the scale is applied twice"
        yield 1 / scale, "the scale is missing"
    yield float(np.log(2)), "a factor ln 2 too much (a power of 2 taken for one of e)"
    yield 1 / float(np.log(2)), "a factor ln 2 is missing (a power of 2 taken for one of e)"
    for number, said in ((n, "the number of queries"), (m, "the number of keys"), (share, "the heads of a group")):
        yield 1.0 / number, f"divided by {said}"
        yield float(number), f"multiplied by {said}"


def _alone(name: str, got: Array, expected: Array, admitted: Array, block: Block) -> list[str]:
    """What may be wrong with one result by itself; what has a name comes first."""
    if not np.all(np.isfinite(got)):
        return []
    if not np.any(got):
        return [ZERO]
    if _agree(-got, expected, admitted):
        return ["the opposite sign"]
    found = []
    used = np.isfinite(expected) & (np.abs(expected) > 4 * admitted)
    norm = float((expected[used] ** 2).sum())
    if used.sum() > 1 and norm > 0:
        c = float((got[used] * expected[used]).sum()) / norm
        if c and _agree(got, c * expected, (1 + abs(c)) * admitted):
            found += [
                said for number, said in _factors(block, name) if number != 1 and np.isclose(c, number, rtol=1e-3)
            ]
            found.append(f"{c:.6g} times what it must be")
    if got.shape[-1] == got.shape[-2] > 1 and _agree(got.swapaxes(-1, -2), expected, admitted):
        found.append("transposed")
    return found


Seen = tuple[Block, Results, Known]
"""A block that failed: what came back, and the truth."""


def _narrower(seen: Sequence[Seen], format: Format) -> str:
    """The finest of the narrower formats whose arithmetic explains all errors, if it would not explain anything."""
    finer = [name for name in ("float32", "tf32", "float16", "bfloat16") if FORMATS[name].coarse > format.coarse]
    for name in finer:
        admitted = [truth(block, FORMATS[name]) for block, _, _ in seen]
        if all(not _wrong(got, wide) for (_, got, _), wide in zip(seen, admitted, strict=True)) and any(
            np.max(wide[what][1]) < 0.25 * np.max(np.abs(wide[what][0]))
            for (_, got, known), wide in zip(seen, admitted, strict=True)
            for what in _wrong(got, known)
        ):
            said = {"tf32": "TF32 (factors of products rounded to 11 bits)"}.get(name, name)
            return f"the errors are those of arithmetic in {said}"
    return ""


def _laws(block: Block, got: Results, known: Known, wrong: list[str]) -> list[str]:
    """The wrong laws that explain every wrong result of one block; what is wrong with single ones, if none does."""
    single = {name: _alone(name, got[name], *known[name], block) for name in wrong}
    shared = [text for text in single[wrong[0]] if all(text in said for said in single.values())]
    if shared and shared != [ZERO]:
        return [f"{_listed(wrong)}: {text}" for text in shared]
    found = []
    for text, twist in twists(block):
        other = closed_form(block, **twist)
        knows = all(name in other for name in wrong) and any(not _agree(other[name], *known[name]) for name in wrong)
        knows = knows and any(np.any(other[name]) for name in wrong)
        if knows and all(_agree(got[name], other[name], 4 * known[name][1]) for name in wrong):
            found.append(text)
    return found or ["; ".join(f"{_listed([name])}: {said[0]}" for name, said in single.items() if said)]


def _listed(names: Sequence[str]) -> str:
    words = [name if name in ("context", "lse", "jvp") else f"d{name}" for name in names]
    return ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]


def likely(seen: Sequence[Seen], format: Format) -> str:
    """The likely mistake in a sentence, or nothing: what explains most of the blocks that failed.

    A result of zeros says little where the true one is small, so those blocks speak only if there are no others.
    """
    votes: Counter[str] = Counter()
    told = 0
    with np.errstate(all="ignore"):
        for block, got, known in seen:
            if names := _wrong(got, known):
                laws = _laws(block, got, known, names)
                votes.update(dict.fromkeys(laws, 1))
                told += not laws[0].endswith(ZERO)
        by_weight = sorted((text for text in votes if text), key=lambda text: (text.endswith(ZERO), -votes[text]))
        if by_weight and 2 * votes[by_weight[0]] >= told:
            return by_weight[0]
        return _narrower(seen, format) or (by_weight[0] if by_weight else "")


def located(seen: Sequence[Seen]) -> str:
    """Where the wrong entries of the first wrong result lie, if not everywhere: what all blocks that failed share."""
    name = next((name for _, got, known in seen for name in _wrong(got, known)), "")
    places: list[tuple[tuple[int, ...], Array]] = []
    for _, got, known in seen:
        if name in _wrong(got, known):
            expected, admitted = known[name]
            with np.errstate(invalid="ignore"):
                near = (np.abs(got[name] - expected) <= admitted) | (got[name] == expected) | np.isnan(expected)
            places.append((near.shape, np.argwhere(~near)))
    position = "query" if name in ("q", "context", "lse", "jvp") else "key"
    said = []
    for axis, what in enumerate(("batch", "head", position, "column")):
        if any(len(shape) <= axis for shape, _ in places) or all(shape[axis] == 1 for shape, _ in places):
            continue
        low, high = min(at[:, axis].min() for _, at in places), max(at[:, axis].max() for _, at in places)
        last = all(set(at[:, axis]) == {shape[axis] - 1} for shape, at in places)
        if low == high:
            said.append(f"{what} {low} only")
        elif last:
            said.append(f"the last {what} only")
        elif low > 0:
            said.append(f"{what} {low} and later")
    return f"{_listed([name])} is wrong at {', '.join(said)}" if said else ""

"""Changed certificates: every field of every one is changed, and the checker has to refuse it or nothing was said anew.

    python -m checks.mutation.certificate_changes                 every field of every certificate (long)
    python -m checks.mutation.certificate_changes LABEL...        of these results
    python -m checks.mutation.certificate_changes --sample 500    so many fields, drawn with --seed

A change drops, repeats or swaps parts of a list, drops a key, or puts another name, number, operation or rule in one
place. What is claimed stands in the book, so an accepted change can only be another proof of the same. It is harmless
if the terms of the proof are the old ones: the kernel's canonical form takes each changed term for the one it replaces,
or what changed is not a term but how one leads to the next.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from bayesgrad import checker
from bayesgrad.symbolic.certificate import deep, dumps
from bayesgrad.symbolic.index_calculus import same
from bayesgrad.symbolic.rules import expanded
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    rename,
)
from derivations import certificates, laws

Path = tuple[Any, ...]
NEAR = (("add", "mul"), ("exp", "log", "inv", "tanh", "sqrt"), ("algebra", "definition", "differentiate", "through"))


def paths(x: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a piece of JSON, its root left out."""
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def at(x: Any, path: Path) -> Any:
    for key in path:
        x = x[key]
    return x


def variants(x: Any, names: Sequence[str], rng: random.Random) -> list[Any]:
    """What may be written in the place of ``x``."""
    match x:
        case bool():
            return [not x]
        case int():
            return [x + 1, x - 1]
        case list():
            dropped = [x[:n] + x[n + 1 :] for n in range(len(x))]
            swapped = [[*x[:n], x[n + 1], x[n], *x[n + 2 :]] for n in range(len(x) - 1)]
            return dropped + swapped + ([x + x[-1:], ["mul", ["num", "2"], x]] if x else [])
        case dict():
            return [{k: v for k, v in x.items() if k != gone} for gone in x]
        case str() if checker.NUMBER.fullmatch(x):
            return [str(Fraction(x) + 1), str(-Fraction(x))]
        case str():
            near = [other for group in NEAR if x in group for other in group if other != x]
            return near or rng.sample(names, min(2, len(names)))
    return []


class Terms:
    """The terms of a book and a certificate as terms of the engine, so that the kernel can compare them."""

    def __init__(self, *tables: Any):
        self.sizes: dict[str, Size] = {}
        self.lookups: dict[str, Lookup] = {}
        self.tensors: dict[str, Tensor] = {}
        for table in tables:
            self.sizes |= {name: Size(name, nonempty) for name, nonempty in table["sizes"].items()}
            for name, j in table["lookups"].items():
                self.lookups[name] = Lookup(name, tuple(self.sizes[s] for s in j["from"]), self.sizes[j["to"]])
            for name, j in table["tensors"].items():
                self.tensors[name] = self.tensor(name, j)

    def tensor(self, name: str, j: Any) -> Tensor:
        sizes = tuple(self.sizes[s] for s in j["sizes"])
        through = tuple(self.tensors[t] for t in j["through"]) if "through" in j else None
        if "body" not in j:
            return Tensor(name, sizes, j["kind"], through=through)  # type: ignore[arg-type]
        slots = {slot: Index(slot, size) for slot, size in zip(j["slots"], sizes, strict=True)}
        body = self.term(j["body"], slots)
        return Tensor(name, sizes, j["kind"], lambda *to: rename(body, dict(zip(slots.values(), to, strict=True))))

    def index(self, j: Any, env: dict[str, Index]) -> AnyIndex:
        return At(self.lookups[j[0]], tuple(self.index(i, env) for i in j[1:])) if isinstance(j, list) else env[j]

    def term(self, j: Any, env: dict[str, Index]) -> Term:
        go = lambda x: self.term(x, env)
        match j:
            case ["num", v]:
                return Num(Fraction(v))
            case ["count", size]:
                return Count(self.sizes[size])
            case ["entry", T, *ix]:
                return Entry(self.tensors[T], tuple(self.index(i, env) for i in ix))
            case ["delta", x, y]:
                return Delta(self.index(x, env), self.index(y, env))
            case ["add", *ts]:
                return Add(tuple(map(go, ts)))
            case ["mul", *ts]:
                return Mul(tuple(map(go, ts)))
            case ["pow", b, n]:
                return Pow(go(b), n)
            case ["sum", name, size, b]:
                index = Index(name, self.sizes[size])
                return Sum(index, self.term(b, {**env, name: index}))
            case ["diff", b, T, *ix]:
                return Diff(go(b), self.tensors[T](*(self.index(i, env) for i in ix)))
            case [function, a]:
                return Fn(function, go(a))
        raise ValueError(f"no term: {j!r:.60}")


class Hunt:
    """Changes certificates of the book and runs the checker on them."""

    def __init__(self, seed: int = 0):
        self.rng = random.Random(seed)
        self.book = json.loads(dumps(certificates.claims().json))
        self.report = checker.Report(self.book, [])
        self.refused = self.harmless = 0
        self.harmful: list[str] = []

    def accepts(self, certificate: Any) -> bool:
        """Whether every proof of a certificate holds, given what it leans on."""
        self.report.leans.clear()
        self.report.refused.clear()
        try:
            self.report.read(certificate)
        except (checker.Reject, *checker.MALFORMED):
            return False
        return not self.report.refused and len(self.report.leans) == len(certificate["proofs"]) > 0

    def certificate(self, label: str) -> Any:
        return json.loads(dumps(certificates.claims().certificate(label)))

    def change(self, certificate: Any, path: Path, what: str = "") -> None:
        """Put everything that comes to mind in one place."""
        old = at(certificate, path)
        names = sorted({x for place in paths(certificate) if isinstance(x := at(certificate, place), str)})
        if path[0] == "proofs" and len(path) > 1:  # one proof is enough to look at
            certificate = {**certificate, "proofs": {path[1]: certificate["proofs"][path[1]]}}
        for value in variants(old, names, self.rng):
            if value == old:
                continue
            changed = copy.deepcopy(certificate)
            at(changed, path[:-1])[path[-1]] = value
            if not self.accepts(changed):
                self.refused += 1
            elif self.same(certificate, changed, path):
                self.harmless += 1
            else:
                self.harmful.append(f"{what}{'/'.join(map(str, path))}: {old!r:.80} -> {value!r:.80}")

    def same(self, old: Any, new: Any, path: Path) -> bool:
        """Whether an accepted change says nothing new: the terms are the old ones."""
        terms = [Terms(self.book, data) for data in (old, new)]
        for name, proof in old["proofs"].items():
            steps, changed = proof.get("steps", []), new["proofs"].get(name, proof).get("steps", [])
            env = {i: Index(i, Size(s)) for i, s in self.scope(name, old).items()}
            written = [step["after"] for step in steps]
            for n, step in enumerate(changed):
                if step["after"] in written and path[0] == "proofs":
                    continue
                if len(steps) != len(changed) or not self.equal(terms, steps[n]["after"], step["after"], env):
                    return False
        return True

    def scope(self, name: str, certificate: Any) -> dict[str, str]:
        return {**self.book["claims"], **certificate["claims"]}[name]["for"]  # type: ignore[no-any-return]

    def equal(self, terms: Sequence[Terms], old: Any, new: Any, env: dict[str, Index]) -> bool:
        free = {i: Index(i, terms[0].sizes[index.size.name]) for i, index in env.items()}
        one, other = (expanded(each.term(j, free)) for each, j in zip((terms[0], terms[0]), (old, new), strict=True))
        return same(one, other)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, 1 if a change was accepted that says something new."""
    parser = argparse.ArgumentParser(
        prog="python -m checks.mutation.certificate_changes", description=__doc__.split("\n")[0]
    )
    parser.add_argument("labels", nargs="*", help="results whose certificates are changed; all, if none is named")
    parser.add_argument("--sample", type=int, help="how many fields, drawn at random; all, if it is left out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    known = laws.labels()
    if unknown := [label for label in args.labels if label not in known]:
        print(f"label: {unknown[0]!r} has no proof; python -m derivations lists the results", file=sys.stderr)
        return 2
    hunt = hunted(args.labels or known, args.sample, args.seed)
    print(
        f"{hunt.refused} changes refused, {hunt.harmless} accepted that say the same, {len(hunt.harmful)} that do not"
    )
    print("\n".join(hunt.harmful))
    return 1 if hunt.harmful or not hunt.refused else 0


def hunted(labels: Sequence[str], sample: int | None, seed: int) -> Hunt:
    """Every field of some certificates changed, or a sample of them."""
    hunt = Hunt(seed)
    written = {label: hunt.certificate(label) for label in labels}
    places = [(label, path) for label, certificate in written.items() for path in paths(certificate)]
    with deep():
        for label in labels:
            if not hunt.accepts(written[label]):
                raise ValueError(f"{label}: its certificate is not accepted as it is")
        for label, path in places if sample is None else hunt.rng.sample(places, min(sample, len(places))):
            hunt.change(written[label], path, f"{label}: ")
    return hunt


if __name__ == "__main__":
    sys.exit(main())

"""The theorem table and what the routes wrote, put together: ``report/build/evidence.json``.

    fully_proved(label) = nothing on it refuted or failed, every required route established, one of them a proof,
                          and fully_proved(l) for every l that it uses

A fragment that is missing or stale says "not run" for every label; nothing old is ever shown. Statuses are computed
here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bayesgrad import evidence as store
from bayesgrad.claims import CLAIMS
from bayesgrad.evidence import HOW

SYMBOLIC = ("proof", "exact", "code", "formal")
ROUTES = (*SYMBOLIC, "check", "observed")
NOT_ROUTES = ("required", "optional")


class Theorem(Protocol):
    """What is read of a row of the theorem table."""

    @property
    def label(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def assumptions(self) -> Sequence[str]: ...
    @property
    def uses(self) -> Sequence[str]: ...
    @property
    def source(self) -> str: ...
    @property
    def implements(self) -> Sequence[Any]: ...
    @property
    def routes(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Fragment:
    """One route's fragment, or the reason why there is none that counts."""

    route: str
    data: Mapping[str, Any] | None
    reason: str = ""

    @property
    def results(self) -> Mapping[str, Any]:
        return self.data["results"] if self.data else {}


def read_fragments(folder: Path = store.FOLDER) -> dict[str, Fragment]:
    """The fragments that count today. Raises :class:`bayesgrad.evidence.BadEvidence`."""
    found: dict[str, Fragment] = {}
    for route in HOW:
        written = store.load(route, folder)
        if written is None:
            found[route] = Fragment(route, None, f"no evidence of this route yet: run {HOW[route]}")
        elif why := store.why_stale(written):
            found[route] = Fragment(route, None, f"stale, {why}: run {HOW[route]}")
        else:
            found[route] = Fragment(route, written)
    return found


def _symbolic(theorem: Theorem, fragment: Fragment) -> dict[str, Any]:
    entry = fragment.results.get(theorem.label)
    if entry is not None:
        return {"reason": "", "detail": {}, "seconds": 0.0, **entry}
    verdict, reason = _absent(theorem, fragment)
    return {"verdict": verdict, "reason": reason, "detail": {}, "seconds": 0.0}


def _absent(theorem: Theorem, fragment: Fragment) -> tuple[str, str]:
    route = theorem.routes.get(fragment.route, "optional")
    if route not in NOT_ROUTES:
        return "not applicable", route
    return "not run", fragment.reason or "nothing of this route for this result yet"


def _check(theorem: Theorem, fragment: Fragment) -> dict[str, Any]:
    entry = fragment.results.get(theorem.label)
    blank = {"reason": "", "oracles": [], "examples": 0, "vacuous": 0, "worst_error": None, "tolerance": None}
    if entry is not None:
        return {**blank, **entry}
    verdict, reason = _absent(theorem, fragment)
    return {"verdict": verdict, **blank, "reason": reason}


def _mutants(theorem: Theorem, fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    """Wrong laws rejected: by the numeric route where it ran, otherwise as the proof route reports them.

    A wrong law that any route which held it could not refute is a survivor, whatever the others say.
    """
    held: dict[str, list[Mapping[str, Any]]] = {}
    for route in ("proof", "exact", "code"):
        detail = fragments[route].results.get(theorem.label, {}).get("detail") or {}
        held[route] = detail.get("wrong_laws") or [] if isinstance(detail, Mapping) else []
    loose = [f"{law['id']} ({route})" for route, laws in held.items() for law in laws if law["verdict"] != "refuted"]
    counted = (fragments["check"].data or {}).get("wrong_laws", {}).get(theorem.label)
    if counted is not None:
        found = {"survivors": [], **counted}
        return {**found, "survivors": [*found["survivors"], *loose]}
    wrong = held["proof"]
    rejected = sum(law["verdict"] == "refuted" for law in wrong)
    return {"rejected": rejected, "total": len(wrong), "survivors": loose}


def _naive(theorem: Theorem, fragments: Mapping[str, Fragment]) -> list[str]:
    detail = fragments["proof"].results.get(theorem.label, {}).get("detail") or {}
    return [str(claim) for claim in (*getattr(theorem, "naive", ()), *detail.get("naive", ()))]


def established(entry: Mapping[str, Any], route: str) -> bool:
    """Whether a route's verdict counts: undecided, not run and not applicable never do."""
    if entry is None:
        return False
    return entry["verdict"] in {"check": ("passed",), "observed": ("confirmed",)}.get(route, ("proved",))


def wrong(result: Mapping[str, Any]) -> list[str]:
    """What went wrong with a result, as sentences' ends; empty if nothing did."""
    found = [f"{route} refuted" for route in SYMBOLIC if result[route]["verdict"] == "refuted"]
    if result["check"]["verdict"] == "failed":
        found.append("check failed")
    if (result["observed"] or {}).get("verdict") == "not confirmed":
        found.append("not confirmed by the runs")
    survivors = result["mutants"]["survivors"]
    if survivors:
        found.append(f"wrong laws survived: {', '.join(survivors)}")
    return found


def _own(theorem: Theorem, result: Mapping[str, Any]) -> bool:
    required = [route for route, need in theorem.routes.items() if need == "required"]
    routes = [route for route in required if route in ROUTES]
    proved = any(established(result[route], route) for route in ("proof", "formal"))
    mutants = result["mutants"]
    rejected = "wrong_laws" not in required or (mutants["total"] >= 3 and mutants["rejected"] == mutants["total"])
    done = all(established(result[route], route) for route in routes)
    return bool(routes) and proved and done and rejected and not wrong(result)


def fully_proved(theorems: Iterable[Theorem], results: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """The status of every label over all that it uses: the least fixed point, so a circle proves nothing."""
    open_ = {theorem.label: theorem for theorem in theorems}
    own = {label for label, theorem in open_.items() if _own(theorem, results[label])}
    proved: set[str] = set()
    while ready := {label for label in own - proved if all(parent in proved for parent in results[label]["uses"])}:
        proved |= ready
    return {label: label in proved for label in open_}


def _claims(fragment: Fragment) -> list[dict[str, Any]]:
    """Every claim of the catalogue, in its order; what no run of today tested is "not tested"."""
    tested = {
        claim["id"]: dict(claim["cells"][0]) for claim in (fragment.data or {}).get("claims", []) if claim["cells"]
    }
    blank = {"criterion": "", "criterion_sha": "", "verdict": "not tested", "effect": None, "interval": None}
    out = []
    for claim in CLAIMS.values():
        row = {"id": claim.id, "statement": claim.statement, "source": claim.source, **blank, "unit": "", "record": ""}
        found = tested.get(claim.id, {})
        out.append({**row, **{key: found[key] for key in row if key in found}})
    return out


def _versions(fragments: Iterable[Fragment]) -> dict[str, str]:
    """Versions over all routes; where two routes ran with different ones, both."""
    found: dict[str, list[str]] = {}
    for fragment in fragments:
        for name, version in (fragment.data or {}).get("versions", {}).items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(found[name]) for name in sorted(found)}


def merge(theorems: Sequence[Theorem], fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    """The evidence as one object, in the order of the theorem table."""
    results: dict[str, dict[str, Any]] = {}
    for theorem in theorems:
        results[theorem.label] = {
            "title": theorem.title,
            "uses": list(theorem.uses),
            "source": theorem.source,
            "fully_proved": False,
            **{route: _symbolic(theorem, fragments[route]) for route in SYMBOLIC},
            "check": _check(theorem, fragments["check"]),
            "mutants": _mutants(theorem, fragments),
            "observed": fragments["observed"].results.get(theorem.label),
            "naive": _naive(theorem, fragments),
        }
    for label, status in fully_proved(theorems, results).items():
        results[label]["fully_proved"] = status
    proof = fragments["proof"].data or {}
    sources = {name: digest for f in fragments.values() if f.data for name, digest in f.data["sources"].items()}
    return {
        "schema": 1,
        "versions": _versions(fragments.values()),
        "sources": dict(sorted(sources.items())),
        "trusted_base": proof.get("trusted_base", {"files": [], "lines": 0}),
        "results": results,
        "claims": _claims(fragments["observed"]),
        "checks": _checks(fragments),
    }


def _checks(fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    """What the checks found that belongs to no single result: tests that failed, and the mutants of the code."""
    failed, mutants = (fragments["check"].data or {}).get("failed", []), fragments["code_mutants"].data
    return {"failed": list(failed), "mutants": None if mutants is None else dict(mutants["results"])}


def failures(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``(label, what went wrong)`` for everything that failed; "" where it belongs to no result."""
    found = [(label, what) for label, result in evidence["results"].items() for what in wrong(result)]
    found += [("", f"{node} failed") for node in evidence["checks"]["failed"]]
    mutants = evidence["checks"]["mutants"]
    if mutants is not None and len(mutants["survivors"]) - mutants["explained"] > 0.05 * mutants["total"]:
        found.append(("", "more than one mutant of the code in twenty survives unexplained"))
    return found

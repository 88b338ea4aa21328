"""The routes put together, and what follows: who is fully proved, what failed, what is open, what contradicts itself.

    fully_proved(label) = nothing on it refuted, failed or undecided; every required route established, one of them a
                          proof; and fully_proved(l) for every l that its proof or its Coq twin rests on

Dependencies are those that the routes recorded (the kernel and Coq; no table is typed), and nothing here is ever
stored: :func:`merge` leaves statuses out, and :func:`split` takes merged evidence apart to be judged like fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesgrad.claims import CLAIMS, NOT_TESTED
from bayesgrad.evidence import shape, store
from bayesgrad.evidence.store import HOW, SCHEMA, BadEvidence
from bayesgrad.theorems import Theorem

SYMBOLIC = ("proof", "exact", "code", "sympy", "formal")
RESTS = ("proof", "formal")  # the routes whose dependencies carry statuses
ESTABLISHED = {"check": "passed", "observed": "confirmed"}  # any other route: proved
BLANK = {"reason": "", "oracles": [], "examples": 0, "vacuous": 0, "worst_error": None, "tolerance": None}
TOLERATED = 0.01  # the share of code mutants that may survive unexplained


@dataclass(frozen=True)
class Fragment:
    """One route's fragment, or the reason why there is none that counts; ``stale``: there is one, of another state."""

    route: str
    data: Mapping[str, Any] | None
    reason: str = ""
    stale: bool = False

    @property
    def results(self) -> Mapping[str, Any]:
        """What the route found, by label."""
        return self.data["results"] if self.data else {}


def judged(route: str, written: Mapping[str, Any] | None) -> Fragment:
    """A fragment as it counts today."""
    if written is None:
        return Fragment(route, None, f"no evidence of this route yet: run {HOW[route]}")
    why = store.why_stale(written)
    return Fragment(route, None, f"stale, {why}: run {HOW[route]}", True) if why else Fragment(route, written)


def read_all(folder: Path | None = None) -> dict[str, Fragment]:
    """Every route's fragment as it counts today. Raises :class:`BadEvidence`."""
    return {route: judged(route, store.load(route, folder)) for route in HOW}


def read_merged(path: Path) -> dict[str, Fragment]:
    """The same from merged evidence in one file: nothing that it concludes is believed. Raises :class:`BadEvidence`."""
    data = store.parse(path)
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise BadEvidence(f"{path}: schema {shape.short(found)}, expected {SCHEMA}; make report writes it again")
    wrong = shape.fault(data, shape.MERGED)
    fragments = {} if wrong else split(data)
    for route, fragment in fragments.items():
        wrong = wrong or shape.fault(fragment, shape.FRAGMENTS[route])
    if wrong:
        raise BadEvidence(f"{path}: {wrong}; run make report to write it again")
    return {route: judged(route, fragments.get(route)) for route in HOW}


def split(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Merged evidence as the fragments that it was merged from."""
    found: dict[str, dict[str, Any]] = {}
    for route, head in data["routes"].items():
        found[route] = fragment = {"schema": SCHEMA, "route": route, **head, "results": {}}
        if route == "code_mutants":
            fragment["results"] = data["code_mutants"]
            continue
        for label, result in data["results"].items():
            entry, laws = result[route], result["wrong_laws"].get(route)
            if entry is None or entry["verdict"] == "not run":
                continue
            fragment["results"][label] = entry = dict(entry)
            if route in RESTS:
                entry["rests_on"] = result["rests_on"] if route == "proof" else result["rests_on"][route]
            if route == "proof":
                entry["checker"] = result["checker"]
            if laws and route == "check":
                fragment.setdefault("wrong_laws", {})[label] = laws
            elif laws:
                entry["detail"] = entry["detail"] | {
                    "wrong_laws": [{"id": id, **law} for id, law in laws.get("laws", {}).items()]
                }
    if "proof" in found:
        found["proof"]["trusted_base"] = data["trusted_base"]
    if "check" in found:
        found["check"]["failed"] = data["failed"]
    if "observed" in found:
        cells = ((claim["id"], [cell for cell in claim["cells"] if not cell.get("labels")]) for claim in data["claims"])
        found["observed"]["claims"] = [{"id": id, "cells": rows} for id, rows in cells if rows]
        found["observed"]["records"] = data["records"]
    return found


# --- one result -------------------------------------------------------------------------------------------------------


def _absent(theorem: Theorem, fragment: Fragment) -> tuple[str, str]:
    need = theorem.routes.get(fragment.route, "optional")
    if need not in ("required", "optional"):
        return "not applicable", need
    return "not run", fragment.reason or "nothing of this route for this result yet"


def _symbolic(theorem: Theorem, fragment: Fragment) -> dict[str, Any]:
    entry = {
        key: value
        for key, value in fragment.results.get(theorem.label, {}).items()
        if key not in ("rests_on", "checker")
    }
    if not entry:
        entry["verdict"], entry["reason"] = _absent(theorem, fragment)
    detail = {key: value for key, value in entry.get("detail", {}).items() if key != "wrong_laws"}
    return {"reason": "", "seconds": 0.0, **entry, "detail": detail}


def _check(theorem: Theorem, fragment: Fragment) -> dict[str, Any]:
    entry = dict(fragment.results.get(theorem.label, {}))
    if not entry:
        entry["verdict"], entry["reason"] = _absent(theorem, fragment)
    return {**BLANK, **entry}


def _wrong_laws(theorem: Theorem, fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    """By route the wrong laws that it tried to refute, each with its verdict, and how many it rejected."""
    found = {}
    for route in SYMBOLIC:
        rows = fragments[route].results.get(theorem.label, {}).get("detail", {}).get("wrong_laws", [])
        laws = {row["id"]: {key: value for key, value in row.items() if key != "id"} for row in rows}
        held = {id: row["verdict"] for id, row in laws.items() if row["verdict"] != "not applicable"}
        left = [id for id, verdict in held.items() if verdict != "refuted"]
        if laws:
            counts = {"rejected": len(held) - len(left), "total": len(held), "survivors": left}
            found[route] = {**counts, "laws": laws}
    counted = (fragments["check"].data or {}).get("wrong_laws", {}).get(theorem.label)
    return found if counted is None else {**found, "check": counted}


def rejections(result: Mapping[str, Any]) -> dict[str, Any]:
    """Each wrong law once, over all routes: rejected if a route refuted it and none that held it left it standing."""
    by_route = result["wrong_laws"]
    survivors = [f"{id} ({route})" for route, found in by_route.items() for id in found["survivors"]]
    laws: dict[str, dict[str, Any]] = {}
    for found in by_route.values():
        for id, law in found.get("laws", {}).items():
            if law["verdict"] == "not applicable":
                continue
            known = laws.setdefault(id, dict(law))
            if law["verdict"] not in ("refuted", "rejected"):
                known["verdict"] = law["verdict"]
            elif len(law.get("counterexample") or "") in range(1, len(known.get("counterexample") or "") or 10**9):
                known["counterexample"] = law["counterexample"]  # the shortest tells most
    total = max([len(laws), *(found["total"] for found in by_route.values())])
    standing = {id for found in by_route.values() for id in found["survivors"]}
    return {"rejected": total - len(standing), "total": total, "survivors": survivors, "laws": laws}


def _rests_on(theorem: Theorem, fragments: Mapping[str, Fragment]) -> dict[str, list[str]]:
    """What the proof and its Coq twin rest on; the sources say the second where Coq has not run."""
    proof, formal = (fragments[route].results.get(theorem.label, {}).get("rests_on") for route in RESTS)
    found = {route: set(proof[route]) if proof else set() for route in RESTS}
    found["formal"].update(formal or ())
    return {route: sorted(labels) for route, labels in found.items()}


def parts(label: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a result as its proof states them, each with its assumptions and with its twin in Coq.

    The twin is the theorem that bears the part's name, ``attention_routing_law_fisher`` for the part "fisher"; a first
    part without one has the theorem that bears the label. Only what Coq proved is a twin.
    """
    stated = result["proof"]["detail"].get("parts", [])
    twins = _twins(result["formal"])
    base = _coq_name(label)
    own = [twins.get(f"{base}_{_coq_name(part['name'])}") for part in stated]
    if stated and own[0] is None:
        own[0] = twins.get(base)
    return [
        {
            "name": part["name"],
            "statement": part.get("statement_tex", ""),
            "assumptions": part.get("assumptions", []),
            "steps": len(part.get("steps", [])),
            "theorem": twin["theorem"] if twin else None,
            "axioms": twin.get("axioms", []) if twin else [],
        }
        for part, twin in zip(stated, own, strict=True)
    ]


def _coq_name(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _twins(formal: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The theorems of one result that Coq proved, by name; none of them refutes a wrong law."""
    detail = formal["detail"]
    rows = [{**detail, "verdict": formal["verdict"]}, *detail.get("corollaries", ())]
    proved = (row for row in rows if row.get("verdict", formal["verdict"]) == "proved" and row.get("theorem"))
    return {row["theorem"]: row for row in proved}


def established(entry: Mapping[str, Any] | None, route: str) -> bool:
    """Whether a route's verdict counts: undecided, not run and not applicable never do."""
    return entry is not None and entry["verdict"] == ESTABLISHED.get(route, "proved")


def wrong(result: Mapping[str, Any]) -> list[str]:
    """What went wrong with a result, as sentences' ends; empty if nothing did."""
    found = [f"{route} refuted" for route in SYMBOLIC if result[route]["verdict"] == "refuted"]
    if result["check"]["verdict"] == "failed":
        found.append("check failed")
    if (result["observed"] or {}).get("verdict") == "not confirmed":
        found.append("not confirmed by the runs")
    survivors = rejections(result)["survivors"]
    if survivors:
        found.append(f"wrong laws survived: {', '.join(survivors)}")
    return found


def lacking(theorem: Theorem, result: Mapping[str, Any]) -> list[str]:
    """What a result itself lacks, whatever it rests on: a required route that is open, a route that is undecided."""
    found = []
    for route in (*SYMBOLIC, "check", "observed"):
        verdict = (result[route] or {"verdict": "not run"})["verdict"]
        required = theorem.routes.get(route) == "required" and not established(result[route], route)
        if required or verdict in ("undecided", "refuted", "failed", "not confirmed"):
            found.append(f"{route}: {verdict}")
    if not any(established(result[route], route) for route in RESTS):
        found.append("no proof")
    laws = rejections(result)
    if laws["survivors"] or (theorem.routes.get("wrong_laws") == "required" and laws["total"] < 3):
        found.append(f"wrong laws: {laws['rejected']} of {max(laws['total'], 3)} rejected")
    return found


# --- all results ------------------------------------------------------------------------------------------------------


def rests_on(result: Mapping[str, Any]) -> list[str]:
    """The labels that carry a result's status, each once."""
    return sorted({label for route in RESTS for label in result["rests_on"][route]})


def fully_proved(theorems: Iterable[Theorem], results: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """The status of every label over all that it rests on: the least fixed point, so a circle proves nothing."""
    table = {theorem.label: theorem for theorem in theorems}
    own = {label for label, theorem in table.items() if not lacking(theorem, results[label])}
    proved: set[str] = set()
    while ready := {label for label in own - proved if proved.issuperset(rests_on(results[label]))}:
        proved |= ready
    return {label: label in proved for label in table}


def _claims(fragment: Fragment, proved: Mapping[str, bool]) -> list[dict[str, Any]]:
    """Every claim of the catalogue with a cell for each thing that decided it, a theorem first."""
    tested = {row["id"]: row["cells"] for row in (fragment.data or {}).get("claims", [])}
    out = []
    for claim in CLAIMS.values():
        cells = []
        if claim.labels and all(proved.get(label, False) for label in claim.labels):
            cells.append({"reading": "theorem", "labels": list(claim.labels), "verdict": claim.by_theorem})
        by = [cell["reading"] for cell in cells]
        runs = tested.get(claim.id, [])
        by += ["experiment"] if any(cell["verdict"] not in (NOT_TESTED, "not trained") for cell in runs) else []
        row = {"id": claim.id, "statement": claim.statement, "source": claim.source, "settled_by": by}
        out.append({**row, "labels": list(claim.labels), "cells": [*cells, *runs]})
    return out


def merge(theorems: Sequence[Theorem], fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    """The evidence as one object, in the order of the theorem table. Raises :class:`BadEvidence` for contradictions."""
    results: dict[str, dict[str, Any]] = {}
    for theorem in theorems:
        results[theorem.label] = result = {
            "title": theorem.title,
            "source": theorem.source,
            "parts": [],
            "rests_on": _rests_on(theorem, fragments),
            "read_with": list(theorem.read_with),
            **{route: _symbolic(theorem, fragments[route]) for route in SYMBOLIC},
            "checker": fragments["proof"].results.get(theorem.label, {}).get("checker", {"verdict": "not run"}),
            "check": _check(theorem, fragments["check"]),
            "wrong_laws": _wrong_laws(theorem, fragments),
            "observed": fragments["observed"].results.get(theorem.label),
        }
        result["parts"] = parts(theorem.label, result)
    counting = {route: fragment.data for route, fragment in fragments.items() if fragment.data}
    heads = ("versions", "sources", "patterns", "configuration", "seconds")
    versions: dict[str, set[str]] = {}
    for data in counting.values():
        for name, version in data["versions"].items():
            versions.setdefault(name, set()).add(version)
    evidence = {
        "schema": SCHEMA,
        "versions": {name: ", ".join(sorted(found)) for name, found in sorted(versions.items())},
        "sources": dict(sorted(pair for data in counting.values() for pair in data["sources"].items())),
        "routes": {route: {key: data[key] for key in heads} for route, data in counting.items()},
        "trusted_base": counting.get("proof", {}).get("trusted_base", {"files": [], "lines": 0}),
        "results": results,
        "failed": list(counting.get("check", {}).get("failed", [])),
        "code_mutants": counting.get("code_mutants", {}).get("results"),
        "records": list(counting.get("observed", {}).get("records", [])),
        "claims": _claims(fragments["observed"], fully_proved(theorems, results)),
    }
    known = set(results)
    for route, data in counting.items():
        labels = [] if route == "code_mutants" else [*data["results"], *data.get("wrong_laws", {})]
        if strange := [label for label in labels if label not in known]:
            name = shape.short(strange[0])
            raise BadEvidence(f"{route}: {name} is no result of the catalogue; run {HOW[route]} again")
    if strange := [row["id"] for row in counting.get("observed", {}).get("claims", []) if row["id"] not in CLAIMS]:
        name = shape.short(strange[0])
        raise BadEvidence(f"observed: {name} is no claim of the catalogue; run {HOW['observed']} again")
    if said := contradiction(theorems, evidence):
        raise BadEvidence(said)
    return evidence


def failures(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``(label, what went wrong)`` for everything that failed; "" where it belongs to no result."""
    found = [(label, what) for label, result in evidence["results"].items() for what in wrong(result)]
    found += [("", f"{node} failed") for node in evidence["failed"]]
    mutants = evidence["code_mutants"]
    if mutants is not None and len(mutants["survivors"]) - mutants["explained"] > TOLERATED * mutants["total"]:
        found.append(("", "more than one code mutant in a hundred survives unexplained"))
    if mutants is not None and mutants["refuted"]:
        found.append(("", f"a code mutant explained as equivalent is killed: {mutants['refuted'][0]}"))
    return found


def unsettled(
    theorems: Iterable[Theorem], evidence: Mapping[str, Any], fragments: Mapping[str, Fragment], strict: bool = True
) -> list[tuple[str, str]]:
    """``(route or label, why)`` for all that is neither established nor wrong: stale, not run, undecided.

    A route whose tool is not installed cannot run here; it is listed only if ``strict``.
    """
    found = [
        (route, fragment.reason)
        for route, fragment in fragments.items()
        if fragment.data is None and (strict or fragment.stale or store.can_run(route))
    ]
    for label, result in evidence["results"].items():
        found += [
            (label, f"{route} undecided: {result[route]['reason']}")
            for route in SYMBOLIC
            if result[route]["verdict"] == "undecided"
        ]
    return found


def summary(proved: Mapping[str, bool]) -> str:
    """The last line: how many results are fully proved, and which are not."""
    open_ = [label for label, status in proved.items() if not status]
    told = f"{len(proved) - len(open_)} of {len(proved)} fully proved"
    return f"{told}; not: {', '.join(open_)}" if open_ else told


# --- evidence against itself ------------------------------------------------------------------------------------------


def contradiction(theorems: Iterable[Theorem], evidence: Mapping[str, Any]) -> str:
    """The first thing that merged evidence says against itself or against the catalogue; "" if there is none."""
    results = evidence["results"]
    for theorem in theorems:
        for where, said in _against(theorem, results[theorem.label], results):
            return f"{theorem.label}: {where}: {said}; run make report to write it again"
    if circle := cycle({label: rests_on(result) for label, result in results.items()}):
        return f"rests_on: {' -> '.join(circle)} is a circle, and a circle proves nothing; run {HOW['proof']} again"
    if (found := evidence["code_mutants"]) and found["killed"] + len(found["survivors"]) != found["total"]:
        return f"code_mutants: killed and survivors together are not the total; run {HOW['code_mutants']} again"
    for claim in evidence["claims"]:
        for cell in claim["cells"]:
            low, high = cell.get("interval") or (0, 0)
            if low > high:
                return f"claims: {claim['id']}: interval: {low} lies above {high}; run {HOW['observed']} again"
    return ""


def _against(theorem: Theorem, result: Mapping[str, Any], results: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for route in RESTS:
        for label in result["rests_on"][route]:
            if label not in results:
                yield f"{route}/rests_on", f"{shape.short(label)} is no result of the catalogue"
    for route in SYMBOLIC:
        entry = result[route]
        if entry["verdict"] == "not applicable" and theorem.routes.get(route) == "required":
            yield route, "not applicable, but the catalogue requires it"
        if entry["verdict"] == "proved":
            inner = [row for key in ("parts", "corollaries", "refutations") for row in entry["detail"].get(key, [])]
            for row in (row for row in inner if row.get("verdict") in ("refuted", "undecided")):
                name = shape.short(row.get("name", row.get("theorem")))
                yield route, f"proved, though {name} is {row['verdict']}"
            if entry["detail"].get("counterexample"):
                yield route, "proved, though it holds a counterexample"
            if route == "proof" and result["checker"]["verdict"] in ("refuted", "undecided"):
                yield route, f"proved, though the checker says {result['checker']['verdict']}"
            if route == "proof" and not any(part["steps"] for part in result["parts"]):
                yield route, "proved, though it holds no step"
    check = result["check"]
    if check["verdict"] == "passed" and not check["examples"]:
        yield "check", "passed, though it tried no example"
    if check["verdict"] == "passed" and (check.get("worst_in_tolerance") or 0) > 1:
        yield "check", f"passed, though an error is {check['worst_in_tolerance']:g} tolerances"
    for route, found in result["wrong_laws"].items():
        if found["rejected"] + len(found["survivors"]) != found["total"]:
            yield f"wrong_laws/{route}", "rejected and survivors together are not the total"


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The labels of one circle of a graph, the first again at the end; empty if there is none."""
    left = {label: set(after) & set(graph) for label, after in graph.items()}
    while free := [label for label, after in left.items() if not after]:
        left = {label: after.difference(free) for label, after in left.items() if after}
    path = list(left)[:1]
    while path and path.count(path[-1]) < 2:
        path.append(min(left[path[-1]]))
    return path[path.index(path[-1]) :] if path else []

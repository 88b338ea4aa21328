"""Evidence for tests of the report: fragments that look like those of a full run, written where a test says.

Nothing here is a result. The files are only ever written below a temporary folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bayesgrad.theorems import THEOREMS
from bayesgrad.training.claims import CLAIMS
from derivations import evidence as store

SOURCES = store.sources(["LICENSE"])
VERSIONS = {"python": "3.11.0", "numpy": "2.0"}
SYMBOLIC = ("proof", "exact", "code", "formal")


def proof_detail(label: str) -> dict[str, Any]:
    """A derivation with what a derivation can have: steps, rules, wrong laws with counterexamples."""
    return {
        "statement_tex": next(theorem.statement for theorem in THEOREMS if theorem.label == label),
        "assumptions": ["$a_{ij} \\ge 0$", "row i sees a key"],
        "steps": [
            {
                "rule": "product-rule",
                "why": "the derivative of a product",
                "tex": r"\frac{\partial L}{\partial s_{ij}} = \sum_{k} b_{ik} \frac{\partial a_{ik}}{\partial s_{ij}}",
            },
            {
                "rule": "delta-contraction",
                "why": "one term of the sum remains, $j < m$",
                "tex": r"a_{ij} (b_{ij} - \bar b_i)",
            },
        ],
        "primitives": ["delta-contraction", "product-rule"],
        "definitions": ["advantage"],
        "uses": [],
        "rewritings": {"proved": 2, "total": 2},
        "wrong_laws": [
            {
                "id": f"sign-{n}",
                "kind": "flipped sign",
                "why": "descent, not ascent",
                "verdict": "refuted",
                "counterexample": "n=1",
            }
            for n in range(3)
        ],
    }


def fragments(records: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """A fragment for each route in which every required and optional route is established."""
    found: dict[str, dict[str, Any]] = {}
    for route in (*SYMBOLIC, "check", "observed"):
        found[route] = {
            "schema": 1, "route": route, "versions": VERSIONS, "sources": dict(SOURCES), "seconds": 1.0, "results": {},
        }  # fmt: skip
    for theorem in THEOREMS:
        for route in SYMBOLIC:
            if theorem.routes[route] == "required":
                detail = proof_detail(theorem.label) if route == "proof" else {"entries": 12, "sizes": {"n": 2, "m": 3}}
                found[route]["results"][theorem.label] = {
                    "verdict": "proved", "reason": "", "detail": detail, "seconds": 0.1,
                }  # fmt: skip
        found["check"]["results"][theorem.label] = {
            "verdict": "passed", "reason": "", "oracles": ["autograd", "mpmath"], "examples": 250, "vacuous": 3,
            "worst_error": 3e-16, "worst_in_tolerance": 0.02, "tolerance": 1e-14, "seconds": 0.2,
        }  # fmt: skip
        if theorem.routes["observed"] == "required":
            found["observed"]["results"][theorem.label] = {
                "verdict": "confirmed", "record": None, "worst_error": 1e-12, "observations": 7,
            }  # fmt: skip
    found["check"]["mutants"] = {theorem.label: {"rejected": 4, "total": 4, "survivors": []} for theorem in THEOREMS}
    found["proof"]["trusted_base"] = {"files": ["derivations/proof.py"], "lines": 321}
    found["observed"]["claims"] = [
        {
            "id": claim.id, "statement": claim.statement, "source": claim.source, "criterion": "a criterion",
            "criterion_sha": "0" * 64, "verdict": "not tested", "effect": None, "interval": None, "unit": "",
            "record": None,
        }
        for claim in CLAIMS.values()
    ]  # fmt: skip
    return found


def write(folder: Path, change: Callable[[dict[str, dict[str, Any]]], None] = lambda found: None) -> Path:
    """Write the fragments below ``folder`` after ``change`` has changed them; a route set to None is left out."""
    found = fragments()
    change(found)
    folder.mkdir(parents=True, exist_ok=True)
    for route, fragment in found.items():
        if fragment is not None:
            (folder / f"{route}.json").write_text(json.dumps(fragment), encoding="utf-8")
    return folder


def record() -> dict[str, Any]:
    """A record of an experiment, small and made up, in the form that the training harness writes."""

    def estimate(mean: float, unit: str) -> dict[str, Any]:
        return {"mean": mean, "interval": [mean - 0.1, mean + 0.1], "unit": unit, "per_seed": [mean, mean]}

    def arm(start: float) -> dict[str, Any]:
        steps = list(range(0, 100, 10))
        mean = [start - 0.001 * step for step in steps]
        return {
            "seeds": [0, 1],
            "curve": {
                "unit": "nats", "step": steps, "mean": mean,
                "low": [m - 0.02 for m in mean], "high": [m + 0.02 for m in mean],
            },
            "final": {"loss": estimate(mean[-1], "nats"), "held_out_kl_bits": estimate(0.4321, "bits")},
        }  # fmt: skip

    heat = {
        "unit": "nats per unit of weight, times N",
        "advantage": [[0.0, 0.0, 0.0], [0.5, -0.5, 0.0], [1.25, -1.0, -0.25]],
        "weights": [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.4, 0.4, 0.2]],
    }
    claim = {
        "id": "em-like-faster", "statement": "It is faster.", "source": "a paper", "criterion": "a criterion in words",
        "criterion_sha": "1" * 64, "verdict": "conditional", "effect": 2.5, "interval": [1.5, 3.5], "unit": "times",
        "detail": {},
    }  # fmt: skip
    return {
        "schema": 1, "experiment": "sticky-markov", "code": "X2", "title": "Sticky Markov chain",
        "question": "Which arm?",
        "size": "quick", "state": "finished", "runs": {"done": 4, "planned": 4}, "claims": [claim],
        "arms": {"SGD": arm(2.0), "all x 10": arm(1.9)},
        "facts": {"entropy_rate_nats": 1.8, "floors": {"uniform": {"loss_nats": 2.08, "kl_bits": 0.35}}},
        "heat_map": {"arm": "SGD", "seed": 0, "start": heat, "end": heat},
        "residuals": {"t": [0.2, 0.1], "residual": {"loss": [4e-4, 1e-4]}, "slope": {"loss": 2.0}},
    }  # fmt: skip

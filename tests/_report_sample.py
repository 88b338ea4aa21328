"""Evidence for tests of the report: fragments that look like those of a full run, written where a test says.

Nothing here is a result. The files are only ever written below a temporary folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy

from bayesgrad import evidence as store
from bayesgrad.claims import CLAIMS
from bayesgrad.theorems import THEOREMS
from derivations.formal.dependencies import rests_on

SOURCES = store.sources(["LICENSE"])
VERSIONS = store.versions("numpy")
GRAPH = rests_on()  # a graph over all labels, in a moment: that of the proofs in Coq
SYMBOLIC = ("proof", "exact", "code", "sympy", "formal")


def proof_detail(label: str) -> dict[str, Any]:
    """A derivation with what a derivation can have: steps, rules, wrong laws with counterexamples."""
    return {
        "statement_tex": next(theorem.statement for theorem in THEOREMS if theorem.label == label),
        "parts": [
            {
                "name": "scores",
                "assumptions": ["$a_{ij} \\ge 0$", "row i sees a key"],
                "verdict": "proved",
                "steps": [
                    {
                        "rule": "product-rule",
                        "why": "the derivative of a product",
                        "tex": r"\frac{\partial L}{\partial s_{ij}} = \sum_{k} b_{ik} a_{ik}",
                    },
                    {
                        "rule": "delta-contraction",
                        "why": "one term of the sum remains, $j < m$",
                        "tex": r"a_{ij} (b_{ij} - \bar b_i)",
                    },
                ],
            }
        ],
        "primitives": ["delta-contraction", "product-rule"],
        "definitions": ["advantage"],
        "rewritings": {"proved": 2, "total": 2},
        "wrong_laws": [
            {
                "id": f"scores/sign-{n}",
                "kind": "flipped sign",
                "why": "descent, not ascent",
                "verdict": "refuted",
                "counterexample": "n=1",
            }
            for n in range(3)
        ],
    }


def rejected() -> dict[str, Any]:
    """Four wrong laws that the checks reject: three are those of the proof."""
    names = ["scores/drop", *(f"scores/sign-{n}" for n in range(3))]
    law = {"verdict": "rejected", "counterexample": "at seed 7", "why": "descent, not ascent"}
    return {"rejected": 4, "total": 4, "survivors": [], "laws": {name: dict(law) for name in names}}


def fragments(records: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """A fragment for each route in which every required and optional route is established."""
    found: dict[str, dict[str, Any]] = {}
    for route in (*SYMBOLIC, "check", "code_mutants", "observed"):
        found[route] = {
            "schema": 2, "route": route, "versions": dict(VERSIONS), "sources": dict(SOURCES), "seconds": 1.0,
            "results": {}, "patterns": ["LICENSE"], "configuration": {},
        }  # fmt: skip
    for theorem in THEOREMS:
        for route in SYMBOLIC:
            if route == "sympy" or theorem.routes.get(route) == "required":
                detail = proof_detail(theorem.label) if route == "proof" else {"entries": 12, "sizes": {"n": 2, "m": 3}}
                found[route]["results"][theorem.label] = {
                    "verdict": "proved", "reason": "", "detail": detail, "seconds": 0.1,
                }  # fmt: skip
                if route == "proof":
                    links = {"proof": list(GRAPH[theorem.label]), "formal": list(GRAPH[theorem.label])}
                    found[route]["results"][theorem.label]["rests_on"] = links
        found["check"]["results"][theorem.label] = {
            "verdict": "passed", "reason": "", "oracles": ["autograd", "mpmath"], "examples": 250, "vacuous": 3,
            "worst_error": 3e-16, "worst_in_tolerance": 0.02, "tolerance": 1e-14, "seconds": 0.2,
        }  # fmt: skip
        if theorem.routes["observed"] == "required":
            found["observed"]["results"][theorem.label] = {
                "verdict": "confirmed", "record": None, "worst_error": 1e-12, "observations": 7,
            }  # fmt: skip
    found["check"]["wrong_laws"] = {theorem.label: rejected() for theorem in THEOREMS}
    found["check"]["failed"] = []
    found["code_mutants"]["results"] = {
        "killed": 97, "total": 100, "explained": 2, "operators": {"sign flipped": {"killed": 97, "total": 100}},
        "survivors": [
            {
                "mutant": "em.step: a + b -> a - b", "function": "em.step", "operator": "sign flipped", "nth": nth,
                "line": 7, "checks": 3, "equivalent": reason,
            }
            for nth, reason in enumerate(("the sum is symmetric", "the sum is symmetric", ""), 1)
        ],
        "refuted": [],
    }  # fmt: skip
    found["proof"]["trusted_base"] = {"files": ["bayesgrad/symbolic/proof.py"], "lines": 321}
    found["observed"]["claims"] = [
        {
            "id": claim.id,
            "cells": [
                {
                    "criterion": "a criterion", "criterion_sha": "0" * 64, "verdict": "not tested", "effect": None,
                    "interval": None, "unit": "", "record": None,
                }
            ],
        }
        for claim in CLAIMS.values()
    ]  # fmt: skip
    return found


def cell(found: dict[str, Any], number: int = 0) -> dict[str, Any]:
    """The cell of one claim in the fragments, to be changed."""
    cells: list[dict[str, Any]] = found["observed"]["claims"][number]["cells"]
    return cells[0]


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


def wind_tunnel(experiment: str = "hmm") -> dict[str, Any]:
    """A record of a wind tunnel with every optional key: ``experiment`` is "bijection" or "hmm"."""
    hmm = experiment == "hmm"
    code, title = ("X5", "HMM wind tunnel") if hmm else ("X4", "Bijection wind tunnel")
    last, end = (12, 8) if hmm else (6, 6)
    positions = list(range(1, last + 1))
    uniform = math.log2(5 if hmm else last)
    exact = [uniform * (0.75 + 0.2 / t) if hmm else math.log2(last + 1 - t) for t in positions]
    arms = {"learned positions": 0.03, "rotary": 0.008, "LSTM": 0.1, "position-wise MLP": 1.0}
    floor, short = "uniform", "window filter of 1"
    windows = [1, 2, 3, 5, 8, 12]
    filters = [0.0452, 0.0234, 0.0126, 0.0041, 0.0009, 0.00013]

    def error(size: float, t: int) -> float:
        return size * (1 + 0.3 * math.sin(t)) * (5 if t > end else 1)

    def row(size: float) -> dict[str, Any]:
        model = [value + error(size, t) / 4 for t, value in zip(positions, exact, strict=True)]
        return {
            "position": positions, "trained_to": end, "exact_entropy_bits": exact, "model_entropy_bits": model,
            "entropy_mae_bits": [error(size, t) / 4 for t in positions],
            "kl_bits": [error(size, t) ** 2 for t in positions], "uniform_bits": uniform,
            "floors": {
                floor: {"entropy_mae_bits": [0.4] * last, "kl_bits": [0.1 * t for t in positions]},
                "best constant entropy": {"entropy_mae_bits": [0.2] * last},
                short: {"entropy_mae_bits": [0.1] * last, "kl_bits": [0.04 - 0.03 / t for t in positions]},
            },
        }  # fmt: skip

    def trace(size: float, n: int) -> dict[str, Any]:
        lower = [max(value - 0.1 * n * math.sin(t) ** 2, 0.0) for t, value in zip(positions, exact, strict=True)]
        return {
            "position": positions, "exact_entropy_bits": lower,
            "model_entropy_bits": [value + error(size, t) / 4 for t, value in zip(positions, lower, strict=True)],
            "kl_bits": [error(size, t) ** 2 for t in positions],
        }  # fmt: skip

    def estimate(mean: float, unit: str) -> dict[str, Any]:
        return {"mean": mean, "interval": [0.9 * mean, 1.1 * mean], "unit": unit}

    def arm(n: int, size: float) -> dict[str, Any]:
        steps = list(range(0, 100, 10))
        loss = [1.2 + 0.4 * math.exp(-step / 30) + size / 10 for step in steps]
        return {
            "seeds": [0, 1], "parameters": 451000 + 2000 * n, "steps": 90,
            "curve": {"unit": "nats", "step": steps, "mean": loss, "low": loss, "high": loss},
            "evaluations": {"step": steps, "held_out_kl_bits": [size**2 + math.exp(-step / 9) for step in steps]},
            "final": {
                "loss": estimate(loss[-1], "nats, training sequence"), "held_out_kl_bits": estimate(size**2, "bits"),
                "held_out_entropy_mae_bits": estimate(size / 4, "bits"),
            },
        }  # fmt: skip

    def claim(id: str, verdict: str) -> dict[str, Any]:
        return {
            "id": id, "statement": f"About {id}.", "source": "a paper", "criterion": "a criterion in words",
            "criterion_sha": "2" * 64, "verdict": verdict, "effect": 0.0123, "interval": [0.01, 0.02], "unit": "bits",
            "detail": {},
        }  # fmt: skip

    edges = [n / 5 for n in range(6)]
    ids = ["hmm-transformer-filters", "length-generalisation-smooth"] if hmm else ["mlp-fails"]
    found = {
        "schema": 1, "experiment": experiment, "code": code, "title": title, "question": "How close to Bayes?",
        "size": "quick", "state": "finished", "runs": {"done": 8, "planned": 8},
        "claims": [claim(id, "supported") for id in ("transformer-reaches-bayes", "tracks-single-sequences", *ids)],
        "arms": {name: arm(n, size) for n, (name, size) in enumerate(arms.items())},
        "facts": {"floors": {floor: {"loss_nats": 1.6, "kl_bits": 0.6}, short: {"kl_bits": 0.04}}},
        "by_position": {name: row(size) for name, size in arms.items()},
        "traces": {name: [trace(size, n) for n in range(4)] for name, size in arms.items()},
        "calibration": {
            name: {"edges": edges, "counts": [[int(1e4 * 9.0 ** -abs(i - j)) for j in range(5)] for i in range(5)]}
            for name in arms
        },
        "trained": {
            name: {"trained": size < 0.5, "reason": f"KL {size**2} bits against 0.6 of uniform"}
            for name, size in arms.items()
        },
        "seconds": {name: 10.0 * (n + 1) for n, name in enumerate(arms)},
        "tuning": [
            {"arm": name, "update": {"kind": "adamw", "rate": rate}, "seed": seed, "held_out_kl_bits": rate + seed / 99}
            for name in arms
            for rate in (0.001, 0.003)
            for seed in (0, 1)
        ],
    }  # fmt: skip
    if not hmm:
        curve = {"step": [0, 50, 100], "loss": [1.8, 1.3, 1.1]}
        found["mislabelled"] = {"uniform_loss_nats": 1.79, "right": curve, "wrong": {**curve, "loss": [1.8, 1.0, 0.2]}}
        return found
    found["memory"] = {}
    for name, size in arms.items():
        kl = size**2 or 1e-6
        worth = float(numpy.interp(-math.log(kl), [-math.log(value) for value in filters], windows))
        found["memory"][name] = {
            "kl_bits": kl, "equivalent_memory": worth, "at_least": kl < filters[-1], "windows": windows,
            "window_kl_bits": filters,
        }  # fmt: skip
    found["ranges"] = {
        name: {
            "in_range": {"kl_bits": estimate(size**2, "bits"), "entropy_mae_bits": estimate(size / 4, "bits")},
            "beyond": {"kl_bits": estimate(25 * size**2, "bits"), "entropy_mae_bits": estimate(size, "bits")},
        }
        for name, size in arms.items()
    }
    return found


def records() -> dict[str, dict[str, Any]]:
    """A record of each kind, by a name for it."""
    return {"sticky": record(), "bijection": wind_tunnel("bijection"), "hmm": wind_tunnel("hmm")}


def write_records(folder: Path) -> list[Path]:
    """The sample records as files below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.json" for name in records()]
    for path, content in zip(paths, records().values(), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    return paths

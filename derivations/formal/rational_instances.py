"""The formulas of ``FieldFormulas.v`` and the shipped functions, on the same rational numbers.

The theorems' right-hand sides are definitions of a functor that Coq instantiates twice: over R, where the theorems are
proved, and over Q, where it computes. Random small instances (a fixed seed) go through three hands: Coq over Q, the
functions of ``bayesgrad`` on exact fractions, and literal loops (:mod:`.rational_loops`). All three must agree exactly,
and the floats of ``bayesgrad`` to :data:`TOLERANCE`. The exponential is x -> 2^x at whole numbers (:mod:`.rationals`);
in floats it is exp(x log 2), so whatever stands in an exponent carries the factor :attr:`Kit.unit`.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bayesgrad import bayes, cross_entropy, dynamics, em, fisher, gradients, heads, projections, softmax
from bayesgrad.block import attention_block_gradients
from derivations.formal import coq
from derivations.formal import rational_loops as loops
from derivations.formal.audit import between, mark
from derivations.formal.rational_loops import Instance
from derivations.formal.rationals import Rationals, rationals

SEED = 20251230
COUNT = 4
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Kit:
    """How numbers are handed to bayesgrad: as exact fractions (unit 1) or as floats (unit log 2)."""

    array: Callable[[Any], Any]
    number: Callable[[Fraction], Any]
    unit: Any


EXACT = Kit(rationals, lambda x: x, 1)
FLOATS = Kit(lambda x: np.asarray([[float(c) for c in row] for row in x]), float, math.log(2))


@dataclass(frozen=True)
class Row:
    """One formula of one label: a Coq expression of type ``list Q``, the shipped call, the literal loops."""

    label: str
    coq: str
    shipped: Callable[[Instance, Kit], Any]
    loops: Callable[[Instance], list[list[Fraction]]]


def _head(I: Instance, K: Kit, field: str) -> Any:
    q, k, v, u, bias = (K.array(getattr(I, name)) for name in ("q", "k", "v", "u", "bias"))
    scale = K.number(I.scale) * K.unit
    got = gradients.attention_gradients(q, k, v, u, mask=np.asarray(I.vis), bias=bias * K.unit, scale=scale)
    # dL/dq and dL/dk carry the scale that was given, which has the unit in it.
    return getattr(got, field) / (K.unit if field in ("queries", "keys") else 1)


def _groups(I: Instance, K: Kit, field: str) -> Any:
    """Two query heads on one key/value head: the second has the queries and upstream gradients in reverse order."""
    stack = (lambda *x: Rationals(np.stack([y.values for y in x]))) if K is EXACT else (lambda *x: np.stack(x))
    q, k, v, u, bias = (K.array(getattr(I, name)) for name in ("q", "k", "v", "u", "bias"))
    got = heads.grouped_attention_gradients(
        stack(q, q[::-1]), stack(k), stack(v), stack(u, u[::-1]),
        mask=np.asarray(I.vis), bias=bias * K.unit, scale=K.number(I.scale) * K.unit,
    )  # fmt: skip
    return getattr(got, field)[0] / (K.unit if field == "keys" else 1)


def _logits(I: Instance, K: Kit) -> Any:
    return cross_entropy(K.array(I.z) * K.unit, K.array(I.t), reduction="sum").logit_gradient


def _upstream(I: Instance, K: Kit) -> Any:
    """u of a whole block whose context is W_V's only row, so that its logits are the whole numbers of row 0 of z."""
    one = K.array([[Fraction(1)]])
    W_O = K.array(I.W_up) * K.unit
    got = attention_block_gradients(
        one, one, one, one, W_O, K.array(I.t[:1]), scale=K.number(I.scale), reduction="sum", intermediates=True
    )
    assert got.attention is not None
    return got.attention.upstream / K.unit


def _projections(I: Instance, K: Kit) -> Any:
    got = projections.projection_gradients(K.array(I.x), K.array(I.dq), K.array(I.dk), K.array(I.dv), y=K.array(I.y))
    return [got.W_Q, got.W_K, got.W_V, projections.read_out_gradients(K.array(I.u), K.array(I.t)).W_O]


def _inputs(I: Instance, K: Kit) -> Any:
    W_Q, W_K, W_V = K.array(I.W_Q), K.array(I.W_K), K.array(I.W_V)
    dq, dk, dv = K.array(I.dq), K.array(I.dk), K.array(I.dv)
    own = projections.input_gradients(dq, dk[: I.n], dv[: I.n], W_Q, W_K, W_V)
    other = projections.input_gradients(dq, dk, dv, W_Q, W_K, W_V, cross=True)
    return [own.x, other.x, other.y]


def _a(I: Instance, K: Kit) -> Any:
    return K.array(loops.weights(I))


def _simplex(I: Instance, K: Kit) -> Any:
    return K.array([I.prior] * I.n)


def _replicator(I: Instance, K: Kit) -> Any:
    got = dynamics.replicator_velocity(_simplex(I, K), K.array(I.b))
    return [got.weights, got.mean_compatibility]


def _value_step(I: Instance, K: Kit) -> Any:
    got = dynamics.value_step(_a(I, K), K.array(I.u), eta=K.number(I.eta))
    return [got.context, got.loss]


def _score_step(I: Instance, K: Kit) -> Any:
    got = dynamics.score_step(_a(I, K), K.array(I.u), K.array(I.v), eta=K.number(I.eta))
    return [got.scores, got.context, got.loss]


ROWS: tuple[Row, ...] = (
    Row(
        "softmax.shift-invariance",
        "table n m (fun i => OverQ.normalise (vis i) m (fun j => two (s i j + 3)))",
        lambda I, K: softmax(K.array(loops.scores(I)) * K.unit, mask=np.asarray(I.vis)),
        loops.weights,
    ),
    Row(
        "softmax.jacobian",
        "flat_map (fun i => table m m (OverQ.fisher (a i))) (seq 0 n)",
        lambda I, K: fisher(_a(I, K)),
        lambda I: [
            [(x if j == k else 0) - x * y for j, x in enumerate(a) for k, y in enumerate(a)] for a in loops.weights(I)
        ],
    ),
    Row(
        "softmax.fisher",
        "map (fun i => OverQ.variance m (prior i) (b' i)) (seq 0 n)",
        lambda I, K: -dynamics.replicator_velocity(_simplex(I, K), K.array(I.b)).mean_compatibility,
        lambda I: [[sum(w * x * x for w, x in zip(I.prior, b, strict=True)) - loops.dot(I.prior, b) ** 2 for b in I.b]],
    ),
    Row("loss.logit-gradient", "table n C r", _logits, loops.residuals),
    Row(
        "attention.upstream",
        "table 1 1 (fun i => OverQ.back_through C (OverQ.logit_gradient C (OverQ.normalise (fun _ => true) C "
        "(fun c => two (W_up 0 c))) (t i)) W_up)",
        _upstream,
        lambda I: [[loops.dot(loops.residual(I.W_up[0], I.t[0]), I.W_up[0])]],
    ),
    Row(
        "attention.weight-gradient",
        "table n m b",
        lambda I, K: gradients.compatibility(K.array(I.u), K.array(I.v)),
        loops.compatibilities,
    ),
    Row(
        "attention.delta-identity",
        "map (fun i => OverQ.mean m (a i) (b i)) (seq 0 n)",
        lambda I, K: gradients.mean_compatibility(K.array(I.u), K.array(loops.contexts(I))),
        lambda I: [[loops.dot(a, b) for a, b in zip(loops.weights(I), loops.compatibilities(I), strict=True)]],
    ),
    Row("attention.routing-law", "table n m G", lambda I, K: _head(I, K, "scores"), loops.score_gradients),
    Row(
        "attention.value-law",
        "table m d (OverQ.value_gradient n a u)",
        lambda I, K: _head(I, K, "values"),
        loops.value_gradients,
    ),
    Row(
        "attention.query-law",
        "table n dk (OverQ.query_gradient m scale G k) ++ [OverQ.scale_gradient n m dk G q k]",
        lambda I, K: [_head(I, K, "queries"), _head(I, K, "scale")],
        lambda I: [*loops.query_gradients(I), [loops.scale_gradient(I)]],
    ),
    Row(
        "attention.key-law",
        "table m dk (OverQ.key_gradient n scale G q)",
        lambda I, K: _head(I, K, "keys"),
        loops.key_gradients,
    ),
    Row(
        "attention.projection-laws",
        "table dx dk (OverQ.weight_matrix_gradient n x dq) ++ table dx dk (OverQ.weight_matrix_gradient m y dk') ++ "
        "table dx d (OverQ.weight_matrix_gradient m y dv) ++ table d C (OverQ.weight_matrix_gradient n u t)",
        _projections,
        lambda I: [*loops.outer(I.x, I.dq), *loops.outer(I.y, I.dk), *loops.outer(I.y, I.dv), *loops.outer(I.u, I.t)],
    ),
    Row(
        "attention.input-law",
        "table n dx (fun i r => OverQ.back_through dk (dq i) W_Q r + OverQ.back_through dk (dk' i) W_K r + "
        "OverQ.back_through d (dv i) W_V r) ++ table n dx (fun i => OverQ.back_through dk (dq i) W_Q) ++ "
        "table m dx (fun j r => OverQ.back_through dk (dk' j) W_K r + OverQ.back_through d (dv j) W_V r)",
        _inputs,
        loops.input_gradients,
    ),
    Row(
        "attention.multi-head",
        "table m d (fun j c => OverQ.visible_sum (fun _ => true) 2 (fun h => "
        "OverQ.value_gradient n (head_a h) (head_u h) j c)) ++ "
        "table m dk (fun j c => OverQ.visible_sum (fun _ => true) 2 (fun h => "
        "OverQ.key_gradient n scale (head_G h) (head_q h) j c))",
        lambda I, K: [_groups(I, K, "values"), _groups(I, K, "keys")],
        loops.grouped_gradients,
    ),
    Row(
        "dynamics.loss-decrease",
        "[0 - eta * OverQ.Sum n (fun i => OverQ.dot d (u i) (u i))]",
        lambda I, K: dynamics.loss_decrease(K.array(I.u), eta=K.number(I.eta)),
        lambda I: [[-I.eta * sum(x * x for row in I.u for x in row)]],
    ),
    Row(
        "dynamics.value-step",
        "table n d (fun i c => 0 - eta * OverQ.value_step_context n m a u i c) ++ "
        "[0 - eta * OverQ.Sum m (fun j => OverQ.dot d (OverQ.value_gradient n a u j) (OverQ.value_gradient n a u j))]",
        _value_step,
        loops.value_step,
    ),
    Row(
        "dynamics.score-step",
        "table n m (fun i j => eta * ds i j) ++ "
        "table n d (fun i => OverQ.context m "
        "(fun j => a i j * (eta * ds i j - OverQ.mean m (a i) (fun k => eta * ds i k))) v) ++ "
        "[0 - eta * OverQ.Sum n (fun i => OverQ.Sum m (fun j => ds i j * ds i j))]",
        _score_step,
        loops.score_step,
    ),
    Row(
        "dynamics.feedback",
        "table n m (fun i j => eta * (OverQ.feedback n d a u i j - OverQ.mean m (a i) (OverQ.feedback n d a u i)))",
        lambda I, K: dynamics.feedback(_a(I, K), K.array(I.u), eta=K.number(-I.eta)).advantage * -1,
        loops.feedback_advantages,
    ),
    Row(
        "dynamics.weight-space",
        "table m d (fun j c => 0 - eta * OverQ.Sum m (fun l => OverQ.dot dx (y j) (y l) * dv l c))",
        lambda I, K: dynamics.weight_space_value_step(K.array(I.y), K.array(I.dv), eta=K.number(I.eta)),
        lambda I: [
            [-I.eta * sum(loops.dot(x, y) * g[c] for y, g in zip(I.y, I.dv, strict=True)) for c in range(I.d)]
            for x in I.y
        ],
    ),
    Row(
        "dynamics.natural-routing",
        "table n m (fun i j => 0 - OverQ.score_gradient m (prior i) (b' i) j) ++ "
        "map (fun i => 0 - OverQ.variance m (prior i) (b' i)) (seq 0 n)",
        _replicator,
        loops.replicator,
    ),
    Row(
        "em.fisher-identity",
        "[OverQ.mean m (OverQ.bayes_rule m (prior 0) (fun j => two (0 - cost 0 j))) (dc 0)]",
        lambda I, K: em.mixture_loss_change(K.array([I.prior]), K.array([I.cost]) * K.unit, K.array([I.dc])),
        lambda I: [[loops.dot(loops.bayes_rule(I.prior, [Fraction(2) ** int(-c) for c in I.cost]), I.dc)]],
    ),
    Row(
        "em.proximal-e-step",
        "table n m (fun i => OverQ.bayes_rule m (prior i) (fun j => two (0 - 3 * b' i j)))",
        lambda I, K: em.proximal_e_step(_simplex(I, K), K.array(I.b) * K.unit, eta=K.number(Fraction(3))),
        lambda I: [loops.bayes_rule(I.prior, [Fraction(2) ** int(-3 * x) for x in b]) for b in I.b],
    ),
    Row(
        "em.proximal-m-step",
        "table m d (fun j c => v j c - eta * OverQ.value_gradient n a u j c)",
        lambda I, K: em.proximal_m_step(K.array(I.v), _a(I, K), K.array(I.u), eta=K.number(I.eta)),
        lambda I: [
            [x - I.eta * g for x, g in zip(row, grad, strict=True)]
            for row, grad in zip(I.v, loops.value_gradients(I), strict=True)
        ],
    ),
    Row(
        "em.gaussian-mixture",
        "table n m (fun i => OverQ.bayes_rule m (prior 0) (fun j => two (2 * OverQ.dot dk (q i) (k j))))",
        lambda I, K: em.gaussian_mixture_responsibilities(
            K.array(I.q), K.array(I.k), priors=K.array([I.prior])[0], scale=K.number(Fraction(2)) * K.unit
        ),
        lambda I: [loops.bayes_rule(I.prior, [Fraction(2) ** int(2 * loops.dot(q, k)) for k in I.k]) for q in I.q],
    ),
    Row(
        "bayes.posterior-predictive",
        "table 1 2 (fun i y => OverQ.mean m (prior i) (fun h => outcome h y))",
        lambda I, K: bayes.posterior_predictive(K.array([I.prior])[0], K.array(I.outcome)),
        lambda I: [[loops.dot(I.prior, [row[y] for row in I.outcome]) for y in range(2)]],
    ),
)


def flat(made: Any) -> list[Any]:
    """The entries of an array, or of several, row by row."""
    if isinstance(made, list | tuple):
        return [x for part in made for x in flat(part)]
    if isinstance(made, Rationals):
        return made.numbers()
    return [float(x) for x in np.asarray(made).reshape(-1)] if isinstance(made, np.ndarray | np.generic) else [made]


@dataclass(frozen=True)
class Agreement:
    """What the comparisons of one label came to: ``fault`` is "" exactly if all agree."""

    numbers: int
    worst_error: float
    fault: str


def in_python(instances: Iterable[Instance]) -> dict[str, Agreement]:
    """bayesgrad against the loops: exact on fractions, to :data:`TOLERANCE` in float64."""
    out: dict[str, Agreement] = {}
    for index, I in enumerate(instances):
        for row in ROWS:
            want = flat(row.loops(I))
            exact, floats = flat(row.shipped(I, EXACT)), flat(row.shipped(I, FLOATS))
            old = out.get(row.label, Agreement(0, 0.0, ""))
            worst, fault = old.worst_error, old.fault
            if exact != want:
                fault = fault or f"instance {index}: bayesgrad on fractions differs from the loops"
            if len(floats) != len(want):
                fault = fault or f"instance {index}: bayesgrad in float64 has another shape than the loops"
            else:
                top = max(1.0, *(abs(float(y)) for y in want))
                worst = max(worst, *(abs(x - float(y)) / top for x, y in zip(floats, want, strict=True)))
                if not worst <= TOLERANCE:
                    fault = (
                        fault or f"instance {index}: bayesgrad in float64 is {worst:.1e} off, allowed {TOLERANCE:.0e}"
                    )
            out[row.label] = Agreement(old.numbers + len(want), worst, fault)
    return out


def number(x: Fraction) -> str:
    """A rational number as Coq writes it."""
    return f"({x.numerator} # {x.denominator})"


def listed(values: Iterable[Fraction]) -> str:
    return f"[{'; '.join(number(Fraction(x)) for x in values)}]"


PREAMBLE = """From Coq Require Import List QArith Qreduction.
Import ListNotations.
From Bayesgrad Require Import FieldFormulas.
Open Scope Q_scope.
Definition at2 (rows : list (list Q)) (i j : nat) : Q := nth j (nth i rows nil) 0.
Definition table n m (f : nat -> nat -> Q) : list Q := flat_map (fun i => map (f i) (seq 0 m)) (seq 0 n).
Definition grid n m (f : nat -> nat -> Q) : list (list Q) := map (fun i => map (f i) (seq 0 m)) (seq 0 n).
Definition two (x : Q) : Q := Qpower 2 (Qnum (Qred x)).
Definition same (x y : list Q) : bool :=
  Nat.eqb (length x) (length y) && forallb (fun p => Qeq_bool (fst p) (snd p)) (combine x y).
"""

DERIVED = """Definition s := OverQ.scores dk scale q k bias.
Definition a_rows := Eval vm_compute in grid n m (fun i => OverQ.normalise (vis i) m (fun j => two (s i j))).
Definition a := at2 a_rows.
Definition b_rows := Eval vm_compute in grid n m (fun i => OverQ.compatibility d (u i) v).
Definition b := at2 b_rows.
Definition G_rows := Eval vm_compute in grid n m (fun i => OverQ.score_gradient m (a i) (b i)).
Definition G := at2 G_rows.
Definition ds i j := a i j * OverQ.advantage m (a i) (b i) j.
Definition r i := OverQ.logit_gradient C (OverQ.normalise (fun _ => true) C (fun c => two (z i c))) (t i).
Definition turned (h i : nat) : nat := match h with O => i | S _ => n - 1 - i end.
Definition head_q (h i : nat) := q (turned h i).
Definition head_u (h i : nat) := u (turned h i).
Definition head_a_rows h := grid n m (fun i => OverQ.normalise (vis i) m
  (fun j => two (OverQ.scores dk scale (head_q h) k bias i j))).
Definition head_a_0 := Eval vm_compute in head_a_rows 0.
Definition head_a_1 := Eval vm_compute in head_a_rows 1.
Definition head_a (h : nat) := at2 (match h with O => head_a_0 | S _ => head_a_1 end).
Definition head_G (h i : nat) := OverQ.score_gradient m (head_a h i) (OverQ.compatibility d (head_u h i) v).
"""

_MATRICES = {"dk": "dk'", "b": "b'"}


def setup(I: Instance) -> str:
    """The numbers of one instance as Coq definitions."""
    sizes = {"n": I.n, "m": I.m, "d": I.d, "C": I.C, "dk": I.d_k, "dx": I.d_x}
    lines = [f"Definition {name} : nat := {size}%nat.\n" for name, size in sizes.items()]
    lines += [f"Definition {name} : Q := {number(getattr(I, name))}.\n" for name in ("scale", "eta")]
    seen = "; ".join(f"[{'; '.join('true' if x else 'false' for x in row)}]" for row in I.vis)
    lines.append(f"Definition vis (i j : nat) : bool := nth j (nth i [{seen}] nil) false.\n")
    for name in loops.MATRICES:
        rows = "; ".join(listed(row) for row in getattr(I, name))
        lines.append(f"Definition {_MATRICES.get(name, name)} := at2 [{rows}].\n")
    for name in ("cost", "dc"):
        lines.append(f"Definition {name} := at2 [{listed(getattr(I, name))}].\n")
    lines.append(f"Definition prior (i : nat) := at2 [{listed(I.prior)}] 0%nat.\n")
    return "".join(lines)


def script(instances: Iterable[Instance]) -> str:
    """Commands that make Coq evaluate every row over Q and say whether it is what the loops say."""
    lines = [PREAMBLE]
    for index, I in enumerate(instances):
        lines += [f"Module Instance{index}.\n", setup(I), DERIVED]
        for row in ROWS:
            lines.append(mark("instance", f"{row.label}/{index}"))
            lines.append(f"Eval vm_compute in same ({row.coq}) {listed(flat(row.loops(I)))}.\n")
        lines.append(f"End Instance{index}.\n")
    return "".join([*lines, mark("end", "all")])


def in_coq(answers: str, count: int) -> dict[str, str]:
    """``{label: fault}`` from Coq's answers to :func:`script`; "" where every instance agrees."""
    faults: dict[str, str] = {}
    for row in ROWS:
        faults.setdefault(row.label, "")
        for index in range(count):
            said = between(answers, "instance", f"{row.label}/{index}")
            if not re.match(r"\s*= true\s*: bool\b", said):
                complaint = " ".join(said[said.find("Error") :].split())[:300] if "Error" in said else "another value"
                faults[row.label] = faults[row.label] or f"instance {index}: Coq over Q says {complaint}"
    return faults


def compare(folder: Any, coqtop: str = "coqtop", seed: int = SEED, count: int = COUNT) -> Mapping[str, Agreement]:
    """All labels that have a formula: Coq over Q, bayesgrad and the loops on the same random numbers."""
    rng = random.Random(seed)
    instances = [loops.draw(rng) for _ in range(count)]
    faults = in_coq(coq.evaluate(folder, script(instances), coqtop), count)
    found = in_python(instances)
    return {
        label: Agreement(found[label].numbers, found[label].worst_error, found[label].fault or fault)
        for label, fault in faults.items()
    }

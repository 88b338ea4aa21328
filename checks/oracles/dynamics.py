"""Oracles for what a gradient step does: jets along the step, and 50-digit changes along PyTorch's gradient."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference
from bayesgrad.testing.examples import Head, Mixture, Stepped, SteppedLayer
from bayesgrad.testing.jets import Jet, constant, leaf, matmul, matmul_t
from bayesgrad.testing.oracles import forward, reverse
from checks.oracles import differences, loops, tangents
from checks.oracles.chances import numbers


def value(jet: Jet) -> Reference:
    """A jet's value as a reference."""
    return Reference(jet.x, jet.ex)


def slope(jet: Jet) -> Reference:
    """The derivative of a jet that moves in one direction."""
    return Reference(jet.dx[0], jet.edx[0])


def descent(example: Stepped, name: str) -> Jet:
    """The step -eta dL/d(name) as a value with its error bound."""
    gradient, bound = forward.gradients(example.head, name)[name]
    step = -example.eta * gradient
    return Jet(step, None, abs(example.eta) * bound + np.abs(step))


def moving(x: np.ndarray, step: Jet) -> Jet:
    """A variable that moves along a step which has an error of its own."""
    return Jet(x, step.x[None], None, step.ex[None])


def torch_step(example: Stepped, name: str) -> np.ndarray:
    """-eta dL/d(name) by reverse mode."""
    return -example.eta * reverse.gradients(example.head, name)[name]


def _references(**arrays: np.ndarray) -> dict[str, Reference]:
    return {name: Reference(array) for name, array in arrays.items()}


ALONG = "50-digit changes along PyTorch's gradient"
PUSHED = "PyTorch forward mode along its own gradient"
JETS = "forward jets along the step"


def _value_step(example: Stepped) -> dict[str, Reference]:
    step = descent(example, "v")
    stage = forward.run_head(example.head, v=moving(example.head.v, step))
    return {"dv": value(step), "dg": slope(stage["g"]), "dL": slope(stage["L"])}


def _value_step_exactly(example: Stepped) -> dict[str, Reference]:
    step = torch_step(example, "v")
    found = differences.changes(differences.head_stages(example.head, {"v": step}), "g", "L")
    return _references(dv=step, dg=found["g"], dL=found["L"])


def _value_step_pushed(example: Stepped) -> dict[str, Reference]:
    step = torch_step(example, "v")
    found = tangents.head_slopes(example.head, {"v": step})
    return _references(dv=step, dg=found["g"], dL=found["L"])


VALUE_STEP = (Oracle(JETS, _value_step), Oracle(ALONG, _value_step_exactly), Oracle(PUSHED, _value_step_pushed))


def _score_step(example: Stepped) -> dict[str, Reference]:
    step = descent(example, "s")
    stage = forward.run_head(example.head, s=moving(example.head.scores(), step))
    return {"ds": value(step), "da": slope(stage["a"]), "dg": slope(stage["g"]), "dL": slope(stage["L"])}


def _score_step_exactly(example: Stepped) -> dict[str, Reference]:
    step = torch_step(example, "s")
    found = differences.slopes(differences.head_stages(example.head, {"s": step}), "a", "g", "L")
    return _references(ds=step, da=found["a"], dg=found["g"], dL=found["L"])


def _score_step_pushed(example: Stepped) -> dict[str, Reference]:
    step = torch_step(example, "s")
    found = tangents.head_slopes(example.head, {"s": step})
    return _references(ds=step, da=found["a"], dg=found["g"], dL=found["L"])


SCORE_STEP = (Oracle(JETS, _score_step), Oracle(ALONG, _score_step_exactly), Oracle(PUSHED, _score_step_pushed))

BLOCKS = ("q", "k", "v")


def _loss_decrease(example: Stepped) -> dict[str, Reference]:
    head = example.head
    steps = {name: moving(getattr(head, name), descent(example, name)) for name in BLOCKS}
    return {"dL": slope(forward.run_head(head, **steps)["L"])}


def _loss_decrease_exactly(example: Stepped) -> dict[str, Reference]:
    steps = {name: torch_step(example, name) for name in BLOCKS}
    return _references(dL=differences.slopes(differences.head_stages(example.head, steps), "L")["L"])


def _loss_decrease_pushed(example: Stepped) -> dict[str, Reference]:
    steps = {name: -example.eta * x for name, x in reverse.gradients(example.head, *BLOCKS).items()}
    return _references(dL=tangents.head_slopes(example.head, steps)["L"])


LOSS_DECREASE = (
    Oracle(JETS, _loss_decrease),
    Oracle(ALONG, _loss_decrease_exactly),
    Oracle(PUSHED, _loss_decrease_pushed),
)


def advantage_of(a: Jet, b: Jet) -> Jet:
    """A = sum_k a_k b_k - b."""
    return (a * b).sum(-1)[..., None] - b


def _feedback(example: Stepped) -> dict[str, Reference]:
    a = forward.run_head(example.head)["a"]
    db = matmul_t(constant(example.head.u), descent(example, "v"))
    return {"db": value(db), "dA": value(advantage_of(a, db))}


def _feedback_exactly(example: Stepped) -> dict[str, Reference]:
    stages = differences.head_stages(example.head, {"v": torch_step(example, "v")}, frozen=("a",))
    found = differences.changes(stages, "b", "A")
    return _references(db=found["b"], dA=found["A"])


def _feedback_pushed(example: Stepped) -> dict[str, Reference]:
    found = tangents.head_slopes(example.head, {"v": torch_step(example, "v")}, frozen=("a",))
    return _references(db=found["b"], dA=found["A"])


FEEDBACK = (Oracle(JETS, _feedback), Oracle(ALONG, _feedback_exactly), Oracle(PUSHED, _feedback_pushed))


def uniform(head: Head) -> np.ndarray:
    """Every query attends to every key alike."""
    n, m = head.visible.shape
    return np.full((n, m), 1 / m)


def _uniform(example: Stepped) -> dict[str, Reference]:
    """dv by jets of L = u.g with the uniform weights, and what it does to b and A."""
    head = example.head
    a = Jet(uniform(head), None, uniform(head))
    loss = (matmul(a, leaf(head.v)) * head.u).sum(-2, -1)
    shape = head.v.shape
    dv = Jet(loss.dx.reshape(shape), None, loss.edx.reshape(shape)) * -example.eta
    db = matmul_t(constant(head.u), dv)
    return {"db": value(db), "dA": value(advantage_of(a, db))}


def _uniform_exactly(example: Stepped) -> dict[str, Reference]:
    """In exact fractions: every u is dyadic, every weight 1/m."""
    u = [[Fraction(x) for x in row] for row in example.head.u]
    m, eta = example.head.k.shape[0], Fraction(example.eta)
    total = [sum(column, Fraction(0)) for column in zip(*u, strict=True)]
    db = [[-eta * sum(x * y for x, y in zip(row, total, strict=True)) / m] * m for row in u]
    dA = [[sum(row, Fraction(0)) / m - x for x in row] for row in db]
    return {"db": Reference(numbers(db)), "dA": Reference(numbers(dA))}


UNIFORM_FEEDBACK = (
    Oracle("forward jets at uniform weights", _uniform),
    Oracle("exact fractions at uniform weights", _uniform_exactly),
)


def _parts(example: SteppedLayer) -> tuple[np.ndarray, np.ndarray]:
    """The weights, held fixed, and dv = -eta dL/dv by reverse mode."""
    layer = example.layer
    return layer.head().weights(), -example.eta * reverse.layer_gradients(layer, "v")["v"]


def _feedback_full(example: SteppedLayer) -> dict[str, Reference]:
    layer = example.layer
    gradient, bound = forward.layer_gradients(layer, "v")["v"]
    start = forward.run_layer(layer)
    a = constant(layer.head().weights())
    a.ex = layer.head().weights() * 16 * (1 + np.abs(layer.head().scores()).max())
    v = moving(start["v"].x, Jet(-example.eta * gradient, None, abs(example.eta) * bound))
    v.ex = start["v"].ex
    W, c = Jet(layer.W_O, example.dW[None]), Jet(layer.bias("c_O"), example.dc[None])
    t = layer.soft_targets()
    e = (matmul(matmul(a, v), W) + c).exp()
    r = e / e.sum(-1)[..., None] * t.sum(-1)[:, None] - t
    u = matmul_t(r, W)
    b = matmul_t(u, v)
    return {"du": slope(u), "db": slope(b), "dA": slope(advantage_of(a, b))}


def _feedback_full_exactly(example: SteppedLayer) -> dict[str, Reference]:
    _, dv = _parts(example)
    stages = differences.feedback_stages(example.layer, dv, example.dW, example.dc)
    found = differences.slopes(stages, "u", "b", "A")
    return _references(du=found["u"], db=found["b"], dA=found["A"])


def upstream_slope(example: SteppedLayer) -> np.ndarray:
    """du along the step, by double backward."""
    return np.asarray(_feedback_full_twice(example)["du"].value)


def _feedback_full_twice(example: SteppedLayer) -> dict[str, Reference]:
    """Double backward: u is the gradient of the loss in g, and its change is a second derivative."""
    layer = example.layer
    weights, step = _parts(example)
    a = torch.from_numpy(weights)
    at = [torch.from_numpy(x).requires_grad_() for x in (layer.project()["v"], layer.W_O, layer.bias("c_O"))]
    move = [torch.from_numpy(x) for x in (step, example.dW, example.dc)]
    v, W, c = at
    g = a @ v
    loss = -(torch.from_numpy(layer.soft_targets()) * torch.log_softmax(g @ W + c, -1)).sum()
    (u,) = torch.autograd.grad(loss, g, create_graph=True)
    b = u @ v.mT
    A = (a * b).sum(-1, keepdim=True) - b

    def along(y: torch.Tensor) -> np.ndarray:
        dual = torch.ones_like(y, requires_grad=True)
        back = torch.autograd.grad(y, at, dual, create_graph=True, allow_unused=True)
        total = torch.stack([(x * d).sum() for x, d in zip(back, move, strict=True) if x is not None]).sum()
        return torch.autograd.grad(total, dual, retain_graph=True)[0].numpy()

    return _references(du=along(u), db=along(b), dA=along(A))


def _feedback_full_pushed(example: SteppedLayer) -> dict[str, Reference]:
    layer = example.layer
    stage = {name: x.detach().numpy() for name, x in reverse.run_layer(layer).items()}
    moves = {"v": -example.eta * reverse.layer_gradients(layer, "v")["v"], "W": example.dW, "c": example.dc}
    at = (stage["a"][0], stage["v"], layer.W_O, layer.bias("c_O"), layer.soft_targets())
    found = tangents.upstream_slopes(*at, moves)
    return _references(du=found["u"], db=found["b"], dA=found["A"])


FEEDBACK_FULL = (
    Oracle(JETS, _feedback_full),
    Oracle("50-digit differences along PyTorch's gradient", _feedback_full_exactly, slow=True),
    Oracle("PyTorch double backward", _feedback_full_twice),
    Oracle(PUSHED, _feedback_full_pushed),
)


def _weight_space(example: SteppedLayer) -> dict[str, Reference]:
    layer, moved = example.layer, {}
    for name, (gradient, bound) in forward.layer_gradients(layer, "W_V", "c_V").items():
        moved[name] = Jet(-example.eta * gradient, None, abs(example.eta) * bound + np.abs(example.eta * gradient))
    dv = matmul(constant(layer.memory), moved["W_V"])
    return {"dv": value(dv), "dv, bias too": value(dv + moved["c_V"])}


def _weight_space_reverse(example: SteppedLayer) -> dict[str, Reference]:
    layer = example.layer
    step = {name: -example.eta * x for name, x in reverse.layer_gradients(layer, "W_V", "c_V").items()}
    before = layer.memory @ layer.W_V
    with_step = layer.memory @ (layer.W_V + step["W_V"])
    exact = layer.memory @ step["W_V"]
    # The change seen on the values agrees with the step taken; the step is what is compared.
    if not np.allclose(with_step - before, exact, atol=1e-12 * (1 + np.abs(before).max()), rtol=1e-9):
        raise AssertionError("the values did not move by x dW")
    return {"dv": Reference(exact), "dv, bias too": Reference(exact + step["c_V"])}


WEIGHT_SPACE = (
    Oracle("forward jets, x times the step of W_V", _weight_space),
    Oracle("PyTorch reverse mode, the step of W_V taken", _weight_space_reverse),
)


def _natural(example: Stepped) -> dict[str, Reference]:
    head = example.head
    seen = head.visible.astype(float)
    b = matmul_t(constant(head.u), constant(head.v))
    direction = (b - ((b * seen).sum(-1) / seen.sum(-1))[..., None]) * seen
    return {"direction": value(direction)}


def _natural_solved(example: Stepped) -> dict[str, Reference]:
    """Solve (F_i + 1 1^T) delta = dL/ds_i on the visible keys: the solution of F_i delta = dL/ds_i with mean 0.

    F_i and dL/ds_i are 50-digit differences of the weights; where a row saturates F_i is nearly singular.
    """
    head = example.head
    out = np.zeros(head.visible.shape)
    with mpmath.workdps(differences.DIGITS):
        h = mpmath.mpf(10) ** -16
        scores = differences.in_mpmath(head.scores())
        for i, seen in enumerate(head.visible):
            at = np.flatnonzero(seen)
            b = differences.products_of(differences.in_mpmath(head.u[i : i + 1]), differences.in_mpmath(head.v[at]))[0]

            def weights(moved: Any, by: Any, row: Any = scores[i], at: Any = at) -> list[Any]:
                mass = [mpmath.exp(row[j] + (by if j == moved else 0)) for j in at]
                return [x / sum(mass) for x in mass]

            pairs = [(weights(j, h), weights(j, -h)) for j in at]
            F = [[(x - y) / (2 * h) for x, y in zip(*pair, strict=True)] for pair in pairs]
            gradient = [sum(x * y for x, y in zip(row, b, strict=True)) for row in F]
            solved = mpmath.lu_solve(mpmath.matrix([[x + 1 for x in row] for row in F]), mpmath.matrix(gradient))
            out[i, at] = [float(x) for x in solved]
    return {"direction": Reference(out)}


NATURAL = (
    Oracle("forward jets, compatibility minus its visible mean", _natural),
    Oracle("the singular system, solved", _natural_solved),
)


def _flow(example: Stepped) -> dict[str, Reference]:
    """Softmax of s - t b at t = eta, and its derivative at t = 0."""
    head = example.head
    b = matmul_t(constant(head.u), constant(head.v))
    s = forward.run_head(head)["s"]
    later = ((s - b * example.eta).exp()) * head.visible.astype(float)
    along = Jet(s.x, -b.x[None], s.ex, b.ex[None]).exp() * head.visible.astype(float)
    a = along / along.sum(-1)[..., None]
    return {
        "a'": value(later / later.sum(-1)[..., None]),
        "velocity": slope(a),
        "mean": slope((a * b).sum(-1)),
    }


def _flow_exactly(example: Stepped) -> dict[str, Reference]:
    head = example.head
    with mpmath.workdps(differences.DIGITS):
        s = differences.in_mpmath(head.scores())
        b = differences.products_of(differences.in_mpmath(head.u), differences.in_mpmath(head.v))
        visible = head.visible.tolist()

        def at(t: Any) -> dict[str, Any]:
            rows = [[x - t * y for x, y in zip(*pair, strict=True)] for pair in zip(s, b, strict=True)]
            a = loops.weights(rows, visible, mpmath.exp)
            mean = [sum(x * y for x, y in zip(*pair, strict=True)) for pair in zip(a, b, strict=True)]
            return {"a": a, "mean": mean}

        later = at(mpmath.mpf(example.eta))["a"]
        found = differences.slopes(at, "a", "mean")
        return {
            "a'": Reference(np.array([[float(x) for x in row] for row in later])),
            "velocity": Reference(found["a"]),
            "mean": Reference(found["mean"]),
        }


def _flow_pushed(example: Stepped) -> dict[str, Reference]:
    """The direction -b of the scores, pushed through softmax; b is the gradient in free weights, by reverse mode."""
    head = example.head
    found = tangents.flow_slopes(head.scores(), reverse.gradients(head, "a")["a"], head.visible)
    return _references(velocity=found["a"], mean=found["mean"])


FLOW = (
    Oracle("forward jets, softmax of s - eta b", _flow),
    Oracle("50-digit flow and its differences", _flow_exactly),
    Oracle("PyTorch forward mode along minus its gradient in the weights", _flow_pushed),
)


def _row_flow(example: Mixture) -> dict[str, Reference]:
    """One row: weights prop. to pi exp(-t c), differentiated at t = 0."""
    c = constant(example.costs)
    a = Jet(np.zeros(len(c.x)), -c.x[None]).exp() * Jet(example.pi, None, example.pi)
    a = a / a.sum(-1)
    return {"velocity": slope(a), "mean": slope((a * c).sum(-1))}


def _row_flow_exactly(example: Mixture) -> dict[str, Reference]:
    pi, c = differences.in_mpmath(example.priors), differences.in_mpmath(example.costs)

    def at(t: Any) -> dict[str, Any]:
        mass = [p * mpmath.exp(-t * x) for p, x in zip(pi, c, strict=True)]
        a = [x / sum(mass) for x in mass]
        return {"velocity": a, "mean": sum(x * y for x, y in zip(a, c, strict=True))}

    return _references(**differences.slopes(at, "velocity", "mean"))


def _row_flow_pushed(example: Mixture) -> dict[str, Reference]:
    possible = example.pi > 0
    found = tangents.flow_slopes(np.log(np.where(possible, example.pi, 1.0)), example.costs, possible)
    return _references(velocity=found["a"], mean=found["mean"])


ROW_FLOW = (
    Oracle("forward jets, one row", _row_flow),
    Oracle("50-digit differences, one row", _row_flow_exactly),
    Oracle("PyTorch forward mode, one row", _row_flow_pushed),
)


def _bounds(example: Stepped) -> dict[str, Reference]:
    head = example.head
    gradient, off = forward.gradients(head, "s")["s"]
    a = forward.run_head(head)["a"]
    b = matmul_t(constant(head.u), constant(head.v))
    seen = head.visible
    rows = np.arange(len(seen))
    top, bottom = np.where(seen, b.x, -np.inf).argmax(-1), np.where(seen, b.x, np.inf).argmin(-1)
    reach = b[rows, top] - b[rows, bottom]
    largest = a[rows, a.x.argmax(-1)]
    # Where an inequality is tight, 1 - a cancels: the bound itself is known to a few roundings of the range.
    bound_off = 8 * np.abs(reach.x)[:, None] * seen
    return {
        "ds": Reference(gradient, off + bound_off),
        "-ds": Reference(-gradient, off + bound_off),
        "bound": value(a * (1 - a) * reach[:, None]),
        "row bound": value(largest * (1 - largest) * reach),
    }


def _bounds_pairwise(example: Stepped) -> dict[str, Reference]:
    """The gradients by reverse mode; the bounds from all pairs of visible keys, in 30 digits."""
    head: Head = example.head
    gradient = reverse.gradients(head, "s")["s"]
    with mpmath.workdps(30):
        s = [[mpmath.mpf(x) for x in row] for row in head.scores()]
        a = loops.weights(s, head.visible.tolist(), mpmath.exp)
        bounds, rows = [], []
        for i, seen in enumerate(head.visible):
            keys = np.flatnonzero(seen)
            b = [sum(mpmath.mpf(x) * mpmath.mpf(y) for x, y in zip(head.u[i], head.v[j], strict=True)) for j in keys]
            reach = max(x - y for x in b for y in b)
            bounds.append([float(w * (1 - w) * reach) for w in a[i]])
            rows.append(float(max(a[i]) * (1 - max(a[i])) * reach))
    return _references(ds=gradient, bound=np.array(bounds)) | {
        "-ds": Reference(-gradient),
        "row bound": Reference(np.array(rows)),
    }


def bounds(*names: str) -> tuple[Oracle, ...]:
    """Score gradients and their bounds, two ways."""
    pairs = (("forward jets", _bounds), ("reverse mode, and all pairs of keys in 30 digits", _bounds_pairwise))
    return tuple(
        Oracle(name, lambda example, of=of: {key: of(example)[key] for key in names})  # type: ignore[misc]
        for name, of in pairs
    )


def _first_key(oracles: tuple[Oracle, ...]) -> tuple[Oracle, ...]:
    """dL/ds of the first key alone."""

    def restrict(oracle: Oracle) -> Oracle:
        def of(example: Stepped) -> dict[str, Reference]:
            ds = oracle.of(example)["ds"]
            return {"ds of one key": Reference(ds.value[:, 0], None if ds.bound is None else ds.bound[:, 0])}

        return Oracle(oracle.name, of)

    return tuple(restrict(oracle) for oracle in oracles)


FIRST_KEY = _first_key(bounds("ds"))


def _each_query(x: np.ndarray, example: Stepped) -> np.ndarray:
    return np.repeat(x[..., None], len(example.head.q), axis=-1)


def _values_forward(example: Stepped) -> dict[str, Reference]:
    gradient, bound = forward.gradients(example.head, "v")["v"]
    # u_i - (1 - a_ij) u_i cancels where a_ij is small: the statement is known to a few roundings of u.
    u = np.abs(example.head.u).T[None]
    return {"dv for each query": Reference(_each_query(gradient, example), _each_query(bound, example) + 16 * u)}


def _values_reverse(example: Stepped) -> dict[str, Reference]:
    return {"dv for each query": Reference(_each_query(reverse.gradients(example.head, "v")["v"], example))}


VALUES_SEEN_BY_EACH = (
    Oracle("forward jets", _values_forward),
    Oracle("PyTorch reverse mode", _values_reverse),
)

"""Every argument of every function, malformed in every way that fits: a ValueError or TypeError that names an argument.

Each message reads "<argument>: got <what was given>, expected <what is wanted>". No wrong number, no crash from inside.
"""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesgrad as bg
import bayesgrad.torch as bt
from bayesgrad import bayes, dynamics, em, fused, layers, modern, positions, row_maps

RNG = np.random.default_rng(0)
N, M, D_K, D_V, C, D_X = 3, 4, 2, 5, 6, 7


def floats(*shape):
    return RNG.normal(size=shape)


def rows(*shape):
    return RNG.dirichlet(np.ones(shape[-1]), size=shape[:-1])


q, k, v, u = floats(N, D_K), floats(M, D_K), floats(M, D_V), floats(N, D_V)
a, b = rows(N, M), floats(N, M)
mask, bias, dropout = np.ones((N, M), dtype=bool), floats(N, M), np.ones((N, M))
z, y, omega = floats(N, C), np.asarray([0, 5, 2]), np.ones(C)
x, W_Q, W_K, W_V, W_O = floats(N, D_X), floats(D_X, 4), floats(D_X, 4), floats(D_X, 6), floats(6, C)
c_Q, c_K, c_V, c_O = floats(4), floats(4), floats(6), floats(C)
p, r = rows(N, C), floats(N, C)
head = {"mask": mask, "bias": bias, "scale": 0.5, "dropout": dropout}
loss = {"reduction": "mean", "ignore_index": -100, "class_weights": omega, "label_smoothing": 0.1}
block = {
    "x": x,
    "W_Q": W_Q,
    "W_K": W_K,
    "W_V": W_V,
    "W_O": W_O,
    "targets": y,
    "heads": 2,
    "kv_heads": 2,
    "c_Q": c_Q,
    "c_K": c_K,
    "c_V": c_V,
    "c_O": c_O,
    "y": floats(N, D_X),
    "scale": 0.5,
    "mask": np.ones((N, N), bool),
    **loss,
}
HEADS = {"q": floats(4, N, D_K), "k": floats(2, M, D_K), "v": floats(2, M, D_V)}

around = {"soft_cap": 1.5, "temperature": 0.5, "sink": floats(N)}
two_maps = {"q": q, "k": k, "other_q": floats(N, 3), "other_k": floats(M, 3), "v": v}
perceptron = {"x": x, "W_1": floats(D_X, 9), "W_2": floats(9, 2), "c_1": floats(9)}
gated = {"x": x, "W_gate": floats(D_X, 9), "W_up": floats(D_X, 9), "W_down": floats(9, 2)}

CALLS = {
    bg.softmax: {"scores": b, "mask": mask},
    bg.log_softmax: {"scores": b, "mask": mask},
    bg.logsumexp: {"scores": b, "mask": mask},
    bg.fisher: {"weights": a},
    bg.cross_entropy: {"logits": z, "targets": y, **loss},
    bg.attention: {"q": q, "k": k, "v": v, **head},
    bg.attention_gradients: {"q": q, "k": k, "v": v, "u": u, **head},
    bg.explain: {"q": q, "k": k, "v": v, "u": u, **head, "eta": 0.1},
    bg.compatibility: {"u": u, "v": v},
    bg.advantage: {"weights": a, "compatibility": b},
    bg.score_gradient: {"weights": a, "compatibility": b},
    bg.mean_compatibility: {"u": u, "context": floats(N, D_V)},
    bg.effective_count: {"weights": a},
    bg.value_gradient: {"weights": a, "u": u},
    bg.query_gradient: {"score_gradient": b, "k": k, "scale": 0.5},
    bg.key_gradient: {"score_gradient": b, "q": q, "scale": 0.5},
    bg.attention_block_gradients: {**block, "bias": floats(N, N), "dropout": np.ones((N, N))},
    bg.projection_gradients: {
        "x": x,
        "d_queries": q,
        "d_keys": k,
        "d_values": v,
        "y": floats(M, 8),
    },
    bg.read_out_gradients: {"context": floats(N, 9), "logit_gradient": floats(N, 11)},
    bg.input_gradients: {
        "d_queries": q,
        "d_keys": q,
        "d_values": u,
        "W_Q": floats(7, 2),
        "W_K": floats(7, 2),
        "W_V": floats(7, 5),
    },
    bg.split_heads: {"x": floats(N, 8), "heads": 4},
    bg.merge_heads: {"x": floats(2, N, 4)},
    bg.repeat_groups: {"k": floats(2, N, 4), "heads": 4},
    bg.sum_groups: {"gradient": floats(4, N, 4), "groups": 2},
    bg.grouped_attention: {**HEADS, "mask": mask, "bias": bias, "scale": 0.5, "dropout": dropout},
    bg.grouped_attention_gradients: {**HEADS, "u": floats(4, N, D_V), **head},
    bg.causal_mask: {"n": 3, "m": 4, "align": "upper-left"},
    bg.window_mask: {"n": 3, "m": 4, "left": 1, "right": 0, "align": "upper-left"},
    fused.attention_block_gradients: {**block, "causal": "upper-left", "tile": 2},
    dynamics.loss_change: {"gradient": b, "step": b},
    dynamics.value_step: {"weights": a, "u": u, "eta": 0.1},
    dynamics.score_step: {"weights": a, "u": u, "v": v, "eta": 0.1},
    dynamics.feedback: {"weights": a, "u": u, "eta": 0.1},
    dynamics.feedback_full: {
        "weights": a,
        "v": v,
        "logit_gradient": r,
        "probabilities": p,
        "W_O": floats(D_V, C),
        "eta": 0.1,
        "totals": np.ones(N),
        "W_O_step": floats(D_V, C),
        "c_O_step": floats(C),
    },
    dynamics.weight_space_value_step: {"x": floats(M, D_X), "value_gradient": v, "eta": 0.1},
    dynamics.natural_direction: {"compatibility": b, "mask": mask},
    dynamics.replicator_velocity: {"weights": a, "compatibility": b},
    dynamics.replicator_step: {"weights": a, "compatibility": b, "eta": 0.1},
    dynamics.saturation_bound: {"weights": a, "compatibility": b, "mask": mask},
    dynamics.frame_precision_bound: {"weights": a, "compatibility": b, "mask": mask},
    em.mixture_loss: {"priors": a, "costs": b},
    em.mixture_responsibilities: {"priors": a, "costs": b},
    em.mixture_loss_change: {"priors": a, "costs": b, "cost_change": b},
    em.em_identity: {"priors": a, "costs": b, "new_costs": b},
    em.proximal_e_step: {"weights": a, "compatibility": b, "eta": 0.1},
    em.proximal_m_step: {"v": v, "weights": a, "u": u, "eta": 0.1},
    em.gaussian_mixture_responsibilities: {"q": q, "k": k, "priors": np.ones(M), "scale": 0.5},
    em.not_variational_witness: {"eta": 1.0},
    bayes.entropy: {"p": p, "units": "bits"},
    bayes.kl_divergence: {"p": p, "q": p, "units": "bits"},
    bayes.total_variation: {"p": p, "q": p},
    bayes.risk: {"contexts": rows(N), "p": p, "q": p, "units": "bits"},
    bayes.conditional_entropy: {"contexts": rows(N), "p": p, "units": "bits"},
    bayes.posterior: {"prior": p, "log_likelihood": r},
    bayes.posterior_predictive: {"posterior": rows(N), "conditional": rows(N, C)},
    bayes.sequence_surprise: {"predictive": p, "outcomes": y, "units": "bits"},
    bayes.bijection_predictive: {
        "keys": np.asarray([0, 2]),
        "values": np.asarray([1, 3]),
        "query": np.asarray(1),
        "size": 4,
    },
    bayes.hmm_filter: {
        "initial": rows(3),
        "transition": rows(3, 3),
        "emission": rows(3, 4),
        "observations": np.asarray([0, 3]),
    },
    bayes.sticky_markov_predictive: {
        "x": floats(5, 2),
        "means": floats(3, 2),
        "transition": rows(3, 3),
        "initial": rows(3),
        "noise": 1.0,
    },
    modern.attention: {"q": q, "k": k, "v": v, **head, **around},
    modern.attention_gradients: {"q": q, "k": k, "v": v, "u": u, "d_log_total": floats(N), **head, **around},
    row_maps.row_map_gradient: {"slopes": a, "compatibility": b},
    row_maps.entmax: {"scores": b, "mask": mask, "alpha": 1.5},
    row_maps.entmax_attention: {"q": q, "k": k, "v": v, **head, "alpha": 1.5},
    row_maps.entmax_attention_gradients: {"q": q, "k": k, "v": v, "u": u, **head, "alpha": 1.5},
    row_maps.sigmoid_attention: {"q": q, "k": k, "v": v, **head},
    row_maps.sigmoid_attention_gradients: {"q": q, "k": k, "v": v, "u": u, **head},
    row_maps.linear_attention: {"query_features": p[:, :2], "key_features": np.ones((M, 2)), "v": v, "mask": mask},
    row_maps.linear_attention_gradients: {
        "query_features": p[:, :2],
        "key_features": np.ones((M, 2)),
        "v": v,
        "u": u,
        "mask": mask,
    },
    row_maps.differential_attention: {**two_maps, "factor": 0.5, "mask": mask, "scale": 0.5},
    row_maps.differential_attention_gradients: {**two_maps, "u": u, "factor": 0.5, "mask": mask, "scale": 0.5},
    positions.rotary: {"x": q, "positions": np.arange(N), "base": 100.0, "layout": "halves"},
    positions.rotary_gradient: {"d_rotated": q, "positions": np.arange(N), "base": 100.0, "layout": "pairs"},
    positions.alibi_bias: {"slopes": floats(2), "n": 3, "m": 4, "align": "upper-left"},
    positions.alibi_slope_gradient: {"d_bias": floats(2, N, M), "align": "upper-left"},
    layers.rms_norm: {"x": x, "gamma": floats(D_X), "eps": 0.1},
    layers.rms_norm_gradient: {"x": x, "gamma": floats(D_X), "d_y": x, "eps": 0.1},
    layers.layer_norm: {"x": x, "gamma": floats(D_X), "beta": floats(D_X), "eps": 0.1},
    layers.layer_norm_gradient: {"x": x, "gamma": floats(D_X), "d_y": x, "eps": 0.1},
    layers.mlp: {**perceptron, "c_2": floats(2), "activation": "silu"},
    layers.mlp_gradient: {**perceptron, "d_y": floats(N, 2), "activation": "silu"},
    layers.gated_mlp: {**gated, "activation": "silu"},
    layers.gated_mlp_gradient: {**gated, "d_y": floats(N, 2), "activation": "silu"},
    bt.attention: {"q": q, "k": k, "v": v, **head},
}
MAY_BE_NONE = {
    *("mask", "bias", "dropout", "scale", "class_weights", "kv_heads", "causal", "tile", "left", "right", "like"),
    *("c_Q", "c_K", "c_V", "c_O", "W_O_step", "c_O_step"),
    *("soft_cap", "temperature", "sink", "d_log_total", "positions", "beta", "c_1", "c_2"),
}


def wrong_arrays(x, name):
    """Malformed stand-ins for an array argument."""
    number = x.dtype.kind in "fi"
    out = {
        "a string": "q",
        "a list": x.tolist(),
        "an object": object(),
        "complex": x.astype(complex),
        "objects": x.astype(object),
        "strings": x.astype(str),
        "masked": np.ma.masked_array(x),
        "another library": torch.as_tensor(x),
        "too many axes and a size of 9": np.ones((9, *x.shape), dtype=x.dtype),
    }
    if name not in MAY_BE_NONE and name not in ("y", "context", "logits"):
        out["None"] = None
    if number:
        out["booleans"] = x.astype(bool)
    if x.dtype.kind == "f":
        out["integers"] = x.astype(int)
        out["half of the others"] = x.astype(np.float32)
    if x.dtype.kind in "bi":
        out["floats"] = x.astype(np.float32)
    for axis in range(x.ndim):
        if x.shape[axis] > 1 or name not in ("mask", "bias", "dropout"):
            out[f"one more on axis {axis}"] = np.concatenate([x, np.take(x, [0], axis)], axis)
    if x.ndim:
        out["no axes"] = x.reshape(-1)[0].reshape(())
    return out


WRONG_NUMBERS = {
    "a string": "1",
    "a list": [1.0],
    "complex": 1j,
    "an array": np.ones(3),
    "nan": float("nan"),
    "infinity": float("inf"),
}
WRONG_INTEGERS = {"a string": "1", "a float": 1.5, "negative": -1, "True": True, "an array": np.ones(3)}
WRONG_STRINGS = {"unknown": "nonsense", "an integer": 1, "True": True, "an array": np.ones(3)}
FREE = {module.__name__ for module in (layers, positions, row_maps)}
"""Where leading axes belong to one argument, unless an upstream gradient has them too."""
ALONE = {  # calls with one array have no others to differ from, and some sizes are free where nothing else has them
    "half of the others",
    "another library",
}


def wrong(name, value):
    if isinstance(value, np.ndarray):
        return wrong_arrays(value, name)
    if isinstance(value, str):
        return WRONG_STRINGS
    return WRONG_INTEGERS if isinstance(value, int) and name != "ignore_index" else WRONG_NUMBERS


def free_to_vary(function, name, how, arguments):
    """Changes after which the call is still well formed: nothing else fixes that library, dtype or size."""
    arrays = {n for n, value in arguments.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"}
    if (
        how in ALONE
        and arrays <= {name}
        and not (name == "scores" and "mask" in arguments and how == "another library")
    ):
        return True
    if (name, how) == ("sink", "no axes"):
        return True  # one sink for all queries
    fixed = {"d_y", "mask"} if function is not row_maps.entmax else {"d_y"}  # a mask broadcasts to more leading axes
    if function.__module__ in FREE and how.startswith("too many") and not fixed & set(arguments):
        return name in ("x", "d_rotated", "d_bias", "scores")
    shape = getattr(arguments[name], "shape", ())
    sizes = [s for n, value in arguments.items() if n != name and isinstance(value, np.ndarray) for s in value.shape]
    if how.startswith("one more") and shape[int(how[-1])] not in sizes:
        return function not in (bg.attention_block_gradients, fused.attention_block_gradients)
    if how.startswith("too many") and name in ("scores", "compatibility") and set(arguments) == {name, "mask"}:
        return True  # a mask broadcasts to more leading axes
    alone = len([1 for value in arguments.values() if isinstance(value, np.ndarray)]) == 1
    return alone and how in ("too many axes and a size of 9", *tuple(f"one more on axis {i}" for i in range(3)))


def test_the_calls_are_well_formed():
    for function, arguments in CALLS.items():
        given_ = {
            n: torch.as_tensor(x) if function is bt.attention and isinstance(x, np.ndarray) else x
            for n, x in arguments.items()
        }
        function(**given_)


def outcome(function, name, how):
    arguments = dict(CALLS[function])
    value = wrong(name, arguments[name])[how]
    if function is bt.attention:
        value = x.numpy() if isinstance(x := value, torch.Tensor) else value
        arguments = {n: torch.as_tensor(x) if isinstance(x, np.ndarray) else x for n, x in arguments.items()}
        if isinstance(value, np.ndarray) and how not in ("another library", "masked", "objects", "strings"):
            value = torch.as_tensor(value)
    with pytest.raises((ValueError, TypeError)) as caught:
        function(**(arguments | {name: value}))
    return str(caught.value)


def every():
    for function, arguments in CALLS.items():
        for name, value in arguments.items():
            for how in wrong(name, value):
                if not free_to_vary(function, name, how, arguments):
                    yield function, name, how


@pytest.mark.parametrize("function", list(CALLS), ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_every_malformed_argument_is_named(function):
    names = set(inspect.signature(function).parameters)
    wrong_messages = []
    for f, name, how in every():
        if f is not function:
            continue
        try:
            message = outcome(f, name, how)
        except BaseException as error:  # pytest.fail where nothing was raised, or an error from deep inside
            wrong_messages.append(f"{name}, {how}: {type(error).__name__}: {str(error)[:200]}")
            continue
        start = re.match(r"(\w+)(\[\d+\])?: (got |is on )", message)
        if not start or start[1] not in names | {"gradients"} or "expected" not in message:
            wrong_messages.append(f"{name}, {how}: {message[:200]}")
    assert not wrong_messages, "\n".join(wrong_messages)


RELATIVE = {"another library", "half of the others", "too many axes and a size of 9", "no axes"}


def is_relative(how):
    """Whether a change is wrong only beside the other arguments, so that a second one may agree with it."""
    return how in RELATIVE or how.startswith("one more on axis")


ALONE_WRONG = [row for row in every() if not is_relative(row[2]) and row[0] is not bt.attention]
ONLY_BESIDE = [row for row in every() if is_relative(row[2]) and row[0] is not bt.attention]


def pairs(rows):
    """A malformed argument among ``rows``, and another argument of the same call that is malformed in any way."""

    def second(row):
        function, name, _ = row
        ways = [(n, way) for n, value in CALLS[function].items() if n != name for way in wrong(n, value)]
        return st.tuples(st.just(row), st.sampled_from(ways)) if ways else st.nothing()

    return st.sampled_from([row for row in rows if len(CALLS[row[0]]) > 1]).flatmap(second)


def called(pair):
    (function, name, how), (second, way) = pair
    changed = {name: wrong(name, CALLS[function][name])[how], second: wrong(second, CALLS[function][second])[way]}
    return function(**CALLS[function] | changed)


NAMED = r"^\w+(\[\d+\])?: (got |is on )"


@settings(max_examples=200)
@given(pairs(ALONE_WRONG))
def test_a_malformed_argument_is_named_whatever_else_is_malformed(pair):
    with pytest.raises((ValueError, TypeError), match=NAMED):
        called(pair)


@settings(max_examples=200)
@given(pairs(ONLY_BESIDE))
def test_two_malformed_arguments_agree_or_one_is_named(pair):
    said = None
    try:
        called(pair)
    except (ValueError, TypeError) as error:
        said = str(error)
    assert said is None or re.match(NAMED, said)

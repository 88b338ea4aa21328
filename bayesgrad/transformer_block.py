r"""Layers as they stand in models: attention with its projections, and a whole pre-norm block, with every gradient.

.. math::

    \text{attention: } & q = x W_Q + c_Q, \; k = y W_K + c_K, \; v = y W_V + c_V, \quad
        \text{out} = [g^{(1)} \dots g^{(H)}] W_O + c_O \\
    \text{block: } & h = x + \text{attention}(\text{norm}(x)), \quad \text{out} = h + \text{perceptron}(\text{norm}(h))

Between projection and scores may stand a norm of each head's queries and keys, and then the rotary embedding. With an
upstream gradient d of the output, :math:`dW_O = \sum g^T d`, :math:`u = d\, W_O^T`; the laws of the head give dq, dk
and dv, and the way back through rotation, norm and projections is that of :mod:`bayesgrad.positions`,
:mod:`bayesgrad.layers` and :func:`bayesgrad.projection_gradients`. The read-out block is the case upstream = r of a
cross-entropy: give ``targets``.

What is 0 upstream takes no part: a position whose gradient is exactly 0 may hold NaN (padding).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate, layers, modern, positions, tiled
from bayesgrad._cross_entropy import cross_entropy
from bayesgrad._parameters import block_sizes, over_positions, over_rows
from bayesgrad._types import Align, Array, ArrayT, Floats, Generic, Ints
from bayesgrad.heads import merge_heads, repeat_groups, split_heads, sum_groups
from bayesgrad.masks import causal_mask

METHODS = ("dense", "tiled")
NORMS = ("rms", "layer")


@dataclass(frozen=True)
class AttentionParameters:
    """W_Q (d_x, H d_k), W_K (d_y, G d_k), W_V (d_y, G d_v), W_O (H d_v, out), columns head by head; their biases; and
    the gammas (d_k,) of the RMS norms of each head's queries and keys. What is None is not there."""

    W_Q: Any
    W_K: Any
    W_V: Any
    W_O: Any
    c_Q: Any = None
    c_K: Any = None
    c_V: Any = None
    c_O: Any = None
    q_norm: Any = None
    k_norm: Any = None


@dataclass(frozen=True)
class BlockParameters:
    """An attention layer, the gammas and betas of the two norms, and the perceptron: W_1 (d, h), W_2 (h, d), with a
    gate if W_gate (d, h) is there: then y = (phi(x W_gate) * (x W_1)) W_2, without c_1 and c_2."""

    attention: AttentionParameters
    norm_1: Any
    norm_2: Any
    W_1: Any
    W_2: Any
    beta_1: Any = None
    beta_2: Any = None
    c_1: Any = None
    c_2: Any = None
    W_gate: Any = None


@dataclass(frozen=True)
class LayerOptions:
    """What a layer does, for both ways of computing it.

    heads, kv_heads: H and G (H by default). causal: "upper-left", "lower-right" or None. mask, bias, scale, dropout: as
    in :func:`bayesgrad.attention`, against (..., H, n, m). soft_cap, temperature, sink: as in
    :func:`bayesgrad.modern.attention`. rotary: the layout "halves" or "pairs", None for none; rotary_base its theta;
    positions and key_positions: integers that broadcast to (..., n) and (..., m). eps: of every norm. norm: "rms" or
    "layer", and activation, of a block. method: "dense", or "tiled" without an n x m array (then without bias,
    dropout, cap, temperature and sink).
    """

    heads: int = 1
    kv_heads: int | None = None
    causal: Align | None = None
    mask: Any = None
    bias: Any = None
    scale: Any = None
    dropout: Any = None
    soft_cap: Any = None
    temperature: Any = None
    sink: Any = None
    rotary: Any = None
    rotary_base: Any = 10000.0
    positions: Any = None
    key_positions: Any = None
    eps: float = 1e-5
    norm: str = "rms"
    activation: Any = "silu"
    method: str = "dense"
    tile: int | None = None


class LayerGradients(NamedTuple, Generic[ArrayT]):
    """The output, dL/dx, and the gradients of what was given, by name: of ``parameters``, and of ``others`` (y, bias,
    sink, and the loss itself where targets were given)."""

    output: ArrayT
    x: ArrayT
    parameters: dict[str, ArrayT]
    others: dict[str, ArrayT]


def _taking_part(xp: Any, d: Any, x: Any) -> Any:
    """x with 0 where the gradient d of its row is exactly 0: 0 * NaN is NaN."""
    return _arrays.keep(xp, _arrays.namespace_of(d).any(d != 0, axis=-1, keepdims=True), x)


def _given(parameters: Any) -> dict[str, Any]:
    return {f.name: x for f in fields(parameters) if (x := getattr(parameters, f.name)) is not None}


def _refuse(o: LayerOptions) -> None:
    _validate.choice("method", o.method, METHODS)
    if o.method == "dense":
        return
    for name in ("bias", "dropout", "soft_cap", "temperature", "sink"):
        if getattr(o, name) is not None:
            raise ValueError(f'{name}: got one with method="tiled", expected none there; take method="dense"')


class _Attention:
    """One attention layer on wide arrays: forward when made, backward on demand."""

    def __init__(self, xp: Any, x: Any, y: Any, p: dict[str, Any], o: LayerOptions) -> None:
        self.xp, self.x, self.y, self.p, self.o = xp, x, y, p, o
        self.groups = o.heads if o.kv_heads is None else o.kv_heads
        # Before and after the norm: what the norm's gradient needs.
        self.raw_q, self.raw_k = self._project("Q", x, o.heads), self._project("K", y, self.groups)
        self.v = repeat_groups(self._project("V", y, self.groups), o.heads)
        q, k = self._normed(self.raw_q, "q_norm"), self._normed(self.raw_k, "k_norm")
        self.q = self._turn(q, o.positions, positions.rotary)
        self.k = repeat_groups(self._turn(k, o.key_positions, positions.rotary), o.heads)
        self.context = merge_heads(self._attend())
        out = xp.matmul(self.context, p["W_O"])
        self.output = out + p["c_O"] if "c_O" in p else out

    def _project(self, name: str, x: Any, count: int) -> Any:
        out = self.xp.matmul(x, self.p[f"W_{name}"])
        return split_heads(out + self.p[f"c_{name}"] if f"c_{name}" in self.p else out, count)

    def _normed(self, x: Any, name: str) -> Any:
        return layers.rms_norm(x, self.p[name], eps=self.o.eps) if name in self.p else x

    def _turn(self, x: Any, where: Any, how: Any) -> Any:
        if self.o.rotary is None:
            return x
        if where is not None and len(where.shape) > 1:  # for each example: the heads share them
            where = _arrays.namespace_of(where).expand_dims(where, axis=-2)
        return how(x, positions=where, base=self.o.rotary_base, layout=self.o.rotary)

    def _options(self) -> dict[str, Any]:
        o = self.o
        if o.method == "tiled":
            return {"mask": o.mask, "causal": o.causal, "scale": o.scale, "tile": o.tile}
        mask = o.mask
        if o.causal is not None:
            shown = causal_mask(self.q.shape[-2], self.k.shape[-2], align=o.causal, like=self.q)
            mask = shown if mask is None else _arrays.namespace_of(mask).logical_and(mask, shown)
        bias, dropout, sink = o.bias, o.dropout, o.sink
        bias, dropout = _arrays.widen(self.xp, bias, dropout)
        sink = _arrays.widen(self.xp, sink) if getattr(sink, "shape", ()) else sink
        more = {"soft_cap": o.soft_cap, "temperature": o.temperature, "sink": sink}
        return {"mask": mask, "bias": bias, "scale": o.scale, "dropout": dropout, **more}

    def _attend(self) -> Any:
        if self.o.method == "tiled":
            return tiled.attention(self.q, self.k, self.v, **self._options())
        return modern.attention(self.q, self.k, self.v, **self._options()).context

    def _head_back(self, d: Any, raw: Any, where: Any, norm: str, found: dict[str, Any]) -> Any:
        """From the gradient of turned queries or keys to that of the projected ones."""
        d = self._turn(d, where, positions.rotary_gradient)
        if norm not in self.p:
            return d
        got = layers.rms_norm_gradient(_taking_part(self.xp, d, raw), self.p[norm], d, eps=self.o.eps)
        found[norm] = got.gamma
        return got.x

    def back(self, d: Any) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
        """dL/dx through the queries, dL/dy through keys and values, gradients of the parameters, and of the options."""
        xp, p, o = self.xp, self.p, self.o
        found: dict[str, Any] = {
            "W_O": over_positions(xp, _taking_part(xp, d, self.context), d),
            "c_O": over_rows(xp, d),
        }
        u = split_heads(xp.matmul(d, _arrays.transpose(xp, p["W_O"])), o.heads)
        others: dict[str, Any] = {}
        got: Any
        if o.method == "tiled":
            got = tiled.attention_gradients(self.q, self.k, self.v, u, **self._options())
        else:
            got = modern.attention_gradients(self.q, self.k, self.v, u, **self._options())
            others = {name: getattr(got, name) for name in ("bias", "sink") if getattr(o, name) is not None}
        dq = self._head_back(got.queries, self.raw_q, o.positions, "q_norm", found)
        dk = self._head_back(sum_groups(got.keys, self.groups), self.raw_k, o.key_positions, "k_norm", found)
        dq, dk, dv = merge_heads(dq), merge_heads(dk), merge_heads(sum_groups(got.values, self.groups))
        through: dict[str, Any] = {}
        for name, each, inputs in (("Q", dq, self.x), ("K", dk, self.y), ("V", dv, self.y)):
            found[f"W_{name}"] = over_positions(xp, _taking_part(xp, each, inputs), each)
            found[f"c_{name}"] = over_rows(xp, each)
            through[name] = xp.matmul(each, _arrays.transpose(xp, p[f"W_{name}"]))
        return through["Q"], through["K"] + through["V"], {name: found[name] for name in p}, others


def _checked(
    x: Any, y: Any, parameters: AttentionParameters, options: LayerOptions, more: dict[str, Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """The namespace, and the wide parameters that were given."""
    if not isinstance(parameters, AttentionParameters):
        raise TypeError(f"parameters: got {type(parameters).__name__}, expected AttentionParameters")
    if not isinstance(options, LayerOptions):
        raise TypeError(f"options: got {type(options).__name__}, expected LayerOptions")
    given = _given(parameters)
    xp = _validate.floats({"y": y, **(more or {})}, x=x, **given)
    heads = _validate.natural("heads", options.heads, least=1)
    groups = heads if options.kv_heads is None else _validate.natural("kv_heads", options.kv_heads, least=1)
    source = x if y is None else y
    W = W_Q, W_K, W_V, W_O = tuple(given[f"W_{name}"] for name in "QKVO")
    d_k, _, out = block_sizes(x, source, W_Q, W_K, W_V, W_O, heads, groups)
    sizes = {"c_Q": W[0].shape[1], "c_K": W[1].shape[1], "c_V": W[2].shape[1], "c_O": out}
    for name, size in {**sizes, "q_norm": d_k, "k_norm": d_k}.items():
        _validate.vector(name, given.get(name), "columns", size)
    _refuse(options)
    if options.causal is not None:
        _validate.choice("causal", options.causal, ("upper-left", "lower-right"))
    pairs = (*tuple(x.shape)[:-2], heads, x.shape[-2], source.shape[-2])
    for name in ("mask", "bias", "dropout"):
        _validate.broadcastable(name, getattr(options, name), pairs)
    return xp, {name: _arrays.widen(xp, each) for name, each in given.items()}


def _narrowed(
    xp: Any, like: ArrayT, output: Any, x: Any, parameters: dict[str, Any], others: dict[str, Any]
) -> LayerGradients[ArrayT]:
    def narrow(each: dict[str, Any]) -> dict[str, ArrayT]:
        return {name: _arrays.narrow(xp, like, value) for name, value in each.items()}

    return LayerGradients(
        _arrays.narrow(xp, like, output), _arrays.narrow(xp, like, x), narrow(parameters), narrow(others)
    )


def attention_layer_gradients(
    x: Floats[ArrayT, "*batch queries d_x"],
    parameters: AttentionParameters,
    *,
    upstream: Floats[ArrayT, "*batch queries out"] | None = None,
    targets: Ints[Array, "*batch queries"] | Floats[ArrayT, "*batch queries out"] | None = None,
    y: Floats[ArrayT, "*batch keys d_y"] | None = None,
    options: LayerOptions = LayerOptions(),
) -> LayerGradients[ArrayT]:
    """The output of an attention layer and all its gradients, from an upstream gradient or from targets.

    Args:
        x: (..., n, d_x). parameters: :class:`AttentionParameters`. options: :class:`LayerOptions`.
        upstream: dL/dout (..., n, out). targets: instead of it, the targets of the mean cross-entropy of the output, as
            in :func:`bayesgrad.cross_entropy`.
        y: the input of keys and values (..., m, d_y) in cross-attention.

    Returns:
        :class:`LayerGradients`. In cross-attention ``others["y"]`` is dL/dy; with targets ``others["loss"]`` the loss.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or not one of upstream and targets.

    Labels: attention.projection-laws, attention.input-law, attention.multi-head. Source: ours (standard calculus).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> got = attention_layer_gradients(3 * one, AttentionParameters(one, one, 2 * one, one), upstream=one)
    >>> got.output.tolist(), got.x.tolist(), got.parameters["W_V"].tolist()
    ([[6.0]], [[2.0]], [[3.0]])
    """
    if (upstream is None) == (targets is None):
        many = "neither" if upstream is None else "both"
        raise ValueError(f"upstream: got {many} of upstream and targets, expected one of the two")
    xp, p = _checked(x, y, parameters, options, {"upstream": upstream})
    wide_x, wide_y = _arrays.widen(xp, x), None if y is None else _arrays.widen(xp, y)
    made = _Attention(xp, wide_x, wide_x if wide_y is None else wide_y, p, options)
    more: dict[str, Any] = {}
    if upstream is None:
        assert targets is not None
        soft = _validate.is_floating(xp, targets)
        loss, d = cross_entropy(made.output, _arrays.widen(xp, targets) if soft else targets)
        more["loss"] = loss
    else:
        _validate.same_shape("upstream", upstream, tuple(made.output.shape), "the output")
        d = _arrays.widen(xp, upstream)
    through_q, through_kv, found, others = made.back(d)
    if y is not None:
        more["y"] = through_kv
    dx = through_q if y is not None else through_q + through_kv
    return _narrowed(xp, x, made.output, dx, found, {**others, **more})


def transformer_block_gradients(
    x: Floats[ArrayT, "*batch n d"],
    parameters: BlockParameters,
    *,
    upstream: Floats[ArrayT, "*batch n d"],
    options: LayerOptions = LayerOptions(),
) -> LayerGradients[ArrayT]:
    """The output of a pre-norm block and all its gradients: h = x + attention(norm(x)), out = h + perceptron(norm(h)).

    Args:
        x: (..., n, d). parameters: :class:`BlockParameters`. upstream: dL/dout (..., n, d).
        options: :class:`LayerOptions`; ``norm``, ``eps`` and ``activation`` are those of the block.

    Returns:
        :class:`LayerGradients`; the parameters of the attention go by their own names (W_Q, ...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: layer.transformer-block. Source: ours (standard calculus).

    >>> import numpy as np
    >>> I, one = np.eye(2), np.ones(2)
    >>> block = BlockParameters(AttentionParameters(I, I, I, 0 * I), one, one, 0 * I, 0 * I)
    >>> transformer_block_gradients(I, block, upstream=I).x.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not isinstance(parameters, BlockParameters):
        raise TypeError(f"parameters: got {type(parameters).__name__}, expected BlockParameters")
    own = {name: each for name, each in _given(parameters).items() if name != "attention"}
    xp, attention = _checked(x, None, parameters.attention, options, {"upstream": upstream, **own})
    _validate.same_shape("upstream", upstream, tuple(x.shape), "x")
    _validate.choice("norm", options.norm, NORMS)
    for name in ("beta_1", "beta_2") if options.norm == "rms" else ():
        if name in own:
            raise ValueError(f'{name}: got one with norm="rms", expected none (RMS norm has no shift)')
    for name in ("c_1", "c_2") if "W_gate" in own else ():
        if name in own:
            raise ValueError(f"{name}: got one beside W_gate, expected none (a gated perceptron has no biases)")
    p, d, wide = (
        {name: _arrays.widen(xp, each) for name, each in own.items()},
        _arrays.widen(xp, upstream),
        _arrays.widen(xp, x),
    )
    found: dict[str, Any] = {}

    def norm(inputs: Any, number: int) -> Any:
        gamma, beta = p[f"norm_{number}"], p.get(f"beta_{number}")
        if options.norm == "rms":
            return layers.rms_norm(inputs, gamma, eps=options.eps)
        return layers.layer_norm(inputs, gamma, beta=beta, eps=options.eps)

    def norm_back(inputs: Any, number: int, dy: Any) -> Any:
        backward: Any = layers.rms_norm_gradient if options.norm == "rms" else layers.layer_norm_gradient
        got = backward(_taking_part(xp, dy, inputs), p[f"norm_{number}"], dy, eps=options.eps)
        found[f"norm_{number}"] = got.gamma
        if f"beta_{number}" in p:
            found[f"beta_{number}"] = got.beta
        return _taking_part(xp, dy, got.x)

    def perceptron(inputs: Any) -> Any:
        if "W_gate" in p:
            return layers.gated_mlp(inputs, p["W_gate"], p["W_1"], p["W_2"], activation=options.activation)
        return layers.mlp(inputs, p["W_1"], p["W_2"], c_1=p.get("c_1"), c_2=p.get("c_2"), activation=options.activation)

    def perceptron_back(inputs: Any, dy: Any) -> Any:
        inputs = _taking_part(xp, dy, inputs)
        if "W_gate" in p:
            gated = layers.gated_mlp_gradient(
                inputs, p["W_gate"], p["W_1"], p["W_2"], dy, activation=options.activation
            )
            found.update(W_gate=gated.W_gate, W_1=gated.W_up, W_2=gated.W_down)
            return gated.x
        got = layers.mlp_gradient(inputs, p["W_1"], p["W_2"], dy, c_1=p.get("c_1"), activation=options.activation)
        found.update({name: getattr(got, name) for name in ("W_1", "W_2", "c_1", "c_2") if name in p})
        return got.x

    normed = norm(wide, 1)
    made = _Attention(xp, normed, normed, attention, options)
    _validate.same_shape("W_O", made.output, tuple(x.shape), "x (a residual path joins the two)")
    h = wide + made.output
    inner = norm(h, 2)
    output = h + perceptron(inner)
    dh = d + norm_back(h, 2, perceptron_back(inner, d))
    through_q, through_kv, of_attention, others = made.back(dh)
    dx = dh + norm_back(wide, 1, through_q + through_kv)
    return _narrowed(xp, x, output, dx, {**found, **of_attention}, others)

"""Frozen configurations: a run is a pure function of (config, seed), and a config is named by its hash.

hash = first 12 hexadecimal digits of SHA-256 over the canonical JSON (sorted keys, no spaces). Unknown keys are
refused rather than ignored: a misspelt option must not silently run the default. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from bayesgrad.tasks import hmm_encoding
from bayesgrad.tasks.bijection import PROTOCOLS
from bayesgrad.tasks.bijection import check as check_bijection
from bayesgrad.tasks.hmm import check as check_hmm
from bayesgrad.tasks.hmm_encoding import ENCODINGS
from bayesgrad.tasks.sticky_markov import ROWS

Gradients = Literal["autograd", "kernel", "closed", "fused"]
GRADIENTS: tuple[Gradients, ...] = ("autograd", "kernel", "closed", "fused")
WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")
LATER = ("attention_layers",)


def _at_least(low: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name}: got {value!r}, expected a whole number of at least {low}")


def _positive(**values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
            raise ValueError(f"{name}: got {value!r}, expected a positive number")


def _fraction(**values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"{name}: got {value!r}, expected a number of at least 0 and below 1")


def _one_of(allowed: tuple[Any, ...], **values: Any) -> None:
    for name, value in values.items():
        if value not in allowed:
            raise ValueError(f"{name}: got {value!r}, expected one of {', '.join(map(str, allowed))}")


@dataclass(frozen=True)
class StickyMarkov:
    """One training sequence of ``length`` states, full batch; held-out sequences share the means and the chain."""

    kind: Literal["sticky-markov"] = "sticky-markov"
    length: int = 2000
    symbols: int = 8
    d_x: int = 20
    self_probability: float = 0.3
    row: str = "published"
    sigma: float = 1.0
    held_out: int = 4

    def __post_init__(self) -> None:
        _at_least(2, length=self.length, symbols=self.symbols)
        _at_least(1, d_x=self.d_x, held_out=self.held_out)
        _positive(sigma=self.sigma, self_probability=self.self_probability)
        _one_of(ROWS, row=self.row)


@dataclass(frozen=True)
class Bijection:
    """A fresh permutation of ``values`` for each sequence, ``keys`` of them asked; fresh batches at every step."""

    kind: Literal["bijection"] = "bijection"
    values: int = 8
    keys: int = 8
    protocol: str = "without"
    batch: int = 128
    held_out: int = 1024

    def __post_init__(self) -> None:
        _at_least(1, values=self.values, keys=self.keys, batch=self.batch, held_out=self.held_out)
        _one_of(PROTOCOLS, protocol=self.protocol)
        check_bijection(self.values, self.keys, self.protocol)  # type: ignore[arg-type]

    @property
    def vocabulary(self) -> int:
        return 2 * self.values

    @property
    def context(self) -> int:
        return 2 * self.keys - 1

    @property
    def classes(self) -> int:
        return self.values

    @property
    def supervised(self) -> slice:
        """Every key, whose value comes one token later."""
        return slice(0, None, 2)


@dataclass(frozen=True)
class Hmm:
    """Fresh transition and emission matrices in a header for each sequence, then observations; ``steps`` supervised
    positions are trained, ``test_steps`` are tested (what lies beyond ``steps`` is beyond the trained range)."""

    kind: Literal["hmm"] = "hmm"
    states: int = 5
    symbols: int = 5
    steps: int = 20
    test_steps: int = 50
    generator: str = "long-memory"
    rho: float = 0.85
    header: str = "rows"
    target: str = "next"
    batch: int = 128
    held_out: int = 1024

    def __post_init__(self) -> None:
        _at_least(1, steps=self.steps, batch=self.batch, held_out=self.held_out)
        _at_least(self.steps, test_steps=self.test_steps)
        _one_of(ENCODINGS, header=self.header)
        _one_of(("next", "posterior"), target=self.target)
        check_hmm(
            steps=self.steps, states=self.states, symbols=self.symbols, generator=self.generator, rho=float(self.rho)
        )
        if (self.header, self.generator) == ("published", "long-memory"):
            raise ValueError(
                "header: got 'published' with the generator 'long-memory', expected 'rows' "
                "(the published header can say nothing but hundredths)"
            )

    @property
    def vocabulary(self) -> int:
        """Features of a row token, or token ids of the published header."""
        return hmm_encoding.width(self.header, self.states, self.symbols)  # type: ignore[arg-type]

    @property
    def context(self) -> int:
        at = hmm_encoding.positions(self.header, self.test_steps, self.states, self.symbols)  # type: ignore[arg-type]
        return int(at[-1]) + 1

    @property
    def classes(self) -> int:
        return self.symbols if self.target == "next" else self.states

    @property
    def supervised(self) -> slice:
        """Every observation: what comes next, or where the chain is now."""
        first, second = hmm_encoding.positions(self.header, 2, self.states, self.symbols)  # type: ignore[arg-type]
        return slice(int(first), None, int(second - first))


@dataclass(frozen=True)
class OneHead:
    """q = x W_Q, k = x W_K, v = x W_V, z = softmax(q k^T / sqrt(d_k)) v W_O, causal with self; no bias, no residual."""

    kind: Literal["one-head"] = "one-head"
    d_k: int = 10
    d_v: int = 15
    initial: float = 0.1

    def __post_init__(self) -> None:
        _at_least(1, d_k=self.d_k, d_v=self.d_v)
        _positive(initial=self.initial)


@dataclass(frozen=True)
class Transformer:
    """A pre-norm transformer on tokens; ``mlp`` is the hidden width in units of ``width`` (0: no MLP).
    ``attention_layers``: only so many layers, the lowest, have attention (None: all; 0: a position-wise MLP)."""

    kind: Literal["transformer"] = "transformer"
    layers: int = 2
    width: int = 64
    heads: int = 4
    mlp: int = 4
    residual: bool = True
    norm: bool = True
    positions: str = "learned"
    attention_layers: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, layers=self.layers, width=self.width, heads=self.heads)
        _at_least(0, mlp=self.mlp)
        if self.attention_layers is not None:
            _at_least(0, attention_layers=self.attention_layers)
            if self.attention_layers > self.layers:
                raise ValueError(
                    f"attention_layers: got {self.attention_layers}, expected at most layers = {self.layers}"
                )
        _one_of((True, False), residual=self.residual, norm=self.norm)
        _one_of(("none", "learned", "rotary"), positions=self.positions)
        if self.width % self.heads:
            raise ValueError(f"heads: got {self.heads}, expected a divisor of width = {self.width}")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"width / heads: got {self.width // self.heads}, expected an even number for rotary positions"
            )


@dataclass(frozen=True)
class LSTM:
    """A stack of LSTM layers on the same tokens, read out at the supervised positions."""

    kind: Literal["lstm"] = "lstm"
    layers: int = 2
    width: int = 64

    def __post_init__(self) -> None:
        _at_least(1, layers=self.layers, width=self.width)


@dataclass(frozen=True)
class MLP:
    """The whole context up to a position, flattened, into ``layers`` layers of ``width`` units, the hidden width of the
    upper ones ``mlp * width``."""

    kind: Literal["mlp"] = "mlp"
    layers: int = 3
    width: int = 64
    mlp: int = 4

    def __post_init__(self) -> None:
        _at_least(1, layers=self.layers, width=self.width, mlp=self.mlp)


@dataclass(frozen=True)
class SGD:
    """theta <- theta - rate * factor * gradient; ``factors`` multiplies the rate of single matrices."""

    kind: Literal["sgd"] = "sgd"
    rate: float = 0.01
    factors: Mapping[str, float] = field(default_factory=dict)
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _positive(rate=self.rate)
        _fraction(momentum=self.momentum)
        _positive(**{f"factors[{name!r}]": value for name, value in self.factors.items()})


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay; ``clip`` bounds the global gradient norm, ``cosine`` decays the rate to 0."""

    kind: Literal["adamw"] = "adamw"
    rate: float = 0.001
    factors: Mapping[str, float] = field(default_factory=dict)
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    warm_up: int = 0
    cosine: bool = False
    clip: float | None = None

    def __post_init__(self) -> None:
        _positive(rate=self.rate, epsilon=self.epsilon)
        _fraction(beta1=self.beta1, beta2=self.beta2, weight_decay=self.weight_decay)
        _at_least(0, warm_up=self.warm_up)
        _one_of((True, False), cosine=self.cosine)
        if self.clip is not None:
            _positive(clip=self.clip)
        _positive(**{f"factors[{name!r}]": value for name, value in self.factors.items()})


@dataclass(frozen=True)
class Muon:
    """Orthogonalised momentum at ``rate`` for the matrices of the layers, AdamW at ``rate_other`` for the rest."""

    kind: Literal["muon"] = "muon"
    rate: float = 0.02
    rate_other: float = 0.002
    momentum: float = 0.95
    beta2: float = 0.99
    warm_up: int = 0
    cosine: bool = False
    clip: float | None = None

    def __post_init__(self) -> None:
        _positive(rate=self.rate, rate_other=self.rate_other)
        _fraction(momentum=self.momentum, beta2=self.beta2)
        _at_least(0, warm_up=self.warm_up)
        _one_of((True, False), cosine=self.cosine)
        if self.clip is not None:
            _positive(clip=self.clip)


@dataclass(frozen=True)
class Natural:
    """Natural-gradient routing: W_Q and W_K at ``rate * routing`` along it, W_V and W_O at ``rate`` along the plain
    one."""

    kind: Literal["natural"] = "natural"
    rate: float = 0.01
    routing: float = 0.001

    def __post_init__(self) -> None:
        _positive(rate=self.rate, routing=self.routing)


@dataclass(frozen=True)
class Alternating:
    """E phase on W_Q, W_K at ``rate * e_factor``, M phase on W_V and then W_O at ``rate``; ``eta`` in units of N."""

    kind: Literal["alternating"] = "alternating"
    rate: float = 0.01
    eta: float = 1.0
    e_steps: int = 3
    e_factor: float = 1.0
    m_steps: int = 3

    def __post_init__(self) -> None:
        _positive(rate=self.rate, eta=self.eta, e_factor=self.e_factor)
        _at_least(1, e_steps=self.e_steps, m_steps=self.m_steps)


KINDS: dict[str, dict[str, type]] = {
    "task": {"sticky-markov": StickyMarkov, "bijection": Bijection, "hmm": Hmm},
    "model": {"one-head": OneHead, "transformer": Transformer, "lstm": LSTM, "mlp": MLP},
    "update": {"sgd": SGD, "adamw": AdamW, "muon": Muon, "natural": Natural, "alternating": Alternating},
}


@dataclass(frozen=True)
class Config:
    """Everything that decides a run except the seed."""

    task: Any = field(default_factory=StickyMarkov)
    model: Any = field(default_factory=OneHead)
    update: Any = field(default_factory=SGD)
    steps: int = 1000
    gradients: str = "autograd"
    dtype: str = "float32"
    evaluate_every: int = 100
    checkpoint_every: int = 200
    snapshots: int = 0
    """Keep the parameters at this many evenly spaced steps, for measures that compare with the final state."""
    laws: int = 0
    """Wherever the run is evaluated, hold its laws against measurement (0: don't): of the one-head model on this many
    first positions of its sequence, of a transformer on this many held-out sequences."""

    def __post_init__(self) -> None:
        _at_least(0, steps=self.steps, laws=self.laws, snapshots=self.snapshots)
        _at_least(1, evaluate_every=self.evaluate_every, checkpoint_every=self.checkpoint_every)
        _one_of(GRADIENTS, gradients=self.gradients)
        _one_of(("float32", "float64"), dtype=self.dtype)
        fits = ("one-head",) if self.task.kind == "sticky-markov" else ("transformer", "lstm", "mlp")
        if self.model.kind not in fits:
            raise ValueError(
                f"model.kind: got {self.model.kind!r}, expected {' or '.join(map(repr, fits))} "
                f"for the task {self.task.kind!r}"
            )
        if "transformer" in fits:
            _one_of(("sgd", "adamw", "muon"), **{"update.kind": self.update.kind})
            if self.snapshots and self.model.kind != "transformer":
                raise ValueError(f"snapshots: got {self.snapshots}, expected 0 for a model without attention")
            _one_of(("autograd",), gradients=self.gradients)
            if self.laws and (self.model.kind != "transformer" or self.model.attention_layers == 0):
                raise ValueError(f"laws: got {self.laws}, expected 0 for a model without attention")

    def as_json(self) -> dict[str, Any]:
        """Plain data, as in config.json."""
        data = typing.cast(dict[str, Any], json.loads(json.dumps(asdict(self))))
        for name in LATER:
            # an option that came after the first records must not rename the configs that don't use it
            if data["model"].get(name, ...) is None:
                del data["model"][name]
        return data

    @property
    def hash(self) -> str:
        """The name of this configuration: 12 hexadecimal digits."""
        return digest(self.as_json())


def digest(data: Any) -> str:
    """12 hexadecimal digits of SHA-256 over the canonical JSON of ``data``."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _build(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: got {type(data).__name__}, expected an object with named settings")
    known = [f.name for f in fields(cls)]
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where}: unknown key {key!r}, expected one of {', '.join(known)}{hint}")
    try:
        return cls(**data)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def from_json(data: Any) -> Config:
    """The Config of plain ``data``; missing keys take their defaults, unknown keys raise ValueError."""
    if not isinstance(data, Mapping):
        raise ValueError(f"config: got {type(data).__name__}, expected an object with named settings")
    parts = dict(data)
    for name, kinds in KINDS.items():
        if name not in parts:
            continue
        if not isinstance(parts[name], Mapping):
            raise ValueError(f"config.{name}: got {parts[name]!r}, expected an object with a 'kind'")
        kind = parts[name].get("kind", next(iter(kinds)))
        if kind not in kinds:
            raise ValueError(f"config.{name}.kind: got {kind!r}, expected one of {', '.join(kinds)}")
        parts[name] = _build(kinds[kind], parts[name], f"config.{name}")
    config: Config = _build(Config, parts, "config")
    return config

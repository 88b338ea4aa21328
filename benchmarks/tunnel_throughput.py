"""Training throughput on the wind tunnels beside a plain PyTorch loop with the same model, optimiser and batches.

The plain loop is what one writes first and well: modules, ``scaled_dot_product_attention``, one matrix for queries,
keys and values, PyTorch's fused AdamW, gradient clipping. Both start from the same weights and must reach the same
loss. Ours is faster because nothing is computed at positions that nobody asks about: from the last attention on, only
supervised positions have queries and MLPs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayesgrad.training.config import AdamW, Bijection, Config, Hmm, Transformer
from bayesgrad.training.model import Parameters
from bayesgrad.training.sequence_problem import SequenceModel
from bayesgrad.training.updates import Oracle, make_update
from benchmarks.speed import Budget

SIZES: dict[str, tuple[Bijection | Hmm, Transformer]] = {
    "bijection V = 8, 2 layers, d 64, batch 128": (
        Bijection(values=8, keys=8, batch=128, held_out=2),
        Transformer(layers=2, width=64, heads=4),
    ),
    "bijection V = 20, 3 layers, d 96, batch 64": (
        Bijection(values=20, keys=19, batch=64, held_out=2),
        Transformer(layers=3, width=96, heads=4),
    ),
    "HMM K = 20, 4 layers, d 64, batch 128": (
        Hmm(batch=128, held_out=2),
        Transformer(layers=4, width=64, heads=4),
    ),
}
RATE, CLIP = 0.002, 1.0
SAME = 1e-3


class Layer(nn.Module):
    """Attention and MLP, pre-norm."""

    def __init__(self, width: int, heads: int, p: Parameters, name: str) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([p[f"{name}.W_{m}"] for m in "QKV"], 1).T)
            self.out.weight.copy_(p[f"{name}.W_O"].T)
            self.up.weight.copy_(p[f"{name}.W_in"].T)
            self.down.weight.copy_(p[f"{name}.W_out"].T)
            self.up.bias.zero_()
            self.down.bias.zero_()

    def forward(self, h: Tensor) -> Tensor:
        b, n, d = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        h = h + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        update: Tensor = self.down(F.gelu(self.up(self.norm2(h))))
        return h + update


class Plain(nn.Module):
    """The same transformer as modules, started from our parameters."""

    def __init__(self, c: Transformer, p: Parameters, supervised: slice) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Parameter(p["embedding"].clone()), nn.Parameter(p["positions"].clone())
        self.layers = nn.ModuleList(Layer(c.width, c.heads, p, f"layer{index}") for index in range(c.layers))
        self.norm, self.read_out = nn.LayerNorm(c.width), nn.Parameter(p["read_out"].clone())
        self.supervised = supervised

    def forward(self, x: Tensor) -> Tensor:
        h = x @ self.embedding if x.is_floating_point() else self.embedding[x]
        h = h + self.positions[: h.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.norm(h[:, self.supervised]) @ self.read_out


def loops(task: Bijection | Hmm, model: Transformer) -> dict[str, Callable[[int], float]]:
    """One training step of each way, on the batch of that step; returns the loss before it."""
    c = Config(task=task, model=model, update=AdamW(rate=RATE, clip=CLIP), steps=1000)
    problem = SequenceModel(c, 0)
    rule, start = make_update(c.update, c.steps), problem.initial()
    at = {"parameters": start, "state": rule.start(start)}

    def ours(step: int) -> float:
        done = rule(at["parameters"], Oracle(problem.loss_and_gradients, problem.batch(step)), at["state"])
        at["parameters"], at["state"] = done.parameters, done.state
        return float(done.loss)

    plain = Plain(model, start, task.supervised)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.0, fused=True)

    def theirs(step: int) -> float:
        batch = problem.batch(step)
        loss = F.cross_entropy(plain(batch.x).flatten(0, 1), batch.targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), CLIP)
        optimiser.step()
        return float(loss.detach())

    return {"ours": ours, "plain": theirs}


def throughput(rounds: int = 15) -> list[Budget]:
    """Steps a second of both ways, in turns, one thread; the best round of each."""
    torch.set_num_threads(1)
    out = []
    for name, (task, model) in SIZES.items():
        ways = loops(task, model)
        best = dict.fromkeys(ways, float("inf"))
        for step in range(rounds + 2):
            losses = {}
            for way, work in ways.items():
                begun = time.process_time()
                losses[way] = work(step)
                if step >= 2:
                    best[way] = min(best[way], time.process_time() - begun)
            if abs(losses["ours"] - losses["plain"]) > SAME:
                raise AssertionError(f"{name}: losses {losses} at step {step}, expected the same model")
        ratio = best["plain"] / best["ours"]
        shown = {way: f"{1 / seconds:.1f} steps/s" for way, seconds in best.items()}
        out.append(
            Budget(f"training, {name}, over a plain PyTorch loop", shown["ours"], shown["plain"], ratio, 1.0, True)
        )
    return out

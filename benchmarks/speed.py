"""Time and memory against named peers in the same run: all ways take turns, and the best round of each is compared.

The best round is what a busy machine disturbs least; everything else only ever adds to it. With one thread it is the
CPU time of the process, which other programs disturb less still; with two it is the time on the wall.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

import bayesgrad as bg
from bayesgrad import fused

SIZES = {
    "n = 1999, d_k 10, d_v 15, 8 classes": (1999, 20, 10, 15, 8),
    "n = 4096, d 64, 64 classes": (4096, 64, 64, 64, 64),
}


@dataclass(frozen=True)
class Budget:
    """One line of the table: what was promised and what was measured. ``at_least`` says which way is good."""

    what: str
    ours: str
    peer: str
    ratio: float
    budget: float
    at_least: bool

    @property
    def holds(self) -> bool:
        """Whether the measurement keeps the budget."""
        return self.ratio >= self.budget if self.at_least else self.ratio <= self.budget


def block(n: int, d_x: int, d_k: int, d_v: int, classes: int) -> dict[str, Callable[[], object]]:
    """The one-layer block, causal: loss and gradients of x and all four projections, five ways."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d_x, generator=generator)
    y = torch.randint(classes, (n,), generator=generator)
    W = [torch.randn(s, generator=generator) * 0.1 for s in ((d_x, d_k), (d_x, d_k), (d_x, d_v), (d_v, classes))]
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    visible = ~hidden

    def differentiate(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> object:
        leaves = [z.clone().requires_grad_() for z in (x, *W)]
        q, k, v = (leaves[0] @ leaf for leaf in leaves[1:4])
        return torch.autograd.grad(F.cross_entropy(attend(q, k, v) @ leaves[4], y), leaves)

    def eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax((q @ k.mT / math.sqrt(d_k)).masked_fill(hidden, -math.inf), -1) @ v

    def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        width = max(d_k, d_v)
        q, k, v = (z if z.shape[-1] == width else F.pad(z, (0, width - z.shape[-1])) for z in (q, k, v))
        out = F.scaled_dot_product_attention(
            q[None, None], k[None, None], v[None, None], is_causal=True, scale=d_k**-0.5
        )
        return out[0, 0, :, :d_v]

    return {
        "eager autograd": lambda: differentiate(eager),
        "autograd over PyTorch's fused kernel": lambda: differentiate(kernel),
        "bayesgrad.fused": lambda: fused.attention_block_gradients(x, *W, y, causal="upper-left"),
        "bayesgrad.attention_block_gradients": lambda: bg.attention_block_gradients(x, *W, y, mask=visible),
    }


def head(n: int, d: int) -> dict[str, Callable[[], object]]:
    """The dense functions and the same formulas written by hand, with the same results kept."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, u = (torch.randn(n, d, generator=generator) for _ in range(4))
    scale = 1 / math.sqrt(d)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    a, b = torch.softmax(q @ k.mT * scale, -1), u @ v.mT

    def by_hand(mask: Tensor | None) -> object:
        s = (q * scale) @ k.mT
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        a = torch.softmax(s, -1)
        b = u @ v.mT
        ds = a * (b - (a * b).sum(-1, keepdim=True))
        along = ds @ k
        return b, ds, a.mT @ u, along * scale, ds.mT @ (q * scale), (along * q).sum()

    return {
        "gradients by hand": lambda: by_hand(None),
        "attention_gradients": lambda: bg.attention_gradients(q, k, v, u),
        "masked gradients by hand": lambda: by_hand(mask),
        "attention_gradients, masked": lambda: bg.attention_gradients(q, k, v, u, mask=mask),
        "forward by hand": lambda: ((q * scale) @ k.mT, torch.softmax((q * scale) @ k.mT, -1) @ v),
        "attention": lambda: bg.attention(q, k, v),
        "softmax by hand": lambda: torch.softmax(b, -1),
        "softmax": lambda: bg.softmax(b),
        "routing law by hand": lambda: a * (b - (a * b).sum(-1, keepdim=True)),
        "score_gradient": lambda: bg.score_gradient(a, b, validate=False),
    }


PAIRS = (
    ("attention_gradients", "gradients by hand"),
    ("attention_gradients, masked", "masked gradients by hand"),
    ("attention", "forward by hand"),
    ("softmax", "softmax by hand"),
    ("score_gradient", "routing law by hand"),
)


def rounds(ways: dict[str, Callable[[], object]], count: int, threads: int) -> dict[str, list[float]]:
    """Seconds of each way in each round, after one warm-up."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(count + 1):
        for name, way in ways.items():
            start = clock()
            way()
            if turn:
                times[name].append(clock() - start)
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
    """One way's best time over another's."""
    return min(times[over]) / min(times[under])


def milliseconds(seconds: list[float]) -> str:
    """The best round."""
    return f"{1e3 * min(seconds):.1f} ms"


def speed(count: int = 9, counts: tuple[int, ...] = (1, 2)) -> list[Budget]:
    """Every speed budget with 1 and with 2 threads."""
    rows = []
    before = torch.get_num_threads()
    try:
        for threads in counts:
            torch.set_num_threads(threads)
            for size, shape in SIZES.items():
                times = rounds(block(*shape), count, threads)
                where = f"{size}, {threads} thread{'s' * (threads > 1)}"
                mine = times["bayesgrad.fused"]
                least = 5.0 if shape[0] < 4096 else 6.0
                peers = [("eager autograd", least)]
                peers += [("autograd over PyTorch's fused kernel", 1.0)] if shape[0] < 4096 else []
                for peer, budget in peers:
                    times_faster = ratio(times, peer, "bayesgrad.fused")
                    what = f"fused, times faster than {peer}: {where}"
                    rows.append(Budget(what, milliseconds(mine), milliseconds(times[peer]), times_faster, budget, True))
            for n in (512, 1024, 2048):
                times = rounds(head(n, 64), count, threads)
                for ours, peer in PAIRS:
                    what = f"{ours}, time over {peer}: n = m = {n}, d 64, {threads} thread{'s' * (threads > 1)}"
                    figure = ratio(times, ours, peer)
                    rows.append(Budget(what, milliseconds(times[ours]), milliseconds(times[peer]), figure, 1.5, False))
    finally:
        torch.set_num_threads(before)
    return rows


_PEAK = """
import json, sys
import torch
from benchmarks.speed import SIZES, block

def status(name):  # of this process alone: getrusage() would count its parent's peak as well
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

torch.set_num_threads(1)
size, way = sys.argv[1:]
run = block(*SIZES[size])[way]
block(64, *SIZES[size][1:])[way]()  # what libraries allocate once is nobody's extra
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the peak starts anew from what is resident now
before = status("VmRSS")
run()
print(json.dumps(status("VmHWM") - before))
"""


def peak_mib(size: str, way: str) -> float:
    """How much the peak of the resident memory rises in a process of its own, in MiB (Linux)."""
    done = subprocess.run([sys.executable, "-c", _PEAK, size, way], capture_output=True, text=True, check=True)
    return json.loads(done.stdout) / 1024


def memory() -> list[Budget]:
    """Peak extra memory at the larger size."""
    size = list(SIZES)[-1]
    mine, theirs = peak_mib(size, "bayesgrad.fused"), peak_mib(size, "eager autograd")
    what = f"fused, peak extra memory over eager autograd: {size}"
    return [Budget(what, f"{mine:.1f} MiB", f"{theirs:.1f} MiB", mine / theirs, 1 / 20, False)]


def importing(count: int = 7) -> list[Budget]:
    """Milliseconds of CPU time that importing the package costs beyond NumPy, over a budget of 150."""
    code = "import time, numpy; t = time.process_time(); import bayesgrad; print(time.process_time() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(count)
    ]
    found = 1e3 * min(seconds)
    what = "import bayesgrad beyond numpy, CPU time over 150 ms"
    return [Budget(what, f"{found:.0f} ms", "150 ms", found / 150, 1.0, False)]


def markdown(rows: list[Budget]) -> str:
    """The table as Markdown."""
    lines = ["| what | ours | peer | measured | budget | kept |", "|---|---|---|---|---|---|"]
    for r in rows:
        sign = ">=" if r.at_least else "<="
        kept = "yes" if r.holds else "NO"
        lines.append(f"| {r.what} | {r.ours} | {r.peer} | {r.ratio:.2f} | {sign} {r.budget:g} | {kept} |")
    return "\n".join(lines)

"""``python -m bayesgrad.testing kernel.py:backward``: judge an attention kernel, case by case."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from bayesgrad.command import finish

if TYPE_CHECKING:
    from bayesgrad.testing.kernels.judging import Court

EPILOG = """
a kernel is module:name or file.py:name of
  backward   f(q, k, v, u, *, mask, scale, ...) -> (dq, dk, dv), u = dL/dcontext
  --forward  f(q, k, v, ...) -> context or (context, lse); the framework takes the
             derivative. Arguments are passed by keyword if they are claimed: mask
             (True: may attend), scale, bias, slopes, softcap, sink, dropout, dlse.

claims: names and values with commas between them; what is not claimed is not asked.
  dtypes=float32+float16       of float64, float32, tf32, float16, bfloat16
  masks=none | keys | any      what it is handed (any)
  masks=causal-lower-right     what it makes itself: the last query at the last key;
        causal-upper-left      the first at the first; window-... with window=4:0
        keys+causal-...        both
  scale=no equal_widths widths=8 lengths=16 largest=1024 widest=128 square
  heads=no groups              with --layout bhnd or bnhd
  bias sink lse =yes|gradient, alibi=lower-right, softcap, dropout
  empty_rows unseen_nan no_keys (not asked unless claimed), huge=no, subnormal=no
  strided=no readonly=no deterministic=no fixed_shapes forward_mode second
  seconds=20 memory=4096 (MB)  the limits of one call

examples:
  python -m bayesgrad.testing kernel.py:backward --claims masks=none,dtypes=float32
  python -m bayesgrad.testing --framework torch --layout bhnd --names mask=attn_mask \\
      --forward torch.nn.functional:scaled_dot_product_attention

exit status: 0 every case is ok, 1 some are not, 2 the arguments make no sense
"""


def _pairs(text: str) -> dict[str, Any]:
    """``a=1,b=x`` as a dict; values are Python literals, or words. Commas within brackets belong to the value."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in parts)):
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"got {part!r}, expected name=value")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="python -m bayesgrad.testing",
        description="Judge an attention kernel: every case in a process of its own, tolerances derived entry by entry.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("backward", nargs="?", help="a backward function, module:name or file.py:name")
    made.add_argument("--forward", metavar="KERNEL", help="a forward function instead")
    made.add_argument("--demo", choices=("right", "wrong"), help="a demonstration instead")
    made.add_argument("--reference", metavar="KERNEL", help="a function of the same form that must be right, too")
    made.add_argument("--framework", default="numpy", help="numpy, torch, jax, mlx, tinygrad or autograd (numpy)")
    made.add_argument("--device", default="", help="where its tensors are: cpu, cuda, ...")
    made.add_argument("--layout", default="", help="nd, bhnd or bnhd: (n, d), (batch, heads, n, d), ... (nd)")
    made.add_argument("--claims", default="", metavar="CLAIMS", help="what it claims, see below")
    made.add_argument("--names", default="", metavar="A=B", help="its own names of arguments; mask=~m: True is hidden")
    made.add_argument(
        "--with", dest="options", default="", metavar="A=B", help="further arguments, such as causal=True"
    )
    made.add_argument("--only", action="append", default=[], metavar="CASE", help="cases with this in their name")
    made.add_argument("--list", action="store_true", help="list the cases, and run none")
    made.add_argument("--examples", type=int, default=0, help="so many blocks of the design only (0: all)")
    made.add_argument("--seed", type=int, default=0, help="another seed makes other numbers (0)")
    made.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    for name in ("log", "json", "junit"):
        made.add_argument(
            f"--{name}", metavar="FILE", help=f"write the {'lines' if name == 'log' else name} there, too"
        )
    return made


def summoned(arguments: Sequence[str] | None, options: argparse.Namespace | None = None) -> Court:
    """The court that the arguments ask for, not yet started. Raises ValueError, with one sentence."""
    from bayesgrad.testing.demonstrations import DEMONSTRATIONS
    from bayesgrad.testing.kernels.judging import Court

    if options is None:
        asked = parser()
        asked.exit_on_error = False
        asked.error = _refuse  # type: ignore[method-assign, assignment]
        options = asked.parse_args(arguments)
    if sum(x is not None for x in (options.backward, options.forward, options.demo)) != 1:
        raise ValueError("function: give a backward function, --forward or --demo, and one of them only")
    return Court(
        backward=options.backward or DEMONSTRATIONS.get(options.demo),
        forward=options.forward,
        **{name: getattr(options, name) for name in ("reference", "framework", "device", "layout", "claims")},
        **{name: getattr(options, name) for name in ("only", "examples", "seed")},
        names=_pairs(options.names),
        options=_pairs(options.options),
    )


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, print, and answer with the exit status."""
    asked = parser()
    options = asked.parse_args(arguments)
    try:
        court = summoned(None, options)
        for path in filter(None, (options.log, options.json, options.junit)):
            if not Path(path).resolve().parent.is_dir():
                raise ValueError(f"{path}: expected a file in a folder that there is")
            Path(path).write_text("", encoding="utf-8")
        if options.list:
            print("\n".join(plan.name for plan in court.plans))
            return 0
        court.start()
    except (ValueError, OSError) as error:
        asked.exit(2, f"{asked.prog}: error: {error}\n")

    def say(line: str) -> None:
        print(line, flush=True)
        if options.log:
            with Path(options.log).open("a", encoding="utf-8") as log:
                print(line, file=log)

    with court:
        judgement = court.run(fail_fast=options.fail_fast, tell=say)
    for name in ("json", "junit"):
        if getattr(options, name):
            Path(getattr(options, name)).write_text(getattr(judgement, name)() + "\n", encoding="utf-8")
    return 0 if judgement.good else 1


if __name__ == "__main__":
    finish(main)

"""``python -m bayesgrad.testing my_module:my_backward``: our checks of a backward function, and a ledger for it."""

from __future__ import annotations

import argparse
import sys

EPILOG = """
the function: f(q, k, v, u, *, mask, scale) -> (dq, dk, dv) on NumPy arrays q (n, d_k), k (m, d_k), v (m, d_v),
u = dL/dg (n, d_v), mask (n, m) of booleans (True: may attend) or None; the gradients of L = sum u g in q, k and v.

what it claims: names and values with commas between them; what is not claimed is not held against it.
  equal_widths        values only as wide as keys           widths=8         d_k and d_v are multiples of 8
  masks=rows          no query without a key (none: no mask at all)
  scale=no            the scale 1/sqrt(d_k) only            huge=no          no scores beyond the range of exp
  empty=no            no call without keys                  unseen_nan=no    no NaN at keys that nobody sees
  largest=1024        up to 1024 queries and keys (130): blocks of every length up to there are drawn too
  dtypes=float32+float16 (float64+float32); bfloat16 comes in float32 arrays and stands alone

example: python -m bayesgrad.testing kernel.py:backward --claims equal_widths,masks=rows,dtypes=float32,largest=300

exit status: 0 if every claimed case is ok, 1 if some are not, 2 if the arguments make no sense
"""


def main(arguments: list[str] | None = None) -> int:
    """Check, print, and answer with the exit status."""
    from bayesgrad.testing.capabilities import Capabilities
    from bayesgrad.testing.foreign import check, load

    parser = argparse.ArgumentParser(
        prog="python -m bayesgrad.testing",
        description=__doc__.replace("``", ""),  # type: ignore[union-attr]
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", nargs="?", help="module:name or file.py:name")
    demonstrations = ("torch", "right", "wrong", "bayesgrad")
    parser.add_argument("--demo", choices=demonstrations, help="check a demonstration instead")
    parser.add_argument("--claims", default=None, metavar="CLAIMS", help="what it claims, see below (everything)")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="cases with this in their name")
    parser.add_argument("--examples", type=int, default=200, help="random blocks a case (200)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other blocks (0)")
    options = parser.parse_args(arguments)
    if (options.function is None) == (options.demo is None):
        parser.error("function: give module:name, or --demo, and not both")
    edge: list[str] = []
    try:
        claimed = None if options.claims is None else Capabilities.parse(options.claims)
        if options.demo is not None:
            from bayesgrad.testing.demonstrations import DEMONSTRATIONS, torch_at_the_edge

            function, usual = DEMONSTRATIONS[options.demo]
            edge = torch_at_the_edge() if options.demo == "torch" else []
        else:
            function, usual = load(options.function), Capabilities()
        ledger = check(
            function,
            claimed or usual,
            name=options.function or f"demonstration {options.demo!r}",
            examples=options.examples,
            seed=options.seed,
            only=options.only,
            progress=_tell,
        )
    except ValueError as error:
        parser.error(str(error))
    _tell("")
    print("\n".join(ledger.lines()))
    if edge:
        print("\noutside its claims:")
        print("\n".join(f"  {sentence}" for sentence in edge))
    return 0 if ledger.good else 1


def _tell(case: str) -> None:
    """The case that runs now, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{case}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

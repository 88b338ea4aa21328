"""``python -m bayesgrad.testing my_module:my_backward``: our checks against a backward function, and a ledger for it.

Exit status 0: every claimed case is ok; 1: some are not; 2: the arguments make no sense. ``--demo`` names one of the
functions of :mod:`bayesgrad.testing.demonstrations` instead.
"""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Check one function and print its ledger."""
    from .foreign import Capabilities, check, load

    parser = argparse.ArgumentParser(prog="python -m bayesgrad.testing", description=__doc__)
    parser.add_argument("function", nargs="?", help="module:name or file.py:name of f(q, k, v, u, *, mask, scale)")
    parser.add_argument("--demo", choices=("torch", "right", "wrong"), help="check a demonstration instead")
    parser.add_argument("--examples", type=int, default=200, help="random blocks a case (200)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other blocks (0)")
    parser.add_argument("--equal-widths", action="store_true", help="only values as wide as keys are claimed")
    parser.add_argument("--masks", choices=("any", "rows", "none"), default="any", help="which masks are claimed (any)")
    parser.add_argument("--default-scale", action="store_true", help="only the scale 1/sqrt(d_k) is claimed")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), default=["float64", "float32"])
    parser.add_argument("--largest", type=int, default=5, help="the largest number of queries or keys (5)")
    parser.add_argument("--not-empty", action="store_true", help="no keys at all is not claimed")
    parser.add_argument("--no-unseen-nan", action="store_true", help="NaN at a key that nobody sees is not claimed")
    options = parser.parse_args(arguments)
    if (options.function is None) == (options.demo is None):
        parser.error("function: give module:name, or --demo, and not both")
    if options.examples < 1:
        parser.error(f"--examples: got {options.examples}, expected at least 1")
    if options.largest < 2:
        parser.error(f"--largest: got {options.largest}, expected at least 2")
    if options.demo is not None:
        from .demonstrations import DEMONSTRATIONS, torch_at_the_edge

        function, capabilities = DEMONSTRATIONS[options.demo]
        edge = torch_at_the_edge() if options.demo == "torch" else []
    else:
        try:
            function, edge = load(options.function), []
        except ValueError as error:
            parser.error(str(error))
        capabilities = Capabilities(
            equal_widths=options.equal_widths,
            masks=options.masks,
            scale=not options.default_scale,
            dtypes=tuple(options.dtypes),
            largest=options.largest,
            empty=not options.not_empty,
            unseen_nan=not options.no_unseen_nan,
        )
    name = options.function or f"demonstration {options.demo!r}"
    ledger = check(function, capabilities, name=name, examples=options.examples, seed=options.seed)
    print("\n".join(ledger.lines()))
    if edge:
        print("\noutside its claims:")
        print("\n".join(f"  {sentence}" for sentence in edge))
    return 0 if ledger.good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

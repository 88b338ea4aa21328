"""``python -m checks``: run ``pytest checks/`` unless nothing changed since it last passed; then print the ledger."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from bayesgrad.evidence import ROOT, BadEvidence, read


def main(arguments: list[str] | None = None) -> int:
    """Run what must be run; the exit status is pytest's (0: every law holds)."""
    from checks.profiles import PROFILES

    parser = argparse.ArgumentParser(prog="python -m checks", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="quick", help="how many examples (quick)")
    parser.add_argument("--force", action="store_true", help="run even if the evidence is fresh")
    parser.add_argument("--ledger-only", action="store_true", help="print the ledger, run nothing")
    parser.add_argument("--mutants", action="store_true", help="hunt mutants of the core instead (half a minute)")
    parser.add_argument("--seeds", type=int, metavar="N", help="run at N seeds, write no evidence: do verdicts change?")
    options, passed_on = parser.parse_known_args(arguments)
    os.chdir(ROOT)
    command = [sys.executable, "-m", "pytest", "checks/", "-q", f"--hypothesis-profile={options.profile}"]
    if options.seeds is not None:
        if options.seeds < 2:
            parser.error(f"--seeds: got {options.seeds}, expected at least 2")
        return subprocess.run([*command, f"--seeds={options.seeds}", *passed_on], check=False).returncode
    if options.mutants:
        from checks.mutation import mutants

        return mutants.main(options.force)
    try:
        fragment = read("check")
    except BadEvidence as error:
        print(error, file=sys.stderr)
        fragment = None
    if options.ledger_only or (fragment is not None and not options.force and _serves(fragment, options.profile)):
        from checks import label_ledger as ledger

        print(ledger.show(fragment, sys.stdout.isatty()))
        if not options.ledger_only:
            print("nothing changed since these checks ran; --force runs them again")
        return 0
    # A process of its own: pytest rewrites the assertions of plugins only if it is the first to import them.
    return subprocess.run([*command, *passed_on], check=False).returncode


def _serves(fragment: dict, profile: str) -> bool:
    """Whether fresh evidence answers the question: everything passed, with at least this profile's examples."""
    from checks.profiles import PROFILES

    had = PROFILES.get(fragment["configuration"]["profile"])
    enough = had is not None and had.examples >= PROFILES[profile].examples
    passed = all(found["verdict"] == "passed" for found in fragment["results"].values())
    return enough and passed and not fragment.get("failed", ["unknown"])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever reads closed the pipe: python -m checks | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)

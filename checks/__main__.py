"""``python -m checks``: run ``pytest checks/`` unless nothing changed since it last passed; then print the ledger."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from derivations.evidence import ROOT, DamagedEvidence, read


def main(arguments: list[str] | None = None) -> int:
    """Run what must be run; the exit status is pytest's (0: every law holds)."""
    from bayesgrad.testing.profiles import PROFILES

    parser = argparse.ArgumentParser(prog="python -m checks", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="quick", help="how many examples (quick)")
    parser.add_argument("--force", action="store_true", help="run even if the evidence is fresh")
    parser.add_argument("--ledger-only", action="store_true", help="print the ledger, run nothing")
    parser.add_argument("--mutants", action="store_true", help="hunt automatic mutants of the core instead (minutes)")
    parser.add_argument(
        "--seeds", type=int, default=0, metavar="N", help="N more seeds, 40 draws a check: do verdicts change?"
    )
    options, passed_on = parser.parse_known_args(arguments)
    os.chdir(ROOT)
    if options.seeds < 0:
        parser.error(f"--seeds: got {options.seeds}, expected a number of seeds")
    if options.seeds:
        return _other_seeds(options.seeds)
    if options.mutants:
        from checks import mutants

        return mutants.main()
    try:
        fragment = read("check")
    except DamagedEvidence as error:
        print(error, file=sys.stderr)
        fragment = None
    if options.ledger_only or (fragment is not None and not options.force and _serves(fragment, options.profile)):
        from checks import evidence

        print("\n".join(evidence.ledger(fragment)))
        if not options.ledger_only:
            print("nothing changed since these checks ran; --force runs them again")
        return 0
    # A process of its own: pytest rewrites the assertions of plugins only if it is the first to import them.
    command = [sys.executable, "-m", "pytest", "checks/", "-q", f"--hypothesis-profile={options.profile}", *passed_on]
    return subprocess.run(command, check=False).returncode


def _other_seeds(number: int) -> int:
    """Every check at seeds 1..N; 1 if one of them fails."""
    from bayesgrad.testing.engine import run
    from checks.mutants import load_checks
    from checks.registry import CHECKS, statement_of

    load_checks()
    failures = 0
    for seed in range(1, number + 1):
        tallies = [run(check, examples=40, seed=seed, statement=statement_of(check.label)) for check in CHECKS]
        failed = [tally for tally in tallies if tally.failure]
        worst = max(tally.worst_in_tolerance for tally in tallies)
        passed = f"{len(tallies) - len(failed)} of {len(tallies)} checks pass"
        print(f"seed {seed}: {passed}, worst error {worst:.2g} tolerances", flush=True)
        for tally in failed:
            print(tally.failure)
        failures += len(failed)
    return int(failures > 0)


def _serves(fragment: dict, profile: str) -> bool:
    """Whether fresh evidence answers the question: everything passed, with at least this profile's examples."""
    from bayesgrad.testing.profiles import PROFILES

    had = PROFILES.get(fragment.get("profile", ""))
    enough = had is not None and had.examples >= PROFILES[profile].examples
    return enough and all(found["verdict"] == "passed" for found in fragment["results"].values())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

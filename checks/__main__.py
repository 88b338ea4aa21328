"""``python -m checks``: run ``pytest checks/`` unless nothing changed since it last passed; then print the ledger.

Options that are not listed here go to pytest.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from bayesgrad.command import finish
from bayesgrad.evidence import ROOT, BadEvidence, load, read, why_stale


def _parser() -> argparse.ArgumentParser:
    from checks.profiles import PROFILES

    about = " ".join((__doc__ or "").replace("``", "").split())
    parser = argparse.ArgumentParser(prog="python -m checks", description=about, allow_abbrev=False)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="quick", help="how many examples (quick)")
    parser.add_argument("--force", action="store_true", help="run even if the evidence is fresh")
    parser.add_argument("--seeds", type=int, metavar="N", help="run at N seeds, write no evidence: do verdicts change?")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--ledger-only", action="store_true", help="print the ledger, run nothing")
    instead.add_argument("--require", action="store_true", help="run nothing; exit 1 unless every label passed")
    instead.add_argument("--audit", action="store_true", help="judge some of the stored draws again, and compare")
    instead.add_argument("--mutants", action="store_true", help="hunt code mutants instead (minutes)")
    instead.add_argument("--inventory", action="store_true", help="write the list of all checks, checks/inventory.txt")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run what must be run; the exit status is pytest's (0: every law holds)."""
    parser = _parser()
    options, passed_on = parser.parse_known_args(arguments)
    os.chdir(ROOT)
    command = [sys.executable, "-m", "pytest", "checks/", "-q", f"--hypothesis-profile={options.profile}"]
    if options.seeds is not None:
        if options.seeds < 2:
            parser.error(f"--seeds: got {options.seeds}, expected at least 2")
        return subprocess.run([*command, f"--seeds={options.seeds}", *passed_on], check=False).returncode
    if options.inventory:
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        return subprocess.run([*command, "--inventory"], check=False, env=environment).returncode
    if options.mutants:
        from checks.mutation import mutants

        return mutants.main(options.force)
    try:
        fragment, stale = read("check"), ""
        if options.audit or options.require:
            stored = load("check")
            stale = "there is none" if stored is None else why_stale(stored)
    except BadEvidence as error:
        print(error, file=sys.stderr)
        if options.audit or options.require:
            return 2
        fragment, stale = None, ""
    if options.require:
        return _require(fragment, stale)
    if options.audit:
        return _audit(fragment, stale)
    serves = fragment is not None and not options.force and not passed_on and _serves(fragment, options.profile)
    if options.ledger_only or serves:
        from checks import label_ledger as ledger

        print(ledger.show(fragment, sys.stdout.isatty()))
        if not options.ledger_only:
            print("nothing changed since these checks ran; --force runs them again")
        return 0
    # A process of its own: pytest rewrites the assertions of plugins only if it is the first to import them.
    status = subprocess.run([*command, *passed_on], check=False).returncode
    if status == 0 and not passed_on and not _served(options.profile):
        print("the checks ended without a result (a check that ends the process?)", file=sys.stderr)
        return 1
    return status


def _served(profile: str) -> bool:
    """Whether the evidence that stands there now answers the question."""
    fragment = read("check")
    return fragment is not None and _serves(fragment, profile)


def _serves(fragment: Mapping[str, Any], profile: str) -> bool:
    """Whether fresh evidence answers the question: every label passed, with this profile's examples, from seed 0."""
    from checks import evidence
    from checks.profiles import PROFILES

    had = PROFILES.get(fragment["configuration"].get("profile"))
    enough = had is not None and had.examples >= PROFILES[profile].examples
    return enough and fragment["configuration"].get("seed") == 0 and not evidence.lacking(fragment)


def _require(fragment: Mapping[str, Any] | None, stale: str) -> int:
    from checks import evidence

    lacking = evidence.lacking(fragment)
    if fragment is None:
        print(f"no evidence of the checks counts: {stale}")
    print("\n".join(lacking) if lacking else "every label passed its checks")
    return int(bool(lacking))


def _audit(fragment: Mapping[str, Any] | None, stale: str) -> int:
    if fragment is None:
        print(f"nothing to audit: {stale}; run python -m checks first")
        return 1
    from checks import registry, replay
    from derivations import laws

    began = time.perf_counter()
    laws.state_only()
    registry.load_checks()
    found = list(replay.audit(fragment, random.Random()))
    for sentence in found:
        print(sentence)
    seconds = time.perf_counter() - began
    print(
        f"{len(found)} differences: this is not what the checks find; python -m checks --force finds it anew"
        if found
        else f"the evidence is what the checks find, as far as some draws of each can tell ({seconds:.0f} s)"
    )
    return int(bool(found))


if __name__ == "__main__":
    finish(main)

"""docs/gallery.md, from the record alone: the table, what is not ok with its smallest input, and letters to send."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from bayesgrad.evidence import ROOT
from bayesgrad.testing.kernels.ledger import wrapped
from checks.gallery.entries import ENTRIES

HEAD = """# The gallery: public attention kernels before the judge

Made by `python -m checks.gallery` (a virtual environment of its own) from `checks/gallery/record.json`. The claims are
those that each package documents, so a red line is a finding about a documented promise, and not a demand of ours;
corners that nobody promises (queries without a key, NaN at unseen keys) are not asked. "wrapper" counts the lines that
it takes to call the kernel: 0 means that the command names the published function itself.

"""
NOTES = {
    "tied huge scores": "A backward pass that keeps only the log-sum-exp loses the logarithm of the number of ties "
    "beside a score beyond the range of exp, and makes the weights anew without it.",
    "subnormal upstream gradients": "JAX on a CPU gives 0 for results that are subnormal numbers, and does not say so.",
}


def rows(record: Mapping[str, Any]) -> list[str]:
    """The table, one kernel a line."""
    made = ["| kernel | versions | wrapper | seconds | verdict | not ok |", "|---|---|---|---|---|---|"]
    for name, found in record.items():
        cases = found.get("cases", [])
        bad = [case for case in cases if case["verdict"] != "ok"]
        good = f"{len(cases) - len(bad)} of {len(cases)} cases ok" if cases else found["verdict"]
        said = "; ".join(f"{case['name']} ({case['verdict']})" for case in bad[:3]) or found.get("why", "") or "-"
        said += f"; and {len(bad) - 3} more" if len(bad) > 3 else ""
        versions = ", ".join(f"{package} {version}" for package, version in found.get("versions", {}).items())
        cells = (name, versions, found.get("wrapper", ""), found.get("seconds", ""), good, said)
        made.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return made


def command(found: Mapping[str, Any]) -> str:
    """The two lines that reproduce a judgement."""
    packages = " ".join(f"{name}=={version.split('+')[0]}" for name, version in found["versions"].items())
    return f"pip install {packages}\npython -m bayesgrad.testing {shlex.join(found['arguments'])}"


def finding(case: Mapping[str, Any]) -> list[str]:
    """One case that is not ok: the numbers, the likely mistake, where, and the smallest input."""
    said = [("", case["detail"]), ("likely: ", case["likely"]), ("where: ", case["where"])]
    lines = [line for label, text in said if text for line in wrapped(label + text, 4)]
    return [f"**{case['name']}**: {case['verdict']}, {case['failed']} of {case['tried']} blocks", "", *lines,
            *wrapped(f"smallest: {case['example']}", 4), ""]  # fmt: skip


def wrapper_of(kernel: str) -> list[str]:
    """The lines of a wrapper; none for a kernel that is called as it is."""
    path, _, name = kernel.rpartition(":")
    if not path.endswith(".py"):
        return []
    text = (ROOT / path).read_text(encoding="utf-8")
    return text[text.index(f"def {name}(") :].split("\n\n\n")[0].rstrip().splitlines()


def letter(name: str, shown: str, title: str, found: Mapping[str, Any]) -> list[str]:
    """A report that can be sent as it is: what happens, the smallest input, what is right, how to see it."""
    worst = next(case for case in found["cases"] if case["name"] == shown)
    packages = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
    kernel = found["arguments"][1]
    wrapper = [f">     {line}".rstrip() for line in wrapper_of(kernel)]
    return [
        f"### {name}: {title}",
        "",
        f"> **{title}**",
        ">",
        f"> With {packages}:",
        ">",
        *(f"> {line}" for line in finding(worst) if line),
        ">",
        "> The expected number is the definition of attention, differentiated rule by rule in a wider format, with an",
        "> error bound for this entry. To reproduce (bayesgrad's judge of attention kernels):",
        ">",
        *(f">     {line}" for line in command(found).splitlines()),
        *([">", f"> with this in {kernel.rpartition(':')[0]}:", ">", *wrapper] if wrapper else []),
        "",
    ]


def page(record: Mapping[str, Any]) -> str:
    """The whole page."""
    lines = [*HEAD.splitlines(), *rows(record), ""]
    bad = {name: {case["name"] for case in f.get("cases", []) if case["verdict"] != "ok"} for name, f in record.items()}
    letters = [(e.name, *item) for e in ENTRIES for item in e.upstream.items() if item[0] in bad.get(e.name, ())]
    if letters:
        lines += ["## Ready to send", ""]
        for name, shown, title in letters:
            lines += letter(name, shown, title, record[name])
    lines += ["## What is not ok", ""]
    for name, found in record.items():
        cases = [case for case in found.get("cases", []) if case["verdict"] != "ok"]
        if cases:
            lines += [f"### {name}", "", *(f"    {line}" for line in command(found).splitlines()), ""]
            lines += [found["note"] + ".", ""] if found.get("note") else []
            told: dict[str, str] = {}
            for case in cases:  # the same numbers are told once
                like = told.setdefault(case["detail"], case["name"])
                lines += finding(case) if like == case["name"] else [f"**{case['name']}**: as {like}", ""]
    notes = {note for text, note in NOTES.items() if any(text in line for line in lines)}
    lines += ["## Notes", "", *(f"- {note}" for note in sorted(notes)), ""] if notes else []
    return "\n".join(lines)

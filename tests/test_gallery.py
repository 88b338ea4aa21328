"""The gallery: claims make sense, its page and section say what the record says, its command refuses nonsense."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bayesgrad.testing.__main__ import parser
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.theorems import THEOREMS
from checks.gallery.__main__ import PAGE, RECORD, key, main, wrapper_lines
from checks.gallery.entries import ENTRIES
from checks.gallery.page import page, wrapper_of
from report.context import Context, read_gallery
from report.sections import gallery


def test_every_entry_can_be_asked() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) >= 12
    for entry in ENTRIES:
        options = parser().parse_args(entry.arguments())
        assert Claims.parse(f"{options.claims},layout={options.layout}")
        assert all("==" in name or name == "packaging" for name in entry.requires)
        own = entry.kernel.partition(":")[0].endswith(".py")
        assert (wrapper_lines(entry) > 0) == own == bool(wrapper_of(entry.kernel))


def test_the_page_is_made_from_the_record_and_shows_each_smallest_input() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = page(record)
    assert PAGE.read_text(encoding="utf-8") == text
    for name, found in record.items():
        assert f"| {name} |" in text
        for case in found.get("cases", []):
            if case["verdict"] != "ok":
                assert case["detail"].split(" ")[0] in text
    changed = {"torch SDPA": {**record["torch SDPA"], "verdict": "ok", "cases": []}}
    assert "Ready to send" not in page(changed)


def test_the_report_has_a_section_of_it() -> None:
    context = Context(THEOREMS, {"results": {}}, gallery=read_gallery())
    (section,) = gallery.build(context)
    assert section.name == "gallery"
    assert "ring_flash_attn" in repr(section)
    assert gallery.build(replace(context, gallery={})) == []


def test_the_command_refuses_a_kernel_that_it_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["no such kernel"])
    assert left.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_judgement_is_kept_for_the_same_arguments_versions_and_judge_only() -> None:
    one, two = ENTRIES[:2]
    assert key(one, {"torch": "1"}) == key(one, {"torch": "1"})
    assert len({key(one, {"torch": "1"}), key(one, {"torch": "2"}), key(two, {"torch": "1"})}) == 3

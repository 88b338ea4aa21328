"""The paper, built by latexmk where TeX is: no undefined reference, no line that sticks out, the whole content."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from bayesgrad.theorems import THEOREMS
from report.__main__ import main
from tests import _report_sample as sample
from tests._needed import needed


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    needed(shutil.which("latexmk"), "latexmk: the PDF is not built here, bayesgrad.tex is written all the same")
    folder = tmp_path_factory.mktemp("paper")
    records = sample.write_records(folder)

    def change(found):
        for number, record in enumerate(records):
            sample.cell(found, number)["record"] = str(record)

    sample.write(folder / "evidence", change)
    assert main(["--fragments", str(folder / "evidence"), "--output", str(folder), "--quiet", "--pdf"]) == 0
    return folder


def test_the_log_is_clean(built):
    log = (built / "bayesgrad.log").read_text(encoding="utf-8", errors="replace").replace("\n", "")
    assert not re.search(r"undefined on input line|There were undefined|multiply.defined", log)
    wide = [float(points) for points in re.findall(r"Overfull \\[hv]box \(([0-9.]+)pt", log)]
    assert max(wide, default=0) <= 10, sorted(wide)[-5:]
    assert "Missing character" not in log


def test_the_pdf_holds_every_result(built):
    needed(shutil.which("pdftotext"), "pdftotext (poppler-utils)")
    done = subprocess.run(
        ["pdftotext", "-layout", str(built / "bayesgrad.pdf"), "-"], capture_output=True, text=True, check=True
    )
    squeezed = re.sub(r"[\s-]", "", done.stdout)
    for theorem in THEOREMS:
        assert theorem.label.replace("-", "") in squeezed, theorem.label
    assert "??" not in done.stdout


def test_a_second_build_is_quick_and_the_same(built):
    before = (built / "bayesgrad.pdf").stat().st_mtime_ns
    arguments = ["--fragments", str(built / "evidence"), "--output", str(built), "--quiet", "--pdf"]
    assert main(arguments) == 0
    assert (built / "bayesgrad.pdf").stat().st_mtime_ns == before


def test_without_tex_there_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    sample.write(tmp_path / "evidence")
    assert main(["--fragments", str(tmp_path / "evidence"), "--output", str(tmp_path), "--pdf"]) == 0
    assert "latexmk is not installed" in capsys.readouterr().out

"""The doors of the judge: the command, the pytest plugin, and the frameworks that take the derivative."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bayesgrad.evidence import ROOT
from bayesgrad.testing import judge
from bayesgrad.testing.__main__ import main
from bayesgrad.testing.plugin import each_case

FILE = ROOT / "tests" / "_kernels.py"
SMALL = ["--claims", "dtypes=float32,largest=17", "--only", "small"]


def test_the_command_prints_as_it_goes_and_writes_what_machines_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / name for name in ("log", "json", "junit")}
    flags = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    assert main([f"{FILE}:sign", *SMALL, *flags]) == 1
    said = capsys.readouterr().out
    assert "likely: dq: the opposite sign" in said
    assert files["log"].read_text(encoding="utf-8") == said
    data = json.loads(files["json"].read_text(encoding="utf-8"))
    assert (data["verdict"], data["cases"][0]["verdict"]) == ("not ok", "wrong")
    assert ET.fromstring(files["junit"].read_text(encoding="utf-8")).get("failures") == "1"
    assert main([f"{FILE}:right", *SMALL]) == 0


def test_cases_are_listed_without_a_kernel_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{FILE}:exits", "--claims", "dtypes=float32", "--list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "float32: design" in said
    assert said[-1] == "the first block again"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a backward function, --forward or --demo"),
        (["--demo", "right", "--forward", "a:b"], "one of them only"),
        (["nothing.py:f"], "nothing.py cannot be imported"),
        (["--demo", "right", "--claims", "speed"], "claims: got 'speed'"),
        (["--demo", "right", "--claims", "groups"], "expected a layout with heads"),
        (["--demo", "right", "--names", "mask"], "got 'mask', expected name=value"),
        (["--demo", "right", "--json", "/nowhere/at/all"], "expected a file in a folder that there is"),
        (["--forward", "a:b", "--framework", "torch", "--device", "nowhere"], "function: RuntimeError"),
    ],
)
def test_bad_arguments_end_in_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_a_framework_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        import mlx  # type: ignore[import-not-found]  # noqa: F401

        pytest.skip("MLX is here")
    except ImportError:
        pass
    with pytest.raises(SystemExit) as left:
        main(["--forward", "math:sin", "--framework", "mlx"])
    assert left.value.code == 2
    assert "framework: mlx cannot be imported" in capsys.readouterr().err


def test_layouts_may_be_given_beside_claims_that_need_one() -> None:
    how = {"claims": "groups,dtypes=float32,largest=5,widest=8", "layout": "bhnd", "only": ["small"]}
    assert judge(backward=f"{FILE}:full", **how).good  # type: ignore[arg-type]


def test_each_case_is_a_test_that_can_be_selected_and_expected_to_fail(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from bayesgrad.testing import each_case\n"
        f"how = dict(claims='dtypes=float32,largest=5,widest=8', only=['small', 'tied scores'])\n"
        f"test_right = each_case(backward='{FILE}:right', **how)\n"
        f"test_wrong = each_case(backward='{FILE}:sign', xfail={{'small': 'known'}}, **how)\n",
        encoding="utf-8",
    )
    plugin = [] if "bayesgrad.testing.plugin" in _entry_points() else ["-p", "bayesgrad.testing.plugin"]
    run = [sys.executable, "-m", "pytest", *plugin, "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    asked = f"{FILE}:half --claims dtypes=float32,largest=5,widest=8 --only small"
    done = subprocess.run(
        [*run, "test_mine.py", "--judge", asked],
        cwd=tmp_path,
        env={**__import__("os").environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    out = done.stdout
    assert done.returncode == 1, out + done.stderr
    assert "PASSED test_mine.py::test_right[float32: small blocks]" in out
    assert "XFAIL test_mine.py::test_wrong[float32: small blocks]" in out
    assert "PASSED test_mine.py::test_wrong[float32: tied scores]" in out  # where dq is 0
    assert "dv: 0.5 times what it must be" in out
    assert "1 failed, 3 passed, 1 xfailed" in out
    assert "Traceback" not in out


def _entry_points() -> list[str]:
    from importlib.metadata import entry_points

    return [found.value for found in entry_points(group="pytest11")]


def test_an_expected_failure_that_fits_no_case_is_refused() -> None:
    with pytest.raises(ValueError, match="no case has 'nothing' in its name"):
        each_case(backward=f"{FILE}:right", xfail={"nothing": "why"})


TORCH = "torch.nn.functional:scaled_dot_product_attention"


def test_torch_takes_the_derivative_forward_mode_and_second_derivatives() -> None:
    how = {"framework": "torch", "layout": "bhnd", "names": {"mask": "attn_mask"}, "examples": 8}
    claims = "largest=17,widest=16,huge=no,dtypes=float64"
    judgement = judge(forward=TORCH, claims=claims, **how)  # type: ignore[arg-type]
    assert judgement.good, judgement.table()


def test_a_wrong_declaration_about_somebody_elses_kernel_is_noticed() -> None:
    how = {"framework": "torch", "layout": "bhnd", "options": {"is_causal": True}, "only": ["small"]}
    claims = "masks=causal-{},scale=no,largest=17,widest=16,dtypes=float32"
    right, wrong = (judge(forward=TORCH, claims=claims.format(align), **how) for align in ("upper-left", "lower-right"))  # type: ignore[arg-type]
    assert right.good, right.table()
    assert "the mask is aligned upper-left" in wrong.cases[0].likely


def test_jax_takes_the_derivative() -> None:
    pytest.importorskip("jax")
    how = {"framework": "jax", "layout": "bnhd", "only": ["small"]}
    claims = "equal_widths,fixed_shapes,largest=9,widest=8,masks=any,dtypes=float32"
    judgement = judge(forward="jax.nn:dot_product_attention", claims=claims, **how)  # type: ignore[arg-type]
    assert judgement.good, judgement.table()

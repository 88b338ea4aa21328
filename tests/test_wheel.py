"""The wheel: what is in it, and that it works in an environment with nothing but its core dependencies."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).resolve().parent.parent
SMOKE = """
import sys
import numpy as np
import bayesgrad as bg
from bayesgrad import bayes, dynamics, em, fused, theorems
from bayesgrad.__main__ import main

rng = np.random.default_rng(0)
q, k, v, u = (rng.normal(size=s) for s in ((2, 3), (4, 3), (4, 5), (2, 5)))
got = bg.attention_gradients(q, k, v, u, mask=bg.causal_mask(2, 4, align="lower-right"))
assert np.allclose(got.scores.sum(-1), 0)
x, W = rng.normal(size=(6, 3)), [rng.normal(size=s) for s in ((3, 2), (3, 2), (3, 4), (4, 5))]
y = rng.integers(0, 5, size=6)
dense = bg.attention_block_gradients(x, *W, y, mask=bg.causal_mask(6, 6, align="upper-left"))
lean = fused.attention_block_gradients(x, *W, y, causal="upper-left")
assert np.allclose(dense.W_Q, lean.W_Q)
print(bg.explain(q, k, v, u))
assert em.not_variational_witness().after_plain_routing > em.not_variational_witness().start
assert len(theorems.THEOREMS) == 39
assert main([]) == 0
absent = [name for name in ("torch", "sympy", "hypothesis", "matplotlib", "jax", "pytest") if name in sys.modules]
assert not absent, absent
import importlib.util
present = [name for name in ("torch", "sympy", "hypothesis", "jax") if importlib.util.find_spec(name)]
assert not present, f"the environment is not empty: {present}"
try:
    import bayesgrad.torch
except ModuleNotFoundError as error:
    assert "torch" in str(error)
else:
    raise AssertionError("bayesgrad.torch without PyTorch")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / done.stdout.strip().splitlines()[-1]


def test_what_is_in_it(wheel):
    assert callable(build_wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    top = {name.split("/")[0] for name in names}
    assert top == {"bayesgrad", next(name for name in top if name.endswith(".dist-info"))}
    assert "bayesgrad/py.typed" in names
    assert "bayesgrad/symbolic/book.json" in names
    assert any(name.endswith("LICENSE") for name in names)
    metadata = Parser().parsestr(text)
    core = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(line.split(">")[0].strip() for line in core) == ["array-api-compat", "numpy"]
    assert metadata["License-Expression"] == "MIT"


def test_it_runs_with_its_core_dependencies_alone(wheel, tmp_path):
    """An environment of its own: the core's distributions are linked in, everything else is absent."""
    import array_api_compat
    import numpy

    home = tmp_path / "empty"
    venv.create(home, with_pip=False, symlinks=True)
    site = next((home / "lib").glob("python*/site-packages"))
    for package in (numpy, array_api_compat):
        source = Path(package.__file__).parent
        (site / source.name).symlink_to(source)
        for beside in source.parent.glob(f"{source.name}*"):  # metadata and compiled libraries
            if beside != source and not (site / beside.name).exists():
                (site / beside.name).symlink_to(beside)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    done = subprocess.run([python, "-I", "-c", SMOKE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Explanation: 2 queries, 4 keys" in done.stdout

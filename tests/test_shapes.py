"""The shapes in the annotations hold: tests of the functions run again under jaxtyping's import hook and beartype."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The hook comes before the package: our own pytest plugin would have imported it by then.
HOOK = ("-p", "no:bayesgrad.testing.plugin", "--jaxtyping-packages=bayesgrad,beartype.beartype")
FILES = ("cases", "dynamics", "em", "bayes", "masks_heads", "explain", "cross_entropy")


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_shape_and_dtype_in_the_annotations():
    # Malformed calls are left out: the hook would stop them before our own, better messages. So are a long integration
    # and a drawing, which call nothing that the others do not.
    files = [f"tests/test_{name}.py" for name in FILES]
    chosen = (
        "-k",
        "not named and not jax and not strict and not raises and not only and not implied and not flow and not drawn",
    )
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *HOOK, *chosen, *files)
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(done.stdout.rsplit(" passed", 1)[0].split()[-1]) > 200


CALL = """
from jaxtyping import install_import_hook
with install_import_hook("bayesgrad", "beartype.beartype"):
    import bayesgrad as bg
import numpy as np
try:
    bg.compatibility(np.zeros((2, 3)), np.zeros((4, 5)))
except Exception as error:
    print(type(error).__name__)
"""


def test_the_hook_is_really_there():
    assert run("-c", CALL).stdout.strip() == "TypeCheckError"


def test_without_the_hook_an_annotation_costs_nothing():
    done = run("-c", "import sys, bayesgrad; from bayesgrad._types import Floats; print('jaxtyping' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_symbolic_object_arrays_pass_the_annotations():
    done = run(
        "-c",
        "import jaxtyping, numpy as np; from bayesgrad._types import Array, Floats; "
        "print(isinstance(np.empty((2, 3), dtype=object), Floats[Array, 'n m']), "
        "isinstance(np.zeros((2, 3), dtype=int), Floats[Array, 'n m']))",
    )
    assert done.stdout.strip() == "True False", done.stderr

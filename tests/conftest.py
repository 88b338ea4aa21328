"""One fixture for every backend: ``xp(x)`` makes an array of it from lists or NumPy arrays.

Draws are derandomised, by the profiles of ``checks/profiles.py``.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import array_api_strict
import jax
import numpy as np
import pytest
import torch

from checks.profiles import configure as pytest_configure
from checks.profiles import header as pytest_report_header
from checks.profiles import pytest_runtest_call, pytest_runtest_makereport

__all__ = ["pytest_configure", "pytest_report_header", "pytest_runtest_call", "pytest_runtest_makereport"]

MEMORY = Path("/dev/shm")
torch.set_num_threads(1)
jax.config.update("jax_enable_x64", True)


@pytest.fixture
def quick_folder(tmp_path_factory):
    """A folder in memory, where the machine has that: a run flushes every checkpoint, and no test waits for a disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path_factory.mktemp("folder")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="bayesgrad-") as name:
        yield Path(name)


def _read_only(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


BACKENDS = {
    "numpy": np.asarray,
    "numpy, read-only": _read_only,
    "array-api-strict": lambda x: array_api_strict.asarray(np.asarray(x)),
    "torch": lambda x: torch.as_tensor(np.array(x)),
}


# JAX compiles every operation anew for every shape: it runs where the right answers are known, and in test_jax.
EVERY = BACKENDS | {"jax": lambda x: jax.numpy.asarray(np.asarray(x))}


@pytest.fixture(params=list(BACKENDS))
def xp(request):
    return BACKENDS[request.param]


@pytest.fixture(params=list(EVERY))
def every_xp(request):
    return EVERY[request.param]

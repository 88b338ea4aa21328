"""One fixture for every backend: ``xp(x)`` makes an array of it from lists or NumPy arrays."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch

torch.set_num_threads(1)


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


@pytest.fixture(params=list(BACKENDS))
def xp(request):
    return BACKENDS[request.param]

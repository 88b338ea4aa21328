"""``python -m bayesgrad``: versions and backends, as text or with ``--json``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
from importlib import metadata

import bayesgrad

REQUIRED = ("numpy", "array-api-compat")
BACKENDS = {
    "NumPy": "numpy",
    "PyTorch": "torch",
    "JAX": "jax",
    "dask": "dask",
    "CuPy": "cupy",
    "array-api-strict": "array_api_strict",
}
OPTIONAL = {"matplotlib": "matplotlib", "hypothesis": "hypothesis", "mpmath": "mpmath"}


def _version(module: str) -> str | None:
    """The version of a module that can be imported, without importing it."""
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return metadata.version(module.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, dict[str, str | None]]:
    """Versions of the package, of what it requires, of the backends and of what is optional; None = not installed."""
    return {
        "package": {"bayesgrad": bayesgrad.__version__, "python": platform.python_version()},
        "requires": {name: _version(name.replace("-", "_")) for name in REQUIRED},
        "backends": {name: _version(module) for name, module in BACKENDS.items()},
        "optional": {name: _version(module) for name, module in OPTIONAL.items()},
    }


def main(arguments: list[str] | None = None) -> int:
    """Print what there is. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bayesgrad", description="Versions and backends of bayesgrad.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    chosen = parser.parse_args(arguments)
    found = versions()
    if chosen.json:
        print(json.dumps(found, indent=1))
        return 0
    for title, rows in found.items():
        print(title)
        for name, version in rows.items():
            print(f"  {name:<18}{version or 'not installed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

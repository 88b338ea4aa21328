"""Checkpoints: parameters, update state and step of one run, loadable with ``weights_only=True``.

Written whole or not at all; the one before is kept, so that a kill at any moment leaves a good one. A checkpoint names
its config and seed, and refuses to continue another run.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bayesgrad.training.files import RunError, write_bytes
from bayesgrad.training.model import Parameters

FORMAT = 1
KEEP = 2


@dataclass(frozen=True)
class Checkpoint:
    """The state before ``step``: everything with a smaller step number has been done and logged."""

    step: int
    parameters: Parameters
    state: dict[str, Any]
    passes: int


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:07d}.pt"


def save(
    folder: Path, checkpoint: Checkpoint, *, config_hash: str, seed: int, fingerprint: str, keep: int = KEEP
) -> Path:
    """Write a checkpoint and drop all but the newest ``keep`` (0: keep all)."""
    data = {
        "format": FORMAT,
        "config_hash": config_hash,
        "seed": seed,
        "fingerprint": fingerprint,
        "step": checkpoint.step,
        "passes": checkpoint.passes,
        "parameters": moved(checkpoint.parameters, "cpu"),
        "state": moved(checkpoint.state, "cpu"),
    }
    path = path_of(folder, checkpoint.step)
    # in memory first: torch.save on a full disk raises a RuntimeError about its own archive
    whole = io.BytesIO()
    torch.save(data, whole)
    write_bytes(path, whole.getvalue())
    for old in sorted(folder.glob("step-*.pt"))[:-keep] if keep else ():
        old.unlink(missing_ok=True)
    return path


def moved(data: Any, device: Any) -> Any:
    """Plain data with its tensors on ``device``, each in storage of its own."""
    if isinstance(data, torch.Tensor):
        return data.detach().to(device, copy=True)
    return {name: moved(value, device) for name, value in data.items()} if isinstance(data, dict) else data


def clear(folder: Path) -> None:
    """Remove all checkpoints."""
    for path in folder.glob("step-*.pt"):
        path.unlink()


def load(path: Path, *, config_hash: str, seed: int, fingerprint: str | None = None, device: Any = "cpu") -> Checkpoint:
    """Read a checkpoint of this very run; anything else raises RunError."""
    try:
        data = torch.load(path, weights_only=True, map_location=device)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file, expected a checkpoint") from error
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise RunError(
            f"{path}: damaged or no checkpoint of ours; delete it and give the same command again"
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RunError(f"{path}: no checkpoint of ours (format {FORMAT} expected); delete it and run again")
    if data["config_hash"] != config_hash or data["seed"] != seed:
        raise RunError(
            f"{path}: belongs to config {data['config_hash']} with seed {data['seed']}, "
            f"expected config {config_hash} with seed {seed}; give it its own folder"
        )
    if fingerprint is not None and data["fingerprint"] != fingerprint:
        raise RunError(f"{path}: written by other sources or versions; delete the run folder and run again")
    return Checkpoint(data["step"], data["parameters"], data["state"], data["passes"])


def newest(
    folder: Path, *, config_hash: str, seed: int, fingerprint: str | None = None, device: Any = "cpu"
) -> Checkpoint | None:
    """The newest checkpoint in ``folder``; None when there is none."""
    paths = sorted(folder.glob("step-*.pt"))
    if not paths:
        return None
    return load(paths[-1], config_hash=config_hash, seed=seed, fingerprint=fingerprint, device=device)

"""Checkpoints: parameters, update state and step of one run, loadable with ``weights_only=True``.

Written whole or not at all, with a checksum of their content; the one before is kept and is tried where the newest is
damaged. A checkpoint names its config and seed, and refuses to continue another run.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bayesgrad.training.files import RunError, write_bytes
from bayesgrad.training.model import Parameters

FORMAT = 2
KEEP = 2


class Damaged(RunError):
    """A file that is no whole checkpoint."""


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
    data["sha256"] = checksum(data)
    path = path_of(folder, checkpoint.step)
    # in memory first: torch.save on a full disk raises a RuntimeError about its own archive
    whole = io.BytesIO()
    torch.save(data, whole)
    write_bytes(path, whole.getvalue())
    for old in sorted(folder.glob("step-*.pt"))[:-keep] if keep else ():
        old.unlink(missing_ok=True)
    return path


def checksum(data: Any) -> str:
    """The SHA-256 of plain data with tensors: names, types, shapes and every byte."""
    found = hashlib.sha256()

    def feed(part: Any) -> None:
        if isinstance(part, dict):
            for name in sorted(part):
                found.update(f"{name}:".encode())
                feed(part[name])
        elif isinstance(part, torch.Tensor):
            found.update(f"{part.dtype}{tuple(part.shape)}".encode())
            found.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            found.update(f"{part!r};".encode())

    feed(data)
    return found.hexdigest()


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
        raise Damaged(f"{path}: damaged or no checkpoint of ours; delete it and give the same command again") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RunError(f"{path}: no checkpoint of ours (format {FORMAT} expected); move it away and run again")
    if data.pop("sha256", "") != checksum(data):
        raise Damaged(f"{path}: its content does not have its checksum; delete it and give the same command again")
    if data["config_hash"] != config_hash or data["seed"] != seed:
        raise RunError(
            f"{path}: belongs to config {data['config_hash']} with seed {data['seed']}, "
            f"expected config {config_hash} with seed {seed}; give it its own folder"
        )
    if fingerprint is not None and data["fingerprint"] != fingerprint:
        raise RunError(f"{path}: written by other sources or versions; move the run folder away and run again")
    return Checkpoint(data["step"], data["parameters"], data["state"], data["passes"])


def newest(
    folder: Path, *, config_hash: str, seed: int, fingerprint: str | None = None, device: Any = "cpu"
) -> Checkpoint | None:
    """The newest whole checkpoint in ``folder``; None when there is none. Raises RunError where all are damaged."""
    damaged: Damaged | None = None
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        try:
            return load(path, config_hash=config_hash, seed=seed, fingerprint=fingerprint, device=device)
        except Damaged as error:
            damaged = damaged or error
    if damaged is not None:
        raise damaged
    return None

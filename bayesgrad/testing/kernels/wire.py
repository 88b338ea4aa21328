"""Frames between the judge and the process of the kernel: a header in JSON and raw bytes. Nothing is unpickled here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

import numpy as np


def send(stream: IO[bytes], header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """One frame."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    stream.write(len(text).to_bytes(8, "big") + text + b"".join(blobs))
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """One frame; None at the end of the stream. Raises ValueError for what is no frame."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    header = json.loads(_all(stream, int.from_bytes(head, "big")))
    return header, [_all(stream, length) for length in header["blobs"]]


def _all(stream: IO[bytes], length: int) -> bytes:
    if length > 1 << 36:
        raise ValueError("the frame is too long")
    found = stream.read(length)
    if len(found) < length:
        raise ValueError("the stream ends within a frame")
    return found


def packed(x: np.ndarray) -> tuple[dict[str, Any], bytes]:
    """An array as a description and bytes."""
    return {"dtype": x.dtype.name, "shape": list(x.shape)}, np.ascontiguousarray(x).tobytes()


def unpacked(said: dict[str, Any], blob: bytes) -> np.ndarray:
    """The inverse of :func:`packed`; a copy that may be written to. Raises ValueError, TypeError if it is none."""
    return np.frombuffer(blob, dtype=np.dtype(str(said["dtype"]))).reshape(said["shape"]).copy()

"""A kernel in a process of its own: questions go out, bytes come back, and whatever else happens is a finding."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from bayesgrad.testing.kernels import wire
from bayesgrad.testing.kernels.frameworks import FRAMEWORKS

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from bayesgrad.testing.kernels.worker import main; main()"
)
LOADING = 300.0
"""Seconds that importing a kernel may take."""


class Finding(AssertionError):
    """What is wrong with one call: a verdict and a sentence."""

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict, self.detail = verdict, detail


def pickled(function: Callable[..., Any]) -> bytes:
    """The function for another process: by value where that process could not import it."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    by_value = False
    if module is not None and module.__name__ != "__main__":
        try:
            spec = find_spec(module.__name__)
            origin = None if spec is None else spec.origin
            file = getattr(module, "__file__", None)
            by_value = file is not None and (origin is None or Path(origin) != Path(file))
        except (ImportError, ValueError):
            by_value = True
    if not by_value:
        return bytes(cloudpickle.dumps(function))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(function))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


class Suspect:
    """``function``: a callable, or "module:name". ``kind``: "backward" or "forward"; ``names`` and ``options``: how the
    function calls its arguments, and further ones that it gets. ``seconds`` and ``memory`` (MB) limit one question.

    Raises ValueError, with one sentence, if the function cannot be imported or called.
    """

    def __init__(
        self,
        function: Callable[..., Any] | str,
        *,
        kind: str = "backward",
        framework: str = "numpy",
        device: str = "",
        names: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        keywords: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        seconds: float = 20.0,
        memory: int = 4096,
    ) -> None:
        if framework not in FRAMEWORKS:
            raise ValueError(f"framework: got {framework!r}, expected one of {', '.join(FRAMEWORKS)}")
        self._said = {
            "path": function if isinstance(function, str) else "",
            "kind": kind,
            "framework": framework,
            "device": device,
            "names": dict(names or {}),
            "options": dict(options or {}),
            "keywords": list(keywords),
            "optional": list(optional),
        }
        try:
            json.dumps(self._said)
            self._pickled = b"" if isinstance(function, str) else pickled(function)
        except Exception as error:
            raise ValueError(f"function: cannot be sent to another process ({error}); give its path") from None
        self.seconds, self.memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None
        loaded = self._start()
        self.name, self.optional = str(loaded["name"]), [str(name) for name in loaded["optional"]]

    def _start(self) -> dict[str, Any]:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps([os.path.abspath(p) for p in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._frames: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout, self._frames), daemon=True).start()
        try:
            header, _ = self._exchange({"job": "load", **self._said}, [self._pickled], LOADING)
            refused = str(header["refused"])
        except (Finding, KeyError) as error:
            refused = f"function: {error} while it was imported"
        if refused:
            self.close()
            raise ValueError(refused)
        return header

    @staticmethod
    def _read(stream: Any, frames: queue.Queue[Any]) -> None:
        try:
            while (frame := wire.receive(stream)) is not None:
                frames.put(frame)
        except Exception as error:
            frames.put(error)
        frames.put(None)

    def ask(self, calls: list[dict[str, Any]], blobs: list[bytes]) -> tuple[list[dict[str, Any]], list[bytes]]:
        """What the kernel returned in each of the calls. Raises :class:`Finding` if it died, hung or grew too large."""
        if self._process is None:
            try:
                self._start()
            except ValueError as error:
                raise Finding("died", f"the kernel cannot be started again: {error}") from None
        header, found = self._exchange({"job": "ask", "calls": calls}, blobs, self.seconds * len(calls))
        if not isinstance(header.get("calls"), list) or len(header["calls"]) != len(calls):
            self.close()
            raise Finding("no verdict", "what came back is no answer to what was asked")
        return header["calls"], found

    def _exchange(
        self, header: dict[str, Any], blobs: list[bytes], seconds: float
    ) -> tuple[dict[str, Any], list[bytes]]:
        process, nonce = self._process, secrets.token_hex(8)
        assert process is not None
        assert process.stdin is not None
        try:
            wire.send(process.stdin, {**header, "nonce": nonce}, blobs)
        except OSError:
            raise self._died() from None
        end = time.monotonic() + seconds
        while True:
            try:
                frame = self._frames.get(timeout=min(0.05, max(end - time.monotonic(), 0.001)))
            except queue.Empty:
                used = _resident(process.pid)
                if used > self.memory:
                    self.close()
                    raise Finding("memory", f"used more than {self.memory} MB, and was ended") from None
                if time.monotonic() > end:
                    self.close()
                    raise Finding("timed out", f"no answer after {seconds:g} s, and was ended") from None
                continue
            if frame is None:
                raise self._died()
            if isinstance(frame, Exception) or not isinstance(frame[0], dict) or frame[0].get("nonce") != nonce:
                self.close()
                raise Finding("no verdict", "what came back is no answer to what was asked")
            return frame

    def _died(self) -> Finding:
        process = self._process
        assert process is not None
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = None
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode(errors="replace").strip().splitlines()
        self.close()
        how = "closed its streams" if code is None else f"exited with status {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return Finding("died", f"the kernel's process {how}" + (f": {lines[-1].strip()}" if lines else ""))

    def close(self) -> None:
        """End the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        except (OSError, ProcessLookupError):
            pass
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()
        self._errors.close()

    def __enter__(self) -> Suspect:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _resident(pid: int) -> float:
    """The memory that a process holds, in MB; 0 where nobody says."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError, IndexError):
        pass
    try:
        said = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
        return float(said.strip() or 0) / 1024
    except (OSError, ValueError):
        return 0.0

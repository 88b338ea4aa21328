"""How every command of the project ends: with its status, with one line after Ctrl-C, in silence when a pipe closes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn


def finish(main: Callable[[], int], interrupted: str = "interrupted") -> NoReturn:
    """Run ``main`` and leave the process with its status; 130 after Ctrl-C, 141 where the reader of a pipe has gone.

    ``interrupted`` says what an interrupt leaves behind.

    >>> try:
    ...     finish(lambda: 3)
    ... except SystemExit as end:
    ...     print(end.code)
    3
    """
    status: int | str | None
    try:
        try:
            status = main()
        except SystemExit as end:  # argparse, after --help or a wrong option
            status = end.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        status = 130
    except BrokenPipeError:  # `... | head` has read enough: nothing is left to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status)

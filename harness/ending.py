"""Ending: a process that has answered ends as Python ends it, but for the teardown of its modules, object by object.

The system frees them all at once: a tenth of the processor time of a check of a million transactions, and a sixth of a small one's.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

__all__ = ["run_and_end"]


def run_and_end(program: Callable[[], None]) -> None:
    """Run a program, and end the process with the exit code that it raises `SystemExit` with."""
    try:
        program()
    except SystemExit as done:
        if not isinstance(done.code, int):
            raise
        _end(done.code)


def _end(code: int) -> NoReturn:
    """Wait for threads that are no daemons, call what is to be called at exit, write what is left, and end the process."""
    # As in Python itself, nothing that fails now changes the exit code, which is a verdict.
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other name for it
    with suppress(BaseException):
        atexit._run_exitfuncs()  # noqa: SLF001 - as above
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(code)

"""Interruption: the end of a command by Ctrl-C, SIGTERM or SIGHUP, with one line that says what is kept and how to go on.

The signal is a KeyboardInterrupt in the main thread, so that files are whole or not there, and what was begun is ended. A command
that only computes ends after some seconds in any case, although a thread of it compiles or a process of it works on. One that
must undo something first, such as `run`, takes its time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

from schemaquake.harness.errors import ExitCode

__all__ = ["AGAIN", "Interruption", "describe_interruption", "on_interruption", "only_computes"]

AGAIN: Final = "nothing was written; run the command again"
"""What is kept of a command that only computes an answer."""
_UNKNOWN: Final = "run the command again"
_GRACE_S: Final = 3.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_sentences: Final[dict[str, str]] = {}
_computing: Final[set[str]] = set()


def on_interruption(command: str, sentence: str, *, computes: bool) -> None:
    """Set what an interrupted command says: what is kept, and how to go on. One that only `computes` ends at once."""
    _sentences[command] = sentence
    if computes:
        _computing.add(command)


def only_computes(command: str | None) -> bool:
    """Return True for a command that has nothing to undo."""
    return command in _computing


def describe_interruption(command: str | None) -> str:
    """Return the line that an interrupted command ends with."""
    return f"interrupted: {_sentences.get(command or '', _UNKNOWN)}"


@dataclass(slots=True)
class Interruption:
    """The answer of this process to signals that end it."""

    line: str
    """What is printed, if the command does not come to print it."""
    at_once: bool
    """True if the command is ended after a few seconds, whatever it is doing."""
    _process: int = 0
    _began: bool = False
    _over: bool = False

    def listen(self) -> None:
        """Take the signals that would end the process; those that its parent had it ignore stay ignored, as `nohup` wants it."""
        self._process = os.getpid()
        for number in _SIGNALS:
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                signal.signal(number, self._answer)

    def end(self) -> None:
        """Note that the command has ended by itself."""
        self._over = True

    def _answer(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a fork of the process, which is ended by its own
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self.at_once and not self._began:
            self._began = True
            timer = threading.Timer(_GRACE_S, self._end_process)
            timer.daemon = True
            timer.start()
        raise KeyboardInterrupt

    def _end_process(self) -> None:
        """End the processes that this one has started, and this one."""
        if self._over:
            return
        for child in multiprocessing.active_children():
            child.kill()
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"{self.line}\n")
            sys.stderr.flush()
        os._exit(ExitCode.CRASHED)

"""Strands: work of a simulation that may wait in the middle of a call, beside everything else.

A generator says where it waits; healing a fault, or asking a node to leave, waits deep inside calls that know nothing of a
simulation. Such work is done on a stack of its own, a strand, so that several of them wait at once and each goes on when its own
time has come. A strand is a thread that runs only while the event heap stands still, and hands back before the heap goes on: there is
never more than one at work, and which one, only the heap decides. So a seed still repeats a run exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from threading import Lock, Thread
from typing import Final

__all__ = ["Abandoned", "Strand"]

_ENDS_WITHIN_S: Final = 10.0
"""The machine's time for what work does at its end, when its run is over."""


class Abandoned(BaseException):
    """The end of work that waits for what will not happen: the run is over."""


class Strand:
    """A stack for pieces of work, one after another."""

    __slots__ = ("_abandoned", "_busy", "_context", "_error", "_go", "_left", "_over", "_thread", "_work")

    def __init__(self, context: Context) -> None:
        """`context` has the variables that the work sees."""
        self._context = context
        self._go = _taken()
        self._over = _taken()
        self._thread: Thread | None = None
        self._work: Callable[[], None] | None = None
        self._busy = False
        self._abandoned = False
        self._left = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Do some work, until it ends or waits. Raises what it raises."""
        assert not self._busy
        self._work, self._busy = work, True
        if self._thread is None:
            # A daemon: an interpreter that is told to end waits for nothing that is simulated.
            self._thread = Thread(target=self._context.run, args=(self._live,), name="strand", daemon=True)
            self._thread.start()
        self.resume()

    def resume(self) -> None:
        """Go on with work that waits, until it ends or waits again. Raises what it raises."""
        self._go.release()
        self._over.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Hand back, from inside the work, and return when it is resumed. Raises Abandoned if it never will be."""
        if not self._abandoned:
            self._over.release()
            self._go.acquire()
        if self._abandoned:
            raise Abandoned

    def leave(self) -> None:
        """Take no more work after the present one, which calls this."""
        self._left = True

    def abandon(self) -> None:
        """Break off the work, which waits."""
        self._abandoned = True
        if self._thread is not None and self._thread.is_alive():
            self._go.release()
            self._thread.join(timeout=_ENDS_WITHIN_S)

    def _live(self) -> None:
        while not self._left:
            self._go.acquire()
            if self._abandoned:
                return
            assert self._work is not None
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - raised where the heap goes on
                self._error = error
            if self._abandoned:
                return
            self._busy = False
            self._over.release()


def _taken() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock

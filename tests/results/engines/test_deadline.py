from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

import pytest

from schemaquake.harness import compiled
from schemaquake.results.engines.deadline import Overdue, deadline


def careless() -> None:
    """Never ends, and takes every error for an error of its own."""
    while True:
        with suppress(Exception):
            sum(range(1000))


def test_what_does_not_end_is_ended():
    began = time.monotonic()
    with pytest.raises(Overdue), deadline(0.1):
        careless()
    assert 0.1 <= time.monotonic() - began < 5


def test_the_time_in_which_something_is_compiled_does_not_count(monkeypatch):
    compiling = compiled._Compiling()
    monkeypatch.setattr(compiled, "_compiling", compiling)
    compiled_until: list[float] = []

    def compiles_first() -> None:
        time.sleep(0.3)
        compiled_until.append(time.monotonic())
        compiling.end()
        careless()

    compiling.begin()
    with pytest.raises(Overdue), deadline(0.05):
        compiles_first()
    assert compiled_until
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_what_ends_in_time_is_left_alone_and_no_alarm_remains():
    before = signal.getsignal(signal.SIGALRM)
    with deadline(30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_an_alarm_that_somebody_else_has_set_is_theirs():
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with deadline(30):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 30
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 30
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_another_thread_is_not_ended():
    finished = threading.Event()

    def work() -> None:
        with deadline(0.001):
            sum(range(1_000_000))
        finished.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert finished.is_set()

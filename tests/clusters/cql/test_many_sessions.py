"""Many sessions of one process: a few are opened at a time, and none gives up while others come in."""

from __future__ import annotations

import threading

import pytest

from schemaquake.clusters.cql import client as cql_client
from schemaquake.clusters.cql.client import _Door
from schemaquake.harness.wait import pause_for


def test_a_session_that_waits_gives_up_only_when_nobody_else_comes_in(monkeypatch):
    monkeypatch.setattr(cql_client, "_SECONDS_TO_CONNECT", 1.0)
    door = _Door()
    waits = iter([1.1, 1.1, 0.0])

    def attempt():
        """Others come in meanwhile; the third time it is our turn."""
        pause_for(wait := next(waits))
        if not wait:
            return "a session"
        door.opened()
        return None

    assert door.until_open(attempt) == "a session"


def test_a_node_that_lets_nobody_in_is_given_up(monkeypatch):
    monkeypatch.setattr(cql_client, "_SECONDS_TO_CONNECT", 0.5)
    attempts = []
    with pytest.raises(TimeoutError):
        _Door().until_open(lambda: attempts.append(None))
    assert attempts


def test_a_few_are_opened_at_a_time_and_a_turn_that_ends_badly_is_given_back():
    door = _Door()
    lock, inside, most, done = threading.Lock(), [], [0], []

    def come_in():
        while True:
            with door.turn() as is_ours:
                if not is_ours:
                    continue
                with lock:
                    inside.append(None)
                    most[0] = max(most[0], len(inside))
                pause_for(0.01)
                with lock:
                    inside.pop()
                    done.append(None)
                return

    def fail():
        with door.turn():
            raise ZeroDivisionError

    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            fail()
    threads = [threading.Thread(target=come_in) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 100
    assert 1 <= most[0] <= cql_client._OPENED_AT_ONCE

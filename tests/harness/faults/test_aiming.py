"""Aiming: steps are noted as they are seen, and a fault begins at its own, once, and lasts as long as it is to."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from schemaquake.harness.errors import ClusterError, NotApplicable
from schemaquake.harness.faults.aiming import refuse_unseen, watched
from schemaquake.harness.model.aim import Aim
from schemaquake.harness.model.protocols import Fault


class SteppingCluster:
    """Goes through its steps, one at each look, and stays at the last; an exception is raised."""

    def __init__(self, *steps):
        self.ahead = list(steps)
        self.at_end = threading.Event()

    def steps(self, nodes):
        assert nodes == ("n3",)
        seen = self.ahead.pop(0) if len(self.ahead) > 1 else self.ahead[0]
        if len(self.ahead) == 1:
            self.at_end.set()
        if isinstance(seen, Exception):
            raise seen
        return seen


def operation(step=None):
    aim = {} if step is None else {"aim": Aim(nemesis="kill", step=step, nodes=("n3",), hold_s=0.01).to_json()}
    return Fault(id=0, nemesis="move", begins_s=1, ends_s=9, nodes=("n3",), parameters=aim)


def carried_out(cluster, planned):
    notes, struck = [], []

    @contextmanager
    def strike(aim):
        struck.append(aim.step)
        notes.append(("begins", aim.nemesis))
        yield
        notes.append(("ends", aim.nemesis))

    with watched(cluster, planned, 5, note=lambda f, value: notes.append((f, value)), strike=strike):
        assert not isinstance(cluster, SteppingCluster) or cluster.at_end.wait(20)
    return notes, struck


def step(name):
    return ("operation-step", {"operation": 5, "step": name})


def test_each_step_is_noted_when_it_is_first_seen():
    cluster = SteppingCluster((), ("PREPARE",), ("PREPARE",), ("START", "stream"), ("START",), ())
    assert carried_out(cluster, operation()) == ([step("PREPARE"), step("START"), step("stream")], [])


def test_a_fault_begins_at_its_step_once_and_ends_before_the_operation_is_left():
    cluster = SteppingCluster(("PREPARE",), ("START",), ("PREPARE",), ("START",), ())
    notes, struck = carried_out(cluster, operation("START"))
    assert struck == ["START"]
    assert notes == [
        step("PREPARE"),
        ("begins", "kill"),
        step("START"),
        ("ends", "kill"),
        step("PREPARE"),
        step("START"),
    ]


def test_a_step_that_is_never_seen_is_missed():
    missed = ("aim-missed", {"operation": 5, "nemesis": "kill", "step": "MID"})
    assert carried_out(SteppingCluster(("START",), ()), operation("MID")) == ([step("START"), missed], [])
    assert carried_out(object(), operation("MID")) == ([missed], [])
    assert carried_out(object(), operation()) == ([], [])


class KnowingCluster(SteppingCluster):
    def __init__(self, *shown):
        super().__init__(())
        self.shown = shown

    def steps_shown(self):
        return self.shown


def test_a_step_that_the_system_never_shows_is_refused_beforehand():
    cluster = KnowingCluster("under-way", "stream")
    with pytest.raises(NotApplicable, match="no step MID of move; known here are stream, under-way"):
        refuse_unseen(cluster, [operation(), operation("MID")], "kill@MID")
    with pytest.raises(NotApplicable, match="it shows none"):
        refuse_unseen(KnowingCluster(), [operation("stream")], "kill@stream:peer")
    refuse_unseen(cluster, [operation("stream")], "kill@stream:peer")
    # What the seed drew may be missed, and so may be any step of a cluster that does not say what it shows.
    refuse_unseen(cluster, [operation("MID")], "any")
    refuse_unseen(SteppingCluster(()), [operation("MID")], "kill@MID")


def test_a_look_that_fails_ends_nothing():
    cluster = SteppingCluster(ClusterError("n1 is not there"), OSError("broken"), ("START",), ())
    assert carried_out(cluster, operation("START"))[1] == ["START"]


def test_an_operation_that_raises_is_not_watched_any_more():
    with (
        pytest.raises(ValueError, match="broken"),
        watched(SteppingCluster(()), operation(), 5, note=lambda *_: None, strike=None),
    ):
        raise ValueError("broken")
    assert not [thread for thread in threading.enumerate() if thread.name == "watch of move"]

"""Strands: work that waits in the middle of a call, beside other work that does."""

from __future__ import annotations

import threading
from contextvars import copy_context

import pytest

from schemaquake.harness.model.runtime import Sleep
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.simulated_runtime import SimulatedRuntime
from schemaquake.harness.run.strands import Strand
from schemaquake.harness.wait import pause_for, until

S = 1_000_000_000


def never():
    return False


@pytest.fixture
def heap():
    return EventHeap()


def test_two_pieces_of_work_wait_at_once_and_each_ends_in_its_time(heap):
    done = []

    def work(name, until_ns):
        done.append(f"{name} begins")
        heap.run(never, until_ns=until_ns)
        done.append((f"{name} ends", heap.now_ns))

    heap.at(10, lambda: heap.on(Strand(copy_context()), lambda: work("long", 100)))
    heap.at(20, lambda: heap.on(Strand(copy_context()), lambda: work("short", 60)))
    heap.at(30, lambda: heap.on(Strand(copy_context()), lambda: work("longest", 200)))
    heap.run(never)
    begins = ["long begins", "short begins", "longest begins"]
    assert done == [*begins, ("short ends", 60), ("long ends", 100), ("longest ends", 200)]


def test_work_goes_on_with_the_act_that_ends_its_wait(heap):
    done = []

    def work():
        assert heap.run(lambda: "go" in done)
        done.append(("went", heap.now_ns))
        assert not heap.run(never, until_ns=40)
        assert not heap.run(never)  # nothing is left to happen
        done.append(heap.now_ns)

    heap.at(10, lambda: heap.on(Strand(copy_context()), work))
    heap.at(20, lambda: done.append("go"))
    heap.at(30, lambda: done.append("after"))
    heap.run(never)
    assert done == ["go", ("went", 20), "after", 40]


def test_what_work_raises_ends_the_run_of_the_heap(heap):
    def work():
        heap.run(never, until_ns=20)
        raise RuntimeError("broken")

    heap.at(10, lambda: heap.on(Strand(copy_context()), work))
    with pytest.raises(RuntimeError, match="broken"):
        heap.run(never)
    assert heap.now_ns == 20


def blocked(log, runtime, seconds):
    log.append((yield Sleep(S)))
    try:
        until(lambda: False, deadline_s=seconds, what="nothing")
    except TimeoutError:
        log.append(runtime.clock.now_ns() // S)


def test_tasks_that_block_end_in_their_own_time():
    runtime, log = SimulatedRuntime(EventHeap()), []
    others = set(threading.enumerate())
    with runtime.waiting():
        tasks = [runtime.spawn(str(seconds), blocked(log, runtime, seconds)) for seconds in (30, 10)]
        pause_for(5)
        tasks[0].stop()
        assert log == [True, True]
        for task in tasks:
            task.join()
    assert log == [True, True, 11, 31]
    assert set(threading.enumerate()) <= others


def test_tasks_of_a_run_that_is_over_are_broken_off():
    runtime, log = SimulatedRuntime(EventHeap()), []
    others = set(threading.enumerate())
    with runtime.waiting():
        runtime.spawn("blocked", blocked(log, runtime, 1000))
        runtime.spawn("asleep", blocked(log, runtime, 1000))
        pause_for(3)
    assert log == [True, True]
    assert set(threading.enumerate()) <= others


def stubborn(log):
    try:
        yield from blocked(log, None, 1000)
    finally:
        pause_for(7)
        log.append("not reached")


def test_work_that_is_broken_off_waits_no_more():
    runtime, log = SimulatedRuntime(EventHeap()), []
    with runtime.waiting():
        runtime.spawn("stubborn", stubborn(log))
        pause_for(3)
    assert log == [True]

"""The event heap: virtual time, one act after another."""

from __future__ import annotations

from schemaquake.harness.run.event_heap import EventHeap


def never():
    return False


def test_acts_happen_in_order_of_time_and_those_of_one_moment_as_they_were_scheduled():
    heap, done = EventHeap(), []
    for time, name in ((20, "c"), (10, "a"), (20, "d"), (15, "b")):
        heap.at(time, lambda name=name: done.append((heap.now_ns, name)))
    assert heap.run(never) is False
    assert done == [(10, "a"), (15, "b"), (20, "c"), (20, "d")]


def test_an_act_whose_time_is_past_happens_at_the_present():
    heap, done = EventHeap(), []
    heap.at(50, lambda: heap.at(10, lambda: done.append(heap.now_ns)))
    heap.run(never)
    assert done == [50]


def test_a_cancelled_act_does_not_happen():
    heap, done = EventHeap(), []
    heap.at(10, lambda: done.append("a")).cancel()
    event = heap.at(20, lambda: done.append("b"))
    heap.run(never)
    event.cancel()
    assert done == ["b"]


def test_a_run_ends_when_it_is_done_or_at_its_moment_and_leaves_the_rest():
    heap, done = EventHeap(), []
    for time in (10, 20, 30, 40):
        heap.at(time, lambda: done.append(heap.now_ns))
    assert heap.run(lambda: len(done) == 2) is True
    assert (done, heap.now_ns) == ([10, 20], 20)
    assert heap.run(never, until_ns=35) is False
    assert (done, heap.now_ns) == ([10, 20, 30], 35)


def test_an_act_that_waits_lets_others_happen_meanwhile():
    heap, done = EventHeap(), []

    def waiting():
        done.append("begins")
        heap.run(never, until_ns=30)
        done.append(("ends", heap.now_ns))

    heap.at(10, waiting)
    heap.at(20, lambda: done.append("between"))
    heap.at(40, lambda: done.append("after"))
    heap.run(never)
    assert done == ["begins", "between", ("ends", 30), "after"]


def test_no_two_stamps_are_equal_and_time_goes_on_with_them():
    heap = EventHeap()
    assert [heap.stamp_ns() for _ in range(3)] == [1, 2, 3]
    assert heap.now_ns == 3


def test_acts_without_a_handle_keep_the_order_of_all():
    heap, done = EventHeap(), []
    heap.post(10, lambda: done.append("a"))
    heap.at(10, lambda: done.append("b"))
    heap.post(10, lambda: done.append("c"))
    heap.at(30, lambda: done.append("cancelled")).cancel()
    heap.run(never)
    assert (done, heap.now_ns, heap.scheduled) == (["a", "b", "c"], 10, 4)

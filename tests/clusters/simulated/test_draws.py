"""Draws are SplitMix64's, however many are made ahead; limits that are cancelled are forgotten."""

from __future__ import annotations

import pytest

from schemaquake.clusters.simulated.draws import Stream
from schemaquake.clusters.simulated.kernel import Patience
from schemaquake.harness.run.event_heap import EventHeap

MASK = (1 << 64) - 1


def one_after_another(key, count):
    """SplitMix64 as it is published, a number at a time."""
    state, numbers = key, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        numbers.append(mixed ^ (mixed >> 31))
    return numbers


def test_the_first_numbers_are_the_published_ones():
    stream = Stream(1234567)
    assert [stream.bits() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("key", [0, 1, 0x9E3779B97F4A7C15, MASK - 1, MASK])
def test_numbers_made_ahead_are_those_made_one_after_another(key):
    stream = Stream(key)
    assert [stream.bits() for _ in range(1000)] == one_after_another(key, 1000)


def test_every_kind_of_draw_takes_one_number():
    stream, numbers = Stream(7), one_after_another(7, 300)
    for at in range(0, 300, 3):
        first, second, third = numbers[at : at + 3]
        assert stream.between(10, 50) == 10 + (first * 41 >> 64)
        assert stream.below(1000) == second * 1000 >> 64
        assert stream.chance(0.25) == (third < 1 << 62)


def test_limits_that_are_cancelled_are_forgotten_and_the_others_end_in_time():
    heap, ended = EventHeap(), []
    patience = Patience(heap, 1_000)
    for number in range(5_000):
        limit = patience.begin(lambda number=number: ended.append((number, heap.now_ns)))
        if number not in {2_000, 4_999}:
            limit.cancel()
        if number == 1_999:
            assert len(patience) <= 1
        heap.run(lambda: False, until_ns=heap.now_ns + 3)
    assert ended == [(2_000, 7_000)]
    heap.run(lambda: False)
    assert ended == [(2_000, 7_000), (4_999, 15_997)]
    assert len(patience) == 0

"""The meeting point, with threads for parties: everybody or nobody, and never a hang."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemaquake.harness.run.interpreter import MeetingFailed
from schemaquake.harness.run.meeting_point import MeetingPoint
from schemaquake.harness.wait import pause_for


def never():
    return False


def point_of(parties):
    return MeetingPoint(multiprocessing.get_context("spawn"), parties)


def test_nobody_waits_alone_where_one_is_everybody():
    assert all(point_of(1).meet(limit_s=0, called_off=never) for _ in range(3))


def test_nobody_is_a_meeting_ahead_of_anybody():
    parties, rounds = 4, 100
    point = point_of(parties)
    met = [0] * parties

    def walk(party):
        for number in range(rounds):
            assert set(met) <= {number, number + 1}
            met[party] = number + 1
            assert point.meet(limit_s=30, called_off=never)
            assert min(met) >= number + 1

    with ThreadPoolExecutor(parties) as pool:
        list(pool.map(walk, range(parties)))
    assert met == [rounds] * parties


def test_a_meeting_that_is_called_off_was_none():
    point = point_of(2)
    off = threading.Event()
    threading.Timer(0.1, off.set).start()
    assert point.meet(limit_s=30, called_off=off.is_set) is False


def test_after_a_reset_nothing_of_the_broken_meeting_is_left():
    point = point_of(2)
    assert point.meet(limit_s=30, called_off=lambda: True) is False
    point.leave()
    point.reset(2)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: point.meet(limit_s=30, called_off=never), range(2))) == [True, True]
    with pytest.raises(MeetingFailed, match=r"did not meet within 0\.1 s"):
        point.meet(limit_s=0.1, called_off=never)


def test_a_token_nobody_took_lets_nobody_through_after_a_reset():
    """A party that was killed after the meeting was held leaves its token behind."""
    point = point_of(2)
    point._tokens[0].release()
    point._tokens[1].release()
    point.reset(2)
    with pytest.raises(MeetingFailed):
        point.meet(limit_s=0.1, called_off=never)


def test_whoever_waits_for_one_that_left_is_told_at_once():
    point = point_of(2)
    threading.Timer(0.2, point.leave).start()
    began = time.monotonic()
    with pytest.raises(MeetingFailed, match="one of them has no more steps"):
        point.meet(limit_s=60, called_off=never)
    assert time.monotonic() - began < 10


def test_leaving_after_the_last_meeting_disturbs_nobody_who_is_still_on_the_way_out():
    for _ in range(50):
        point = point_of(3)

        def come_and_go(_, point=point):
            met = point.meet(limit_s=30, called_off=never)
            point.leave()
            return met

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(come_and_go, range(3))) == [True] * 3


def test_the_limit_is_one_of_waiting_for_the_last_to_come():
    point = point_of(2)
    began = time.monotonic()
    with pytest.raises(MeetingFailed):
        point.meet(limit_s=0.3, called_off=never)
    assert 0.3 <= time.monotonic() - began < 10


def test_everybody_goes_when_the_last_one_comes():
    point = point_of(3)
    left = []

    def walk(party):
        pause_for(0.4 * party)
        point.meet(limit_s=30, called_off=never)
        left.append(time.monotonic())

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(walk, range(3)))
    assert max(left) - min(left) < 0.4

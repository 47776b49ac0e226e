"""Waiting: for a condition and not for a time, and whoever waited in vain is told what was seen last."""

from __future__ import annotations

import time

import pytest

from schemaquake.harness.wait import pause_for, until


def test_what_is_already_so_is_not_waited_for():
    began = time.monotonic()
    assert until(lambda: "there", deadline_s=60, what="a thing", every_s=60) == "there"
    assert time.monotonic() - began < 30


def test_the_first_truthy_value_is_returned():
    answers = iter([None, 0, "", [], "found", "too late"])
    assert until(lambda: next(answers), deadline_s=5, what="a thing", every_s=0.001) == "found"


def test_waiting_in_vain_says_for_what_how_long_and_what_was_seen_last():
    seen = iter(["", *[0] * 1000])
    with pytest.raises(TimeoutError) as error:
        until(lambda: next(seen), deadline_s=0.05, what="agreement", every_s=0.01)
    assert str(error.value) == "agreement did not come about within 0.05 s (last seen: 0)"


def test_without_any_time_the_condition_is_still_asked_once():
    asked = []
    with pytest.raises(TimeoutError):
        until(lambda: asked.append(1), deadline_s=0, what="a thing")
    assert asked == [1]
    assert until(lambda: "there", deadline_s=0, what="a thing") == "there"


def test_the_deadline_is_kept_even_if_the_next_question_would_come_later():
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        until(lambda: None, deadline_s=0.1, what="a thing", every_s=60)
    assert 0.1 <= time.monotonic() - began < 5


def test_the_condition_is_asked_a_last_time_at_the_deadline():
    ends = time.monotonic() + 0.1
    assert until(lambda: time.monotonic() >= ends, deadline_s=0.1, what="the deadline", every_s=60)


def test_a_condition_that_fails_ends_the_waiting():
    def broken():
        raise ValueError("the node is on fire")

    with pytest.raises(ValueError, match="on fire"):
        until(broken, deadline_s=5, what="a thing")


def test_a_pause_lasts_as_long_as_it_says_and_a_past_one_not_at_all():
    began = time.monotonic()
    pause_for(0.05)
    assert 0.05 <= time.monotonic() - began < 5
    began = time.monotonic()
    pause_for(-60)
    assert time.monotonic() - began < 5

from __future__ import annotations

import time

import pytest

from schemaquake.clusters.nodes import libfaketime
from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.model.traits import lack
from schemaquake.harness.wait import pause_for, until
from schemaquake.nemeses.clock.clock_skew import ClockSkew


class Clock:
    """A node whose clock follows an order after `lag_s`; it writes down where it was sent."""

    def __init__(self, name, *, lag_s=0.0):
        self.name = name
        self.lag_s = lag_s
        self.orders = [(0.0, 0.0)]

    def skew_clock(self, offset_s):
        self.orders.append((time.monotonic(), offset_s))

    def clock_offset(self):
        return [offset for at, offset in self.orders if at + self.lag_s <= time.monotonic()][-1] + 0.001


class RealClock:
    """A node whose processes run under libfaketime, as those of a local cluster do."""

    def __init__(self, name, folder):
        self.name = name
        self._library = libfaketime.find_library()
        if self._library is None:
            pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
        self._file = folder / name
        self.skew_clock(0.0)

    def skew_clock(self, offset_s):
        libfaketime.write_offset(self._file, offset_s)

    def clock_offset(self):
        return libfaketime.read_offset(self._library, self._file)


class Clocks:
    def __init__(self, *nodes):
        self.nodes = nodes

    def missing(self, means):
        return None if means == "clock" else "unknown"


def fault(kind, offsets, *, period_s=0.1):
    parameters = {"kind": kind, "offsets": offsets, "period_s": period_s}
    return Fault(id=2, nemesis="clock", begins_s=0, ends_s=9, nodes=tuple(offsets), parameters=parameters)


def test_real_clocks_jump_each_by_its_own_offset_and_come_back(tmp_path):
    clocks = Clocks(RealClock("n1", tmp_path), RealClock("n2", tmp_path))
    jump = fault("jump", {"n1": -120.0, "n2": 37.5})
    effect = ClockSkew().inject(clocks, jump)
    assert effect["observed"] is True
    assert effect["nodes"]["n1"]["read"] == pytest.approx(-120, abs=1)
    assert effect["nodes"]["n2"]["read"] == pytest.approx(37.5, abs=1)
    healed = ClockSkew().heal(clocks, jump)
    assert healed["observed"] is True
    assert healed["nodes"]["n1"]["before"] == pytest.approx(-120, abs=1)
    assert healed["nodes"]["n1"]["after"] == pytest.approx(0, abs=1)
    assert all(abs(node.clock_offset()) < 1 for node in clocks.nodes)


def test_a_clock_that_follows_late_is_waited_for():
    clock = Clock("n1", lag_s=0.2)
    effect = ClockSkew().inject(Clocks(clock), fault("jump", {"n1": 60.0}))
    assert effect == {"observed": True, "tolerance_s": 1.0, "nodes": {"n1": {"wanted": 60.0, "read": 60.001}}}


def test_a_clock_that_does_not_follow_is_no_fault():
    with pytest.raises(ClusterError, match=r"skewing clocks: n1: a clock offset of \+60 s on n1 did not come about"):
        ClockSkew(read_back_limit_s=0.1).inject(Clocks(Clock("n1", lag_s=60)), fault("jump", {"n1": 60.0}))


def test_a_clock_that_does_not_come_back_is_a_heal_error_and_the_others_are_restored():
    stuck, free = Clock("n1"), Clock("n2")
    clocks = Clocks(stuck, free)
    jump = fault("jump", {"n1": 60.0, "n2": 60.0})
    ClockSkew().inject(clocks, jump)
    stuck.lag_s = 60
    stuck.orders = [(0.0, 60.0)]
    with pytest.raises(HealError, match=r"n1: a clock offset of \+0 s on n1"):
        ClockSkew(read_back_limit_s=0.1).heal(clocks, jump)
    assert free.clock_offset() == 0.001


def test_a_strobe_toggles_in_the_background_until_it_is_healed():
    clock = Clock("n1")
    nemesis = ClockSkew()
    strobe = fault("strobe", {"n1": 60.0}, period_s=0.02)
    began = time.monotonic()
    assert nemesis.inject(Clocks(clock), strobe)["nodes"]["n1"]["read"] == 60.001
    assert time.monotonic() - began < 5
    until(lambda: len(clock.orders) >= 6, deadline_s=120, what="toggles")
    healed = nemesis.heal(Clocks(clock), strobe)
    orders = [offset for _, offset in clock.orders]
    assert orders[:6] == [0.0, 60.0, 0.001, 60.0, 0.001, 60.0]
    assert orders[-1] == 0.0
    assert healed["toggles"] == len(orders) - 3  # not the beginning, the injection and the healing
    assert healed["observed"] is True
    count = len(clock.orders)
    pause_for(0.1)
    assert len(clock.orders) == count


def test_a_strobe_that_broke_off_is_told_and_the_clock_restored():
    class Breaks(Clock):
        def skew_clock(self, offset_s):
            super().skew_clock(offset_s)
            if len(self.orders) == 3:
                raise ClusterError("connection lost")

    clock = Breaks("n1")
    nemesis = ClockSkew()
    nemesis.inject(Clocks(clock), fault("strobe", {"n1": 60.0}, period_s=0.01))
    until(lambda: len(clock.orders) == 3, deadline_s=120, what="the strobe's end")
    healed = nemesis.heal(Clocks(clock), fault("strobe", {"n1": 60.0}))
    assert healed["broke_off"] == "connection lost"
    assert clock.clock_offset() == 0.001


@pytest.mark.parametrize("kind", ["jump", "strobe"])
def test_healing_is_idempotent_and_needs_no_injection(kind):
    clocks = Clocks(Clock("n1"))
    healed = ClockSkew().heal(clocks, fault(kind, {"n1": 60.0}))
    assert healed["observed"] is False
    assert healed["nodes"] == {"n1": {"before": 0.001, "after": 0.001}}
    assert ClockSkew().heal(clocks, fault(kind, {"n1": 60.0})) == healed


def test_a_fresh_process_restores_a_clock_that_a_dead_one_left():
    clocks = Clocks(Clock("n1"))
    jump = fault("strobe", {"n1": -60.0}, period_s=50)
    ClockSkew().inject(clocks, jump)
    assert ClockSkew().heal(clocks, jump)["nodes"]["n1"] == {"before": -59.999, "after": 0.001}


def test_a_cluster_without_clocks_says_so():
    assert lack(ClockSkew(), Clocks()) is None

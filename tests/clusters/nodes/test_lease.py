"""Leases on this very machine: real scripts, several runs, and owners that die."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from here_transport import HereTransport
from test_guard import Bench, armed_by_0_1, await_thread_s_end, bench_in, fill, small_disk

from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.lease import Lease, LeaseHeld, Leases, owner_here
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Undo
from schemaquake.harness.wait import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


class Place:
    """A host with a folder of guards and a place for its lease."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.file = bench.transport.folder / "lease"

    def lease(self, run, *, state=None, owner="ann@here"):
        state = str(self.bench.state if state is None else state)
        return Lease(self.bench.transport, run=run, state=state, owner=owner, place=str(self.file))

    def expire(self):
        """As time does; the fourth line is the boot and when."""
        lines = self.file.read_text().splitlines()
        self.file.write_text("\n".join([*lines[:3], f"{lines[3].split()[0]} 1", ""]))


@pytest.fixture
def place(tmp_path):
    with bench_in(tmp_path) as bench:
        yield Place(bench)


@pytest.fixture(params=["dash", "bash", "busybox"])
def any_place(tmp_path, request):
    with bench_in(tmp_path, request.param) as bench:
        yield Place(bench)


def test_the_second_run_is_refused_and_told_who_has_the_host_and_for_how_long(any_place):
    place = any_place
    place.lease("r1").take(length_s=600)
    with pytest.raises(LeaseHeld, match=r"run r1 of ann@here holds this host for another \d+ s") as caught:
        place.lease("r2", owner="bob@there").take(length_s=60)
    assert (caught.value.holder.run, caught.value.holder.owner) == ("r1", "ann@here")
    assert 0 < caught.value.holder.expires_in_s <= 600
    assert [(holder.run, holder.owner) for one in ("r1", "r2") if (holder := place.lease(one).holder())] == [
        ("r1", "ann@here")
    ] * 2
    with pytest.raises(LeaseHeld):
        place.lease("r2").take(length_s=60, healing=True)


def test_a_run_takes_its_own_lease_twice_and_its_healing_does_too(any_place):
    place = any_place
    place.lease("r1").take(length_s=60)
    place.lease("r1").take(length_s=600)
    place.lease("r1", owner="heals").take(length_s=600, healing=True)
    assert place.lease("r1").holder().owner == "heals"
    assert place.lease("r1").holder().expires_in_s > 60


def test_of_many_runs_at_once_one_has_the_host(place):
    def take(number):
        with suppress(LeaseHeld):
            place.lease(f"r{number}").take(length_s=600)
            return number
        return None

    with ThreadPoolExecutor(8) as pool:
        taken = [number for number in pool.map(take, range(8)) if number is not None]
    assert [f"r{number}" for number in taken] == [place.lease("r0").holder().run]


def test_a_lease_is_given_back_by_its_own_run_alone(place):
    place.lease("r1").take(length_s=600)
    place.lease("r2").release()
    assert place.lease("r2").holder().run == "r1"
    for _ in range(2):
        place.lease("r1").release()
    assert place.lease("r2").holder() is None
    assert not place.file.exists()
    place.lease("r2").take(length_s=60)


def test_a_lease_that_was_not_renewed_is_taken_over_and_is_lost_to_its_run(any_place):
    place = any_place
    place.lease("r1").take(length_s=600)
    place.expire()
    assert place.lease("r1").holder() is None
    place.lease("r1").renew(length_s=600)  # nobody has come, so it is still ours
    place.expire()
    place.lease("r2").take(length_s=600)
    with pytest.raises(LeaseHeld, match="run r2"):
        place.lease("r1").renew(length_s=600)


def test_a_lease_of_before_the_host_was_booted_is_nobody_s(place):
    place.lease("r1").take(length_s=600)
    lines = place.file.read_text().splitlines()
    place.file.write_text("\n".join([*lines[:3], f"another-boot {lines[3].split()[1]}", ""]))
    place.lease("r2").take(length_s=600)
    assert place.lease("r1").holder().run == "r2"


def test_a_lease_that_was_swept_away_is_nobody_s_and_cannot_be_renewed(place):
    place.lease("r1").take(length_s=600)
    place.file.unlink()
    with pytest.raises(ClusterError, match="run r1 does not hold the lease of this host any more"):
        place.lease("r1").renew(length_s=600)


def test_who_takes_over_undoes_what_the_dead_run_left_though_its_guards_died_too(place):
    """In whatever folder that run kept its guards."""
    place.lease("run-1").take(length_s=600)
    place.bench.guard.arm(
        3, [Undo(("touch", str(place.bench.path())), whole=("test", "-e", str(place.bench.path())))], after_s=600
    )
    place.bench.kill_guards()
    place.expire()
    elsewhere = place.bench.transport.folder / "elsewhere"
    place.lease("r2", state=elsewhere).take(length_s=600)
    assert place.bench.path().exists()
    # What wakes up now is refused by the fence, for its guard has fired.
    assert place.bench.guard.armed() == []
    place.bench.guard.disarm(3)


def test_who_cannot_undo_it_does_not_take_over(place):
    place.lease("run-1").take(length_s=600)
    mark = place.bench.path()
    place.bench.guard.arm(3, [Undo(("true",), whole=("test", "-e", str(mark)))], after_s=600)
    place.expire()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(place.lease("r2").take, length_s=600)
        until(lambda: place.bench.guard.fired(3), deadline_s=30, what="a first round")
        assert not second.done()
        mark.touch()
        second.result()
    place.bench.guard.disarm(3)


@pytest.mark.parametrize("older", [False, True], ids=["ours", "0.1"])
def test_a_fault_of_a_run_without_a_lease_is_left_alone_and_named(place, older):
    """It may be a run that still goes on."""
    undo = place.bench.undo()
    if older:
        armed_by_0_1(place.bench, [step.argv for step in undo], after_s=600)
    else:
        place.bench.guard.arm(3, undo, after_s=600)
    with pytest.raises(ClusterError, match=r"a fault of another run may stand on this host \(.*/run-1/fault-3\)"):
        place.lease("r2").take(length_s=600)
    assert place.bench.undone() == 0
    place.lease("r2").take(length_s=600, healing=True)  # who heals is not kept from it by what others left
    place.lease("r2").release()
    place.bench.guard.fire(3)
    place.lease("r2").take(length_s=600)
    place.bench.guard.disarm(3)


def test_a_run_is_not_in_its_own_way(place):
    own = Guard(place.bench.transport, state=str(place.bench.state), run="r1", verbs=None)
    place.lease("r1").take(length_s=600)
    own.arm(0, place.bench.undo(), after_s=600)
    place.lease("r1").take(length_s=600)
    own.disarm(0)


@needs_root
def test_on_a_full_disk_no_run_begins_and_healing_goes_on(place):
    folder = place.bench.transport.folder / "small"
    with small_disk(folder, free_pages=2):
        fill(folder)
        place.file = folder / "lease"
        with pytest.raises(ClusterError, match="is the disk full"):
            place.lease("r1").take(length_s=600)
        place.lease("r1").take(length_s=600, healing=True)
        place.lease("r1").release()


# ── all hosts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hosts(tmp_path):
    return {name: HereTransport(tmp_path / name) for name in ("n1", "n2")}


def leases(hosts, run, *, max_fault_s=600.0):
    each = {
        name: Lease(way, run=run, state=str(way.folder / "state"), place=str(way.folder / "lease"))
        for name, way in hosts.items()
    }
    return Leases(each, max_fault_s=max_fault_s)


def holders(hosts):
    return {
        name: holder.run if (holder := Lease(way, run="", state="", place=str(way.folder / "lease")).holder()) else None
        for name, way in hosts.items()
    }


def test_a_run_has_all_its_hosts_or_none(hosts):
    one = leases({"n2": hosts["n2"]}, "r1")
    one.take()
    with pytest.raises(ClusterError, match=r"n2: here n2: run r1 of"):
        leases(hosts, "r2").take()
    assert holders(hosts) == {"n1": None, "n2": "r1"}
    one.let_expire()


def test_leases_are_renewed_while_the_run_lives_and_expire_after_it(hosts, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.nodes.lease._OUTLASTS_GUARDS_S", 0.0)
    own = leases(hosts, "r1", max_fault_s=3.0)
    own.take()
    files = [way.folder / "lease" for way in hosts.values()]
    before = [file.read_text() for file in files]
    until(
        lambda: all(file.read_text() != text for file, text in zip(files, before, strict=True)),
        deadline_s=30,
        what="a renewal",
    )
    own.let_expire()
    until(lambda: set(holders(hosts).values()) == {None}, deadline_s=30, what="the end of both", every_s=0.2)


def test_leases_that_nobody_holds_any_more_are_renewed_no_more(hosts, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.nodes.lease._OUTLASTS_GUARDS_S", 0.0)
    others = set(threading.enumerate())
    own = leases(hosts, "r1", max_fault_s=3.0)
    own.take()
    assert "leases" in [each.name for each in set(threading.enumerate()) - others]
    del own
    await_thread_s_end("leases", others)


def test_the_owner_is_a_user_on_a_machine():
    user, _, machine = owner_here().partition("@")
    assert user
    assert machine

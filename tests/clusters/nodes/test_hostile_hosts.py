"""A harness dies or sleeps, and its hosts make it hard for the guards: a lock is held, a disk is full, guards are killed.

Real sshds and real packet filters, with both backends of iptables; everything is looked at from beside the hosts' sshd.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from ssh_cluster import RUN, STATE, build, document_of
from ssh_hosts import SshHosts, why_not
from test_dead_harness import FAULTS, field_in, inside, is_guard, kill, processes, said, short

from schemaquake.clusters.nodes.lease import Lease, LeaseHeld
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.harness.faults.healing import heal_open
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.model.protocols import Fault, Undo
from schemaquake.harness.wait import pause_for, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

MAX_FAULT_S = 600.0
"""Guards fire when a test says so, however long this machine takes for what comes before."""
MARGIN_S = 60.0
"""The longest that a guard takes beyond its time on a host that lets it: a round that waits for a lock takes ten seconds, a
pause between two rounds five, a server two until it counts as started. The rest is this busy machine's."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 3) as hosts:
        yield hosts


@pytest.fixture
def field(hosts, tmp_path):
    document = document_of(hosts, tmp_path, max_fault_s=MAX_FAULT_S)
    with field_in(hosts, document, tmp_path) as field:
        yield field


@pytest.fixture
def backend(hosts, request):
    """Lets the hosts' iptables be this one."""
    tools = hosts.folder / "bin"
    tools.mkdir(mode=0o755, exist_ok=True)
    for tool in ("iptables", "ip6tables"):
        found = shutil.which(f"{tool}-{request.param}", path="/usr/sbin:/sbin")
        if found is None:
            pytest.skip(f"there is no {tool}-{request.param} here")
        (tools / tool).symlink_to(found)
    yield request.param
    for tool in ("iptables", "ip6tables"):
        (tools / tool).unlink()


def chains(host, backend):
    listed = host.exec(f"iptables-{backend}", "-w", "60", "-S")
    assert listed.returncode == 0, listed.stderr
    return [line for line in listed.stdout.splitlines() if "schemaquake" in line]


@contextmanager
def locked(host):
    """Somebody holds the lock of the host's iptables, as a firewall that is being loaded does."""
    argv = [
        "nsenter",
        "--target",
        str(host.sshd.pid),
        "--mount",
        "flock",
        "/run/xtables.lock",
        "sh",
        "-c",
        "echo held; exec cat",
    ]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


def guards_on(host):
    return [pid for pid, _, words in processes(host) if is_guard(words)]


def expire(field):
    """The guards' time is over: what a shutdown tells them means the same."""
    for host in field.hosts.hosts.values():
        for pid in guards_on(host):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def await_fired(field, *names):
    for name in names:
        until(
            lambda name=name: any(
                (inside(field.hosts[name], f"{STATE}/{RUN}/fault-0/{mark}")).exists() for mark in ("fired", "whole")
            ),
            deadline_s=MARGIN_S,
            what=f"the guard of {name}",
            every_s=0.1,
        )


@pytest.mark.parametrize("backend", short("legacy", ["nft"]), indirect=True)
def test_a_lock_that_is_held_when_the_guard_fires_does_not_keep_the_partition_in_place(field, backend):
    with field.harness("partition") as harness:
        assert said(harness) == "injected"
        n1 = field.hosts["n1"]
        assert chains(n1, backend)
        with locked(n1):
            kill(harness)
            expire(field)
            await_fired(field, "n1", "n2", "n3")
            pause_for(4)
            if backend == "legacy":
                assert list(inside(n1, f"{STATE}/{RUN}/fault-0/fired").parent.glob("whole")) == []
        until(lambda: chains(n1, backend) == [], deadline_s=MARGIN_S, what="a host without rules", every_s=0.2)
        field.await_whole(within_s=MARGIN_S)


@pytest.mark.parametrize("backend", ["legacy"], indirect=True)
def test_a_healing_that_does_not_get_the_lock_says_so_and_leaves_the_guard(field, backend):
    """Today's listing failed, which once counted as no rules."""
    with field.harness("partition") as harness:
        assert said(harness) == "injected"
        kill(harness)
    ledger = Ledger(field.folder / FILE_NAME)
    with locked(field.hosts["n2"]):
        mended = heal_open(build(field.document), ledger)
    assert mended.done == []
    assert "iptables does not say whether there are rules on n2" in mended.left[0]
    assert field.guards() == {"n1": [0], "n2": [0], "n3": [0]}
    assert chains(field.hosts["n2"], backend)
    mended = heal_open(build(field.document), ledger)
    ledger.close()
    assert mended.left == []
    assert chains(field.hosts["n2"], backend) == []
    assert field.guards() == {}


@pytest.mark.parametrize("kind", short("partition", ["kill", "pause", "jump", "packet-loss"]))
def test_a_harness_that_slept_beyond_the_bound_injects_nothing_when_it_wakes(field, kind):
    """It freezes when its guards stand; they fire, and find nothing to undo."""
    field.document |= {"suspends": True, "max_fault_s": 4.0}
    names = FAULTS[kind][1]
    with field.harness(kind) as harness:
        assert said(harness) == "armed"
        await_fired(field, *names)
        field.await_whole(within_s=MARGIN_S)
        os.kill(harness.pid, signal.SIGCONT)
        told = said(harness)
        assert "could not be injected" in told["failed"]
        assert "the fault is not guarded" in told["failed"]
        assert field.wrong() == []
    assert field.guards() == {}
    assert field.wrong() == []


@pytest.mark.long
def test_a_strobe_of_a_harness_that_slept_does_not_move_a_clock_again(field):
    """Another fault's guard, which stands for longer, is none of the clock's."""
    with field.harness("strobe") as harness:
        assert said(harness) == "injected"
        os.kill(harness.pid, signal.SIGSTOP)
        expire(field)
        await_fired(field, "n1", "n3")
        field.await_whole(within_s=MARGIN_S)
        cluster = build(field.document)
        node = next(node for node in cluster.nodes if node.name == "n1")
        other = Fault(id=7, nemesis="pause", begins_s=0, ends_s=1, nodes=("n1",))
        cluster.arm(other, {"n1": [Undo(verb="resume")]})
        os.kill(harness.pid, signal.SIGCONT)
        pause_for(3)
        assert not inside(field.hosts["n1"], f"{STATE}/{RUN}/clock_offset").exists()
        assert abs(node.clock_offset()) < 1
        cluster.disarm(other)


@pytest.mark.parametrize("kinds", short("partition+kill", ["pause+jump"]))
@pytest.mark.long
def test_guards_that_are_killed_one_after_another_undo_in_time_all_the_same(field, kinds):
    """Never a guard and its twin at the same moment: without systemd, two at once are gone."""

    def complete():
        return all(
            len(guards_on(host)) >= 2 * len([0 for kind in kinds.split("+") if name in FAULTS[kind][1]])
            for name, host in field.hosts.hosts.items()
        )

    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        kill(harness)
        for number in range(6):
            until(complete, deadline_s=MARGIN_S, what="guards and twins", every_s=0.1)
            for host in field.hosts.hosts.values():
                for pid in guards_on(host)[number % 2 :: 2][:1]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        until(complete, deadline_s=MARGIN_S, what="guards and twins", every_s=0.1)
        assert field.is_broken(kinds)
        expire(field)
        field.await_whole(within_s=MARGIN_S)


@pytest.mark.parametrize("kinds", short("partition+pause+jump", ["packet-loss+stop"]))
def test_a_host_whose_disk_is_full_is_made_whole(field, kinds):
    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        filling = inside(field.hosts["n2"], "/run/filling")
        with suppress(OSError), filling.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        try:
            kill(harness)
            expire(field)
            field.await_whole(within_s=MARGIN_S)
        finally:
            filling.unlink()


def test_of_two_runs_on_one_host_the_second_is_told_who_has_it(hosts):
    way = SshTransport(hosts.access("n1"))
    first, second = (Lease(way, run=run, state=state) for run, state in (("r1", STATE), ("r2", "/run/elsewhere")))
    first.take(length_s=60)
    with pytest.raises(LeaseHeld, match=r"run r1 of .*@.* holds this host for another \d+ s"):
        second.take(length_s=60)
    first.release()
    second.take(length_s=60)
    second.release()
    assert not inside(hosts["n1"], "/run/schemaquake.lease").exists()
    way.close()


def test_a_guard_of_version_0_1_on_a_host_is_healed_from_the_ledger(field):
    """The host was left with the older script; its guard's undo is one command a line."""
    older = (Path(__file__).parents[2] / "recorded" / "guards" / "guard-0.1.sh").read_bytes()
    cluster = build(field.document)
    for name in ("n1", "n2"):
        node = next(node for node in cluster.nodes if node.name == name)
        node.exec(["mkdir", "-p", "-m", "700", f"{STATE}/{RUN}"])
        node.transport.put(older, f"{STATE}/{RUN}/guard.sh", mode=0o755)
        lines = "sh -c 'exit 0'\nend\n"
        armed = node.exec(["sh", f"{STATE}/{RUN}/guard.sh", "arm", f"{STATE}/{RUN}/fault-0", "60000"], stdin=lines)
        assert armed.exit_code == 0, armed.stderr
    fault = Fault(id=0, nemesis="pause", begins_s=0, ends_s=1, nodes=("n1", "n2"))
    ledger = Ledger(field.folder / FILE_NAME)
    ledger.injected(ledger.plan(fault), {"observed": True})
    for node in cluster.nodes[:2]:
        node.pause()
    mended = heal_open(build(field.document), ledger)
    assert (len(mended.done), mended.left) == (1, [])
    ledger.close()
    assert field.wrong() == []
    assert field.guards() == {}

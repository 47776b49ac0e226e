"""A harness dies in the middle of each kind of fault, or loses its network: every node is whole again without any help.

Real sshds on hosts of their own; the servers stand in for Cassandra. What is whole is looked at from beside the hosts'
sshd, so it is seen while they are cut off, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from places import SUPPORT
from ssh_cluster import RUN, STATE, build, document_of
from ssh_hosts import SshHosts, why_not
from test_deployed_clock import may_set_the_clock

from schemaquake.harness.faults.healing import heal_open
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.wait import pause_for, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

LEAST_FAULT_S = 8.0
LATE_S = 10.0
"""What a guard, which looks at the time once a second, and this busy machine may take beyond that."""
GRUDGE = {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
LIMITS = {"stop_limit_s": 5.0, "serving_limit_s": 30.0}
OFFSETS = {"offsets": {"n1": 90.0, "n3": -90.0}, "period_s": 0.4}
FAULTS = {
    "partition": ("partition", ["n1", "n2", "n3"], {"grudge": GRUDGE, "ports": "all"}),
    "long-packets": ("partition", ["n1", "n2", "n3"], {"grudge": GRUDGE, "ports": "storage", "above_bytes": 600}),
    "packet-loss": (
        "packet-loss",
        ["n1", "n2", "n3"],
        {"grudge": GRUDGE, "ports": "storage", "loss": 0.5, "delay_ms": 0.0, "jitter_ms": 0.0},
    ),
    "kill": ("kill", ["n1"], LIMITS),
    "stop": ("stop", ["n2"], LIMITS),
    "pause": ("pause", ["n2"], {}),
    "rolling-restart": ("rolling-restart", ["n1", "n2", "n3"], {"how": "kill", **LIMITS}),
    "jump": ("clock", ["n1", "n3"], {"kind": "jump", **OFFSETS}),
    "strobe": ("clock", ["n1", "n3"], {"kind": "strobe", **OFFSETS}),
}
SIGNS = {
    "partition": "schemaquake_",
    "long-packets": "schemaquake_",
    "packet-loss": "schemaquake_",
    "kill": "0 servers run",
    "stop": "0 servers run",
    "pause": "is frozen",
    "jump": "clock is skewed",
    "strobe": "clock is skewed",
}
"""By what each can be seen from beside; a server that is restarted comes back as soon as it can."""

TOGETHER = ["partition+pause+jump", "packet-loss+kill+strobe", "long-packets+stop", "rolling-restart"]
"""Every kind, and those that can be at once."""


def short(first, others):
    """The first case in every run of the tests, the others in `make test-long`."""
    return [first, *(pytest.param(other, marks=pytest.mark.long) for other in others if other != first)]


@dataclass
class Field:
    """Three hosts whose servers run, and the document of their run."""

    hosts: SshHosts
    document: dict
    folder: Path

    @property
    def in_time_s(self):
        """Until when every node has to be whole again."""
        return self.document["max_fault_s"] + LATE_S

    def wrong(self):
        """Whatever is not as it should be, on any host."""
        return [f"{host.name}: {what}" for host in self.hosts.hosts.values() for what in wrong_with(host)]

    def await_whole(self, *, within_s):
        wrong = []

        def whole():
            wrong[:] = self.wrong()
            return not wrong

        try:
            until(whole, deadline_s=within_s, what="whole nodes", every_s=0.2)
        except TimeoutError as error:
            raise AssertionError(f"after {within_s:g} s: {'; '.join(wrong)}") from error

    @contextmanager
    def harness(self, kinds):
        """A harness of its own session that injects a fault of each of those kinds; it is killed in the end."""
        path = self.folder / "document.json"
        path.write_text(json.dumps(self.document | {"faults": [FAULTS[kind] for kind in kinds.split("+")]}))
        with subprocess.Popen(
            [sys.executable, str(SUPPORT / "ssh_cluster.py"), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as harness:
            try:
                assert said(harness) == "arming"
                yield harness
            finally:
                kill(harness)

    def is_broken(self, kinds):
        """Whether every kind shows."""
        wrong = self.wrong()
        return all(any(SIGNS[kind] in what for what in wrong) for kind in kinds.split("+") if kind in SIGNS)

    def cut(self):
        for host in self.hosts.hosts.values():
            host.cut()

    def mend(self):
        for host in self.hosts.hosts.values():
            host.mend()

    def guards(self):
        """Faults for which a guard is known, by node."""
        return build(self.document)._guards.known()


def said(harness):
    """The next thing it says that is no note."""
    while True:
        told = json.loads(harness.stdout.readline() or '"it died"')
        if not isinstance(told, dict) or "note" not in told:
            return told


def kill(harness):
    with suppress(ProcessLookupError):
        os.killpg(harness.pid, signal.SIGKILL)
    harness.wait()


def processes(host):
    """(pid, state, command line) of whatever lives in the host's network."""
    listed = subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True)
    found = []
    for pid in listed.stdout.split():
        with suppress(OSError):
            letter = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            found.append((int(pid), letter, " ".join(words)))
    return found


def inside(host, path):
    """A file of the host's own, which has a /run of its own."""
    return Path(f"/proc/{host.sshd.pid}/root{path}")


def rules(host):
    """Ours, of every means."""
    listed = host.exec("iptables", "-w", "5", "-S").stdout + host.exec("nft", "list", "tables").stdout
    return [line for line in listed.splitlines() if "schemaquake" in line]


def wrong_with(host):
    running = processes(host)
    servers = [
        (pid, letter) for pid, letter, words in running if words.startswith(sys.executable) and "stand_in" in words
    ]
    if len(servers) != 1:
        yield f"{len(servers)} servers run"
    for pid, letter in servers:
        if letter in "Tt":
            yield f"server {pid} is frozen"
    yield from rules(host)
    if inside(host, f"{STATE}/{RUN}/clock_offset").exists():
        yield "its clock is skewed"
    if inside(host, f"{STATE}/{RUN}/clock/skewed").exists():
        yield "the host's clock is skewed"
    yield from (words for _, _, words in running if is_guard(words))


def is_guard(words):
    """Whether a process with this command line is a guard or the twin of one."""
    return any(f"{name} {verb} " in words for name in ("guard.sh", "twin.sh") for verb in ("watch", "await"))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 3) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def max_fault_s(hosts, tmp_path_factory):
    """Three times as long as all this takes to inject on this machine, which may have other things to do."""
    folder = tmp_path_factory.mktemp("pace")
    with field_in(hosts, document_of(hosts, folder, max_fault_s=600.0), folder) as field:
        with field.harness(TOGETHER[0]) as harness:
            began = time.monotonic()
            assert said(harness) == "injected"
            took_s = time.monotonic() - began
        healed_from_the_ledger(field)
    return max(LEAST_FAULT_S, 3 * took_s)


@pytest.fixture
def field(hosts, max_fault_s, tmp_path, request):
    clock = getattr(request, "param", "libfaketime")
    with field_in(hosts, document_of(hosts, tmp_path, max_fault_s=max_fault_s, clock=clock), tmp_path) as field:
        yield field


@contextmanager
def field_in(hosts, document, folder):
    field = Field(hosts, document, folder)
    cluster = build(document)
    for node in cluster.nodes:
        node.prepare()
        node.start()
    assert all(node.await_serving(deadline_s=60).served for node in cluster.nodes)
    assert field.wrong() == []
    try:
        yield field
    finally:
        field.mend()
        cluster = build(document)
        for number in {number for numbers in field.guards().values() for number in numbers}:
            cluster._guards.fire(number)
        cluster.end_guards()
        for node in cluster.nodes:
            node.resume()
            node.kill()
            node.folder.remove()
            node.transport.close()


def ledger(field):
    return Ledger(field.folder / FILE_NAME)


def healed_from_the_ledger(field):
    """As another machine does it, that has the ledger and may log in."""
    opened = ledger(field)
    mended = heal_open(build(field.document), opened)
    assert mended.left == []
    assert opened.open_faults() == []
    opened.close()
    return mended.done


@pytest.mark.parametrize("kinds", short(TOGETHER[0], TOGETHER))
def test_a_killed_harness_leaves_every_node_whole_in_time(field, kinds):
    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        assert field.is_broken(kinds)
        kill(harness)
        field.await_whole(within_s=field.in_time_s)
    opened = ledger(field)
    assert {entry.state for entry in opened.open_faults()} == {"injected"}
    opened.close()
    assert len(healed_from_the_ledger(field)) == len(kinds.split("+"))
    assert field.guards() == {}
    assert field.wrong() == []


@pytest.mark.parametrize("kinds", short(TOGETHER[0], TOGETHER))
@pytest.mark.long
def test_a_harness_that_is_cut_off_and_dies_leaves_every_node_whole_in_time(field, kinds):
    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        field.cut()
        assert field.is_broken(kinds)
        kill(harness)
        field.await_whole(within_s=field.in_time_s)
    field.mend()
    # Whatever was on its way when the network was cut has had its time to arrive.
    pause_for(3)
    assert field.wrong() == []
    healed_from_the_ledger(field)
    assert field.guards() == {}


@pytest.mark.parametrize("kinds", short(TOGETHER[1], TOGETHER))
def test_healing_at_once_does_what_the_guards_would_have_done(field, kinds):
    field.document["max_fault_s"] = 600.0
    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        assert field.is_broken(kinds)
        kill(harness)
    healed_from_the_ledger(field)
    assert field.wrong() == []
    assert field.guards() == {}
    assert healed_from_the_ledger(field) == []


@pytest.mark.parametrize("kinds", short("partition+pause", ["strobe"]))
@pytest.mark.long
def test_a_harness_that_comes_back_after_a_cut_tells_that_its_faults_expired(field, kinds):
    with field.harness(kinds) as harness:
        assert said(harness) == "injected"
        assert field.is_broken(kinds)
        field.cut()
        field.await_whole(within_s=field.in_time_s)
        field.mend()
        harness.stdin.write("heal\n")
        harness.stdin.flush()
        told = said(harness)
    for kind, effect in zip(kinds.split("+"), told["healed"], strict=True):
        assert set(effect["expired"]) == set(FAULTS[kind][1])
        nemesis = FAULTS[kind][0]
        assert any(failure.startswith(f"{nemesis} ") and "hold:" in failure for failure in told["failures"])
    assert field.wrong() == []
    assert field.guards() == {}


@pytest.mark.parametrize("delay_s", short(0.5, [0.0, 1.5]))
def test_a_harness_that_is_killed_at_any_instant_of_an_injection_leaves_nothing(field, delay_s):
    with field.harness("partition+kill") as harness:
        pause_for(delay_s)
        kill(harness)
        field.await_whole(within_s=field.in_time_s)
    healed_from_the_ledger(field)
    assert field.guards() == {}


@pytest.mark.long
def test_guards_outlive_the_sessions_that_set_them(field):
    with field.harness("partition+kill") as harness:
        assert said(harness) == "injected"
        for host in field.hosts.hosts.values():
            host.drop_sessions()
        kill(harness)
        field.await_whole(within_s=field.in_time_s)


@pytest.mark.skipif(not may_set_the_clock(), reason="needs CAP_SYS_TIME")
@pytest.mark.parametrize("field", ["settime"], indirect=True)
def test_a_host_s_own_clock_comes_back_when_its_harness_is_killed(field, monkeypatch):
    """By 30 ms, and of one host alone, for all of them share this machine's."""
    monkeypatch.setitem(FAULTS, "host", ("clock", ["n2"], {"kind": "jump", "offsets": {"n2": 0.03}, "period_s": 1}))
    anchor_s = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)

    def ahead():
        return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME) - anchor_s

    with field.harness("host") as harness:
        assert said(harness) == "injected"
        assert ahead() == pytest.approx(0.03, abs=0.01)
        kill(harness)
        assert "n2: the host's clock is skewed" in field.wrong()
        field.await_whole(within_s=field.in_time_s)
    assert abs(ahead()) < 0.01
    healed_from_the_ledger(field)
    assert field.guards() == {}

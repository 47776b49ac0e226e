"""Guards and servers under a real systemd, in namespaces of this machine's."""

from __future__ import annotations

import sys

import pytest
from places import SUPPORT
from systemd_host import SystemdHost, why_not

from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.node import ServerData, deployed_node
from schemaquake.clusters.nodes.service import systemd
from schemaquake.harness.model.protocols import Undo
from schemaquake.harness.wait import until

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

STATE = "/run/schemaquake"
PORT = 9042
SERVER = f"""
[Unit]
DefaultDependencies=no
[Service]
ExecStartPre=/bin/sh /run/fixture/may_start.sh
ExecStart={sys.executable} -IS /run/fixture/server.py 127.0.0.1 {PORT} /run/fixture/system.log slow:4
"""
MAY_START = """
left=$(cat /run/failures 2> /dev/null || echo 0)
[ "$left" -le 0 ] || { echo $((left - 1)) > /run/failures; exit 1; }
"""


@pytest.fixture
def host(tmp_path):
    (tmp_path / "server.py").write_bytes((SUPPORT / "stand_in_server.py").read_bytes())
    (tmp_path / "may_start.sh").write_text(MAY_START)
    with SystemdHost(tmp_path, {"server.service": SERVER}) as host:
        host.transport.run(["ip", "link", "set", "lo", "up"])
        yield host


def node_of(host):
    folder = f"{STATE}/r1"
    return deployed_node(
        "n1",
        ClientPort(address="127.0.0.1", port=PORT, protocol_version=4),
        host.transport,
        systemd("server", folder),
        folder=folder,
        logs=["/run/fixture/system.log"],
        data=ServerData(folders=[]),
    )


def guard_of(host):
    return Guard(host.transport, state=STATE, run="r1", verbs=node_of(host).undoing)


def guards_of(host):
    """The pids of the services that are guards."""
    shown = [
        host.transport.run(["systemctl", "show", "-p", "MainPID", "--value", unit])
        for unit in host.units("run-*.service")
    ]
    return [int(done.stdout) for done in shown if int(done.stdout or 0) > 0]


def test_a_guard_is_a_service_that_systemd_starts_again_when_it_is_killed(host):
    guard = guard_of(host)
    undone = Undo(("touch", "/run/undone"), whole=("test", "-e", "/run/undone"))
    guard.arm(3, [undone], after_s=600)
    (killed,) = guards_of(host)
    may_lower = host.transport.run(["sh", "-c", "echo -1000 > /proc/self/oom_score_adj"]).exit_code == 0
    score = host.transport.run(["cat", f"/proc/{killed}/oom_score_adj"]).stdout.strip()
    assert score == ("-1000" if may_lower else "0")
    host.transport.run(["kill", "-KILL", str(killed)])
    (again,) = until(
        lambda: [pid for pid in guards_of(host) if pid != killed], deadline_s=60, what="another", every_s=0.2
    )
    mark = f"{STATE}/r1/fault-3/guard"
    until(
        lambda: host.transport.run(["cat", mark]).stdout.split()[:1] == [str(again)],
        deadline_s=30,
        what="its signature",
    )
    host.transport.run(["kill", "-TERM", str(again)])
    until(lambda: (fired := guard.fired(3)) and fired.ended, deadline_s=60, what="the undo", every_s=0.2)
    assert guard.disarm(3).done == ((undone.argv, 0),)
    until(lambda: host.units("run-*.service") == [], deadline_s=60, what="no service of ours", every_s=0.2)


def test_a_guard_that_is_disarmed_leaves_no_service_behind(host):
    guard = guard_of(host)
    guard.arm(3, [Undo(("true",), whole=("true",))], after_s=600)
    assert guard.disarm(3) is None
    until(lambda: host.units("run-*.service") == [], deadline_s=60, what="no service of ours", every_s=0.2)


@pytest.mark.long  # it waits for a server to end, to fail three times, and to have been up for a while
def test_a_unit_that_is_still_stopping_and_then_fails_to_start_is_started_until_it_is_up(host):
    node = node_of(host)
    node.prepare()
    node.start()
    log = host.folder / "system.log"
    until(lambda: log.exists() and "listening" in log.read_text(), deadline_s=60, what="a server that serves")
    old = node.process.pid()
    guard = guard_of(host)
    guard.arm(0, [Undo(verb="resume"), Undo(verb="start")], after_s=1)
    host.transport.run(["sh", "-c", "echo 3 > /run/failures"])
    node.process.terminate(limit_s=1)
    assert node.process.is_ending()
    until(lambda: (fired := guard.fired(0)) and fired.ended, deadline_s=120, what="a whole node", every_s=0.2)
    assert guard.fired(0).rounds >= 3
    assert node.process.pid() not in {None, old}
    assert host.transport.run(["systemctl", "is-active", "server"]).stdout.strip() == "active"
    guard.disarm(0)

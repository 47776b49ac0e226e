"""The whole way: a node behind a real sshd, its server under the process runner, and the faults that a node is for."""

from __future__ import annotations

import sys

import pytest
from places import SUPPORT
from ssh_hosts import SshHosts, why_not

from schemaquake.clusters.cluster_file.model import Become
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.node import ServerData, deployed_node
from schemaquake.clusters.nodes.service import process
from schemaquake.clusters.ssh.root_transport import RootTransport
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.protocols import Undo
from schemaquake.harness.wait import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

SERVER = SUPPORT / "stand_in_server.py"
STATE = "/run/schemaquake"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 1) as hosts:
        yield hosts


@pytest.fixture
def node(hosts, tmp_path):
    way = RootTransport(SshTransport(hosts.access("n1")), Become(method="sudo"))
    address = hosts["n1"].address
    log = str(tmp_path / "system.log")
    command = [sys.executable, "-IS", str(SERVER), address, "9042", log]
    node = deployed_node(
        "n1",
        ClientPort(address=address, port=9042, protocol_version=4),
        way,
        process(command, f"{STATE}/r1"),
        folder=f"{STATE}/r1",
        logs=[log],
        data=ServerData(folders=[str(tmp_path)]),
    )
    node.prepare()
    node.start()
    assert node.await_serving(deadline_s=20).served
    yield node
    hosts["n1"].mend()
    node.kill()
    node.folder.remove()
    way.close()


def test_a_server_is_killed_and_started_again_behind_ssh(node):
    node.kill()
    assert node.state() == "stopped"
    assert node.await_serving(deadline_s=0).exit_code == 137
    node.start()
    assert node.await_serving(deadline_s=20).served
    assert node.log_text().count("listening") == 1


def test_a_server_is_frozen_and_woken_behind_ssh(node):
    node.pause()
    assert node.state() == "paused"
    node.resume()
    assert node.state() == "running"


def test_a_server_is_stopped_cleanly_behind_ssh(node):
    node.stop(deadline_s=10)
    assert node.log_text().endswith("shutting down\n")


def test_a_server_outlives_every_session(hosts, node):
    pid = node.process.pid()
    assert hosts["n1"].drop_sessions() >= 1
    assert node.state() == "running"
    assert node.process.pid() == pid


def test_a_session_that_drops_while_a_server_is_killed_does_not_hide_that_it_was(hosts, node):
    hosts["n1"].drop_sessions()
    node.kill()
    assert node.state() == "stopped"


def test_commands_are_root_s_and_know_nothing_of_a_shell(node):
    assert node.exec(["id", "-u"]).stdout == "0\n"
    assert node.exec(["printf", "%s", "$(id)"]).stdout == "$(id)"
    assert node.exec(["cat"], stdin="told").stdout == "told"
    assert node.exec(["no-such-tool"]).exit_code == 127


def test_a_node_that_cannot_be_reached_by_ssh_is_undone_by_its_guard(hosts, node):
    guard = Guard(node.transport, state=STATE, run="r1", verbs=node.undoing)
    guard.arm(0, [Undo(verb="resume")], after_s=8)
    node.pause()
    hosts["n1"].cut()
    with pytest.raises(NodeUnreachable):
        node.exec(["true"], timeout_s=1)
    hosts["n1"].exec("sleep", "9")  # nobody can look meanwhile
    hosts["n1"].mend()
    until(lambda: node.state() == "running", deadline_s=120, what="what the guard did")
    assert guard.fired(0) is not None
    guard.disarm(0)


def test_a_state_folder_that_is_full_is_a_refusal_before_anything_is_touched(hosts, node):
    full = f"{STATE}/full"
    node.exec(
        [
            "sh",
            "-c",
            f"mkdir {full} && mount -t tmpfs -o mode=755,size=8k tmpfs {full} && head -c 8192 /dev/zero > {full}/x",
        ]
    )
    try:
        with pytest.raises(ClusterError, match="No space left on device"):
            Guard(node.transport, state=full, run="r1", verbs=node.undoing).arm(0, [Undo(verb="resume")], after_s=60)
    finally:
        node.exec(["umount", full])
        node.exec(["rmdir", full])


def test_nothing_is_left_on_the_host(hosts, node):
    node.kill()
    node.folder.remove()
    assert "schemaquake" not in node.exec(["ls", "/run"]).stdout.split()
    node.prepare()

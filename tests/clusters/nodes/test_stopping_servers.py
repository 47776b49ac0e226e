"""Servers that take long to stop, and services that fail to start: what a guard and a healing make of them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from here_transport import HereTransport
from places import SUPPORT
from played_systemctl import play_systemctl
from ports import next_port
from test_guard import kill_guards_of

from schemaquake.clusters.cluster_file.model import Commands
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.node import ServerData, ServerNode, deployed_node
from schemaquake.clusters.nodes.service import Service, commands, process, systemd
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.wait import until
from schemaquake.nemeses.process.serving import starting
from schemaquake.nemeses.process.stop import Stop

SLOW_S = 4
FAULT = Fault(id=0, nemesis="stop", begins_s=0, ends_s=1, nodes=("n1",), parameters={"serving_limit_s": 60})


class Place:
    """A node of this machine's whose server is managed in one of three ways."""

    def __init__(self, folder: Path, kind: str, how: str) -> None:
        self.folder = folder
        self.kind = kind
        self.here = HereTransport(folder)
        self.state = folder / "state"
        self.port = next_port()
        self.log = folder / "system.log"
        self.command = [
            sys.executable,
            "-IS",
            str(SUPPORT / "stand_in_server.py"),
            "127.0.0.1",
            str(self.port),
            str(self.log),
            how,
        ]
        self.guard = Guard(self.here, state=str(self.state), run="r1", verbs=lambda verb: self.node().undoing(verb))

    def service(self) -> Service:
        run = f"{self.state}/r1"
        if self.kind == "process":
            return process(self.command, run)
        unit = self.folder / "unit"
        if not unit.exists():
            (self.folder / "bin" / "systemctl").symlink_to(play_systemctl(unit, shlex.join(self.command)))
        if self.kind == "systemd":
            return systemd("cassandra", run)
        asks = [str(unit / "systemctl")]
        pid = "systemctl=$1; pid=$($systemctl show --property MainPID x); echo ${pid#*=}"
        owner = Commands(
            kind="commands",
            start=(*asks, "start", "cassandra"),
            stop=(*asks, "stop", "--no-block", "cassandra"),
            kill=(*asks, "kill", "cassandra"),
            status=("sh", "-c", pid, "sh", *asks),
        )
        return commands(owner, run)

    def node(self) -> ServerNode:
        """The node as whoever comes sees it; nobody remembers anything."""
        return deployed_node(
            "n1",
            ClientPort(address="127.0.0.1", port=self.port, protocol_version=4),
            self.here,
            self.service(),
            folder=f"{self.state}/r1",
            logs=[str(self.log)],
            data=ServerData(folders=[]),
        )

    def serving(self) -> int:
        node = self.node()
        node.prepare()
        node.start()
        assert node.await_serving(deadline_s=60).served
        return node.process.pid()

    def listening(self) -> int:
        return self.log.read_text().count("listening") if self.log.exists() else 0


@pytest.fixture(params=["process", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("systemd", "commands"))])
def place(tmp_path, request):
    how = request.node.callspec.params.get("how", f"slow:{SLOW_S}")
    place = Place(tmp_path, request.param, how)
    yield place
    kill_guards_of(tmp_path)
    place.node().folder.make()
    place.node().kill()


def test_a_guard_waits_out_a_server_that_is_still_stopping_and_starts_it(place):
    """The harness died when it had told the server to stop; the server runs on for longer than the fault may last."""
    old = place.serving()
    place.guard.arm(0, starting(FAULT)["n1"], after_s=1)
    place.node().process.terminate(limit_s=1)
    until(lambda: place.guard.fired(0), deadline_s=60, what="the guard")
    until(lambda: place.guard.fired(0).ended, deadline_s=120, what="a whole node")
    pid = place.node().process.pid()
    assert pid not in {None, old}
    assert place.node().await_serving(deadline_s=60).served
    assert place.listening() == 2
    place.guard.disarm(0)
    assert place.node().process.pid() == pid


def test_a_healing_waits_it_out_too_and_then_its_server_serves(place):
    old = place.serving()
    place.guard.arm(0, starting(FAULT)["n1"], after_s=600)
    place.node().process.terminate(limit_s=1)
    assert place.node().state() == "running"
    assert place.node().process.is_ending()

    class Cluster:
        nodes = (place.node(),)

    healed = Stop().heal(Cluster(), FAULT)
    assert healed["nodes"]["n1"]["after"] == "running"
    pid = place.node().process.pid()
    assert pid not in {None, old}
    assert not place.node().process.is_ending()
    assert place.guard.disarm(0) is None
    assert place.node().process.pid() == pid


@pytest.mark.parametrize("how", ["stubborn"])
def test_a_server_that_does_not_stop_is_killed_and_started(place, how, monkeypatch):
    """After a minute; here after a second."""
    monkeypatch.setattr("schemaquake.clusters.nodes.node._END_LIMIT_S", 1.0)
    old = place.serving()
    place.node().process.terminate(limit_s=1)
    place.node().start()
    assert place.node().await_serving(deadline_s=60).served
    assert place.node().process.pid() not in {None, old}


@pytest.mark.parametrize("failure", [1, pytest.param(0, marks=pytest.mark.long)], ids=["told", "untold"])
def test_a_service_that_fails_to_start_is_started_again_until_it_does(tmp_path, failure):
    place = Place(tmp_path, "systemd", "")
    place.serving()
    play_systemctl(tmp_path / "unit", shlex.join(place.command), failure=failure)
    (tmp_path / "unit" / "failures").write_text("3")
    place.guard.arm(0, starting(FAULT)["n1"], after_s=1)
    place.node().kill()
    try:
        until(lambda: (fired := place.guard.fired(0)) and fired.ended, deadline_s=120, what="a whole node")
        assert place.guard.fired(0).rounds >= 3
        assert place.node().await_serving(deadline_s=60).served
        assert (tmp_path / "unit" / "failures").read_text() == "0\n"
        place.guard.disarm(0)
    finally:
        kill_guards_of(tmp_path)
        place.node().folder.make()
        place.node().kill()


@pytest.mark.parametrize("how", ["broken"])
def test_a_server_that_cannot_start_keeps_its_guard_until_somebody_says_that_it_is_not_needed(place, how):
    place.node().prepare()
    place.guard.arm(0, starting(FAULT)["n1"], after_s=0.5)
    until(lambda: (fired := place.guard.fired(0)) and fired.left, deadline_s=120, what="a round")
    assert "up" in place.guard.fired(0).left
    assert not place.guard.fired(0).ended
    place.guard.disarm(0, unneeded=True)
    assert place.guard.known() == []

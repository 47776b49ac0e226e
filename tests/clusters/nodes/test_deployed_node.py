from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from here_transport import HereTransport
from places import SUPPORT
from ports import next_port

from schemaquake.clusters.cluster_file.model import Commands
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.node import ServerData, ServerNode, deployed_node
from schemaquake.clusters.nodes.service import commands, process, systemd
from schemaquake.harness.errors import ClusterError, EnvironmentLacks, NodeUnreachable, PlanError
from schemaquake.harness.wait import until

SERVER = SUPPORT / "stand_in_server.py"


class Place:
    """A node of this machine's, in a temporary folder."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.state = str(tmp_path / "run" / "schemaquake" / "r1")
        self.log = tmp_path / "system.log"
        self.data = tmp_path / "data"
        self.port = next_port()
        self.here = HereTransport(tmp_path)
        self.nodes: list[ServerNode] = []

    def command(self, how: str = "") -> list[str]:
        return [sys.executable, "-IS", str(SERVER), "127.0.0.1", str(self.port), str(self.log), *([how] if how else [])]

    def node(self, how: str = "", **changes):
        settings = {
            "folder": self.state,
            "logs": [str(self.log)],
            "data": ServerData(folders=[str(self.data)]),
            **changes,
        }
        service = settings.pop("service", None) or process(self.command(how), self.state)
        port = ClientPort(address="127.0.0.1", port=self.port, protocol_version=4)
        node = deployed_node("n1", port, settings.pop("transport", self.here), service, **settings)
        self.nodes.append(node)
        return node


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    for node in place.nodes:
        place.here.cut = False
        node.kill()


def serving(node):
    node.prepare()
    node.start()
    boot = node.await_serving(deadline_s=20)
    assert boot.served, boot
    return node


# ── the life of a server ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_starts_serves_and_is_killed(place):
    node = serving(place.node())
    assert node.state() == "running"
    node.kill()
    assert node.state() == "stopped"
    ended = node.await_serving(deadline_s=0)
    assert (ended.served, ended.exit_code) == (False, 137)


def test_a_running_server_is_not_started_again(place):
    node = serving(place.node())
    pid = node.process.pid()
    node.start()
    assert node.process.pid() == pid
    node.kill()
    node.start()
    assert node.process.pid() not in {pid, None}


def test_a_server_outlives_the_harness_and_is_found_by_the_next_one(place):
    serving(place.node())
    other = place.node()
    assert other.state() == "running"
    other.kill()
    assert place.nodes[0].state() == "stopped"


def test_a_frozen_server_is_paused_until_it_is_woken(place):
    node = serving(place.node())
    node.pause()
    until(lambda: node.state() == "paused", deadline_s=120, what="a pause")
    assert not node.answers() or node.state() == "paused"
    node.resume()
    until(lambda: node.state() == "running", deadline_s=120, what="the end of a pause")


def test_a_frozen_server_can_be_stopped_cleanly(place):
    node = serving(place.node())
    node.pause()
    node.stop(deadline_s=10)
    assert node.state() == "stopped"
    assert node.log_text().endswith("shutting down\n")


def test_signals_to_a_server_that_does_not_run_are_harmless(place):
    node = place.node()
    node.prepare()
    for act in (node.pause, node.resume, node.kill, node.stop):
        act()
    assert node.state() == "stopped"


def test_a_server_that_does_not_stop_is_killed_at_the_deadline(place):
    node = serving(place.node("stubborn"))
    node.stop(deadline_s=1)
    assert node.state() == "stopped"
    assert "not now" in node.log_text()


def test_a_server_that_not_even_a_kill_ends_is_told(place, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.nodes.node._KILL_LIMIT_S", 0.6)
    ours = Commands(
        kind="commands", start=("true",), stop=("true",), kill=("true",), status=("sh", "-c", f"echo {os.getpid()}")
    )
    node = place.node(service=commands(ours, place.state))
    node.prepare()
    place.nodes.clear()  # it is this very process
    with pytest.raises(ClusterError, match=rf"process {os.getpid()}\) still runs"):
        node.stop(deadline_s=0.5)


def test_a_server_that_dies_while_it_starts_says_why(place):
    node = place.node("broken")
    node.prepare()
    node.start()
    boot = node.await_serving(deadline_s=10)
    assert (boot.served, boot.exit_code) == (False, 3)
    assert "no tokens left" in boot.first_error


def test_a_server_that_lives_and_does_not_serve_has_no_exit_code(place):
    node = place.node("mute")
    node.prepare()
    node.start()
    boot = node.await_serving(deadline_s=0.5)
    assert (boot.served, boot.exit_code) == (False, None)
    assert node.state() == "running"


def test_a_command_that_is_not_there_is_told_by_what_it_printed(place):
    node = place.node(service=process(["no-such-server"], place.state))
    node.prepare()
    node.start()
    boot = node.await_serving(deadline_s=5)
    assert boot.exit_code == 127
    assert "no-such-server" in boot.first_error


def test_a_service_that_refuses_is_told_in_its_own_words(place):
    ours = Commands(
        kind="commands",
        start=("sh", "-c", "echo Unit cassandra not found >&2; exit 5"),
        stop=("true",),
        kill=("true",),
        status=("false",),
    )
    node = place.node(service=commands(ours, place.state))
    node.prepare()
    with pytest.raises(ClusterError, match="could not start the server: Unit cassandra not found"):
        node.start()


def test_a_process_needs_a_command():
    with pytest.raises(PlanError, match="needs the command"):
        process([], "/run/x")


# ── a node that is not there ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_unreachable_host_has_no_state_and_has_not_ended(place):
    node = serving(place.node())
    place.here.cut = True
    with pytest.raises(NodeUnreachable):
        node.state()
    assert node.await_serving(deadline_s=0).served  # who answers clients serves them, whatever SSH says


def test_what_only_reads_is_asked_again_and_what_changes_something_is_not(place):
    class Dropping(HereTransport):
        drops = 0
        after = False

        def run(self, argv, **named):
            if self.drops:
                self.drops -= 1
                if self.after:
                    super().run(argv, **named)
                self.asked.append(list(argv))
                raise NodeUnreachable("dropped")
            return super().run(argv, **named)

    here = Dropping(place.folder)
    node = serving(place.node(transport=here))
    here.drops = 1
    assert node.state() == "running"
    assert node.state() == "running"
    # A kill whose answer was lost: the node tells that it happened.
    real = here.run

    def lose_the_kill(argv, **named):
        here.drops, here.after = int("kill" in argv), True
        return real(argv, **named)

    here.run = lose_the_kill
    asked = len(here.asked)
    node.kill()
    assert node.state() == "stopped"
    assert sum("kill" in argv for argv in here.asked[asked:]) == 2  # noted by both of the double's halves, sent once


def test_scripts_that_a_reboot_took_are_put_there_again(place):
    node = serving(place.node())
    node.kill()
    node.folder.remove()
    assert not Path(place.state).exists()
    assert node.state() == "stopped"
    node.start()
    assert node.await_serving(deadline_s=20).served


# ── files, logs and data ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_log_is_what_was_said_since_the_last_start(place):
    place.log.write_text("said before the harness came\n")
    node = place.node(keeps=place.folder / "kept")
    assert node.log_text() == "said before the harness came\n"
    serving(node)
    assert "said before" not in node.log_text()
    assert node.log_text().count("listening") == 1
    node.stop()
    serving(node)
    assert node.log_text().count("listening") == 1
    assert "shutting down" not in node.log_text()
    node.log.keep()
    node.log.keep()  # the same start, told twice
    kept = sorted(path.name for path in (place.folder / "kept").iterdir())
    assert kept == ["system-0.log", "system-1.log"]
    assert "shutting down" in (place.folder / "kept" / "system-0.log").read_text()


def test_a_log_that_was_begun_anew_is_read_from_its_beginning(place):
    place.log.write_text("x" * 1000)
    node = place.node()
    node.log.begin()
    place.log.write_text("rotated\n")
    assert node.log_text() == "rotated\n"


def test_of_a_long_log_the_end_is_read(place, monkeypatch):
    monkeypatch.setattr("schemaquake.clusters.nodes.server_log._BYTES_MAX", 10)
    place.log.write_text("a long beginning, and then the end\n")
    assert place.node().log_text() == "n the end\n"


def test_a_log_that_is_not_there_says_nothing(place):
    assert place.node().log_text() == ""


def test_tables_are_listed_from_every_data_folder(place):
    one, other = place.folder / "d1", place.folder / "d2"
    table = "t-5a1c395e4d0411efb4c5c1b2e1a1f0aa"
    (one / "ks" / table / "snapshots" / "s1").mkdir(parents=True)
    (other / "ks" / table).mkdir(parents=True)
    (other / "ks" / table / "nb-1-big-Data.db").touch()
    (other / "system" / table).mkdir(parents=True)
    node = place.node(data=ServerData(folders=[str(one), str(other)]))
    assert node.data_directories() == [("ks", "t", table[2:], True, ["s1"])]


def test_a_data_folder_that_is_not_there_is_told(place):
    with pytest.raises(ClusterError, match=r"cannot list .*nowhere"):
        place.node(data=ServerData(folders=[str(place.folder / "nowhere")])).data_directories()


def test_files_go_to_the_run_s_folder_and_back(place):
    node = place.node()
    node.prepare()
    (place.folder / "here").write_bytes(b"\x00\xfe")
    node.upload(place.folder / "here", "there")
    assert (Path(place.state) / "there").read_bytes() == b"\x00\xfe"
    node.download("there", place.folder / "back")
    assert (place.folder / "back").read_bytes() == b"\x00\xfe"
    with pytest.raises(FileNotFoundError):
        node.download("nowhere", place.folder / "back")


def test_nothing_is_left_on_the_node(place):
    node = serving(place.node())
    node.kill()
    node.folder.remove()
    node.folder.remove()
    assert sorted(path.name for path in (place.folder / "run").iterdir()) == []


def test_another_run_s_files_stay(place):
    node = place.node()
    node.prepare()
    other = Path(place.state).parent / "r2"
    other.mkdir()
    node.folder.remove()
    assert [path.name for path in Path(place.state).parent.iterdir()] == ["r2"]


# ── what undoes a fault ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_frozen_server_is_woken_by_the_node_s_own_commands(place):
    node = serving(place.node())
    node.pause()
    (resume,) = node.undoing("resume")
    assert place.here.run(resume.argv).exit_code == 0
    assert node.state() == "running"


def test_a_killed_server_is_started_by_the_node_s_own_commands_and_only_once(place):
    node = serving(place.node())
    node.kill()
    (start,) = node.undoing("start")
    for _ in range(2):
        assert place.here.run(start.argv).exit_code == 0
    assert node.await_serving(deadline_s=20).served


def test_waking_a_server_that_does_not_run_fails_without_harm(place):
    node = place.node()
    node.prepare()
    (resume,) = node.undoing("resume")
    assert place.here.run(resume.argv).exit_code != 0


def test_a_clock_that_nobody_named_cannot_be_skewed(place):
    node = place.node()
    assert node.clock_offset() == 0
    assert node.undoing("clock") == []
    with pytest.raises(EnvironmentLacks, match="n1: its clock cannot be skewed"):
        node.skew_clock(5)


# ── systemd, scripted ────────────────────────────────────────────────────────────────────────────────────────────────

# One unit: its server is a `sleep`, its state lies in files. `Group` plays a unit made from an init script.
SYSTEMCTL = """
unit=state
case $1 in
  show)
    case $3 in
      MainPID) [ -e group ] && echo MainPID=0 || echo "MainPID=$(cat pid 2>/dev/null || echo 0)" ;;
      ControlGroup) echo ControlGroup= ;;
      ExecMainStatus) echo ExecMainStatus=9 ;;
      ExecMainStartTimestampMonotonic) echo ExecMainStartTimestampMonotonic=77 ;;
    esac ;;
  start) echo "$@" >> done; [ -e pid ] || { setsid sleep 300 > /dev/null 2>&1 & echo $! > pid; } ;;
  stop) echo "$@" >> done; [ ! -e pid ] || { kill "$(cat pid)" 2> /dev/null; rm -f pid; } ;;
  kill) echo "$@" >> done; kill -KILL "$(cat pid)" ;;
  reset-failed) echo "$@" >> done ;;
esac
"""


@pytest.fixture
def unit(place):
    place.here.tool("systemctl", SYSTEMCTL)
    node = place.node(service=systemd("cassandra", place.state))
    node.prepare()
    return node


def asked_of_systemd(place):
    done = place.folder / "done"
    lines = done.read_text().splitlines() if done.exists() else []
    done.unlink(missing_ok=True)
    return lines


def test_a_unit_is_started_after_what_was_left_of_it_was_put_away(place, unit):
    unit.start()
    assert unit.state() == "running"
    assert asked_of_systemd(place) == ["stop cassandra", "reset-failed cassandra", "start --no-block cassandra"]
    unit.start()
    assert asked_of_systemd(place) == []


def test_a_killed_unit_is_kept_from_being_restarted_by_systemd(place, unit):
    unit.start()
    asked_of_systemd(place)
    unit.kill()
    assert unit.state() == "stopped"
    assert asked_of_systemd(place) == ["kill --signal=KILL cassandra", "stop cassandra"]
    assert unit.await_serving(deadline_s=0).exit_code == 9


def test_a_unit_is_stopped_without_being_waited_for_by_systemd_itself(place, unit):
    unit.start()
    asked_of_systemd(place)
    unit.stop(deadline_s=5)
    assert asked_of_systemd(place) == ["stop --no-block cassandra"]
    assert unit.state() == "stopped"


def test_the_guard_s_command_starts_the_unit_and_is_harmless_twice(place, unit):
    (start,) = unit.undoing("start")
    assert [place.here.run(start.argv).exit_code for _ in range(2)] == [0, 0]
    assert unit.state() == "running"
    assert len(asked_of_systemd(place)) == 3


def test_a_node_has_the_tools_that_can_be_run_there(place):
    node = place.node()
    assert not node.has("sstableloader")
    tool = place.folder / "bin" / "sstableloader"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    assert node.has("sstableloader")
    place.here.cut = True
    with pytest.raises(NodeUnreachable):
        node.has("sstableloader")
    place.here.cut = False

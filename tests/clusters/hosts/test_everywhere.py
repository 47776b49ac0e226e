"""Everywhere: every guard of every run fires, and what may be left is never called undone."""

from __future__ import annotations

import pytest
from here_transport import HereTransport

from schemaquake.clusters.hosts.everywhere import fire_everywhere, fire_on
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.errors import ClusterError, HealError, NodeUnreachable
from schemaquake.harness.model.protocols import Undo

HOURS_S = 3600.0


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def transport(tmp_path, name="here"):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return HereTransport(folder)


def armed(way, state, run, number, path, *, whole="true"):
    guard = Guard(way, state=str(state), run=run, verbs={}.__getitem__)
    guard.arm(number, [Undo(("touch", str(path)), whole=("sh", "-c", whole))], after_s=HOURS_S)
    return guard


def test_the_guards_of_all_runs_undo_their_faults_and_keep_their_records(tmp_path, state):
    way = transport(tmp_path)
    guards = {
        (run, number): armed(way, state, run, number, tmp_path / f"{run}-{number}")
        for run, number in (("run-1", 0), ("run-1", 3), ("run-2", 0))
    }
    done, left = fire_on("n1", way, str(state))
    assert left == []
    assert done == [f"node n1: fault {number} of run {run}: undone by its guard" for run, number in guards]
    for (run, number), guard in guards.items():
        assert (tmp_path / f"{run}-{number}").exists()
        assert guard.fired(number).ended, "a run that goes on finds what happened"
    again, left = fire_on("n1", way, str(state))
    assert left == []
    assert len(again) == 3
    for (_, number), guard in guards.items():
        guard.disarm(number)
    assert fire_on("n1", way, str(state)) == ([], [])


def test_where_no_run_ever_was_there_is_nothing_to_undo(tmp_path, state):
    assert fire_on("n1", transport(tmp_path), str(state)) == ([], [])


def file_of(tmp_path, state, nodes):
    path = tmp_path / "cluster.toml"
    tables = "".join(f'[[nodes]]\naddress = "10.0.0.{number + 1}"\n' for number in range(nodes))
    path.write_text(f'provider = "ssh"\n[paths]\nstate = "{state}"\n{tables}')
    return path


def test_a_host_that_cannot_be_reached_is_left_and_the_others_are_undone(tmp_path, state):
    class Cut(HereTransport):
        def run(self, *_, **__):
            raise NodeUnreachable("cut off")

    ways = {"n1": transport(tmp_path), "n2": Cut(tmp_path)}
    guard = armed(ways["n1"], state, "run-1", 0, tmp_path / "undone")
    with pytest.raises(HealError, match=r"node n2: cut off\. Done: node n1: fault 0 of run run-1: undone"):
        fire_everywhere(file_of(tmp_path, state, 2), transports=ways.__getitem__, names=list(ways))
    assert (tmp_path / "undone").exists()
    guard.disarm(0)


def test_runs_that_cannot_be_listed_are_left(tmp_path, state):
    way = transport(tmp_path)
    way.tool("sh", "echo out of processes >&2; exit 2")
    with pytest.raises(ClusterError, match="cannot be listed: out of processes"):
        fire_on("n1", way, str(state))


@pytest.mark.parametrize(
    "argv",
    [["heal"], ["heal", "run", "--everywhere", "c.toml"], ["heal", "--everywhere", "c.toml", "--cluster", "d.toml"]],
)
def test_the_command_wants_one_of_the_two(argv, capfd):
    assert _run(argv) == 254
    assert "name a run's folder, or --everywhere" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [("provider = ", "is no cluster file"), ('provider = "moon"', 'unknown cluster "moon"'), ('provider = "docker"', "end with their run")],
)  # fmt: skip
def test_a_file_of_no_such_cluster_is_refused(tmp_path, capfd, content, said):
    (tmp_path / "c.toml").write_text(content)
    assert _run(["heal", "--everywhere", str(tmp_path / "c.toml")]) == 254
    assert said in capfd.readouterr().err

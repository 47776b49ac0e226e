"""Dry run: the whole schedule with its commands, refused as a run would be, and nothing touched."""

from __future__ import annotations

import socket

import orjson
import pytest

from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.faults.schedule import compose
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import load
from schemaquake.results.runs.dry_run import dry_run

FILE = """
provider = "ssh"
system = "cassandra:5.0.9"
allow = [{words}]
max_fault_seconds = 600
""" + "".join(f'[[nodes]]\naddress = "10.0.0.{number}"\n' for number in (1, 2, 3))
ARGV = ["run", "--workload", "register", "--time-limit", "40", "--restart", "none", "--dry-run"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refuse(*arguments, **_):
        raise AssertionError(f"a dry run touched {arguments}")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(FILE.format(words='"partition", "kill", "clock"'))
    return path


def test_the_schedule_is_that_of_the_run_with_its_commands(cluster, capfd, tmp_path):
    assert _run([*ARGV, "--cluster", str(cluster), "--nemesis", "partition,kill", "--json", "--seed", "7"]) == 0
    document = orjson.loads(capfd.readouterr().out)
    plan = Plan(
        system="cassandra:5.0.9", workloads=("register",), cluster="ssh", cluster_file=cluster, seed=7,
        nemeses=("partition", "kill"), time_limit_s=40, restart="none",
    )  # fmt: skip
    planned = compose([load("nemeses", name) for name in plan.nemeses], plan.context(frozenset()))
    assert [
        (each["nemesis"], each["begins_s"], each["ends_s"], tuple(each["nodes"])) for each in document["faults"]
    ] == [(fault.nemesis, fault.begins_s, fault.ends_s, fault.nodes) for fault in planned]
    for fault in document["faults"]:
        commands = [line for lines in fault["injected"].values() for line in lines]
        assert commands
        assert fault["undone"].keys() >= fault["injected"].keys()
        if fault["nemesis"] == "partition":
            assert any("-s 10.0.0." in line and "DROP" in line for line in commands)
        else:
            assert commands == ["# kill the server (SIGKILL)"]
            assert any("start" in line for lines in fault["undone"].values() for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.toml"]


def test_a_text_names_every_fault_and_its_nodes(cluster, capfd):
    assert _run([*ARGV, "--cluster", str(cluster), "--nemesis", "clock"]) == 0
    head, *lines = capfd.readouterr().out.splitlines()
    assert "nothing is touched" in head
    assert sum("move the clock by" in line for line in lines) >= sum(" s to " in line for line in lines) > 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--nemesis", "pause"], 'needs "pause", which the cluster file does not allow'),
        (["--nemesis", "kill", "-O", "kill.colour=red"], "kill.colour"),
        (["--nemesis", "kill", "--nodes", "5"], "--nodes"),
    ],
)
def test_it_is_refused_as_the_run_would_be(cluster, capfd, more, said):
    assert _run([*ARGV, "--cluster", str(cluster), *more]) == 254
    assert said in capfd.readouterr().err


def test_a_local_run_is_rehearsed_without_its_nodes(capfd):
    assert _run([*ARGV, "--system", "cassandra:5.0.9", "--nemesis", "partition,pause"]) == 0
    said = capfd.readouterr().out
    assert "freeze the server" in said
    assert "192.0.2.1" in said


@pytest.mark.parametrize(
    "nemesis", ["kill", "stop", "pause", "restart", "rolling-restart", "clock", "packet-loss", "partition"]
)
def test_every_nemesis_can_be_rehearsed(nemesis):
    plan = Plan(system="cassandra:5.0.9", workloads=("register",), nemeses=(nemesis,), time_limit_s=12)
    assert all(fault.injected for fault in dry_run(plan))

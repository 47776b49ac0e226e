"""The owner's limits as an owner meets them: whole runs on hosts with a real sshd, on a ring that stands in for Cassandra."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import schemaquake
from ssh_hosts import SshHosts, why_not
from stand_in_ring import StandInRing

from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.wait import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
ALLOWED = ("partition", "kill", "pause")


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("limits"), 3) as hosts, StandInRing(hosts) as ring:
        yield ring


@pytest.fixture
def arguments(ring, tmp_path):
    """`arguments(limits=…, stop_if=…)`: those of a run with partitions on this ring, under these limits."""

    def of(*more, nemesis="partition", **limits):
        file = ring.cluster_file(tmp_path / "cluster.toml", allow=ALLOWED, **limits)
        return (
            *("run", "--cluster", file, "--workload", "register", "--nemesis", nemesis, "--restart", "none"),
            *("--rate", "20", "--seed", "1", "--settle-limit", "5", "--runs", tmp_path / "runs", "--json", *more),
        )

    return of


def faults_of(run):
    return {entry.fault.id: entry for entry in read_ledger(Path(run) / FILE_NAME) if entry.fault is not None}.values()


def test_a_command_that_says_stop_ends_the_faults_and_the_run(ring, arguments, tmp_path):
    """The watch says stop once it sees the partition itself: so a fault was on, and the run ends long before its time."""
    watch = tmp_path / "watch"
    host = ring.hosts["n1"]
    sees = f"nsenter --target {host.sshd.pid} --net iptables-save | grep -q schemaquake"
    watch.write_text(f"#!/bin/sh\n{sees} || exit 1\nsleep 1\necho p99 is 9 s\n")
    watch.chmod(0o755)
    stop_if = f'[[stop_if]]\ncommand = ["{watch}"]\nevery_seconds = 0.2\ntimeout_seconds = 60.0\n'
    done = schemaquake(
        *arguments("--time-limit", "60", stop_if=stop_if),
        expected=(1, 2, 255),
        limit_s=400,
    )
    document = json.loads(done.stdout)
    assert document["valid"] is not True
    assert not document["completed"]
    assert f"stop_if {watch}: exit code 0, p99 is 9 s" in document["error"]
    states = [entry.state for entry in faults_of(document["run"])]
    assert "healed" in states
    assert set(states) <= {"healed", "skipped"}
    assert ring.left() == {}


def injected(run, runs):
    """Wait for the first fault of a run that was begun, and return the run's folder."""

    def found():
        assert run.poll() is None, run.stderr.read()[-3000:]
        ledgers = list(runs.glob(f"2*/{FILE_NAME}"))
        return [each.parent for each in ledgers if b'"injected"' in each.read_bytes()]

    return until(found, deadline_s=300, what="a fault", every_s=0.2)[0]


def begin(arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.long
def test_a_dry_run_shows_what_the_run_then_does_and_consent_taken_back_ends_it(ring, arguments, tmp_path):
    line = arguments("--time-limit", "60", limits='consent_file = "/run/consent"')
    logins = {name: host.log.count("Accepted") for name, host in ring.hosts.hosts.items()}
    rehearsed = json.loads(schemaquake(*line, "--dry-run").stdout)["faults"]
    assert {name: host.log.count("Accepted") for name, host in ring.hosts.hosts.items()} == logins
    assert not (tmp_path / "runs").exists()

    for name in ("n1", "n2"):
        ring.on(ring.hosts[name], "sh", "-c", "echo '# all' > /run/consent")
    assert "n3: consent: there is no /run/consent" in schemaquake(*line, expected=(254, 255)).stderr
    assert ring.left() == {}
    ring.on(ring.hosts["n3"], "sh", "-c", "echo kill > /run/consent")
    assert "does not hold partition" in schemaquake(*line, expected=(254, 255)).stderr
    ring.on(ring.hosts["n3"], "sh", "-c", "echo kill partition > /run/consent")

    run = begin(line)
    folder = injected(run, tmp_path / "runs")
    ring.on(ring.hosts["n2"], "rm", "/run/consent")
    out, _ = run.communicate(timeout=300)
    assert "stop_if consent of n2: there is no /run/consent" in json.loads(out)["error"]
    entries = sorted(faults_of(folder), key=lambda entry: entry.fault.id)
    assert [(each.fault.nemesis, list(each.fault.nodes), each.fault.begins_s) for each in entries] == [
        (each["nemesis"], each["nodes"], each["begins_s"]) for each in rehearsed[: len(entries)]
    ]
    assert ring.left() == {}


@pytest.mark.long
def test_a_plan_that_takes_down_more_than_the_owner_allows_touches_nothing(ring, arguments, tmp_path):
    logins = {name: host.log.count("Accepted") for name, host in ring.hosts.hosts.items()}
    line = arguments("--time-limit", "30", limits="max_nodes_down = 0")
    assert "max_nodes_down" in schemaquake(*line, expected=(254, 255)).stderr
    assert {name: host.log.count("Accepted") for name, host in ring.hosts.hosts.items()} == logins
    line = arguments("--time-limit", "30", nemesis="kill", limits="max_nodes_down = 1")
    document = json.loads(schemaquake(*line, expected=(0, 1, 2)).stdout)
    assert document["completed"]
    assert all(len(entry.fault.nodes) == 1 for entry in faults_of(document["run"]))
    assert ring.left() == {}


@pytest.mark.long
def test_one_command_ends_what_a_dead_harness_left_without_its_run(ring, arguments, tmp_path):
    run = begin(arguments("--time-limit", "60"))
    folder = injected(run, tmp_path / "runs")
    process = json.loads((folder / "process.json").read_text())["pid"]
    for pid in (process, run.pid):
        os.kill(pid, signal.SIGKILL)
    run.communicate()
    assert any("DROP" in line for lines in ring.left().values() for line in lines)
    done = schemaquake("heal", "--everywhere", tmp_path / "cluster.toml")
    assert "undone by its guard" in done.stderr
    assert not any("DROP" in line for lines in ring.left().values() for line in lines)
    schemaquake("heal", folder)
    assert ring.left() == {}


@pytest.mark.long
def test_hundreds_of_workers_of_one_process_have_their_sessions(ring, tmp_path):
    """Five hundred a node, which were too many for the time that each of them was given."""
    file = ring.cluster_file(tmp_path / "cluster.toml", allow=())
    done = schemaquake(
        *("run", "--cluster", file, "--workload", "register", "--restart", "none", "--time-limit", "10", "--json"),
        *("--rate", "200", "--concurrency", "500n", "--settle-limit", "5", "--runs", tmp_path / "runs"),
        expected=(0, 1, 2),
    )
    document = json.loads(done.stdout)
    assert document["completed"], document["error"]
    assert len(list((Path(document["run"]) / "journals").glob("events-*.jsonl"))) >= 1500

"""Whole runs over SSH: real sshds, real Cassandra nodes that were there before, and the verdicts that local runs have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from cassandra_hosts import CassandraHosts
from command import OF_CREATE_TABLE, PATIENCE, anomalies, schemaquake
from ssh_hosts import SshHosts, why_not

from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.wait import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 3) as hosts, CassandraHosts(hosts) as ring:
        yield ring


ALLOWED = ("partition", "packets", "kill", "stop", "pause", "clock", "restart")


@pytest.fixture
def run(ring, tmp_path):
    """`run("--workload", …)`: the document of a run on the ring, which is whole and empty again afterwards."""

    def go(*arguments, expected=(0, 1)):
        file = ring.cluster_file(tmp_path / "cluster.toml", allow=ALLOWED)
        done = schemaquake(
            *("run", "--cluster", file, "--seed", "1", "--settle-limit", "10", "--runs", tmp_path / "runs", "--json"),
            *(*PATIENCE, *arguments),
            expected=expected,
        )
        assert left_on(ring) == {}
        return json.loads(done.stdout)

    return go


def left_on(ring):
    """What is on a host beside its server: files of runs, rules."""
    left = {}
    for name, host in ring.hosts.hosts.items():
        files = [line for line in host.files("/run/schemaquake").splitlines() if "/run/schemaquake/server" not in line]
        rules = [line for line in host.exec("iptables-save").stdout.splitlines() if "schemaquake" in line]
        if files[1:] or rules:  # the first line is the folder itself, which the server's own stands in
            left[name] = [*files, *rules]
    return left


def test_the_doctor_finds_such_hosts_fit(ring, tmp_path):
    file = ring.cluster_file(tmp_path / "cluster.toml", allow=ALLOWED)
    assert json.loads(schemaquake("doctor", "--cluster", file, "--json").stdout)["ok"] is True


@pytest.mark.long
def test_reads_and_writes_hold_under_every_kind_of_fault(run):
    document = run(
        *("--workload", "register", "--nemesis", "partition,kill,pause,clock", "--time-limit", "60"),
        *("--restart", "none"),
        expected=(0,),
    )
    entries = {entry.id: entry for entry in read_ledger(Path(document["run"]) / FILE_NAME) if entry.fault is not None}
    assert {entry.fault.nemesis for entry in entries.values()} == {"partition", "kill", "pause", "clock"}
    assert {entry.state for entry in entries.values()} <= {"healed", "skipped"}


def test_a_fault_that_is_not_allowed_is_refused_before_anything_is_touched(ring, tmp_path):
    file = ring.cluster_file(tmp_path / "cluster.toml", allow=("partition",))
    arguments = ["run", "--cluster", file, "--workload", "register", "--nemesis", "kill", "--restart", "none"]
    refused = schemaquake(*arguments, "--runs", tmp_path / "runs", expected=(254,))
    assert '"kill"' in refused.stderr
    assert list((tmp_path / "runs").glob("2*")) == []


@pytest.mark.parametrize("nemesis", ["partition", "kill"])
@pytest.mark.long
def test_a_harness_that_is_killed_is_healed_for_from_its_ledger_alone(ring, tmp_path, nemesis):
    file = ring.cluster_file(tmp_path / "cluster.toml", allow=ALLOWED)
    run = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "schemaquake.harness.cli.command_line",
                "run",
                "--cluster",
                str(file),
                "--seed",
                "1",
            ),
            *("--workload", "register", "--nemesis", nemesis, "--time-limit", "60", "--restart", "none"),
            *("--runs", str(tmp_path / "runs")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def injected():
        assert run.poll() is None, run.stderr.read()[-3000:]
        ledgers = list((tmp_path / "runs").glob(f"2*/{FILE_NAME}"))
        lines = ledgers[0].read_bytes().splitlines() if ledgers else []
        return any(orjson.loads(line)["state"] == "injected" for line in lines)

    until(injected, deadline_s=300, what="a fault", every_s=0.1)
    # Its own process first: told that the command which started it is gone, it would heal.
    for pid in [*conductors(tmp_path), run.pid]:
        os.kill(pid, signal.SIGKILL)
    run.communicate()
    (ledger,) = (tmp_path / "runs").glob(f"2*/{FILE_NAME}")
    healed = schemaquake("heal", ledger, "--cluster", file)
    assert f"{nemesis} of" in healed.stderr
    assert left_on(ring) == {}
    assert "nothing was left to heal" in schemaquake("heal", ledger.parent).stderr
    assert json.loads(schemaquake("doctor", "--cluster", file, "--json").stdout)["ok"] is True


def conductors(folder):
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = command.read_bytes().decode().split("\0")
            if "schemaquake.harness.run.conductor" in words and any(word.startswith(str(folder)) for word in words):
                found.append(int(command.parent.name))
    return found


def test_races_break_5_0_9_behind_ssh_as_they_do_locally(run):
    """The last one: what they break, the ring may keep."""
    document = run("--workload", "create-table,drop-type", "--races", "3", "--restart", "together", expected=(1, 255))
    assert document["valid"] is False
    assert "dangling-type" in anomalies(document)
    assert anomalies(document) & OF_CREATE_TABLE
    logs = sorted((Path(document["run"]) / "nodes" / "n1").glob("system-*.log"))
    assert len(logs) == 2  # of before the restart, and after

"""Whole runs in containers: an image built here, an engine of the tests' own, and the verdicts that local runs have.

The image is built as a user builds it, upon a Debian base by debootstrap; that takes a minute or more, so that
`make test-setup` keeps the base, packed by the same code, for the engine of the next run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from command import OF_CREATE_TABLE, PATIENCE, anomalies, schemaquake
from network_lack import is_network_lack
from places import ROOT

from schemaquake.clusters.docker.debian_base import base_name, import_base, own_suite
from schemaquake.clusters.docker.engine import DockerEngine
from schemaquake.clusters.docker.transport import DockerTransport
from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.wait import until

pytestmark = pytest.mark.cluster

SYSTEM = "cassandra:5.0.9"
KEPT_BASE = ROOT / ".venv" / "debian-base.tar"


@pytest.fixture(scope="module")
def engine(engine_host):
    if shutil.which("debootstrap") is None:
        pytest.skip("there is no debootstrap (scripts/system-packages docker)")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DOCKER_HOST", engine_host)
        _import_kept_base()
        done = schemaquake("image", SYSTEM, "--json", expected=(0, 254), limit_s=1800)
        if done.returncode == 254 and is_network_lack(done.stderr):
            pytest.skip(f"no image can be built here: {done.stderr.strip()[-500:]}")
        assert done.returncode == 0, done.stderr
        built = json.loads(done.stdout)
        assert built["image"] == f"schemaquake/{SYSTEM}"
        assert built["base"] == base_name(own_suite())
        engine = DockerEngine.connect()
        yield engine
        engine.close()


def _import_kept_base():
    """What `make test-setup` made, if it did: `schemaquake image` finds it, and makes its own otherwise."""
    if KEPT_BASE.exists():
        engine = DockerEngine.connect()
        with KEPT_BASE.open("rb") as archive:
            import_base(engine, archive, own_suite())
        engine.close()


@pytest.fixture
def run(engine, tmp_path):
    """`run("--workload", …)`: the document of a run in containers; nothing of it is left on the engine."""

    def go(*arguments, expected=(0, 1)):
        done = schemaquake(
            *("run", "--cluster", "docker", "--system", SYSTEM, "--seed", "1", "--settle-limit", "10"),
            *("--runs", tmp_path, "--json", *PATIENCE, *arguments),
            expected=expected,
        )
        assert engine.leftovers() == {}
        return json.loads(done.stdout)

    return go


def faults_of(document):
    """nemesis → the states that its faults ended in, by the ledger."""
    ended = {}
    for line in (Path(document["run"]) / "ledger.jsonl").read_bytes().splitlines():
        entry = orjson.loads(line)
        if entry["kind"] == "fault":
            ended[entry["id"]] = (entry["nemesis"], entry["state"])
    return {nemesis: {state for name, state in ended.values() if name == nemesis} for nemesis, _ in ended.values()}


def test_races_break_5_0_9_in_containers_as_they_do_locally(run):
    document = run("--workload", "create-table,drop-type", "--races", "3", "--restart", "together", expected=(1,))
    assert "dangling-type" in anomalies(document)
    assert anomalies(document) & OF_CREATE_TABLE
    logs = sorted((Path(document["run"]) / "nodes" / "n1").glob("system-*.log"))
    assert len(logs) == 2  # of the first start, and of the restart
    assert "Starting listening for CQL clients" in logs[0].read_text()


@pytest.mark.long
def test_reads_and_writes_hold_under_every_kind_of_fault(run):
    document = run(
        *("--workload", "register", "--nemesis", "partition,kill,pause,clock", "--time-limit", "60"),
        *("--restart", "none"),
        expected=(0,),
    )
    told = faults_of(document)
    assert set(told) == {"partition", "kill", "pause", "clock"}
    assert all(states <= {"healed", "skipped"} for states in told.values())
    assert any("healed" in states for states in told.values())


@pytest.mark.long
def test_a_node_joins_and_another_leaves_in_containers(run):
    document = run(
        *("--workload", "set", "--spares", "1", "--nemesis", "bootstrap,decommission", "--time-limit", "150"),
        *("--restart", "none", "-O", "bootstrap.begins_s=5"),
        expected=(0,),
    )
    folder = Path(document["run"])
    ended = {entry.fault.nemesis: entry.state for entry in read_ledger(folder / FILE_NAME) if entry.kind == "operation"}
    assert ended == {"bootstrap": "ok", "decommission": "ok"}
    parts = {part["checker"]: part["valid"] for part in orjson.loads((folder / "verdict.json").read_bytes())["parts"]}
    assert (parts["membership"], parts["placements"]) == (True, True)


class Killed:
    """A run whose every process was killed while a fault stood."""

    def __init__(self, tmp_path, *arguments):
        self.runs = tmp_path
        self.process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "schemaquake.harness.cli.command_line",
                    "run",
                    "--runs",
                    str(tmp_path),
                    "--seed",
                    "1",
                ),
                *("--workload", "register", *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def folder(self):
        (folder,) = [each for each in self.runs.iterdir() if each.is_dir() and not each.is_symlink()]
        return folder

    def injected(self):
        """The first fault that is in place."""
        assert self.process.poll() is None, self.process.stderr.read()[-3000:]
        ledgers = list(self.runs.glob("*/ledger.jsonl"))
        lines = ledgers[0].read_bytes().splitlines() if ledgers else []
        return next((entry["fault"] for entry in map(orjson.loads, lines) if entry["state"] == "injected"), None)

    def kill_when_broken(self):
        fault = until(self.injected, deadline_s=300, what="a fault", every_s=0.1)
        # Its own process first: told that the command which started it is gone, it would heal.
        for pid in [*self.conductors(), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        return fault

    def conductors(self):
        """The run's own process. Those it spawned end with it."""
        found = []
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = command.read_bytes().decode().split("\0")
                if "schemaquake.harness.run.conductor" in words and str(self.folder) in words:
                    found.append(int(command.parent.name))
        assert found
        return found


@pytest.mark.long
def test_heal_removes_what_a_killed_harness_left(engine, tmp_path):
    killed = Killed(tmp_path, "--cluster", "docker", "--system", SYSTEM, "--nemesis", "partition", "--time-limit", "60")
    killed.kill_when_broken()
    run = json.loads((killed.folder / "docker.json").read_text())["run"]
    assert len(engine.containers(run)) == 3
    done = schemaquake("heal", killed.folder).stderr
    assert done.count("container") == 3
    assert "marked as healed" in done
    assert engine.leftovers() == {}
    assert (killed.folder / "nodes" / "n1" / "system-0.log").stat().st_size > 0
    assert "nothing was left" in schemaquake("heal", killed.folder).stderr


FILE = """\
provider = "docker"
system = "cassandra:5.0.9"
allow = ["partition", "kill", "pause", "clock", "restart"]
max_fault_seconds = 20
"""


@pytest.mark.parametrize("nemesis", ["partition", "kill", "pause", "clock"])
@pytest.mark.long
def test_nodes_are_whole_again_without_any_help_when_the_harness_was_killed(engine, tmp_path, nemesis):
    file = tmp_path / "cluster.toml"
    file.write_text(FILE)
    runs = tmp_path / "runs"
    runs.mkdir()
    killed = Killed(runs, "--cluster", file, "--nemesis", nemesis, "--time-limit", "60", "--restart", "none")
    fault = killed.kill_when_broken()
    run = json.loads((killed.folder / "docker.json").read_text())["run"]
    nodes = {each.node: each for each in engine.containers(run)}

    def whole():
        return all(_is_whole(engine, each) for each in nodes.values())

    try:
        until(whole, deadline_s=20 + 60, what=f"the end of {fault}", every_s=1)
    finally:
        schemaquake("heal", killed.folder)
    assert engine.leftovers() == {}


def _is_whole(engine, container):
    """No rule, no offset, and a server that runs and answers."""
    there = DockerTransport(engine.client, container.id, name=container.name)
    rules = there.run(["iptables", "-S"]).stdout
    offset = there.run(["sh", "-c", "ls /run/schemaquake/*/clock_offset"])
    if "DROP" in rules or offset.exit_code == 0:
        return False
    try:
        socket.create_connection((container.address, 9042), timeout=1).close()
    except OSError:
        return False
    states = there.run(["sh", "-c", "ps -o state= -C java"]).stdout.split()
    return bool(states) and "T" not in states

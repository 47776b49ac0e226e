"""A package outside the tree: everything that it ships works, and nothing in the project is edited for it."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import plugins
import pytest
from here_transport import HereTransport
from perfect_races import perfect_run
from places import ROOT, SUPPORT
from ports import next_port
from process_node import ProcessCluster
from scripted_cql import ScriptedCql

from schemaquake.checkers.findings.catalogue import CATALOGUE, finders
from schemaquake.clusters.cluster_file.allowance import check_plan
from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.clusters.docker.provider import DockerProvider
from schemaquake.clusters.hosts.provider import SshProvider
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.node import ServerData, deployed_node
from schemaquake.clusters.nodes.service import process
from schemaquake.clusters.nodes.terms import RunOnNodes
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import ExitCode, FaultNotAllowed, HistoryError, PlanError
from schemaquake.harness.faults.executor import FaultExecutor
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.faults.needs import means_needed
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Context, Fault
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.traits import lack
from schemaquake.harness.registry import load
from schemaquake.harness.wait import pause_for
from schemaquake.results.formats.reading import format_of, read_history
from schemaquake.results.judging.judge import judge

OUTSIDE = ROOT / "tests" / "outside"
PROJECT = tomllib.loads((OUTSIDE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY_POINTS = {group.removeprefix("schemaquake."): names for group, names in PROJECT["entry-points"].items()}
PLAN = Plan(system="quakedb:1.0", workloads=("new-column",), nemeses=("stutter",), restart="none", time_limit_s=60)

FORGOTTEN = """\
1.000 p0 n1 invoke add-column sq.t {"keyspace": "sq", "table": "t", "column": ["c0", "int"]}
1.200 p0 n1 ok add-column sq.t
9.000 p1 n2 invoke read-rows sq.t {"keyspace": "sq", "table": "t", "columns": ["k", "c0"], "consistency": "ONE", "phase": "settled"}
9.001 p1 n2 fail read-rows sq.t ! Undefined column name c0 in table sq.t
"""
KNOWN = FORGOTTEN.replace("fail read-rows sq.t ! Undefined column name c0 in table sq.t", "ok read-rows sq.t")
UNSURE = FORGOTTEN.replace("1.200 p0 n1 ok", "1.200 p0 n1 info")


# ── installed ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def schemaquake(tmp_path_factory):
    """`schemaquake("list", "nemeses")` of a fresh environment in which the package is installed; with its exit code."""
    if find_spec("setuptools") is None:
        pytest.skip("setuptools, which builds the package, is not installed")
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "environment", with_pip=False, symlinks=True)
    python = folder / "environment" / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(python.parents[1])}))
    # What is installed here is there, too, without a download; `addsitedir` also follows editable installations.
    here = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in here]
    (packages / "here.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = shutil.copytree(OUTSIDE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--no-index", str(source)], check=True)

    def run(*arguments):
        command = [python, "-m", "schemaquake.harness.cli.command_line", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)

    return run


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("workloads", "new-column"),
        ("nemeses", "stutter"),
        ("checkers", "known-columns"),
        ("formats", "event-lines"),
        ("systems", "quakedb:1.0"),
        ("anomalies", "forgotten-column"),
    ],
)
def test_what_is_installed_is_listed(schemaquake, kind, name):
    listed = schemaquake("list", kind, "--json")
    assert listed.returncode == ExitCode.VALID, listed.stderr
    row = json.loads(listed.stdout)[name]
    if kind == "nemeses":
        assert row.items() >= {"needs": "signals", "allowed_by": "pause"}.items()


@pytest.mark.parametrize(
    ("history", "found", "code"), [(FORGOTTEN, ["forgotten-column"], ExitCode.INVALID), (KNOWN, [], ExitCode.VALID)]
)
def test_a_check_of_a_history_in_its_format_gives_its_anomaly(schemaquake, tmp_path, history, found, code):
    file = tmp_path / "history.events"
    file.write_text(history, encoding="utf-8")
    checked = schemaquake("check", file, "--checker", "known-columns", "--engine", "local", "--json")
    assert checked.returncode == code, checked.stderr
    assert [anomaly["type"] for anomaly in json.loads(checked.stdout)["anomalies"]] == found


@pytest.mark.cluster
@pytest.mark.long
def test_its_workload_and_nemesis_run_on_its_system_on_this_machine(schemaquake, tmp_path):
    done = schemaquake(
        *("run", "--system", "quakedb:1.0", "--workload", "new-column", "--nemesis", "stutter"),
        *("--time-limit", "10", "--restart", "none", "--runs", tmp_path, "--json"),
    )
    assert done.returncode in {ExitCode.VALID, ExitCode.INVALID}, done.stderr[-4000:]
    verdict = json.loads(done.stdout)
    parts = {part["checker"]: part for part in verdict["parts"]}
    assert parts["known-columns"]["valid"] is not False
    assert parts["faults"]["valid"] is True


# ── in this process, on stand-ins for every provider's nodes ─────────────────────────────────────────────────────────


@pytest.fixture
def on_path(tmp_path):
    """The same entry points, without a virtual environment."""
    entries = {kind: dict(names) for kind, names in ENTRY_POINTS.items()}
    with plugins.on_path(plugins.distribution(tmp_path / "plugins", entries), OUTSIDE):
        yield


@pytest.mark.usefixtures("on_path")
def test_the_anomaly_is_described_and_has_its_finder():
    assert CATALOGUE["forgotten-column"].prominence == 60
    assert finders()["forgotten-column"] == {"known-columns"}


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(("history", "valid"), [(FORGOTTEN, False), (KNOWN, True), (UNSURE, "unknown")])
def test_what_was_never_acknowledged_is_not_forgotten(tmp_path, history, valid):
    file = tmp_path / "history.events"
    file.write_text(history, encoding="utf-8")
    assert format_of(file, None) == "event-lines"
    assert judge(Records.of(read_history(file)), checkers=["known-columns"]).valid == valid


@pytest.mark.usefixtures("on_path")
def test_a_line_that_is_no_event_is_refused_with_its_number(tmp_path):
    file = tmp_path / "history.events"
    file.write_text(KNOWN + "nonsense\n", encoding="utf-8")
    with pytest.raises(HistoryError, match="line 5: not an event"):
        read_history(file)
    with pytest.raises(PlanError, match=r"known are .*event-lines"):
        format_of(file, "nonsense")


@pytest.mark.usefixtures("on_path")
def test_the_workload_is_valid_on_a_perfect_cluster():
    workload = load("workloads", "new-column")
    context = Context(seed=1, nodes=("n1", "n2", "n3"), features=parse_system("quakedb:1.0").features)
    verdict = judge(perfect_run(workload, context, line="5.0"), checkers=["known-columns", "alterations", "divergence"])
    assert verdict.valid is True, verdict.reason


@pytest.mark.usefixtures("on_path")
def test_the_system_starts_from_the_jars_of_its_ancestor_and_lacks_what_it_lost():
    system = parse_system("quakedb:1.0")
    assert str(system) == "quakedb:1.0"
    assert system.jars == "5.0.9"
    assert "views" not in system.features
    assert recipe_for(system).main == recipe_for(parse_system("cassandra:5.0.9")).main
    with pytest.raises(PlanError, match="one release"):
        parse_system("quakedb:2.0")


@pytest.mark.usefixtures("on_path")
def test_its_nemesis_stutters_the_processes_of_this_machine(tmp_path):
    assert means_needed(PLAN) == {"signals"}
    cluster = ProcessCluster(tmp_path)
    try:
        assert lack(load("nemeses", "stutter"), cluster) is None
        assert held(cluster, tmp_path)["pauses"] >= 2
        assert set(cluster.states().values()) == {"running"}
    finally:
        cluster.end()


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("provider", [SshProvider.name, DockerProvider.name])
def test_its_nemesis_is_allowed_on_a_deployed_cluster_by_the_word_it_declares(provider):
    hosts = {"nodes": tuple({"address": f"10.0.0.{number}"} for number in (1, 2, 3))} if provider == "ssh" else {}
    plan = Plan.from_json({**PLAN.to_json(), "cluster": provider})
    check_plan(plan, ClusterFile.model_validate({"provider": provider, "allow": ("pause",), **hosts}))
    with pytest.raises(FaultNotAllowed, match='--nemesis stutter needs "pause"'):
        check_plan(plan, ClusterFile.model_validate({"provider": provider, "allow": ("kill",), **hosts}))


@pytest.mark.usefixtures("on_path")
def test_its_nemesis_is_guarded_on_the_nodes_of_ssh_and_docker(tmp_path):
    """Both providers have clusters of this class; here its nodes are reached without either."""
    with ExitStack() as stack:
        cluster, files = deployed(tmp_path, stack)
        assert lack(load("nemeses", "stutter"), cluster) is None
        guards = []
        assert held(cluster, tmp_path, while_held=lambda: guards.extend(files()))["pauses"] >= 2
        assert [path for path in guards if "guard" in path]
        assert {node.name: node.state() for node in cluster.nodes} == dict.fromkeys(("n1", "n2", "n3"), "running")


def held(cluster, folder, *, while_held=lambda: None):
    """Hold a planned fault of the nemesis for a second, through ledger and guards; what its healing read back."""
    nemesis = load("nemeses", "stutter")
    ended = []
    ledger = Ledger(folder / FILE_NAME)
    executor = FaultExecutor(cluster, ledger, note=lambda f, value: ended.append(value["effect"]))
    fault = Fault(id=0, nemesis="stutter", begins_s=0, ends_s=1, nodes=("n2",), parameters={"period_s": 0.1})
    with executor.hold(nemesis, fault) as effect:
        assert effect["observed"]
        while_held()
        pause_for(1)
    ledger.close()
    assert executor.failures == ()
    return ended[-1]


def deployed(folder, stack):
    """A deployed cluster of three stand-in servers on this machine, and what its run has left on the nodes."""
    port, state = next_port(), "state"
    addresses = {f"n{number}": f"127.0.79.{number}" for number in (1, 2, 3)}
    places = {name: folder / name for name in addresses}
    nodes = []
    for name, address in addresses.items():
        place = places[name]
        way = HereTransport(place)
        command = [sys.executable, "-IS", str(SUPPORT / "stand_in_server.py"), address, str(port), str(place / "log")]
        run = str(place / state / "r1")
        node = deployed_node(
            name,
            ClientPort(address=address, port=port, protocol_version=4),
            way,
            process(command, run, place=str(place / "server")),
            folder=run,
            logs=[str(place / "log")],
            data=ServerData(folders=[str(place / "data")]),
            keeps=folder / "kept" / name,
        )
        node.prepare()
        node.start()
        stack.callback(node.kill)
        nodes.append(node)
    for node in nodes:
        assert node.await_serving(deadline_s=20).served
    guards = {
        node.name: Guard(node.transport, state=str(places[node.name] / state), run="r1", verbs=node.undoing)
        for node in nodes
    }
    system = parse_system("cassandra:5.0.9")
    cluster = DeployedCluster(
        nodes,
        system,
        ScriptedCql(addresses),
        Guards(guards, max_fault_s=60),
        RunOnNodes(folder=folder, prefix="sq", begins="serving", start_timeout_s=20),
    )
    return cluster, lambda: [str(path) for place in places.values() for path in place.glob(f"{state}/r1/**/*")]


# ── what it may import ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", sorted((OUTSIDE / "schemaquake_example").glob("*.py")), ids=lambda path: path.name)
def test_it_imports_the_public_face_and_nothing_else_of_ours(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert {name for name in imported if name.split(".")[0] == "schemaquake"} <= {"schemaquake.api"}

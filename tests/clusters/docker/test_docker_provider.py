"""`--cluster docker`: what it refuses before anything is made, what it makes, and that nothing of it is left."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from schemaquake.clusters.docker import provider as docker_provider
from schemaquake.clusters.docker.engine import Container, DockerEngine
from schemaquake.clusters.docker.provider import DockerClusterBuilder, DockerProvider
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import (
    ClusterError,
    EnvironmentLacks,
    FaultNotAllowed,
    HistoryError,
    NodeUnreachable,
    PlanError,
)
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault, Guarded, Undo
from schemaquake.harness.registry import names
from schemaquake.harness.run.applicability import why_impossible
from schemaquake.harness.wait import until
from schemaquake.results.runs.dry_run import dry_run

OURS = {
    "Id": "sha256:0123456789abcdef",
    "Config": {"Entrypoint": ["e"], "Labels": {"io.schemaquake.system": "cassandra:5.0.9"}},
}


def plan(**more):
    return Plan(**{"system": "cassandra:5.0.9", "workloads": ("create-table",), "cluster": "docker", **more})


class Engine(DockerEngine):
    """Knows images; makes nothing."""

    memory = 32_000

    def __init__(self, images):
        self.images = images
        self.removed = []
        self.left = {}

    def close(self):
        pass

    def described(self):
        return {"docker engine": "27.0"}

    def has_image(self, name):
        return name in self.images

    def image(self, name):
        return self.images[name]

    def memory_mb(self):
        return self.memory

    def leftovers(self):
        return self.left

    def create_network(self, run, *, taken=None):
        raise ClusterError("no subnet is left")

    def remove(self, run):
        self.removed.append(run)
        return []

    def containers(self, run):
        return []


@pytest.fixture
def engine(monkeypatch):
    engine = Engine({"schemaquake/cassandra:5.0.9": OURS})
    monkeypatch.setattr(DockerEngine, "connect", lambda _host=None: engine)
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere/sock")
    return engine


def record(folder):
    return json.loads((folder / "docker.json").read_text())


def test_the_image_of_schemaquake_image_is_taken_unless_another_is_named(engine, tmp_path):
    facts = DockerProvider().prepare(plan(), tmp_path)
    assert facts["image"] == "schemaquake/cassandra:5.0.9"
    assert facts["image id"] == "0123456789ab"
    assert record(tmp_path)["image_id"] == OURS["Id"]
    engine.images["mine:2"] = {"Id": "sha256:mine", "Config": {"Cmd": ["c"]}}
    assert DockerProvider().prepare(plan(options={"image": "mine:2"}), tmp_path)["image"] == "mine:2"


def test_scylladb_has_the_image_of_its_makers(engine, tmp_path):
    engine.images["scylladb/scylla:6.2.0"] = {"Id": "sha256:s", "Config": {"Entrypoint": ["/docker-entrypoint.py"]}}
    assert DockerProvider().prepare(plan(system="scylladb:6.2.0"), tmp_path)["image"] == "scylladb/scylla:6.2.0"


def test_where_there_is_no_image_the_way_to_one_is_told(engine, tmp_path):
    with pytest.raises(EnvironmentLacks, match=r"schemaquake image cassandra:4\.1\.12.*-O image=cassandra:4\.1\.12"):
        DockerProvider().prepare(plan(system="cassandra:4.1.12"), tmp_path)
    assert not (tmp_path / "docker.json").exists()


def test_an_image_that_says_it_is_another_system_is_refused(engine, tmp_path):
    with pytest.raises(PlanError, match=r"holds cassandra:5\.0\.9, and --system is cassandra:5\.0\.8"):
        DockerProvider().prepare(
            plan(system="cassandra:5.0.8", options={"image": "schemaquake/cassandra:5.0.9"}), tmp_path
        )


def test_a_version_that_is_not_asked_by_cql_is_refused(engine, tmp_path):
    with pytest.raises(PlanError, match="speaks Thrift"):
        DockerProvider().prepare(plan(system="cassandra:1.1.12"), tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": "1gb"}, "-O memory=1gb: the memory of each container, a number and a unit"),
        ({"cpus": "many"}, "-O cpus=many: the number of cores of each container"),
    ],
    ids=["memory", "cores"],
)
def test_limits_that_are_none_are_refused(engine, tmp_path, options, words):
    with pytest.raises(PlanError, match=words):
        DockerProvider().prepare(plan(options=options), tmp_path)


def test_more_memory_than_the_engine_has_is_refused(engine, tmp_path):
    engine.memory = 3000
    with pytest.raises(EnvironmentLacks, match="take 3072 MB together, and the engine's machine has 3000 MB"):
        DockerProvider().prepare(plan(), tmp_path)
    assert DockerProvider().prepare(plan(options={"memory": "900m", "cpus": "0.5"}), tmp_path)["a container"] == (
        "900 MB, 0.5 cores"
    )


def test_spares_take_memory_too_and_have_examples_of_addresses(engine, tmp_path):
    with_spares = plan(spares=2, options={"memory": "1g"})
    assert DockerProvider().demands(with_spares).memory_mb == 5 * 1024
    assert list(DockerProvider().rehearsal(with_spares).addresses) == ["n1", "n2", "n3", "n4", "n5"]
    engine.memory = 4500
    with pytest.raises(EnvironmentLacks, match="take 5120 MB together"):
        DockerProvider().prepare(with_spares, tmp_path)


def test_spares_of_a_system_that_is_not_configured_here_are_refused(engine, tmp_path):
    with pytest.raises(PlanError, match=r"how scylladb:6\.2\.0 joins a cluster"):
        DockerProvider().prepare(plan(system="scylladb:6.2.0", spares=1), tmp_path)


def test_what_a_plan_will_take_is_told_beforehand():
    demands = DockerProvider().demands(plan(nodes=5, options={"memory": "2g"}))
    assert demands.memory_mb == 5 * 2048
    assert "views" in demands.features
    scylladb = parse_system("scylladb:6.2.0")
    assert DockerProvider().demands(plan(system="scylladb:6.2.0", nodes=1)).memory_mb == 1.25 * scylladb.memory_mb


def test_containers_of_another_run_are_told_of(engine, tmp_path, caplog):
    engine.left = {"r0": "/runs/r0"}
    DockerProvider().prepare(plan(), tmp_path)
    assert [line.folder for line in caplog.records if "another run" in line.message] == ["/runs/r0"]


def test_the_run_is_found_by_a_name_that_no_other_run_has(engine, tmp_path):
    folder = tmp_path / "2026 0101+drop type"
    folder.mkdir()
    DockerProvider().prepare(plan(), folder)
    first = record(folder)
    DockerProvider().prepare(plan(), folder)
    assert first["run"].startswith("2026-0101-drop-type-")
    assert first["run"] != record(folder)["run"]
    assert first["host"] == "unix:///somewhere/sock"


FILE = """\
provider = "docker"
system = "cassandra:5.0.9"
allow = ["kill", "restart"]
max_fault_seconds = 30

[docker]
memory = "2g"
"""


def with_file(tmp_path, text=FILE, **more):
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    return plan(cluster_file=path, **more)


def test_what_the_file_does_not_allow_is_refused_before_the_engine_is_asked(engine, tmp_path):
    engine.images.clear()
    with pytest.raises(FaultNotAllowed, match='needs "partition"'):
        DockerProvider().prepare(with_file(tmp_path, nemeses=("partition",)), tmp_path)


def test_the_file_says_what_a_container_may_take_and_options_may_not_contradict(engine, tmp_path):
    assert DockerProvider().prepare(with_file(tmp_path), tmp_path)["a container"] == "2048 MB"
    with pytest.raises(PlanError, match="-O memory=1g contradicts the cluster file, which says 2g"):
        DockerProvider().prepare(with_file(tmp_path, options={"memory": "1g"}), tmp_path)


LIMITS = f"""max_nodes_down = 1
{FILE}
[[stop_if]]
command = ["false"]

[[stop_if]]
cql = "SELECT pending_tasks FROM system_views.thread_pools"
above = 100
"""


def test_the_owner_s_limits_hold_for_containers_too(engine, tmp_path, monkeypatch):
    chosen = with_file(tmp_path, LIMITS)
    (tmp_path / "cluster.toml").write_text(LIMITS)
    DockerProvider().prepare(chosen, tmp_path)
    engine.images[OURS["Id"]] = OURS
    containers = [Container(f"n{number}", f"192.0.2.{number}", "c", "c") for number in (1, 2, 3)]
    node = SimpleNamespace(name="n1", transport=None, undoing=None)
    monkeypatch.setattr(docker_provider, "_require_reachable", lambda _: None)
    monkeypatch.setattr(DockerClusterBuilder, "_containers", lambda _: containers)
    monkeypatch.setattr(DockerClusterBuilder, "_node", lambda *_: node)
    cluster = DockerProvider().create(chosen, tmp_path)
    assert cluster.max_nodes_down == 1
    asked = "SELECT pending_tasks FROM system_views.thread_pools above 100 on"
    assert [each.name for each in cluster.stop_conditions()] == [
        "false",
        *(f"{asked} n{number}" for number in (1, 2, 3)),
    ]


def test_a_condition_that_would_write_is_refused_beforehand_as_are_faults_of_a_rehearsal(engine, tmp_path):
    text = f'{FILE}\n[[stop_if]]\ncql = "DROP KEYSPACE prod"\nabove = 1\n'
    for prepared in (
        lambda: DockerProvider().prepare(with_file(tmp_path, text), tmp_path),
        lambda: dry_run(with_file(tmp_path, text)),
    ):
        with pytest.raises(PlanError, match="only read"):
            prepared()
    with pytest.raises(FaultNotAllowed, match='needs "partition"'):
        dry_run(with_file(tmp_path, nemeses=("partition",)))
    assert all(fault.injected for fault in dry_run(with_file(tmp_path, nemeses=("kill",), restart="none")))


def test_containers_that_are_only_shown_ask_no_engine_and_name_what_they_lack(monkeypatch):
    monkeypatch.setattr(DockerEngine, "connect", lambda _host=None: pytest.fail("an engine was asked"))
    reasons = {name: why_impossible(plan(nemeses=(name,))) for name in names("nemeses")}
    refused = {
        name: why.partition(". Applicable: ")[0].partition("docker: ")[2]
        for name, why in reasons.items()
        if why is not None
    }
    assert refused == {
        "fill-disk": 'containers have no means for "disk"',
        "read-only-disk": 'containers have no means for "disk"',
        "address-change": "the addresses of this cluster's nodes cannot be changed",
        "rolling-upgrade": "the version of this cluster's nodes cannot be changed",
        **{
            name: f"cassandra:5.0.9 has no command for it ({verb})"
            for name, verb in (
                ("cancel-sequence", "abort-leave"),
                ("cms-reconfigure", "reconfigure"),
                ("lost-majority", "recover-group"),
                ("pause-commits", "pause-commits"),
            )
        },
    }
    shown = DockerProvider().unstarted(plan(spares=1))
    assert [node.name for node in shown.nodes] == ["n1", "n2", "n3", "n4"]
    with pytest.raises(NodeUnreachable, match="n1, which is not asked before a run, cannot run true"):
        shown.nodes[0].exec(["true"])


def test_what_the_owner_of_containers_forbids_is_refused_and_not_recommended(tmp_path):
    with pytest.raises(FaultNotAllowed, match='needs "partition"'):
        why_impossible(with_file(tmp_path, nemeses=("partition",)))
    allowing = FILE.replace('["kill"', '["topology", "kill"')
    why = why_impossible(with_file(tmp_path, allowing, nemeses=("cms-reconfigure",)))
    assert why.startswith('nemesis "cms-reconfigure" is not applicable to cassandra:5.0.9 on --cluster docker: ')
    able = why.partition("Applicable: ")[2].removesuffix(".").split(", ")
    assert {"bootstrap", "kill"} <= set(able)
    assert not {"fill-disk", "partition"} & set(able)


def test_services_that_somebody_manages_are_none_of_a_container_s(engine, tmp_path):
    text = f'{FILE}\n[service]\nkind = "systemd"\n'
    with pytest.raises(PlanError, match='kind = "process"'):
        DockerProvider().prepare(with_file(tmp_path, text), tmp_path)


def test_what_goes_wrong_half_way_leaves_nothing(engine, tmp_path):
    DockerProvider().prepare(plan(), tmp_path)
    engine.images[OURS["Id"]] = OURS
    with pytest.raises(ClusterError, match="no subnet is left"):
        DockerProvider().create(plan(), tmp_path)
    assert engine.removed == [record(tmp_path)["run"]]


def test_an_interrupt_half_way_leaves_nothing(engine, tmp_path, monkeypatch):
    def interrupted(_run, **_more):
        raise KeyboardInterrupt

    DockerProvider().prepare(plan(), tmp_path)
    engine.images[OURS["Id"]] = OURS
    monkeypatch.setattr(engine, "create_network", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DockerProvider().create(plan(), tmp_path)
    assert engine.removed == [record(tmp_path)["run"]]


def test_a_container_that_is_not_reached_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(docker_provider, "_REACHED_WITHIN_S", 0.05)

    def unreachable(*_address, timeout):
        raise TimeoutError("timed out")

    monkeypatch.setattr(docker_provider.socket, "create_connection", unreachable)
    with pytest.raises(EnvironmentLacks, match=r"n1 cannot be reached at 10\.9\.9\.9.*Docker Desktop.*-O network=NAME"):
        docker_provider._require_reachable([Container("n1", "10.9.9.9", "id", "name")])


def test_healing_a_run_that_made_nothing_asks_no_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(DockerEngine, "connect", lambda _host=None: pytest.fail("asked"))
    assert DockerProvider().heal(tmp_path) == []


def test_a_damaged_record_is_told(tmp_path):
    (tmp_path / "docker.json").write_text('{"run": "r1"')
    with pytest.raises(HistoryError, match=r"docker\.json is damaged"):
        DockerProvider().heal(tmp_path)


# ── a real one ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def made(engine_host, small_image, tmp_path, monkeypatch):
    """A cluster of two containers, whose server only sleeps; not started."""
    monkeypatch.setenv("DOCKER_HOST", engine_host)
    there = plan(
        nodes=2, nemeses=("partition", "clock"), options={"image": small_image, "memory": "64m"}, replication_factor=1
    )
    # Small servers in small images: what a real one is set needs a cassandra.yaml.
    monkeypatch.setattr(docker_provider.DockerClusterBuilder, "_set", lambda *_: None)
    DockerProvider().prepare(there, tmp_path)
    cluster = DockerProvider().create(there, tmp_path)
    yield cluster, tmp_path, there
    with suppress(ExceptionGroup):  # of nodes that a test has removed
        cluster.stop()
    engine = DockerEngine.connect()
    assert engine.leftovers() == {}
    engine.close()


@pytest.mark.cluster
def test_a_server_in_a_container_is_started_frozen_killed_and_read(made):
    cluster, folder, _ = made
    assert isinstance(cluster, Guarded)
    node = cluster.nodes[0]
    node.prepare()
    node.log.begin()
    assert node.state() == "stopped"
    node.start()
    assert node.state() == "running"
    until(lambda: "started as 10.79." in node.log_text(), deadline_s=120, what="its log")
    node.pause()
    assert node.state() == "paused"
    node.resume()
    node.kill()
    assert node.state() == "stopped"
    assert node.await_serving(deadline_s=0).exit_code == 137
    assert node.exec(["iptables", "-S", "INPUT"]).stdout == "-P INPUT ACCEPT\n"
    cluster.stop()
    assert (folder / "nodes" / "n1" / "system-0.log").read_text().startswith("INFO started as 10.79.")


@pytest.mark.cluster
def test_a_guard_in_a_container_undoes_a_fault_by_itself(made):
    cluster, _, _ = made
    cluster.max_fault_s = 6.0
    cluster._guards.max_fault_s = 6.0
    node = cluster.nodes[1]
    node.prepare()
    fault = Fault(id=7, nemesis="partition", begins_s=0, ends_s=1, nodes=("n2",))
    cluster.arm(fault, {"n2": [Undo(argv=("iptables", "-F", "INPUT"))]})
    fenced = cluster.fenced(fault).nodes[1]
    fenced.exec(["iptables", "-A", "INPUT", "-s", "10.79.0.99", "-j", "DROP"])
    fenced.skew_clock(30)
    assert node.clock_offset() == pytest.approx(30, abs=1)
    until(lambda: node.exec(["iptables", "-S", "INPUT"]).stdout.count("\n") == 1, deadline_s=40, what="the guard")
    assert cluster.expired(fault)["n2"]["done"][0]["exit_code"] == 0
    cluster.disarm(fault)


@pytest.mark.cluster
def test_what_a_dead_harness_left_is_removed_and_its_logs_are_kept(made, engine_host):
    cluster, folder, _ = made
    node = cluster.nodes[0]
    node.prepare()
    node.start()
    until(node.log_text, deadline_s=120, what="its log")
    done = DockerProvider().heal(folder)
    assert sum("container" in sentence and "removed" in sentence for sentence in done) == 2
    assert "network" in " ".join(done)
    assert "volume" in " ".join(done)
    assert "was saved as system-0.log" in done[0], done
    assert Path(folder / "nodes" / "n1" / "system-0.log").read_text().startswith("INFO started as 10.79.")
    assert DockerProvider().heal(folder) == []

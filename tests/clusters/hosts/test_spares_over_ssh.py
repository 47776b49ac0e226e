"""Spare hosts: on hosts with a real sshd one joins, leaves or takes another's place, in a ring of servers that stand in for Cassandra."""

from __future__ import annotations

import json

import orjson
import pyarrow.parquet as pq
import pytest
from command import schemaquake
from ssh_hosts import SshHosts, why_not
from stand_in_ring import StandInRing

from schemaquake.clusters.hosts.provider import SshProvider
from schemaquake.clusters.nodes.run_name import name_run
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.plan import Plan

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture
def ring(tmp_path):
    with SshHosts(tmp_path / "hosts", 5) as hosts, StandInRing(hosts, spares=1) as ring:
        yield ring


@pytest.fixture
def cluster(ring, tmp_path):
    """`cluster(…)`: the cluster of one run with the spare, as its provider makes it from the owner's file."""

    def made(*, nemeses=("bootstrap",), spares=1, allow=("topology",), limits=""):
        folder = tmp_path / "run"
        (folder / "journals").mkdir(parents=True, exist_ok=True)
        file = ring.cluster_file(folder / "cluster.toml", allow=allow, limits=limits)
        plan = Plan(
            system="cassandra:5.0.9", workloads=("register",), nemeses=nemeses, cluster="ssh", cluster_file=file,
            nodes=len(ring.founders), spares=spares, restart="none",
        )  # fmt: skip
        (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
        name_run(folder)
        return SshProvider().create(plan, folder)

    return made


def names_of(ring):
    by_address = {host.address: name for name, host in ring.hosts.hosts.items()}
    return sorted(by_address[address] for address in ring.members.read_text("utf-8").split())


def states(cluster):
    return {name: member.state for name, member in cluster.members().items()}


def test_a_spare_joins_members_leave_and_another_takes_a_place(ring, cluster):
    cluster = cluster(nemeses=("bootstrap", "decommission", "replace"))
    cluster.start()
    founders = {"n1": "normal", "n2": "normal", "n3": "normal", "n4": "normal"}
    assert states(cluster) == {**founders, "n5": "absent"}
    assert cluster.join("n5", limit_s=60).outcome == "ok"
    assert states(cluster) == {**founders, "n5": "normal"}
    assert cluster.ask("decommission", on="n5", limit_s=60).outcome == "ok"
    assert states(cluster) == {**founders, "n5": "left"}
    # Its place is empty, and so is its disk before it joins anew, as what another member was.
    nodes = {node.name: node for node in cluster.nodes}
    nodes["n5"].stop()
    (ring.folder(ring.hosts["n5"]) / "data" / "old").write_text("of its first life")
    nodes["n3"].kill()
    joined = cluster.join("n5", replacing="n3", limit_s=60)
    assert (joined.outcome, joined.command.split("=")[0]) == ("ok", "start -Dcassandra.replace_address_first_boot")
    assert list((ring.folder(ring.hosts["n5"]) / "data").iterdir()) == []
    assert names_of(ring) == ["n1", "n2", "n4", "n5"]
    assert states(cluster) == {**founders, "n3": "left", "n5": "normal"}
    options = ring.folder(ring.hosts["n5"]) / "joining.options"
    assert options.read_text("utf-8") == f"-Dcassandra.replace_address_first_boot={ring.hosts['n3'].address}\n"
    cluster.stop()  # whole without the one that was taken down
    assert options.read_text("utf-8") == ""
    assert ring.left() == {}


def test_a_removed_member_stays_out_and_nothing_is_emptied_that_runs(ring, cluster):
    cluster = cluster(nemeses=("removenode",))
    cluster.start()
    with pytest.raises(ClusterError, match="runs, so it cannot join"):
        cluster.join("n4", limit_s=60)
    cluster.members()
    {node.name: node for node in cluster.nodes}["n4"].kill()
    assert cluster.ask("remove", on="n1", about="n4", limit_s=60).outcome == "ok"
    assert cluster.ask("move", on="n1", argument="7", limit_s=60).outcome == "info"  # nodetool says why
    cluster.stop()
    assert names_of(ring) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("why", ["it runs", "it holds something"])
def test_a_spare_that_is_somebody_s_is_left_alone(ring, cluster, why):
    (spare,) = ring.spares
    if why == "it runs":
        ring.start(spare)
        ring.members.write_text("\n".join(host.address for host in ring.founders))  # it has a ring of its own
    theirs = ring.folder(spare) / "data" / "theirs"
    theirs.write_text("rows")
    made = cluster()
    with pytest.raises(ClusterError, match="the server of spare n5 runs" if why == "it runs" else "n5 is not empty"):
        made.start()
    made.stop()
    assert theirs.read_text("utf-8") == "rows"
    assert ring.left() == {}


def test_where_others_have_keyspaces_the_membership_is_theirs_too(ring, cluster):
    ring.foreign.write_text("accounts")
    made = cluster()
    with pytest.raises(ClusterError, match="there are others' on this cluster: accounts"):
        made.start()
    made.stop()
    shared = cluster(limits="shared = true")
    shared.start()
    shared.stop()
    # Faults that are undone concern nobody's place.
    faults = cluster(nemeses=("kill",), allow=("kill",), spares=0)
    faults.start()
    assert faults.missing("topology") is not None
    with pytest.raises(ClusterError):
        faults.ask("decommission", on="n4", limit_s=60)
    faults.stop()
    assert names_of(ring) == ["n1", "n2", "n3", "n4"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("nemesis", "options", "nodes", "left"),
    [
        ("bootstrap", {}, ["n5"], ["n1", "n2", "n3", "n4", "n5"]),
        ("decommission", {"node": "n2"}, ["n2"], ["n1", "n3", "n4"]),
        ("replace", {"node": "n3", "address": "new"}, ["n3", "n5"], ["n1", "n2", "n4", "n5"]),
        ("removenode", {"node": "n4"}, ["n4"], ["n1", "n2", "n3"]),
    ],
)
def test_an_operation_in_a_whole_run(ring, tmp_path, nemesis, options, nodes, left):
    file = ring.cluster_file(tmp_path / "cluster.toml", allow=("topology",))
    given = [
        part for name, text in {**options, "begins_s": "0.5"}.items() for part in ("-O", f"{nemesis}.{name}={text}")
    ]
    # Its registers are each server's own, so they are not linearizable.
    done = schemaquake(
        *("run", "--cluster", file, "--workload", "register", "--spares", "1", "--restart", "none", "--rate", "20"),
        *("--time-limit", "4", "--seed", "1", "--settle-limit", "5", "--runs", tmp_path / "runs", "--json"),
        *("--nemesis", nemesis, *given),
        expected=(0, 1, 2, 255),
        limit_s=400,
    )
    document = json.loads(done.stdout)
    assert document["completed"], document["error"]
    rows = pq.read_table(f"{document['run']}/history.parquet").to_pylist()
    ended = [row for row in rows if row["process"] == -1 and row["f"] == nemesis and row["type"] != "invoke"]
    assert [(row["type"], orjson.loads(row["value"])["nodes"]) for row in ended] == [("ok", nodes)]
    assert names_of(ring) == left
    assert ring.left() == {}

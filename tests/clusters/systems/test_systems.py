"""Systems: what is known of each version before it is fetched, and that a value of it goes to every worker."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace

import pytest

from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness import registry
from schemaquake.harness.errors import PlanError

SCYLLADB = ("5.2", "5.4", "6.0", "6.1", "6.2", "2025.1")
ALL = [*(f"cassandra:{version}" for version in KNOWN_VERSIONS), *(f"scylladb:{version}" for version in SCYLLADB)]
SIMULATED = ("0.7", "1.0", "1.1", "1.2", "2.2", "3.11", "5.0", "6.0", "6.0-alpha2")
ALL += [*(f"simulated:cassandra-{version}" for version in SIMULATED), "simulated:scylladb-6.2"]


def copied(something):
    """As a worker's process gets it."""
    return pickle.loads(pickle.dumps(something))  # noqa: S301 - made here


def facts(text: str) -> Mapping[str, str | int]:
    return parse_system(text).facts()


def test_every_family_knows_its_versions():
    families = registry.load_all("systems")
    listed = [f"{product}:{version}" for product, family in families.items() for version in family.known_versions]
    assert listed == ALL
    assert {family.title for family in families.values()} == {"Cassandra", "ScyllaDB", "Simulated"}


def test_facts_are_era_client_java_memory_and_features():
    oldest, newest = facts("cassandra:0.7.10"), facts("cassandra:6.0-alpha2")
    assert (oldest["era"], oldest["client"], oldest["java"]) == ("migrations", "Thrift", "17")
    assert (newest["era"], newest["client"], newest["java"]) == ("tcm", "CQL v4", "17 to 21")
    assert facts("cassandra:1.2.19")["client"] == "CQL v1"
    assert oldest["MB a node"] < newest["MB a node"]
    assert "types" not in str(oldest["features"]).split()
    assert {"types", "functions", "views", "epochs"} <= set(str(newest["features"]).split())


def test_facts_have_the_same_columns_for_every_product():
    assert {tuple(facts(text)) for text in ALL} == {("era", "client", "java", "MB a node", "features")}
    assert facts("scylladb:6.2")["java"] == "-"


def test_authority_changes_in_the_order_of_versions():
    authorities = list(dict.fromkeys(parse_system(f"cassandra:{version}").authority for version in KNOWN_VERSIONS))
    assert authorities == ["memory", "disk", "log"]
    assert parse_system("scylladb:5.2").authority == "group0"


def test_only_lines_before_1_1_apply_changes_in_order():
    in_order = [version for version in KNOWN_VERSIONS if parse_system(f"cassandra:{version}").applies_in_order]
    assert in_order == ["0.7.10", "0.8.10", "1.0.12"]


@pytest.mark.parametrize("text", ALL)
def test_a_system_is_pickled_small_and_whole(text):
    system = parse_system(text)
    assert len(pickle.dumps(system.cql)) < 4000
    assert (copied(system.cql) is None) == (system.client == "thrift")
    again = copied(system)
    assert (str(again), again.features, again.facts()) == (text, system.features, system.facts())
    assert (again.launch is None) == (system.launch is None)


@pytest.mark.parametrize(
    ("nodes", "commands"), [(1, []), (2, ["nodetool cms reconfigure 2"]), (5, ["nodetool cms reconfigure 3"])]
)
def test_a_new_cluster_of_6_0_widens_its_metadata_service(nodes, commands):
    assert [str(each) for each in parse_system("cassandra:6.0-alpha2").after_first_boot(nodes)] == commands


@pytest.mark.parametrize("text", ["cassandra:1.0.12", "cassandra:5.0.9", "scylladb:6.2"])
def test_other_new_clusters_are_left_as_they_are(text):
    assert parse_system(text).after_first_boot(3) == ()


@pytest.mark.parametrize(
    ("text", "removed", "replaced", "assassinated"),
    [
        ("cassandra:0.7.10", "nodetool removetoken X", (None, None), []),
        ("cassandra:1.1.12", "nodetool removetoken X", ("cassandra.replace_token", "token"), []),
        ("cassandra:1.2.19", "nodetool removenode X", ("cassandra.replace_address_first_boot", "address"), []),
        (
            "cassandra:6.0-alpha2",
            "nodetool removenode X",
            ("cassandra.replace_address_first_boot", "address"),
            ["nodetool assassinate X"],
        ),
        ("scylladb:6.2", "nodetool removenode X", ("replace_node_first_boot", "host-id"), []),
    ],
)
def test_dead_nodes_are_removed_and_replaced_in_the_words_of_their_line(text, removed, replaced, assassinated):
    topology = parse_system(text).topology
    assert [str(each) for each in topology.remove("X")] == [removed]
    assert (topology.replace_setting, topology.replaced_by) == replaced
    assert [str(each) for each in topology.assassinate("X")] == assassinated
    assert [str(each) for each in topology.decommission()] == ["nodetool decommission"]


class QuakeDb:
    """A family from outside the tree: a fork of Cassandra 5.0 under its own name."""

    title = "QuakeDB"
    known_versions = ("1.0",)

    def parse(self, text):
        fork = parse_system("cassandra:5.0.9")
        return replace(fork, product="quakedb", version=text.partition(":")[2], features=fork.features - {"views"})


def test_a_product_from_outside_the_tree_needs_no_edit_here(monkeypatch):
    entry = type("Entry", (), {"name": "quakedb", "load": lambda _self: QuakeDb})()
    installed = registry._entries("systems")
    monkeypatch.setattr(registry, "_entries", lambda _kind: {**installed, "quakedb": entry})
    system = parse_system("quakedb:1.0")
    assert (str(system), system.jars) == ("quakedb:1.0", "5.0.9")
    assert system.features == parse_system("cassandra:5.0.9").features - {"views"}
    assert recipe_for(system) == recipe_for(parse_system("cassandra:5.0.9"))
    assert str(copied(system)) == "quakedb:1.0"


def test_a_product_that_nobody_registered_is_refused_with_those_there_are():
    with pytest.raises(PlanError, match='knows the products cassandra and scylladb and simulated, not "quakedb"'):
        parse_system("quakedb:1.0")


def test_commits_are_paused_where_there_is_one_log_of_metadata():
    bean = "org.apache.cassandra.tcm:type=CMSOperations"
    for verb, value in (("pause-commits", "true"), ("resume-commits", "false")):
        (command,) = parse_system("cassandra:6.0-alpha2").topology.commands(verb, None)
        assert str(command) == f"nodetool sjk mx -b {bean} -f CommitsPaused -ms -v {value}"
        assert parse_system("cassandra:5.0.9").topology.commands(verb, None) == ()

"""Recipes: what a version needs to start is data, and a version without any is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemaquake.clusters.systems.configuration import Place, server_folders, yaml
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.server_options import system_properties, yaml_settings
from schemaquake.clusters.systems.system import parse_system, recipe_for, split_system
from schemaquake.harness.errors import PlanError
from schemaquake.harness.registry import load_all


@pytest.mark.parametrize(
    ("text", "version", "line"),
    [
        ("cassandra:5.0.9", "5.0.9", (5, 0)),
        ("cassandra:6.0-alpha2", "6.0-alpha2", (6, 0)),
        ("cassandra:4.1.10", "4.1.10", (4, 1)),
        ("cassandra:3.11.19", "3.11.19", (3, 11)),
        ("cassandra:5.0", "5.0", (5, 0)),
        ("cassandra:5.0-SNAPSHOT+ours", "5.0-SNAPSHOT+ours", (5, 0)),
    ],
)
def test_a_system_is_a_product_and_a_version(text, version, line):
    assert split_system(text) == ("cassandra", version, line)
    system = parse_system(text)
    assert (system.product, system.version, str(system)) == ("cassandra", version, text)


@pytest.mark.parametrize(
    "text", ["", "cassandra", "5.0.9", "cassandra:", "cassandra:5", "cassandra:five", "cassandra: 5.0.9",
             "cassandra:5.0.9\n", "cassandra:5.0/../../etc", "cassandra:5.0.9 --help"],
)  # fmt: skip
def test_what_is_no_system_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"is not a system; write product:version, for example cassandra:5\.0\.9"):
        parse_system(text)


def test_another_product_is_refused_by_name():
    with pytest.raises(PlanError, match='knows the products cassandra and scylladb and simulated, not "riak"'):
        parse_system("riak:2.0")


def test_scylladb_is_not_started_here_and_the_refusal_says_where_it_runs():
    with pytest.raises(PlanError, match=r"it runs on deployed clusters .* image scylladb/scylla:6\.2\.3 "):
        recipe_for(parse_system("scylladb:6.2.3"))


@pytest.mark.parametrize(
    "text", ["scylladb:5.2.19", "scylladb:5.4", "scylladb:6.2", "scylladb:2025.1", "scylladb:2025.1.0-rc1"]
)
def test_what_is_to_be_known_of_scylladb_is_a_line(text):
    system = parse_system(text)
    assert (system.era, system.authority, system.client, system.cql.protocol_version) == ("group0", "group0", "cql", 4)
    assert system.container.image == "scylladb/scylla"
    assert {"types", "views", "indexes", "conditional-writes"} <= system.features


def test_what_scylladb_has_behind_a_switch_is_left_out():
    assert "functions" not in parse_system("scylladb:2025.1").features
    with pytest.raises(PlanError, match=r"nothing is known of scylladb:5\.1\.0; known is ScyllaDB 5\.2 and later"):
        parse_system("scylladb:5.1.0")


@pytest.mark.parametrize(
    ("text", "era", "start"),
    [
        ("cassandra:4.1.0", "system_schema", "together"),
        ("cassandra:5.0.9", "system_schema", "together"),
        ("cassandra:5.1.0", "system_schema", "together"),
        ("cassandra:6.0-alpha2", "tcm", "first-alone"),
        ("cassandra:6.1.0", "tcm", "first-alone"),
    ],
)
def test_a_line_of_releases_has_its_recipe(text, era, start):
    recipe = recipe_for(parse_system(text))
    assert (recipe.era, recipe.start) == (era, start)
    assert ("epochs" in recipe.features) == (era == "tcm")


def test_after_what_time_nodes_that_differ_stay_so_follows_from_their_own_timers():
    """Gossip and retry 6 s, wait for a pull 1 + 1 s, answer 5 s; what the run sets counts, and what is no duration decides nothing."""
    recipe = recipe_for(parse_system("cassandra:5.0.9"))
    assert recipe.quiet({}, {}) == 13
    assert recipe.quiet({"cassandra.migration_delay_ms": "4000"}, {}) == 16
    assert recipe.quiet({}, {"request_timeout": "60s"}) == 68
    assert recipe.quiet({}, {"request_timeout": "1500 ms"}) == 9.5
    assert recipe.quiet({}, {"request_timeout": "a while"}) == 0
    assert recipe_for(parse_system("cassandra:4.0.19")).quiet({}, {}) == 13


@pytest.mark.parametrize("version", ["1.1.12", "3.11.19", "6.0-alpha2"])
def test_of_other_designs_that_time_is_not_known(version):
    assert recipe_for(parse_system(f"cassandra:{version}")).quiet({}, {}) == 0


@pytest.mark.parametrize(
    ("version", "takes_over"), [("1.1.12", False), ("2.1.22", False), ("4.1.10", True), ("6.0-alpha2", True)]
)
def test_late_nodes_take_a_schema_over_where_that_was_seen(version, takes_over):
    assert recipe_for(parse_system(f"cassandra:{version}")).late_nodes_take_over is takes_over


@pytest.mark.parametrize("text", ["cassandra:0.6.13", "cassandra:99.0.0"])
def test_a_line_without_a_recipe_is_told_those_there_are(text):
    with pytest.raises(PlanError) as refused:
        recipe_for(parse_system(text))
    assert str(refused.value).startswith(
        f"no launch recipe for {text}; there are recipes for Cassandra 0.7 to below 0.8, 0.8 to below 1.1, "
    )
    assert str(refused.value).endswith(", 6.0 to below 99.0")


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_an_acknowledged_write_survives_a_kill_by_configuration(version):
    """Otherwise rows lost in a restart would be blamed on the schema."""
    assert recipe_for(parse_system(f"cassandra:{version}")).yaml["commitlog_sync"] == "batch"


@pytest.mark.parametrize(("text", "lacks"), [("cassandra:5.0.9", {"append-accord"}), ("cassandra:6.0-alpha2", set())])
def test_every_workload_we_ship_can_run(text, lacks):
    features = recipe_for(parse_system(text)).features
    assert {name for name, workload in load_all("workloads").items() if workload.requires - features} == lacks


def test_accord_is_switched_on_for_those_who_require_it():
    system = parse_system("cassandra:6.0-alpha2")
    place = Place(address="10.0.0.1", token=0, seeds=["10.0.0.1"], folder=Path("/nodes/n1"))
    usual, asked = recipe_for(system, wanted={"tables"}), recipe_for(system, wanted={"accord", "tables"})
    assert "accord" in usual.features
    assert usual.features == asked.features
    assert "accord" not in yaml(usual, place)
    told = yaml(asked, place)["accord"]
    assert (told["enabled"], told["journal_directory"]) == (True, "/nodes/n1/accord.journal")
    assert told["journal"]["flush_mode"] == "BATCH"
    assert "accord.journal" in server_folders(asked)
    assert "journal_directory" not in asked.yaml["accord"]  # a place must not change the recipe that all nodes share


def test_java_arguments_open_what_the_server_reaches_into():
    arguments = recipe_for(parse_system("cassandra:5.0.9")).jvm.arguments()
    assert arguments[:3] == ["-Xms256m", "-Xmx400m", "-Xss512k"]
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in arguments
    assert "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED" in arguments


def test_a_tool_has_a_heap_of_its_own():
    jvm = recipe_for(parse_system("cassandra:5.0.9")).jvm
    tool = jvm.arguments(heap=["-Xmx128m"])
    assert tool[0] == "-Xmx128m"
    assert tool[1:] == jvm.arguments()[len(jvm.heap) :]


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_options_for_busy_nodes_are_settings_that_the_line_has_already(version):
    """Or the server would pass over them, or not start: each raises a limit that the recipe itself sets."""
    recipe = recipe_for(parse_system(f"cassandra:{version}"))
    assert set(yaml_settings(recipe.when_busy)) <= set(recipe.yaml)
    assert set(system_properties(recipe.when_busy)) <= set(recipe.properties)
    assert bool(recipe.when_busy) == (recipe.client == "cql")


@pytest.mark.parametrize(
    ("version", "given", "seconds"),
    [
        ("5.0.9", {}, 2),
        ("4.1.10", {"cassandra.migration_delay_ms": "4000", "cassandra.schema_pull_interval_ms": "4000"}, 8),
        ("5.0.9", {"cassandra.migration_delay_ms": "60000"}, 61),
        ("3.11.19", {"cassandra.migration_delay_ms": "4000"}, 60),  # a constant of the class
        ("6.0-alpha2", {"cassandra.migration_delay_ms": "4000"}, 0),
    ],
)
def test_checkers_hear_how_long_nodes_wait_before_they_ask_for_a_schema(version, given, seconds):
    assert recipe_for(parse_system(f"cassandra:{version}")).pull_delay(given) == seconds


def test_a_delay_that_is_no_number_is_refused():
    with pytest.raises(PlanError, match="milliseconds"):
        recipe_for(parse_system("cassandra:5.0.9")).pull_delay({"cassandra.migration_delay_ms": "soon"})

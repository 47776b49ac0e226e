"""Recipes: what a version needs to start is data, and a version without any is refused in words."""

from __future__ import annotations

import pytest

from clusters.recipe import System, parse_system, recipe_for
from harness.errors import PlanError
from harness.registry import load_all


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
    system = parse_system(text)
    assert system == System("cassandra", version, line)
    assert str(system) == text


@pytest.mark.parametrize(
    "text", ["", "cassandra", "5.0.9", "cassandra:", "cassandra:5", "cassandra:five", "cassandra: 5.0.9", "Cassandra:5.0",
             "cassandra:5.0.9\n", "cassandra:5.0/../../etc", "cassandra:5.0.9 --help"],
)  # fmt: skip
def test_what_is_no_system_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"is not a system; write product:version, for example cassandra:5\.0\.9"):
        parse_system(text)


def test_another_product_is_refused_by_name():
    with pytest.raises(PlanError, match='starts "cassandra" locally, not "scylladb"'):
        parse_system("scylladb:6.2.0")


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
    assert (recipe.cms is not None) == (era == "tcm")


@pytest.mark.parametrize("text", ["cassandra:3.11.19", "cassandra:4.0.13", "cassandra:99.0.0"])
def test_a_line_without_a_recipe_is_told_those_there_are(text):
    with pytest.raises(PlanError) as refused:
        recipe_for(parse_system(text))
    assert str(refused.value) == (
        f"no launch recipe for {text}; there are recipes for Cassandra 4.1 to below 6.0, 6.0 to below 99.0"
    )


@pytest.mark.parametrize("text", ["cassandra:5.0.9", "cassandra:6.0-alpha2"])
def test_an_acknowledged_write_survives_a_kill_by_configuration(text):
    """Otherwise rows lost in a restart would be blamed on the schema."""
    assert recipe_for(parse_system(text)).yaml["commitlog_sync"] == "batch"


@pytest.mark.parametrize("text", ["cassandra:5.0.9", "cassandra:6.0-alpha2"])
def test_a_skewed_clock_expires_no_message(text):
    assert recipe_for(parse_system(text)).yaml["internode_timeout"] is False


@pytest.mark.parametrize("text", ["cassandra:5.0.9", "cassandra:6.0-alpha2"])
def test_every_workload_we_ship_can_run(text):
    features = recipe_for(parse_system(text)).features
    lacking = {name: workload.requires - features for name, workload in load_all("workloads").items()}
    assert {name: lack for name, lack in lacking.items() if lack} == {}


def test_java_arguments_open_what_the_server_reaches_into():
    arguments = recipe_for(parse_system("cassandra:5.0.9")).java.arguments()
    assert arguments[:3] == ["-Xms256m", "-Xmx400m", "-Xss512k"]
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in arguments
    assert "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED" in arguments


def test_a_tool_has_a_heap_of_its_own():
    java = recipe_for(parse_system("cassandra:5.0.9")).java
    tool = java.arguments(heap=["-Xmx128m"])
    assert tool[0] == "-Xmx128m"
    assert tool[1:] == java.arguments()[len(java.heap) :]

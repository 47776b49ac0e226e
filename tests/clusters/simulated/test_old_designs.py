"""The models of 0.7 to 3.11 break as those servers did (docs/bugs.md), and are silent where nothing races."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import simulate

from schemaquake.clusters.systems.simulated.family import blueprint_of, flaws_of
from schemaquake.harness.errors import PlanError

RACES = {"mode": "partition", "races": "1"}


@pytest.mark.parametrize(
    ("version", "anomalies"),
    [
        ("0.7", {"schema-disagreement", "lost-option"}),
        pytest.param("1.0", {"schema-disagreement"}, marks=pytest.mark.long),
        pytest.param("1.1", {"lost-column"}, marks=pytest.mark.long),
        pytest.param("1.2", {"resurrected-object"}, marks=pytest.mark.long),
        pytest.param("2.2", {"unreadable-table"}, marks=pytest.mark.long),
        pytest.param("3.11", {"dangling-type", "node-will-not-start", "headless-table"}, marks=pytest.mark.long),
    ],
)
def test_races_across_a_cut_break_what_they_broke_on_the_servers(tmp_path, version, anomalies):
    run = simulate(tmp_path, "racing-ddl", system=f"simulated:cassandra-{version}", seed=1, options=RACES)
    assert anomalies <= run.types.keys()


@pytest.mark.parametrize(
    "version", ["1.1", *(pytest.param(v, marks=pytest.mark.long) for v in ("0.7", "1.0", "2.2", "3.11"))]
)
def test_the_same_statements_one_after_another_break_nothing(tmp_path, version):
    options = {"mode": "single", "races": "1"}
    run = simulate(tmp_path, "racing-ddl", system=f"simulated:cassandra-{version}", seed=1, options=options)
    assert (run.verdict.valid, dict(run.types)) == (True, {})


def test_migrations_are_told_from_memory(tmp_path):
    run = simulate(tmp_path, "create-table", system="simulated:cassandra-0.7", seed=1, options={"races": "1"})
    lines = (run.folder / "journals" / "observations-observer.jsonl").read_text().splitlines()
    rows = [orjson.loads(line) for line in lines]
    versions = [orjson.loads(row["definition"]) for row in rows if row["kind"] == "version" and row["definition"]]
    assert {version["told_from"] for version in versions} == {"memory"}
    tables = [row for row in rows if row["kind"] == "table" and row["definition"]]
    assert all(int(row["id"], 16) >= 1000 for row in tables)
    assert not [row for row in rows if row["kind"] == "live"]


@pytest.mark.long
@pytest.mark.parametrize("step", ["a1", "a2", "a3", "a4", "a5", "a6"])
@pytest.mark.parametrize(("flaw", "breaks"), [("none", ""), ("marker-in-log", "a5")])
def test_a_node_that_is_killed_in_a_migration_starts_but_for_one_step_of_the_seed(tmp_path, step, flaw, breaks):
    options = {"bugs": flaw, "kill.at": f"0.7/apply/{step}@{2 if step == 'a1' else 10}"}
    run = simulate(
        tmp_path,
        "schema-churn",
        system="simulated:cassandra-0.7",
        seed=1,
        options=options,
        rate=20,
        time_limit_s=20,
    )
    assert set(run.types) == ({"node-will-not-start"} if step == breaks else set())


def test_a_flaw_that_a_model_cannot_have_is_refused():
    with pytest.raises(
        PlanError, match=r"cannot have .* --system: simulated:cassandra-1\.1, .*simulated:cassandra-5\.0\. "
    ):
        flaws_of(blueprint_of("simulated:cassandra-0.7"), {"bug": "type-race"})

"""Lying clusters: what no order of the changes explains is never valid, and what an unknown outcome allows is never invalid."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from histories import judged as records_of
from lying_clusters import KINDS, LAWFUL, Plant, drawn_plan, is_lawful, plants_of, told
from lying_sweep import SYSTEMS, judged

from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Schema
from schemaquake.harness.model.operation import NEMESIS

SEEDS = {"simulated:cassandra-5.0": 3, "simulated:cassandra-6.0": 6, "simulated:scylladb-6.2": 5}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_sample_of_lies_of_whole_clusters_is_judged_by_what_is_lawful(system: str) -> None:
    found = list(judged(SEEDS[system], system, 5))
    assert [one for one in found if one.wrong] == []
    assert len(found) > 3
    assert found[0].valid is True


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("first", range(1000, 1040, 10))
def test_lies_of_whole_clusters_are_judged_by_what_is_lawful(system: str, first: int) -> None:
    found = [one for seed in range(first, first + 10) for one in judged(seed, system, 8)]
    assert [one for one in found if one.wrong] == []
    assert sum(one.lawful is False for one in found) > len(found) / 4


# ── the lies themselves ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [*KINDS, *LAWFUL])
def test_a_cluster_does_lie_so(kind: str) -> None:
    """The seventh change is an acknowledged one of a run without faults, which nothing undoes."""
    plan = drawn_plan(2, "simulated:cassandra-6.0")
    clean = told(plan)
    number = next(n for n, asked in enumerate(clean.asked) if asked.f == "create-table")
    lie = told(plan, Plant(kind, number))
    assert clean.lawful is True
    if kind in LAWFUL:
        assert lie.lawful is True
        assert "info" in outcomes_of(lie.records.history)
    elif kind not in {"acknowledged", "late"}:  # this one was not refused, and three seconds later it is made as well
        assert lie.lawful is False


def outcomes_of(history: pa.Table) -> Sequence[str]:
    return [e["type"] for e in history.to_pylist() if e["process"] != NEMESIS and e["f"] == "create-table"]


def test_plants_are_drawn_of_every_kind_by_the_seed() -> None:
    asked = told(drawn_plan(2, "simulated:cassandra-6.0")).asked
    plants = plants_of(asked, 1, 26)
    assert {plant.kind for plant in plants} == {*KINDS, *LAWFUL}
    assert plants == plants_of(asked, 1, 26)
    assert plants != plants_of(asked, 2, 26)


# ── what is lawful ───────────────────────────────────────────────────────────────────────────────────────────────────

BEGUN = ("@1 p0 n1 invoke create-keyspace k", "@2 p0 n1 ok", "@3 p0 n1 invoke create-table k.t a:int*", "@4 p0 n1 ok")


def after(*changes: tuple[str, dict[str, object]]) -> Schema:
    schema: Schema = {}
    for f, value in changes:
        schema = carry_out(schema, f, {"keyspace": "k", **value}, Making(lambda *_: "0" * 32, 0))
    return schema


@pytest.mark.parametrize(
    ("history", "with_column", "without"),
    [
        pytest.param(("@5 p0 n1 invoke add-column k.t b:int", "@6 p0 n1 ok"), True, False, id="acknowledged"),
        pytest.param(("@5 p0 n1 invoke add-column k.t b:int", "@6 p0 n1 fail"), False, True, id="refused"),
        pytest.param(("@5 p0 n1 invoke add-column k.t b:int", "@6 p0 n1 info"), True, True, id="unknown"),
        pytest.param(("@5 p0 n1 invoke add-column k.t b:int",), True, True, id="never answered"),
        pytest.param(
            (
                "@5 p0 n1 invoke add-column k.t b:int",
                "@6 p1 n2 invoke drop-column k.t b",
                "@7 p1 n2 info",
                "@8 p0 n1 ok",
            ),
            True,
            False,
            id="dropped at an unknown time, which is remembered",
        ),
    ],
)  # fmt: skip
def test_what_is_lawful(history: Sequence[str], *, with_column: bool, without: bool) -> None:
    records = records_of([*BEGUN, *history])
    replication = {"class": "SimpleStrategy", "replication_factor": 3}
    base = (
        ("create-keyspace", {"replication": replication}),
        ("create-table", {"name": "t", "columns": [["a", "int", "partition_key"]]}),
    )
    ends = after(*base, ("add-column", {"name": "t", "column": ["b", "int"]})), after(*base)
    found = tuple(is_lawful(records, [end]) for end in ends)
    assert found == (with_column, without)

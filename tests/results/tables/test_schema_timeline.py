from __future__ import annotations

from typing import Any

import pyarrow as pa
from small_runs import NODES, small_run

from schemaquake.harness.model.records import OBSERVATIONS
from schemaquake.results.tables.schema_timeline import SCHEMA_TIMELINE, tabulate_schema_timeline


def observed(*rows: dict[str, Any]) -> pa.Table:
    complete = [dict.fromkeys(OBSERVATIONS.names) | row for row in rows]
    return pa.Table.from_pylist(complete, schema=OBSERVATIONS)


def version(
    time: int, identity: str, *, epoch: int | None = None, phase: str = "running", node: str = "n1"
) -> dict[str, Any]:
    definition = f'{{"epoch": {"null" if epoch is None else epoch}}}'
    return {
        "time": time,
        "phase": phase,
        "node": node,
        "sample": time,
        "kind": "version",
        "id": identity,
        "definition": definition,
    }


def table(
    time: int,
    identity: str | None,
    definition: str | None = "{}",
    *,
    phase: str = "running",
    node: str = "n1",
    name: str = "t",
) -> dict[str, Any]:
    return {"time": time, "phase": phase, "node": node, "sample": time, "kind": "table", "keyspace": "ks", "name": name, "id": identity, "definition": definition}  # fmt: skip


def changes(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = tabulate_schema_timeline(observed(*rows)).to_pylist()
    return [(row["time"], row["kind"], row["name"], row["id"], row["version"], row["present"]) for row in found]


def test_a_version_that_stays_is_one_row():
    assert changes(version(1, "v"), version(2, "v"), version(3, "w")) == [
        (1, "version", None, None, "v", True),
        (3, "version", None, None, "w", True),
    ]


def test_a_new_epoch_under_an_old_version_is_a_row():
    rows = tabulate_schema_timeline(observed(version(1, "v", epoch=1), version(2, "v", epoch=2))).to_pylist()
    assert [row["epoch"] for row in rows] == [1, 2]


def test_an_object_has_a_row_whenever_its_form_changes_and_the_version_it_had_then():
    assert changes(
        version(1, "v"), table(1, "aa"), version(2, "w"), table(2, "aa"), version(3, "x"), table(3, "bb"), table(4, "bb", '{"c":1}')
    )[1:] == [
        (1, "table", "t", "aa", "v", True),
        (2, "version", None, None, "w", True),
        (3, "version", None, None, "x", True),
        (3, "table", "t", "bb", "x", True),
        (4, "table", "t", "bb", "x", True),
    ]  # fmt: skip


def test_an_object_that_is_told_gone_is_gone_once():
    assert changes(table(1, "aa"), table(2, None, None), table(3, None, None)) == [
        (1, "table", "t", "aa", None, True),
        (2, "table", "t", None, None, False),
    ]


def test_what_a_final_reading_lacks_is_gone():
    assert changes(
        table(1, "aa", name="t"), table(1, "bb", name="u"), version(5, "v", phase="settled"), table(5, "bb", name="u", phase="settled")
    )[2:] == [
        (5, "version", None, None, "v", True),
        (5, "table", "t", None, "v", False),
    ]  # fmt: skip


def test_a_reading_that_failed_takes_nothing_away():
    failed = version(5, "v", phase="settled") | {"error": "NoHostAvailable", "id": None}
    assert changes(table(1, "aa"), failed) == [(1, "table", "t", "aa", None, True)]


def test_directories_on_disk_are_no_reading_of_the_schema():
    directory = table(5, "aa", phase="settled") | {"kind": "data-directory", "sample": 0}
    assert changes(table(1, "aa"), directory) == [(1, "table", "t", "aa", None, True)]


def test_nodes_apart_give_the_rows_of_the_run():
    observations = small_run(4).observations
    apart = [
        tabulate_schema_timeline(
            observations.filter(pa.array([one == node for one in observations["node"].to_pylist()]))
        )
        for node in NODES
    ]
    whole = tabulate_schema_timeline(observations)
    assert whole.schema.equals(SCHEMA_TIMELINE)
    assert pa.concat_tables(apart).equals(whole)
    assert not all(whole["present"].to_pylist())

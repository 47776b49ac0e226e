"""Which race broke: one rule, by the anomaly's scope, its objects, its operations, and what no race owns."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.tables.attribution import Attribution, Ground, attribute, attribute_all, read_ground

GROUND = Ground(races={"sq_0": {}, "sq_1": {}}, canaries=frozenset({"sq_canary"}))
EARLY = Ground(races=GROUND.races, ended_early=True)


def anomaly(kind: str, *objects: str, ops: tuple[int, ...] = ()) -> Anomaly:
    return Anomaly(type=kind, title="", objects=objects, ops=ops)


@pytest.mark.parametrize(
    ("found", "ground", "races", "at_large"),
    [
        (anomaly("lost-rows", "sq_1.t"), GROUND, ("sq_1",), False),
        (anomaly("lost-rows", "sq_1.t", "sq_0"), GROUND, ("sq_1", "sq_0"), False),
        (anomaly("node-will-not-start", "sq_0.u"), GROUND, ("sq_0",), True),
        (anomaly("node-will-not-start"), GROUND, (), True),
        (anomaly("schema-disagreement", "sq_0.t"), GROUND, (), True),
        (anomaly("schema-disagreement", "sq_canary.t"), GROUND, (), True),
        (anomaly("lost-rows", "sq_canary.t"), GROUND, ("sq_1",), True),
        (anomaly("lost-rows", "sq_canary.t", "sq_0.t"), GROUND, ("sq_0",), False),
        (anomaly("lost-rows", "elsewhere.t"), GROUND, (), True),
        (anomaly("lost-rows", "sq_2.t"), EARLY, ("sq_1",), True),
        (anomaly("schema-disagreement"), EARLY, (), True),
        (anomaly("lost-rows"), EARLY, (), True),
        (anomaly("lost-rows", "sq_0.t"), Ground(), (), True),
        (anomaly("lost-rows", "sq_0.t"), Ground(ended_early=True), (), True),
        (anomaly("lost-rows", "sq_10.t"), GROUND, (), True),
        (anomaly("not-in-the-catalogue", "sq_0"), GROUND, ("sq_0",), False),
    ],
    ids=[
        "of one race", "of two races", "a node that names a race", "a node that names none", "of the cluster",
        "of the cluster, naming a canary", "of a canary", "of a canary and a race", "of a foreign keyspace",
        "of a race that never began", "of the cluster, ended early", "of nothing, ended early", "without races",
        "without races, ended early", "of a keyspace whose name only begins like a race's", "of an unknown type",
    ],
)  # fmt: skip
def test_an_anomaly_is_attributed_by_its_scope_and_its_keyspaces(
    found: Anomaly, ground: Ground, races: tuple[str, ...], at_large: bool
) -> None:
    assert attribute(found, ground) == Attribution(races, at_large)


def test_operations_decide_only_where_no_object_is_named() -> None:
    rows = [
        dict.fromkeys(OPERATIONS.names)
        | {"index": 10, "completion": 11, "process": 0, "type": "ok", "f": "f", "invoked": 0, "key": "sq_1.t"}
    ]
    operations = pa.Table.from_pylist(rows, schema=OPERATIONS)
    several = [anomaly("x", ops=(11,)), anomaly("x", "sq_0.t", ops=(10,)), anomaly("x", ops=(12,))]
    found = attribute_all(several, GROUND, operations)
    assert [one.races for one in found] == [("sq_1",), ("sq_0",), ()]


def notes(*events: tuple[str, str | None, dict[str, Any]]) -> pa.Table:
    rows = [
        dict.fromkeys(HISTORY.names)
        | {"index": n, "time": n, "process": -1, "type": "info", "f": f, "key": key, "value": orjson.dumps(value).decode()}
        for n, (f, key, value) in enumerate(events)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=HISTORY)


def test_the_ground_is_read_from_the_notes() -> None:
    ground = read_ground(
        notes(
            ("race", "sq_1", {"canary": "sq_canary.a"}),
            ("race", None, {"keyspace": "sq_0"}),
            ("race", "sq_1", {}),
            ("phase-ended-early", None, {"phase": "final"}),
        )
    )
    assert list(ground.races) == ["sq_1", "sq_0"]
    assert (ground.canaries, ground.ended_early) == ({"sq_canary"}, False)
    assert read_ground(notes(("phase-ended-early", None, {"phase": "main"}))).ended_early


def test_a_race_is_a_note_and_no_operation() -> None:
    operation = dict.fromkeys(HISTORY.names) | {
        "index": 0, "time": 0, "process": 0, "type": "invoke", "f": "race", "key": "sq_0", "value": "{}",
    }  # fmt: skip
    assert read_ground(pa.Table.from_pylist([operation], schema=HISTORY)) == Ground()

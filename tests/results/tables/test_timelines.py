from __future__ import annotations

import pyarrow as pa
import pytest
from small_runs import small_run

from schemaquake.harness.history.pairing import OPERATIONS, pair
from schemaquake.results.tables.timelines import TIMELINES, tabulate_timelines


def test_an_object_has_its_operations_in_order_and_how_they_ended():
    operations = pair(small_run(3).history)
    table = tabulate_timelines(operations)
    assert table.schema.equals(TIMELINES)
    keys = table["key"].to_pylist()
    assert keys == sorted({key for key in operations["key"].to_pylist() if key is not None})
    for row in table.to_pylist():
        own = [operation for operation in operations.to_pylist() if operation["key"] == row["key"]]
        assert [one["index"] for one in row["operations"]] == [one["index"] for one in own]
        assert row["operations"] == [{name: one[name] for name in row["operations"][0]} for one in own]
        assert (row["ok"], row["fail"], row["info"]) == tuple(
            sum(one["type"] == outcome for one in own) for outcome in ("ok", "fail", "info")
        )
        assert row["keyspace"] == row["key"].split(".")[0]


def test_operations_of_the_run_as_a_whole_are_in_no_timeline():
    row = dict.fromkeys(OPERATIONS.names) | {"index": 0, "process": 0, "type": "ok", "f": "read-schema", "invoked": 1}
    assert tabulate_timelines(pa.Table.from_pylist([row], schema=OPERATIONS)).equals(TIMELINES.empty_table())


@pytest.mark.parametrize("seed", range(5))
def test_keyspaces_apart_give_the_rows_of_the_run(seed):
    operations = pair(small_run(seed).history)
    apart = []
    for keyspace in sorted({key.split(".")[0] for key in operations["key"].to_pylist() if key}):
        mine = [(key or "").split(".")[0] == keyspace for key in operations["key"].to_pylist()]
        apart.append(tabulate_timelines(operations.filter(pa.array(mine))))
    assert pa.concat_tables(apart).equals(tabulate_timelines(operations))

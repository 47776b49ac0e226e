"""A real node of 0.7 killed in the middle of schema changes: the table that the command makes of it."""

from __future__ import annotations

import orjson
import pytest
from test_racing_ddl_on_real_clusters import schemaquake

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_a_node_killed_at_every_step_starts_and_has_what_its_remains_say(tmp_path):
    document = schemaquake("crash-table", "--system", "cassandra:0.7.10", "--tries", "8", runs=tmp_path, expected=0)
    tries = document["tries"]
    assert [told["kind"] for told in tries] == ["create-table", "drop-table"] * 8
    assert len({told["died_after"] for told in tries}) >= 2, "a sweep meets more than one step"
    for told in tries:
        if told["started"]:
            assert told["changes_again"]
            assert told["applied"] is (told["died_after"] not in {"1", "2", "3"})
            assert any("Loading schema version" in line for line in told["log"])
    for row in document["rows"]:
        assert sum(row["happened"].values()) == row["tries"]
    (folder,) = tmp_path.glob("*-crash-table-*")
    assert orjson.loads((folder / "crash-table.json").read_bytes())["rows"] == document["rows"]
    assert (folder / "crash-table.md").read_text().count("\n| ") == 1 + len(document["rows"])

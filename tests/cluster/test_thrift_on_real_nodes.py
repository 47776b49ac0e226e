"""Real nodes of 0.7 to 1.1: every change and row of the interface, and what a disagreement proves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from places import SUPPORT

from schemaquake.clusters.local.provider import LocalProvider

pytestmark = pytest.mark.cluster

INSIDE = str(SUPPORT / "inside_thrift.py")
VERSIONS = ["1.1.12", *(pytest.param(v, marks=pytest.mark.long) for v in ("0.7.10", "0.8.10", "1.0.12", "1.1.0"))]


def told(prepared, version, scenario):
    folder = prepared(system=f"cassandra:{version}", nodes=3)
    ran = subprocess.run(
        [*LocalProvider().enclosure(folder), sys.executable, INSIDE, scenario, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_that_the_interface_knows_is_done_and_shown_alike_by_all_nodes(prepared, version):
    found = told(prepared, version, "everyday")
    *accepted, again = found["changes"]
    assert [change for change in accepted if change[1] != "ok"] == []
    assert again[1] == "fail"
    assert found["rows"] == {
        "n1": "ok",
        "n2": "ok",
        "n3": "ok",
        "removed": "ok",
        "read through n2": found["rows"]["read through n2"],
        "read through n3": [{"k": 1, "v": "one", "c": 5}],
        "nowhere": ["fail", found["rows"]["nowhere"][1]],
    }
    assert sorted(found["rows"]["read through n2"], key=lambda row: row["k"]) == [
        {"k": -7, "v": "ä", "c": None},
        {"k": 1, "v": "one", "c": 5},
    ]
    assert "unconfigured columnfamily nowhere" in found["rows"]["nowhere"][1]
    first, *others = found["observed"].values()
    assert all(other == first for other in others)
    table_id, table = first["table sq.t"]
    assert int(table_id, 16) >= 1000
    assert set(table["columns"]) == {"k", "v", "c"}
    assert table["columns"]["v"]["type"] == "text"
    assert {column["type"] for name, column in table["columns"].items() if name in "kc"} == {"int"}
    assert table["indexes"] == {"i": {"kind": "KEYS", "target": "v"}}
    wanted = {"comment": "first", "gc_grace_seconds": 3600, "read_repair_chance": 0.5}
    assert wanted.items() <= table["options"].items()
    _, keyspace = first["keyspace sq.None"]
    assert keyspace["replication"]["replication_factor"] == "3"
    assert "table sq.gone" not in first
    if version.startswith("1.1"):
        assert "(k int, c int, v text, PRIMARY KEY (k))" in first["live sq.t"][1]["statement"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_refused_for_a_disagreement_was_applied_nowhere(prepared, version):
    found = told(prepared, version, "disagreement")
    assert found["error"] is not None, "no disagreement was met"
    assert found["type"] == "fail"
    if version.startswith("0.7"):
        assert found["error"].startswith(
            "InvalidRequestException: system_update_column_family: Cluster schema does not"
        )
    else:
        assert found["error"] == "SchemaDisagreementException: system_update_column_family"
    assert f"round {found['round']}" not in found["comments"].values()

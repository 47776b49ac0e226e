"""Systems: what is known of each version before it is fetched."""

from __future__ import annotations

from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.system import known_scylladb, known_systems


def test_every_known_version_has_a_row():
    assert [name.removeprefix("cassandra:") for name in known_systems()] == list(KNOWN_VERSIONS)


def test_a_row_tells_era_client_java_memory_and_features():
    rows = known_systems()
    oldest, newest = rows["cassandra:0.7.10"], rows["cassandra:6.0-alpha2"]
    assert (oldest["era"], oldest["client"], oldest["java"]) == ("migrations", "Thrift", "17")
    assert (newest["era"], newest["client"], newest["java"]) == ("tcm", "CQL v4", "17 to 21")
    assert rows["cassandra:1.2.19"]["client"] == "CQL v1"
    assert oldest["MB a node"] < newest["MB a node"]
    assert "types" not in str(oldest["features"]).split()
    assert {"types", "functions", "views", "epochs"} <= set(str(newest["features"]).split())


def test_eras_come_in_the_order_of_versions():
    eras = list(dict.fromkeys(row["era"] for row in known_systems().values()))
    assert eras == ["migrations", "merged-rows", "schema-tables", "system_schema", "tcm"]


def test_scylladb_has_a_row_a_line_with_the_same_columns():
    rows = known_scylladb()
    assert list(rows) == [
        "scylladb:5.2",
        "scylladb:5.4",
        "scylladb:6.0",
        "scylladb:6.1",
        "scylladb:6.2",
        "scylladb:2025.1",
    ]
    assert {row["era"] for row in rows.values()} == {"group0"}
    assert {tuple(row) for row in rows.values()} == {tuple(row) for row in known_systems().values()}

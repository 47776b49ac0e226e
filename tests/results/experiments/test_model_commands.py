"""What the commands of models print while they work, and how their tables are read."""

from __future__ import annotations

import orjson
from command import schemaquake


def test_a_line_for_each_layout_comes_before_its_rings_are_walked() -> None:
    finished = schemaquake("placements", "--layout", "simple", "--layout", "racks", "--joins", "1")
    assert finished.stderr.splitlines() == ["simple: 30 histories of 1 join", "racks: 30 histories of 1 join"]
    rows = [line.split("│") for line in finished.stdout.splitlines() if line.startswith("│ ")]
    assert {row[8].strip() for row in rows} == {"none"}


def test_the_columns_of_quorums_are_explained() -> None:
    printed = " ".join(schemaquake("quorums", "--replicas", "1").stdout.split())
    assert "R0W3: a read in epoch 0 and a write in epoch 3 of the change." in printed


def test_a_scope_that_is_named_says_that_it_begins_and_only_bad_orders_have_reasons() -> None:
    finished = schemaquake(
        "explore", "--scope", "create-create", "--system", "simulated:cassandra-6.0", "--most", "300", expected=(2,)
    )
    assert finished.stderr == "create-create on simulated:cassandra-6.0: up to 300 orders for each order of clocks\n"
    (ends,) = finished.stdout.splitlines()
    assert "orders are bad; not complete" in ends


def test_a_table_is_on_standard_output_unless_a_document_is_there() -> None:
    plain = schemaquake("quorums", "--replicas", "1")
    assert ("no node in common" in plain.stdout, plain.stderr) == (True, "")
    with_document = schemaquake("quorums", "--replicas", "1", "--json")
    assert orjson.loads(with_document.stdout)["rule"] == "majority"
    assert "no node in common" in with_document.stderr

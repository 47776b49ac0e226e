"""What the commands of models print while they work, and how their tables are read."""

from __future__ import annotations

from command import schemaquake


def test_a_line_for_each_layout_comes_before_its_rings_are_walked() -> None:
    lines = schemaquake("placements", "--layout", "simple", "--layout", "racks", "--joins", "1").stderr.splitlines()
    assert lines[:2] == ["simple: 30 histories of 1 join", "racks: 30 histories of 1 join"]
    rows = [line.split("│") for line in lines if line.startswith("│ ")]
    assert {row[8].strip() for row in rows} == {"none"}


def test_the_columns_of_quorums_are_explained() -> None:
    printed = " ".join(schemaquake("quorums", "--replicas", "1").stderr.split())
    assert "R0W3: a read in epoch 0 and a write in epoch 3 of the change." in printed


def test_a_scope_that_is_named_says_that_it_begins_and_only_bad_orders_have_reasons() -> None:
    begins, ends = schemaquake(
        "explore", "--scope", "create-create", "--system", "simulated:cassandra-6.0", "--most", "300", expected=(2,)
    ).stderr.splitlines()
    assert begins == "create-create on simulated:cassandra-6.0: up to 300 orders for each order of clocks"
    assert "orders are bad; not complete" in ends

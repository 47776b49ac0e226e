"""What a node's memory says of an object, against the copy of it on the node's disk."""

from __future__ import annotations

import json

import pytest
from histories import observed

from schemaquake.checkers.evidence.authority import describe_difference
from schemaquake.checkers.evidence.node_schemas import read_final_schemas
from schemaquake.checkers.evidence.statements import parse_statement

ID = "5a1c395eb41f11e59f22ba0be0483c18"
WITH_ID = "CREATE TABLE k.t (a int PRIMARY KEY) WITH ID = {}"
TABLE = f"table k.t id={ID} a:int*"
COLUMNS = {
    name: {"type": "int", "kind": kind, "position": position, "order": order}
    for name, kind, position, order in (
        ("a", "partition_key", 0, None),
        ("b", "clustering", 0, "desc"),
        ("c", "clustering", 1, "asc"),
        ("d", "regular", -1, None),
    )
}
ORDERED = f"table k.t id={ID} {json.dumps({'columns': COLUMNS})}"
ORDER = "CREATE TABLE k.t (a int, b int, c int, d int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (b {}, c {})"
INDEXED = f'table k.t id={ID} a:int* c:int {{"indexes": {{"i": {{"target": "c"}}, "j": {{"target": "a"}}}}}}'
WHERE = '{"base_table_name": "t", "options": {"where_clause": "a IS NOT NULL AND b IS NOT NULL"}}'
VIEW = f"view k.m id={ID} b:int* a:int+ {WHERE}"
SELECT = "CREATE MATERIALIZED VIEW k.m AS SELECT {} FROM k.{} WHERE {} PRIMARY KEY (b, a)"


@pytest.mark.parametrize(
    ("row", "statement", "difference"),
    [
        (TABLE, "CREATE TABLE k.t (a int PRIMARY KEY)", None),
        (TABLE, "CREATE TABLE t (a int PRIMARY KEY)", None),
        (TABLE, "CREATE TABLE k.s (a int PRIMARY KEY)", "is described under the name k.s"),
        (TABLE, "CREATE TABLE k.u (a int PRIMARY KEY)", "is described under the name k.u"),
        (TABLE, "CREATE TABLE j.t (a int PRIMARY KEY)", "is described under the name j.t"),
        (TABLE, "CREATE TABLE l.t (a int PRIMARY KEY)", "is described under the name l.t"),
        (TABLE, WITH_ID.format("5a1c395e-b41f-11e5-9f22-ba0be0483c18"), None),
        (TABLE, WITH_ID.format("5a1c395e-b41f-11e5-9f22-ba0be0483c17"), f"has the id {ID}"),
        (TABLE, WITH_ID.format("5a1c395e-b41f-11e5-9f22-ba0be0483c19"), f"has the id {ID}"),
        (TABLE.replace(ID, f"{7:032x}"), WITH_ID.format(7), None),
        (TABLE.replace(ID, f"{7:032x}"), WITH_ID.format(8), f"has the id {7:032x}"),
        (TABLE.replace(f"id={ID} ", "") + ' {"options": {"comment": ""}}', WITH_ID.format(7), None),
        (ORDERED, ORDER.format("DESC", "ASC"), None),
        (ORDERED, ORDER.format("ASC", "ASC"), "has another order of b"),
        (ORDERED, ORDER.format("DESC", "DESC"), "has another order of c"),
        (ORDERED, ORDER.format("DESC", "ASC").partition(" WITH")[0], None),
        (INDEXED, "CREATE INDEX i ON k.t (c)", None),
        (INDEXED, 'CREATE INDEX i ON k.t ( "c" )', None),
        (INDEXED, "CREATE INDEX i ON k.t (b)", "is on c"),
        (INDEXED, "CREATE INDEX i ON k.t (d)", "is on c"),
        (INDEXED, "CREATE INDEX j ON k.t (a)", None),
        (INDEXED, "CREATE INDEX i ON k.s (c)", "is on t"),
        (INDEXED, "CREATE INDEX i ON k.u (c)", "is on t"),
        (VIEW, SELECT.format("*", "t", "a IS NOT NULL AND b IS NOT NULL"), None),
        (VIEW, SELECT.format("*", "t", 'b IS NOT NULL AND "a"  IS NOT NULL'), None),
        (VIEW, SELECT.format("*", "t", "a IS NOT NULL AND b > 1"), "has another condition"),
        (VIEW.replace("b IS NOT NULL", "b IN (1, 2)"), SELECT.format("*", "t", "b IN (1,2) AND a IS NOT NULL"), None),
        (VIEW, SELECT.format("*", "t", "a IS NOT NULL AND b IS NOT NULL") + " WITH comment = 'x'", None),
        (
            VIEW.replace('{"where', '{"comment": "y", "where'),
            SELECT.format("*", "t", "a IS NOT NULL AND b IS NOT NULL") + " WITH comment = 'x'",
            "has another value of comment",
        ),
        (VIEW, SELECT.format("*", "t", "a IS NOT NULL AND z IS NOT NULL"), "has another condition"),
        (VIEW.replace(' "options"', ' "other"'), SELECT.format("*", "t", "z IS NOT NULL"), None),
        (VIEW, SELECT.format("*", "s", "a IS NOT NULL AND b IS NOT NULL"), "is a view of t"),
        (VIEW, SELECT.format("*", "u", "a IS NOT NULL AND b IS NOT NULL"), "is a view of t"),
    ],
)
def test_a_copy_is_compared_with_what_memory_says(row: str, statement: str, difference: str | None) -> None:
    (schema,) = read_final_schemas(observed("settled n1 keyspace k", f"settled n1 {row}")).schemas
    kind = "index" if "INDEX" in statement else row.split(" ", 1)[0]
    parsed = parse_statement(kind, statement)
    assert parsed is not None
    name = parsed.name if kind == "index" else row.split(" ", 2)[1].removeprefix("k.")
    found = describe_difference((kind, "k", name), schema, parsed)
    assert (None if found is None else found[0]) == difference

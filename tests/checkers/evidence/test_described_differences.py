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
UNORDERED = ORDERED.replace('"order": "asc"', '"order": null')
COMPRESSED = TABLE + ' {"options": {"compression": {"class": "LZ4"}}}'
LEVELLED = COMPRESSED.replace('"LZ4"', '"LZ4", "level": "3"')
COMPRESSION = "CREATE TABLE k.t (a int PRIMARY KEY) WITH compression = {'class': 'LZ4'}"
ROUTINE = 'function k.f {"arguments": [["s", "varchar"]], "returns": "varchar", "body": "return 1;"}'
CREATE_FUNCTION = "CREATE FUNCTION k.f({}) CALLED ON NULL INPUT RETURNS {} LANGUAGE java AS $$return {};$$"
AGGREGATE = (
    'aggregate k.g {"arguments": ["varchar"], "state_function": "k.f(text, text)", "state_type": "varchar", '
    '"final_function": "\\"h\\""}'
)
CREATE_AGGREGATE = "CREATE AGGREGATE k.g({}) SFUNC {} STYPE {} FINALFUNC {}"
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
        (UNORDERED, ORDER.format("DESC", "ASC"), "has another order of c"),
        (TABLE.replace("a:int*", "a:int* b:int*"), "CREATE TABLE k.t (a int, b int, PRIMARY KEY ((a, b)))", None),
        (
            TABLE.replace("a:int*", "a:int* b:int*"),
            "CREATE TABLE k.t (a int, b int, PRIMARY KEY ((b, a)))",
            "has another definition of column a and has another definition of column b",
        ),
        (COMPRESSED, COMPRESSION, None),
        (LEVELLED, COMPRESSION, "has another value of compression"),
        (COMPRESSED.replace("LZ4", "Zstd"), COMPRESSION, "has another value of compression"),
        (ROUTINE, CREATE_FUNCTION.format("s text", "text", 1), None),
        (ROUTINE, CREATE_FUNCTION.format("s int", "text", 1), "has another value of arguments"),
        (ROUTINE, CREATE_FUNCTION.format("", "text", 1), "has another value of arguments"),
        (ROUTINE, CREATE_FUNCTION.format("s text", "int", 1), "has another value of returns"),
        (ROUTINE, CREATE_FUNCTION.format("s text", "int", 2), "has another value of body and returns"),
        (AGGREGATE, CREATE_AGGREGATE.format("text", "f", "text", "h"), None),
        (AGGREGATE, CREATE_AGGREGATE.format("int", "f", "text", "h"), "has another value of arguments"),
        (AGGREGATE, CREATE_AGGREGATE.format("text", "g", "text", "h"), "has another value of state_function"),
        (AGGREGATE, CREATE_AGGREGATE.format("text", "f", "int", "h"), "has another value of state_type"),
        (AGGREGATE, CREATE_AGGREGATE.format("text", "f", "text", "g"), "has another value of final_function"),
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


@pytest.mark.parametrize(
    ("row", "statement", "parts"),
    [
        (LEVELLED, COMPRESSION, (("option", "compression"),)),
        (ROUTINE, CREATE_FUNCTION.format("s text", "int", 2), (("routine", ""), ("routine", ""))),
        (
            'keyspace k {"durable_writes": true}',
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = false",
            (("replication", ""),),
        ),
        (TABLE, "CREATE TABLE k.t (a int PRIMARY KEY, b int)", (("column", "b"),)),
        ("type k.u f0:int f1:int", "CREATE TYPE k.u (f0 text)", (("field", "f1"), ("field", "f0"))),
    ],
)
def test_the_parts_that_differ_are_those_that_a_change_can_set(
    row: str, statement: str, parts: tuple[tuple[str, str], ...]
) -> None:
    (schema,) = read_final_schemas(observed("settled n1 keyspace k", f"settled n1 {row}")).schemas
    kind, key = row.split(" ", 2)[:2]
    parsed = parse_statement(kind, statement)
    assert parsed is not None
    found = describe_difference((kind, "k", key.removeprefix("k").removeprefix(".")), schema, parsed)
    assert found is not None
    assert found[1] == parts

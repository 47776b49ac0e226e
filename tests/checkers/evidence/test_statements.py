"""Statements of DESCRIBE, parsed into the vocabulary of observations."""

import pytest

from schemaquake.checkers.evidence.statements import parse_statement

TABLE = """CREATE TABLE k.t (
    a int,
    "B" frozen<list<text>>,
    c map<text, int>,
    s text static,
    v text MASKED WITH system.mask_null(),
    PRIMARY KEY ((a, "B"), c)
) WITH CLUSTERING ORDER BY (c DESC)
    AND comment = 'it''s; a (b)'
    AND crc_check_chance = 1.0
    AND cdc = false
    AND gc_grace_seconds = 864000
    AND compaction = {'class': 'X', 'n': '4'}
    AND extensions = {};"""


def test_a_table_has_its_columns_key_and_options():
    parsed = parse_statement("table", TABLE)
    assert (parsed.keyspace, parsed.name) == ("k", "t")
    columns = parsed.definition["columns"]
    assert {n: (c["type"], c["kind"], c["position"]) for n, c in columns.items()} == {
        "a": ("int", "partition_key", 0),
        "B": ("frozen<list<text>>", "partition_key", 1),
        "c": ("map<text, int>", "clustering", 0),
        "s": ("text", "static", -1),
        "v": ("text", "regular", -1),
    }
    assert parsed.definition["options"] == {
        "clustering_order": {"c": "desc"},
        "comment": "it's; a (b)",
        "crc_check_chance": 1.0,
        "cdc": False,
        "gc_grace_seconds": 864000,
        "compaction": {"class": "X", "n": "4"},
        "extensions": {},
    }


def test_a_key_of_one_column_may_stand_with_it():
    columns = parse_statement("table", "CREATE TABLE k.t (a int PRIMARY KEY, v text)").definition["columns"]
    assert [(n, c["kind"], c["position"]) for n, c in columns.items()] == [
        ("a", "partition_key", 0),
        ("v", "regular", -1),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "name", "definition"),
    [
        (
            "keyspace",
            "CREATE KEYSPACE k WITH replication = {'class': 'S', 'replication_factor': '3'}  AND durable_writes = true;",
            "",
            {"replication": {"class": "S", "replication_factor": "3"}, "durable_writes": True},
        ),
        ("type", "CREATE TYPE k.u (a int, b frozen<w>);", "u", {"fields": [["a", "int"], ["b", "frozen<w>"]]}),
        (
            "function",
            "CREATE FUNCTION k.f(s int, v map<text, int>)\n    CALLED ON NULL INPUT\n    RETURNS int\n    LANGUAGE java\n    AS $$return a ? 1 : 'x';$$;",
            "f",
            {"arguments": [["s", "int"], ["v", "map<text, int>"]], "returns": "int", "body": "return a ? 1 : 'x';"},
        ),
        (
            "aggregate",
            "CREATE AGGREGATE k.g(int)\n    SFUNC plus\n    STYPE int\n    FINALFUNC finish;",
            "g",
            {"arguments": ["int"], "state_function": "plus", "state_type": "int", "final_function": "finish"},
        ),
        ("index", "CREATE INDEX i ON k.t (values(c));", "i", {"table": "t", "target": "values(c)"}),
    ],
)
def test_other_objects_have_the_keys_of_their_observations(kind, text, name, definition):
    parsed = parse_statement(kind, text)
    assert (parsed.keyspace, parsed.name, parsed.definition) == ("k", name, definition)


def test_a_view_has_its_base_and_its_key():
    text = "CREATE MATERIALIZED VIEW k.m AS\n SELECT *\n FROM k.t\n WHERE v IS NOT NULL\n PRIMARY KEY ((v, w), a)\n WITH comment = 'x';"
    parsed = parse_statement("view", text)
    assert parsed.definition["base_table_name"] == "t"
    assert {n: (c["kind"], c["position"]) for n, c in parsed.definition["columns"].items()} == {
        "v": ("partition_key", 0),
        "w": ("partition_key", 1),
        "a": ("clustering", 0),
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("table", ""),
        ("table", "CREATE TABLE k.t"),
        ("table", "CREATE TABLE k.t (a"),
        ("table", "CREATE TABLE k.t (a int, PRIMARY KEY (b))"),
        ("table", "CREATE TABLE k.t (a int PRIMARY KEY) WITH comment = 'open"),
        ("keyspace", "CREATE TABLE k.t (a int PRIMARY KEY)"),
        ("function", "CREATE FUNCTION k.f"),
        ("trigger", "CREATE TRIGGER x"),
    ],
)
def test_what_is_not_understood_is_none(kind, text):
    assert parse_statement(kind, text) is None


COMMENTED = "CREATE TABLE k.t (a int PRIMARY KEY) WITH gc_grace_seconds = 3;\nCOMMENT ON TABLE {} IS {};"


@pytest.mark.parametrize(
    ("table", "text", "comment"),
    [("k.t", "'it''s'", "it's"), ("k.t", "''", ""), ("k.t", "NULL", None), ('"k"."t"', "'x'", "x")],
)
def test_a_comment_that_is_a_statement_of_its_own_is_an_option(table, text, comment):
    options = parse_statement("table", COMMENTED.format(table, text)).definition["options"]
    assert options == {"gc_grace_seconds": 3} | ({} if comment is None else {"comment": comment})


@pytest.mark.parametrize("table", ["k.s", "l.t", "t"])
def test_a_comment_on_another_table_is_not_understood(table):
    assert parse_statement("table", COMMENTED.format(table, "'x'")) is None

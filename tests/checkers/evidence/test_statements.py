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
    ("column", "kind", "spelled", "clauses"),
    [
        ("a text PRIMARY KEY", "partition_key", "text", ""),
        (
            "a text MASKED WITH system.mask_null() PRIMARY KEY",
            "partition_key",
            "text",
            "MASKED WITH system . mask_null ( )",
        ),
        ("a text static MASKED WITH system.mask_null()", "static", "text", "MASKED WITH system . mask_null ( )"),
        ("a text STATIC", "static", "text", ""),
        ("a text CHECK static = 3", "regular", "text", "CHECK static = 3"),
        ("a text NOT NULL", "regular", "text", "NOT NULL"),
        ("a masked", "regular", "masked", ""),  # a type of that name
        ('a frozen<"static">', "regular", 'frozen<"static">', ""),
    ],
)
def test_what_follows_the_type_of_a_column(column, kind, spelled, clauses):
    (found,) = parse_statement("table", f"CREATE TABLE k.t ({column})").definition["columns"].values()
    assert found.pop("clauses", "") == clauses
    assert found == {"type": spelled, "kind": kind, "position": 0 if kind == "partition_key" else -1}


def test_a_constraint_compares_and_closes_no_bracket():
    columns = "a int CHECK a > 3 AND a <= 10, b list<int>, c text CHECK LENGTH(c) < 4, d check, e map<int, int>, PRIMARY KEY (a)"
    found = parse_statement("table", f"CREATE TABLE k.t ({columns}) WITH comment = 'x'").definition
    assert {name: (column["type"], column.get("clauses")) for name, column in found["columns"].items()} == {
        "a": ("int", "CHECK a > 3 AND a < = 10"),
        "b": ("list<int>", None),
        "c": ("text", "CHECK LENGTH ( c ) < 4"),
        "d": ("check", None),
        "e": ("map<int, int>", None),
    }
    assert found["options"] == {"comment": "x"}


def test_what_follows_the_statement_of_a_table_is_kept():
    text = "CREATE TABLE k.t (a int PRIMARY KEY) WITH comment = ''; COMMENT ON COLUMN k.t.a IS 'x';"
    assert parse_statement("table", text).definition["further"] == "COMMENT ON COLUMN k . t . a IS 'x'"
    assert "further" not in parse_statement("table", text.partition("COMMENT")[0]).definition


@pytest.mark.parametrize(
    ("key", "partition", "clustering"),
    [
        ("(a)", ["a"], []),
        ('("B", a)', ["B"], ["a"]),
        ("(a, c, s)", ["a"], ["c", "s"]),
        ('((a, "B"), c)', ["a", "B"], ["c"]),
    ],
)
def test_a_key_has_partition_and_clustering_columns(key, partition, clustering):
    text = f'CREATE TABLE k.t (a int, "B" int, c int, s int, PRIMARY KEY {key})'
    columns = parse_statement("table", text).definition["columns"]
    for kind, names in (("partition_key", partition), ("clustering", clustering)):
        found = {name: column["position"] for name, column in columns.items() if column["kind"] == kind}
        assert found == {name: position for position, name in enumerate(names)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]),
        ("{'a', 'b'}", ["a", "b"]),
        ("{'a': [1], 'b': {}}", {"a": [1], "b": {}}),
        ("[]", {}),
        ("TRUE", True),
        ("'it''s'", "it's"),
    ],
)
def test_an_option_may_be_a_collection(text, value):
    assert parse_statement("table", f"CREATE TABLE k.t (a int) WITH x = {text}").definition["options"] == {"x": value}


def test_compact_storage_is_an_option():
    options = parse_statement("table", "CREATE TABLE k.t (a int) WITH COMPACT STORAGE AND x = 1").definition["options"]
    assert options == {"compact_storage": True, "x": 1}


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
        (
            "function",
            "CREATE FUNCTION k.f() RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS 'return ''x'';'",
            "f",
            {"arguments": [], "returns": "text", "body": "return 'x';"},
        ),
        ("index", "CREATE INDEX i ON k.t (values(c));", "i", {"table": "t", "target": "values(c)"}),
        ("index", "CREATE INDEX i ON k.t (a, b);", "i", {"table": "t", "target": None}),
        ("index", "CREATE CUSTOM INDEX i ON k.t ();", "i", {"table": "t", "target": None, "custom": True}),
        (
            "index",
            "CREATE CUSTOM INDEX i ON k.t (c) USING 'sai' WITH OPTIONS = {'a': 'b'};",
            "i",
            {"table": "t", "target": "c", "custom": True, "using": "sai", "options": {"a": "b"}},
        ),
        (
            "aggregate",
            "CREATE AGGREGATE k.g(int) SFUNC l.plus STYPE int FINALFUNC k.finish INITCOND 5;",
            "g",
            {
                "arguments": ["int"],
                "state_function": "plus",
                "state_type": "int",
                "final_function": "finish",
                "clauses": "l.plus INITCOND 5",
            },
        ),
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
    assert parsed.definition["options"] == {"comment": "x", "where_clause": "v IS NOT NULL"}
    assert "selected" not in parsed.definition


@pytest.mark.parametrize(
    ("selection", "where", "selected", "clause"),
    [
        ('a, "B", v', "WHERE v IS NOT NULL", ["a", "B", "v"], "v IS NOT NULL"),
        ("v", "", ["v"], None),
        ("v", "ALLOW x", ["v"], None),
        ("v", "ZERO x", ["v"], None),
    ],
)
def test_a_view_has_what_it_selects_and_of_which_rows(selection, where, selected, clause):
    text = f"CREATE MATERIALIZED VIEW k.m AS SELECT {selection} FROM k.t {where} PRIMARY KEY (v)"
    definition = parse_statement("view", text).definition
    assert definition["selected"] == selected
    assert definition["options"].get("where_clause") == clause


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("table", ""),
        ("table", "CREATE TABLE k.t"),
        ("table", "CREATE TABLE k.t (a"),
        ("table", "CREATE TABLE k.t (a)"),
        ("table", "CREATE TABLE k.t (a PRIMARY KEY)"),
        ("table", "CREATE TABLE k.t (a int, PRIMARY KEY)"),
        ("table", "CREATE TABLE ( (a int PRIMARY KEY)"),
        ("table", "CREATE TABLE 't' (a int PRIMARY KEY)"),
        ("table", "CREATE TABLE k.t (a int>, b int PRIMARY KEY)"),
        ("table", "CREATE TABLE k.t (a int, PRIMARY KEY (b))"),
        ("table", "CREATE TABLE k.t (a int PRIMARY KEY) WITH comment = 'open"),
        ("keyspace", "CREATE TABLE k.t (a int PRIMARY KEY)"),
        ("function", "CREATE FUNCTION k.f"),
        ("function", "CREATE FUNCTION k.f() RETURNS int LANGUAGE java AS $$x$$ MORE"),
        ("keyspace", "CREATE KEYSPACE k WITH durable_writes = true MORE"),
        ("type", "CREATE TYPE k.u (a int) MORE"),
        ("view", "CREATE MATERIALIZED VIEW k.m AS SELECT * FROM k.t PRIMARY KEY (v) MORE"),
        ("index", "CREATE INDEX i ON k.t (c) MORE"),
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

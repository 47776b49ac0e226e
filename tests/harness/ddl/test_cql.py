"""CQL: every operation has its statement, and a literal says what the value says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.cql import literal, statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES

SIMPLE = {"class": "SimpleStrategy", "replication_factor": 3}
KEY_AND_VALUE = [("k", "int", "partition_key"), ("v", "text", "regular")]

STATEMENTS = [
    (
        ddl.create_keyspace("ks", replication_factor=3),
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    ),
    (
        ddl.create_keyspace("ks", replication_factor=1, if_not_exists=True),
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    ),
    (
        ddl.alter_keyspace("ks", replication_factor=2),
        "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
    ),
    (ddl.drop_keyspace("ks"), "DROP KEYSPACE ks"),
    (ddl.drop_keyspace("ks", if_exists=True), "DROP KEYSPACE IF EXISTS ks"),
    (ddl.create_table("ks", "t", columns=KEY_AND_VALUE), "CREATE TABLE ks.t (k int, v text, PRIMARY KEY (k))"),
    (
        ddl.create_table(
            "ks",
            "t",
            columns=[
                ("a", "int", "partition_key"),
                ("b", "int", "partition_key"),
                ("c", "int", "clustering"),
                ("d", "text", "clustering"),
                ("s", "int", "static"),
                ("v", "frozen<list<int>>", "regular"),
            ],
            options={"comment": "it's ours", "gc_grace_seconds": 10, "cdc": False, "caching": {"keys": "NONE"}},
            if_not_exists=True,
        ),
        (
            "CREATE TABLE IF NOT EXISTS ks.t (a int, b int, c int, d text, s int static, v frozen<list<int>>, "
            "PRIMARY KEY ((a, b), c, d)) WITH comment = 'it''s ours' AND gc_grace_seconds = 10 AND cdc = false "
            "AND caching = {'keys': 'NONE'}"
        ),
    ),
    (ddl.drop_table("ks", "t"), "DROP TABLE ks.t"),
    (ddl.drop_table("ks", "t", if_exists=True), "DROP TABLE IF EXISTS ks.t"),
    (ddl.add_column("ks", "t", "c", "list<int>"), "ALTER TABLE ks.t ADD c list<int>"),
    (ddl.drop_column("ks", "t", "c"), "ALTER TABLE ks.t DROP c"),
    (ddl.drop_column("ks", "t", "c", timestamp=0), "ALTER TABLE ks.t DROP c USING TIMESTAMP 0"),
    (ddl.rename_column("ks", "t", "k", "key"), "ALTER TABLE ks.t RENAME k TO key"),
    (
        ddl.alter_options("ks", "t", {"comment": "x", "default_time_to_live": 0}),
        "ALTER TABLE ks.t WITH comment = 'x' AND default_time_to_live = 0",
    ),
    (ddl.create_type("ks", "u", fields=[("a", "int"), ("b", "text")]), "CREATE TYPE ks.u (a int, b text)"),
    (
        ddl.create_type("ks", "u", fields=[("a", "int")], if_not_exists=True),
        "CREATE TYPE IF NOT EXISTS ks.u (a int)",
    ),
    (ddl.add_field("ks", "u", "f", "int"), "ALTER TYPE ks.u ADD f int"),
    (ddl.rename_field("ks", "u", "f", "g"), "ALTER TYPE ks.u RENAME f TO g"),
    (ddl.drop_type("ks", "u"), "DROP TYPE ks.u"),
    (
        ddl.create_function("ks", "f", arguments=[("a", "int"), ("b", "text")], returns="int", body="return a;"),
        ("CREATE FUNCTION ks.f (a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return a;$$"),
    ),
    (ddl.drop_function("ks", "f"), "DROP FUNCTION ks.f"),
    (
        ddl.create_aggregate("ks", "g", arguments=["int"], state_function="f", state_type="int"),
        "CREATE AGGREGATE ks.g (int) SFUNC f STYPE int",
    ),
    (
        ddl.create_aggregate("ks", "g", arguments=["int"], state_function="f", state_type="int", final_function="h"),
        "CREATE AGGREGATE ks.g (int) SFUNC f STYPE int FINALFUNC h",
    ),
    (ddl.drop_aggregate("ks", "g", if_exists=True), "DROP AGGREGATE IF EXISTS ks.g"),
    (
        ddl.create_view("ks", "w", base="t", primary_key=["v", "k"]),
        (
            "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
            "PRIMARY KEY (v, k)"
        ),
    ),
    (
        ddl.alter_view("ks", "w", {"comment": "x"}),
        "ALTER MATERIALIZED VIEW ks.w WITH comment = 'x'",
    ),
    (ddl.drop_view("ks", "w"), "DROP MATERIALIZED VIEW ks.w"),
    (ddl.create_index("ks", "i", table="t", column="v"), "CREATE INDEX i ON ks.t (v)"),
    (
        ddl.create_index("ks", "i", table="t", column="v", if_not_exists=True),
        "CREATE INDEX IF NOT EXISTS i ON ks.t (v)",
    ),
    (ddl.create_index("ks", "i", table="t", column="v", using="sai"), "CREATE INDEX i ON ks.t (v) USING 'sai'"),
    (ddl.drop_index("ks", "i"), "DROP INDEX ks.i"),
    (ddl.cql("ks.t", "TRUNCATE ks.t"), "TRUNCATE ks.t"),
    (
        rows.insert("ks", "t", {"k": 1, "v": "o'clock", "u": {"a": 1, "b": "x"}, "n": None}, consistency="ONE"),
        "INSERT INTO ks.t (k, v, u, n) VALUES (1, 'o''clock', {a: 1, b: 'x'}, null)",
    ),
    (
        rows.insert("ks", "t", {"k": 1, "q": 2, "v": "x"}, consistency="ONE", form="update", key=["k", "q"]),
        "UPDATE ks.t SET v = 'x' WHERE k = 1 AND q = 2",
    ),
    (
        rows.insert("ks", "t", {"k": 1}, consistency="ONE", form="conditional"),
        "INSERT INTO ks.t (k) VALUES (1) IF NOT EXISTS",
    ),
    (
        rows.insert("ks", "t", {"k": 1}, consistency="ONE", form="batch", beside={"k": 9}),
        "BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); DELETE FROM ks.t WHERE k = 9; APPLY BATCH",
    ),
    (rows.truncate("ks", "s"), "TRUNCATE ks.s"),
    (rows.read_rows("ks", "t", consistency="ALL", phase="settled"), "SELECT * FROM ks.t"),
    (
        rows.read_rows("ks", "w", consistency="ALL", phase="settled", columns=["k"], where={"c": 7}, base="t"),
        "SELECT k FROM ks.w WHERE c = 7",
    ),
    (
        rows.read_rows("ks", "t", consistency="ALL", phase="settled", columns=["k", "v"], where={"k": 1, "c": "x"}),
        "SELECT k, v FROM ks.t WHERE k = 1 AND c = 'x'",
    ),
    (rows.know_table("ks", "t", key="id"), "SELECT id FROM ks.t WHERE id IN ()"),
    (rows.delete_row("ks", "t", {"k": 1, "c": True}, consistency="ONE"), "DELETE FROM ks.t WHERE k = 1 AND c = true"),
]


@pytest.mark.parametrize(
    ("operation", "text"), [pytest.param(operation, text, id=text[:60]) for operation, text in STATEMENTS]
)
def test_statement_is_the_one_a_reader_knows(operation, text):
    assert statement(operation.f, operation.value) == text


def test_every_schema_change_has_a_statement():
    assert {operation.f for operation, _ in STATEMENTS} >= SCHEMA_CHANGES


def test_an_operation_without_a_statement_is_a_key_error():
    with pytest.raises(KeyError, match="read-schema"):
        statement("read-schema", {"phase": "settled"})


def test_what_json_lacks_has_no_literal():
    with pytest.raises(TypeError, match="no CQL literal for set"):
        literal({1, 2})


def test_a_truth_is_not_a_number():
    assert [literal(value) for value in (True, False, 1, 0, 1.5, -7)] == ["true", "false", "1", "0", "1.5", "-7"]


# ── literals, read back by a reader of CQL's own lexical rules ───────────────────────────────────────────────────────

TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<float>-?\d+(?:\.\d+)?[eE][+-]?\d+|-?\d+\.\d+)|(?P<int>-?\d+)"
    r"|(?P<word>true|false|null)|(?P<mark>[{}\[\]:,]))",
    re.DOTALL,
)


def read_back(text):
    """The value of a CQL literal, by the rules of the language: '' within quotes is one quote."""
    tokens = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        assert match is not None, f"not CQL from {text[position:]!r}"
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    value = _value(tokens)
    assert tokens == [], "one literal only"
    return value


def _value(tokens):
    kind, text = tokens.pop(0)
    match kind, text:
        case "string", _:
            return text[1:-1].replace("''", "'")
        case "int", _:
            return int(text)
        case "float", _:
            return float(text)
        case "word", _:
            return {"true": True, "false": False, "null": None}[text]
        case "mark", "[":
            return list(_entries(tokens, "]", lambda: _value(tokens)))
        case "mark", "{":
            return dict(_entries(tokens, "}", lambda: _pair(tokens)))
    raise AssertionError(f"{text!r} begins no literal")


def _pair(tokens):
    key = _value(tokens)
    assert tokens.pop(0) == ("mark", ":")
    return key, _value(tokens)


def _entries(tokens, end, entry):
    if tokens[0] == ("mark", end):
        tokens.pop(0)
        return
    while True:
        yield entry()
        _, mark = tokens.pop(0)
        if mark == end:
            return
        assert mark == ","


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("'\"\\;-$%\n", max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(TEXTS)
def test_a_string_literal_reads_back_as_the_string(text):
    assert read_back(literal(text)) == text


@given(VALUES)
def test_a_literal_reads_back_as_its_value(value):
    back = read_back(literal(value))
    assert back == value
    assert repr(back) == repr(value), "a number is not a truth, nor a float an integer"


@given(st.dictionaries(st.sampled_from(["comment", "extensions", "cdc"]), SCALARS, min_size=1))
def test_options_are_joined_so_that_no_value_can_end_them(options):
    text = statement("alter-options", ddl.alter_options("ks", "t", options).value)
    head = "ALTER TABLE ks.t WITH "
    assert text.startswith(head)
    assert text == head + " AND ".join(f"{name} = {literal(value)}" for name, value in options.items())
    unquoted = re.sub(r"'(?:[^']|'')*'", "''", text)
    assert unquoted.count(" AND ") == len(options) - 1

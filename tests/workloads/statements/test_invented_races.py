"""Races that were written down from the grammar of CQL, without a look at the descriptions: each must be a cell of the grid.

Names stand in braces; what one name stands for is the same in both statements. Numbers and texts do not matter.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from schemaquake.harness.ddl.cql import statement
from schemaquake.workloads.statements.meetings import Meeting, meetings

RACES = [
    ("CREATE INDEX {i} ON {k}.{t} ({q})", "ALTER TABLE {k}.{t} RENAME {q} TO {r}"),
    ("CREATE INDEX {i} ON {k}.{t} ({r})", "ALTER TABLE {k}.{t} RENAME {q} TO {r}"),
    ("ALTER TABLE {k}.{t} RENAME {p} TO {x}", "ALTER TABLE {k}.{t} RENAME {q} TO {x}"),
    ("ALTER TABLE {k}.{t} RENAME {p} TO {q}", "ALTER TABLE {k}.{t} RENAME {q} TO {r}"),
    ("ALTER TABLE {k}.{t} RENAME {q} TO {x}", "ALTER TABLE {k}.{t} ADD {x} int"),
    ("ALTER TABLE {k}.{t} RENAME {q} TO {x}", "ALTER TABLE {k}.{t} ADD {q} text"),
    ("ALTER TABLE {k}.{t} RENAME {q} TO {x}", "ALTER TABLE {k}.{t} DROP {x}"),
    ("ALTER TYPE {k}.{u} RENAME {f} TO {g}", "ALTER TYPE {k}.{u} ADD {g} int"),
    ("ALTER TYPE {k}.{u} RENAME {f} TO {h}", "ALTER TYPE {k}.{u} RENAME {g} TO {h}"),
    ("ALTER TABLE {k}.{t} ADD {c} int static", "ALTER TABLE {k}.{t} ADD {c} int"),
    ("ALTER TABLE {k}.{t} ADD {c} list<int>", "ALTER TABLE {k}.{t} ADD {c} frozen<list<int>>"),
    ("ALTER TABLE {k}.{t} DROP {c}", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', [7])"),
    ("ALTER TABLE {k}.{t} DROP {c}", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', {a: 7})"),
    ("ALTER TABLE {k}.{t} ADD {c} text", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', 'y')"),
    ("ALTER TABLE {k}.{t} DROP {c}", "UPDATE {k}.{t} SET v = 'x', {c} = 7 WHERE k = 1 AND {q} = 0"),
    ("ALTER TABLE {k}.{t} DROP {c}", "DROP TYPE {k}.{u}"),
    ("ALTER TABLE {k}.{t} DROP {c}", "CREATE INDEX {i} ON {k}.{t} (keys({c}))"),
    ("ALTER TABLE {k}.{t} DROP {c}", "CREATE INDEX {i} ON {k}.{t} (keys({c})) USING 'sai'"),
    ("ALTER TABLE {k}.{t} ADD {c} frozen<list<int>>", "CREATE INDEX {i} ON {k}.{t} (full({c}))"),
    ("CREATE INDEX {i} ON {k}.{t} ({c})", "CREATE INDEX {j} ON {k}.{t} ({c}) USING 'sai'"),
    ("CREATE INDEX {i} ON {k}.{t} ({c})", "CREATE INDEX {i} ON {k}.{s} ({d})"),
    ("DROP TYPE {k}.{x}", "DROP TABLE {k}.{x}"),
    ("DROP TABLE {k}.{t}", "DROP INDEX {k}.{i}"),
    ("DROP MATERIALIZED VIEW {k}.{w}", "UPDATE {k}.{t} SET v = 'x', {c} = 7 WHERE k = 1"),
    ("CREATE TYPE {k}.{x} (b frozen<{u}>)", "DROP TYPE {k}.{u}"),
    ("ALTER TYPE {k}.{x} ADD {f} frozen<{u}>", "DROP TYPE {k}.{u}"),
    ("ALTER TYPE {k}.{x} ADD {f} frozen<{u}>", "ALTER TYPE {k}.{u} ADD {g} frozen<{x}>"),
    ("DROP KEYSPACE {k}", "TRUNCATE {k}.{t}"),
    ("DROP KEYSPACE {k}", "DROP KEYSPACE IF EXISTS {k}"),
    ("TRUNCATE {k}.{t}", "DROP TABLE IF EXISTS {k}.{t}"),
    ("TRUNCATE {k}.{t}", "CREATE INDEX {i} ON {k}.{t} ({c})"),
    ("ALTER TABLE {k}.{t} DROP {c} USING TIMESTAMP 1", "ALTER TABLE {k}.{t} ADD {c} int"),
    ("ALTER TABLE {k}.{t} WITH comment = 'x'", "ALTER MATERIALIZED VIEW {k}.{w} WITH comment = 'x'"),
    ("ALTER TABLE {k}.{t} WITH default_time_to_live = 1", "ALTER TABLE {k}.{t} WITH comment = 'x'"),
    (
        "CREATE KEYSPACE {k} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE {k}.{t} (k int, v text, PRIMARY KEY (k)) WITH comment = 'x'",
    ),
    (
        "ALTER KEYSPACE {k} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', 7) IF NOT EXISTS",
    ),
    ("DROP KEYSPACE {k}", "CREATE TYPE {k}.{u} (a int, of_1 text)"),
    ("DROP KEYSPACE {k}", "SELECT k, {c} FROM {k}.{w} WHERE {c} = 7"),
    (
        "CREATE TABLE {k}.{t} (k int, v text, PRIMARY KEY (k)) WITH comment = 'x'",
        "CREATE TABLE {k}.{t} (k int, q int, v text, PRIMARY KEY (k, q))",
    ),
    (
        "CREATE TABLE {k}.{t} (k int, q int, v text, PRIMARY KEY (k, q))",
        "CREATE TABLE {k}.{t} (k int, n counter, PRIMARY KEY (k))",
    ),
    ("CREATE TABLE {k}.{t} (k int, q int, v text, PRIMARY KEY (k, q))", "DROP TABLE {k}.{t}"),
    ("CREATE TABLE {k}.{x} (k int, v text, u frozen<{u}>, PRIMARY KEY (k))", "ALTER TYPE {k}.{u} ADD {f} text"),
    (
        "CREATE TABLE IF NOT EXISTS {k}.{t} (k int, v text, PRIMARY KEY (k))",
        "CREATE TABLE {k}.{t} (k int, n counter, PRIMARY KEY (k))",
    ),
    (
        "DROP TABLE {k}.{t}",
        "BEGIN BATCH INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', 7); DELETE FROM {k}.{t} WHERE k = 2; APPLY BATCH",
    ),
    ("ALTER TABLE {k}.{t} DROP {c}", "DELETE {c} FROM {k}.{t} WHERE k = 1"),
    ("ALTER TABLE {k}.{t} ADD {c} int", "DELETE {c} FROM {k}.{t} WHERE k = 1"),
    ("DROP INDEX {k}.{i}", "DELETE {c} FROM {k}.{t} WHERE k = 1"),
    (
        "CREATE MATERIALIZED VIEW {k}.{w} AS SELECT * FROM {k}.{t} WHERE {c} IS NOT NULL AND k IS NOT NULL PRIMARY KEY ({c}, k)",
        "DELETE {c} FROM {k}.{t} WHERE k = 1",
    ),
    ("ALTER TYPE {k}.{u} ADD {f} int", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', {a: 7})"),
    ("ALTER TYPE {k}.{u} RENAME {f} TO {g}", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', {a: 7})"),
    ("ALTER TYPE {k}.{u} ADD {f} frozen<{x}>", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', {a: 7})"),
    ("ALTER TYPE {k}.{u} ADD {f} int", "SELECT k, {c} FROM {k}.{t}"),
    ("ALTER TABLE {k}.{t} ADD {c} map<int,int>", "CREATE INDEX {i} ON {k}.{t} (entries({c}))"),
    ("ALTER TABLE {k}.{t} DROP {c}", "CREATE INDEX {i} ON {k}.{t} (entries({c})) USING 'sai'"),
    ("CREATE INDEX {i} ON {k}.{t} ({c}) USING 'sai'", "DROP INDEX {k}.{i}"),
    ("CREATE INDEX {i} ON {k}.{t} ({c})", "DROP TABLE {k}.{t}"),
    (
        "CREATE INDEX {i} ON {k}.{t} ({c})",
        "CREATE MATERIALIZED VIEW {k}.{w} AS SELECT * FROM {k}.{t} WHERE {c} IS NOT NULL AND k IS NOT NULL PRIMARY KEY ({c}, k)",
    ),
    (
        "CREATE OR REPLACE FUNCTION {k}.{f} (state int, value int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return 1;$$",
        "CREATE OR REPLACE FUNCTION {k}.{f} (state int, value int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return 2;$$",
    ),
    (
        "DROP TYPE IF EXISTS {k}.{u}",
        "CREATE FUNCTION {k}.{f} (state int, value int) CALLED ON NULL INPUT RETURNS {u} LANGUAGE java AS $$return null; /* 1 */$$",
    ),
    ("DROP AGGREGATE {k}.{g}", "DROP FUNCTION {k}.{f}"),
    ("ALTER TABLE {k}.{t} WITH gc_grace_seconds = 1", "ALTER TABLE {k}.{t} WITH gc_grace_seconds = 2"),
    ("ALTER TABLE {k}.{t} WITH gc_grace_seconds = 1", "ALTER TABLE {k}.{t} DROP {c}"),
    (
        "ALTER TABLE {k}.{t} WITH compaction = {'class': 'x', 'min_threshold': '4', 'max_threshold': '32'}",
        "TRUNCATE {k}.{t}",
    ),
    ("ALTER MATERIALIZED VIEW {k}.{w} WITH comment = 'x'", "ALTER TABLE {k}.{t} ADD {c} int"),
    (
        "CREATE MATERIALIZED VIEW {k}.{w} AS SELECT * FROM {k}.{t} WHERE {c} IS NOT NULL AND k IS NOT NULL PRIMARY KEY ({c}, k)",
        "CREATE MATERIALIZED VIEW {k}.{w} AS SELECT * FROM {k}.{s} WHERE {d} IS NOT NULL AND k IS NOT NULL PRIMARY KEY ({d}, k)",
    ),
    ("ALTER TABLE {k}.{t} RENAME {q} TO {r}", "DELETE FROM {k}.{t} WHERE k = 1"),
    ("ALTER TABLE {k}.{t} RENAME {q} TO {r}", "UPDATE {k}.{t} SET v = 'x', {c} = 7 WHERE k = 1 AND {q} = 0"),
    ("ALTER TABLE {k}.{t} ADD {c} int static", "ALTER TABLE {k}.{t} RENAME {q} TO {c}"),
    ("DROP TABLE IF EXISTS {k}.{t}", "CREATE INDEX IF NOT EXISTS {i} ON {k}.{t} ({c})"),
    ("ALTER TABLE {k}.{t} DROP {c}", "DROP INDEX {k}.{i}"),
    (
        "CREATE TYPE {k}.{x} (a int, of_1 text)",
        "CREATE TABLE {k}.{x} (k int, v text, PRIMARY KEY (k)) WITH comment = 'x'",
    ),
]


@pytest.mark.parametrize(("one", "other"), RACES, ids=[f"{a} / {b}" for a, b in RACES])
def test_an_invented_race_is_a_cell(one: str, other: str) -> None:
    assert {numbered(one, other), numbered(other, one)} & cells()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ALTER TABLE {k}.{t} DROP {c}", "SELECT k, {c} FROM {k}.{t} WHERE {c} = 7"),
        ("ALTER TABLE {k}.{t} ADD {c} frozen<list<int>>", "CREATE INDEX {i} ON {k}.{t} ({c})"),
        ("DROP TYPE {k}.{u}", "INSERT INTO {k}.{t} (k, v, {c}) VALUES (1, 'x', {a: 7})"),
        (
            "ALTER TABLE {k}.{t} ADD {c} list<int>",
            "CREATE MATERIALIZED VIEW {k}.{w} AS SELECT * FROM {k}.{t} WHERE {c} IS NOT NULL AND k IS NOT NULL PRIMARY KEY ({c}, k)",
        ),
    ],
)
def test_a_race_of_which_one_side_fails_in_every_order_is_no_cell(one: str, other: str) -> None:
    assert not {numbered(one, other), numbered(other, one)} & cells()


@cache
def cells() -> frozenset[str]:
    return frozenset(text for cell in meetings() for text in rendered(cell))


def rendered(cell: Meeting) -> list[str]:
    changes = [one.write(cell.names("ks", side)) for side, one in enumerate(cell.statements)]
    texts = [statement(each.f, each.value) for each in changes]
    names = {"ks", *(each.name for each in cell.objects)}
    marked = [re.sub(r"'[^']*'|\w+", lambda found: mark(found[0], names), text) for text in texts]
    return [numbered(*marked), numbered(*reversed(marked))]


def mark(word: str, names: set[str]) -> str:
    return f"{{{word}}}" if word in names else word


def numbered(one: str, other: str) -> str:
    """Render a race with its names numbered in the order in which they come, and its values left out."""
    places: dict[str, str] = {}
    text = re.sub(r"\{(\w+)\}", lambda found: places.setdefault(found[1], f"#{len(places)}"), f"{one} / {other}")
    return re.sub(r"'[^']*'|(?<![\w#])\d+", "?", text)

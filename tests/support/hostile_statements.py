"""Hostile statements: CQL that tries to be read by the prefix guard otherwise than by the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from random import Random
from typing import Any

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.rows import insert, read_rows

OURS = "sq_a"
THEIRS = "prod"

HARMLESS = (
    "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}",
    "ALTER KEYSPACE {} WITH durable_writes = false",
    "DROP KEYSPACE {}",
    "DROP KEYSPACE IF EXISTS {}",
    "CREATE TABLE IF NOT EXISTS {}.t (k int PRIMARY KEY, v map<text, frozen<u>>) WITH gc_grace_seconds = 10",
    "ALTER TABLE {}.t ADD w int",
    "ALTER TABLE {}.t DROP w",
    "ALTER TABLE {}.t RENAME k TO l",
    "DROP TABLE {}.t",
    "CREATE TYPE {}.u (x int, y text)",
    "ALTER TYPE {}.u ADD z int",
    "DROP TYPE IF EXISTS {}.u",
    "CREATE OR REPLACE FUNCTION {}.f (x int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return x;$$",
    "DROP FUNCTION {}.f",
    "CREATE AGGREGATE {}.g (int) SFUNC f STYPE int",
    "DROP AGGREGATE {}.g",
    "CREATE MATERIALIZED VIEW {}.v AS SELECT * FROM {}.t WHERE k IS NOT NULL PRIMARY KEY (k)",
    "DROP MATERIALIZED VIEW {}.v",
    "CREATE INDEX i ON {}.t (v)",
    "CREATE CUSTOM INDEX IF NOT EXISTS i ON {}.t (v) USING 'SAI'",
    "DROP INDEX {}.i",
    "TRUNCATE {}.t",
    "TRUNCATE TABLE {}.t",
    "INSERT INTO {}.t (k, v) VALUES (1, 'a row') IF NOT EXISTS",
    "INSERT INTO {}.t JSON '{{\"k\": 1}}'",
    "UPDATE {}.t USING TTL 10 SET v = 'x', w = w + 1 WHERE k = 0x1f AND l = -1.5e3",
    "DELETE v[1] FROM {}.t WHERE k = 123e4567-e89b-12d3-a456-426655440000",
    "SELECT k, WRITETIME(v), {}.f(k) FROM {}.t WHERE k IN (1, 2) LIMIT 10 ALLOW FILTERING",
    "BEGIN UNLOGGED BATCH INSERT INTO {}.t (k) VALUES (1); UPDATE {}.t SET v = 1 WHERE k = 1 DELETE FROM {}.t WHERE k = 2; APPLY BATCH",
)  # fmt: skip
"""Statements that are what they seem, with {} for the keyspace."""

_BREAKS = (
    "--\r", "-- \n", "//\r", "// x\r\n", "/*", "*/", "/**/", "/* -- */", "/*\r*/", "--", "//", "-", "/", "*",
    "$$", "$", "$$ $$", "'", "''", '"', '""', ";", "; ", "\r", "\n", "\t", "\x0b", "\x0c", "\x00", "\xa0", "\u2028",
    "\u0130", "\u212a", "\u017f", "\\u0027", "\\", "\\n", "%", "@", "#", "`", "1", "1e", "0x", "1h", "1.", ".", ",", "(",
    ")", "{", "}", "?", ":", ":x", "IF EXISTS", "IF", "EXISTS", "NOT", "KEYSPACE", "TABLE", "FROM", "UPDATE", "INTO",
    "DROP", "BEGIN BATCH", "APPLY BATCH", "USE", "AS", "JSON", "CUSTOM", "LIKE", "ON", "USING", "-- x\r IF EXISTS",
)  # fmt: skip
_BLANKS = (*[" "] * 30, "\r", "\t", "\n\n", "/**/", "/* prod */", " --\r", " // x\n", " -- FROM prod.t\r")
_PAYLOADS = (
    "prod", "prod.t", '"prod".t', "DROP KEYSPACE prod", "UPDATE prod.t SET v = 1 WHERE k = 1", "INSERT INTO prod.t (k) VALUES (1)",
    "DELETE FROM prod.t WHERE k = 1", "FROM prod.t", "ON prod.t (v)", "prod.f(1)", "TRUNCATE prod.t", "USE prod",
    "1UPDATE prod.t SET v = 1 WHERE k = 1", "LIKE prod.t", "GRANT ALL ON KEYSPACE prod TO x",
)  # fmt: skip


def hostile_statements(seed: int, count: int) -> Iterator[str]:
    """Yield the crosses of every break with payloads around a name, then seeded mutations of harmless statements."""
    for verb, brk in product(("DROP KEYSPACE", "DROP TABLE", "TRUNCATE", "SELECT * FROM", "DELETE FROM"), _BREAKS):
        tail = "" if verb == "DROP KEYSPACE" else ".t"
        yield f"{verb} {OURS}{tail}{brk}{THEIRS}{tail}"
        yield f"{verb} {brk}{OURS}{tail}\n{THEIRS}{tail}"
        yield f"{verb} IF EXISTS {brk} {OURS}{tail}\r{THEIRS}{tail}"
        yield f"{verb} {THEIRS}{tail}{brk}{OURS}{tail}"
    random = Random(seed)
    for _ in range(count):
        yield _mutated(random)


def _mutated(random: Random) -> str:
    text = random.choice(HARMLESS)
    text = text.format(*(random.choice((OURS, OURS, OURS, THEIRS)) for _ in range(text.count("{}"))))
    pieces = text.split(" ")
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        at = random.randint(0, len(pieces))
        match random.randrange(6):
            case 0 | 1:
                pieces.insert(at, random.choice(_BREAKS))
            case 2:
                pieces.insert(at, random.choice(_PAYLOADS))
            case 3:
                pieces[at:at] = [random.choice(_BREAKS), random.choice(_PAYLOADS)]
            case 4:
                at = min(at, len(pieces) - 1)
                pieces[at] = random.choice(_BREAKS).join([pieces[at], random.choice((*_PAYLOADS, ""))])
            case 5:
                other = random.choice(HARMLESS).replace("{}", THEIRS).replace("{{", "{").replace("}}", "}")
                pieces += [random.choice(_BREAKS), *other.split(" ")]
    # Between the pieces stands what the server skips, so that a payload is often the only thing that is hostile.
    return "".join(piece + random.choice(_BLANKS) for piece in pieces)


_CHANGES = (
    ddl.create_table(OURS, "t", columns=[("k", "int", "partition_key"), ("v", "map<text, int>", "regular")], options={"comment": "c"}),
    ddl.drop_table(OURS, "t", if_exists=True),
    ddl.add_column(OURS, "t", "w", "int"),
    ddl.drop_column(OURS, "t", "w"),
    ddl.rename_column(OURS, "t", "k", "l"),
    ddl.alter_options(OURS, "t", {"comment": "c"}),
    ddl.create_type(OURS, "u", fields=[("x", "int")]),
    ddl.add_field(OURS, "u", "y", "int"),
    ddl.rename_field(OURS, "u", "x", "z"),
    ddl.drop_type(OURS, "u"),
    ddl.create_function(OURS, "f", arguments=[("x", "int")], returns="int", body="return x;"),
    ddl.drop_function(OURS, "f"),
    ddl.create_aggregate(OURS, "g", arguments=["int"], state_function="f", state_type="int"),
    ddl.create_view(OURS, "v", base="t", primary_key=["k"]),
    ddl.create_index(OURS, "i", table="t", column="v"),
    ddl.drop_index(OURS, "i"),
    insert(OURS, "t", {"k": 1, "v": "x"}, consistency="ONE"),
    read_rows(OURS, "t", consistency="ONE", phase="settled", columns=["k"], where={"k": "1"}),
)  # fmt: skip


def hostile_names() -> Iterator[str]:
    """Yield schema changes and row operations with a hostile text in the place of each name, type and value of theirs."""
    texts = [
        text.format(brk)
        for brk in _BREAKS
        for text in (
            "{}",
            "x{0}prod",
            "x {0}\rprod",
            "x); DROP KEYSPACE prod{0}",
            'x" {0} FROM prod',
            "x' {0} DROP KEYSPACE prod '",
        )
    ]
    texts += _PAYLOADS
    for change in _CHANGES:
        for number in range(_leaves(change.value)):
            for text in texts:
                with suppress(IndexError):  # a table without a partition key has no CQL
                    yield statement(change.f, _replaced(change.value, [number], text))


def _leaves(value: Any) -> int:
    match value:
        case dict():
            return sum(_leaves(entry) for name, entry in value.items() if name != "keyspace")
        case list():
            return sum(map(_leaves, value))
    return int(isinstance(value, str))


def _replaced(value: Any, countdown: list[int], text: str) -> Any:
    """Return the value with its n-th text replaced, but never the keyspace."""
    match value:
        case dict():
            return {
                name: entry if name == "keyspace" else _replaced(entry, countdown, text)
                for name, entry in value.items()
            }
        case list():
            return [_replaced(entry, countdown, text) for entry in value]
        case str():
            countdown[0] -= 1
            return text if countdown[0] == -1 else value
    return value

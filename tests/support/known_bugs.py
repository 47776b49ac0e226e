"""Known bugs as small runs, each with what must be found in it, and their clean controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from histories import judged

from schemaquake.checkers.schema.alterations import Alterations
from schemaquake.checkers.schema.divergence import Divergence
from schemaquake.checkers.schema.merged_definitions import MergedDefinitions
from schemaquake.checkers.schema.objects import Objects
from schemaquake.checkers.schema.references import References
from schemaquake.checkers.schema.table_ids import TableIds
from schemaquake.harness.model.records import Records

CHECKERS = (TableIds(), MergedDefinitions(), References(), Divergence(), Objects(), Alterations())


SETUP = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")


TABLE = ("@3 p91 n1 invoke create-table k.t a:int* c:int v:int", "@4 p91 n1 ok")


TYPE = ("@5 p92 n1 invoke create-type k.u f0:int", "@6 p92 n1 ok")


KEYSPACE = "settled,restarted n1,n2,n3 keyspace k"


ALL = "settled,restarted n1,n2,n3"


COLUMN = '"{name}": {{"type": "int", "kind": "{kind}", "position": {position}}}'


TWO_KEYS = "{{{}}}".format(
    ", ".join(
        COLUMN.format(name=name, kind=kind, position=position)
        for name, kind, position in (
            ("a", "partition_key", 0),
            ("b", "partition_key", 0),
            ("x", "regular", -1),
            ("y", "regular", -1),
        )
    )
)


@dataclass(frozen=True)
class Bug:
    """One known bug: what was done, what was read, and what has to be found."""

    name: str
    history: Sequence[str]
    observations: Sequence[str]
    found: frozenset[str]
    setup: Sequence[str] = field(default=SETUP)

    def records(self) -> Records:
        return judged([*self.setup, *self.history], [KEYSPACE, *self.observations])


def findings(records: Records) -> set[str]:
    return {anomaly.type for checker in CHECKERS for anomaly in checker.check(records, limit_s=10).anomalies}


BUGS = [
    Bug(
        "B1 - the same CREATE TABLE on every node",
        [
            "@10 p0 n1 invoke create-table k.t a:int* x:int",
            "@10 p1 n2 invoke create-table k.t a:int* x:int",
            "@10 p2 n3 invoke create-table k.t a:int* x:int",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
            "@12 p2 n3 ok",
        ],
        [
            "@13 running n1 table k.t id=1111 a:int* x:int",
            "@13 running n2 table k.t id=2222 a:int* x:int",
            "@13 running n3 table k.t id=3333 a:int* x:int",
            f"{ALL} table k.t id=3333 a:int* x:int",
        ],
        frozenset({"changing-table-id"}),
    ),
    Bug(
        "B1 on 3.11 - the loser keeps its id until it is restarted",
        [
            "@10 p0 n1 invoke create-table k.t a:int* x:int",
            "@10 p1 n2 invoke create-table k.t a:int* x:int",
            "@12 p0 n1 info ServerError: Column family ID mismatch",
            "@12 p1 n2 ok",
        ],
        [
            "settled n1 table k.t id=1111 a:int* x:int",
            "settled n2,n3 table k.t id=2222 a:int* x:int",
            "settled n1 version v1",
            "settled n2,n3 version v2",
            "restarted n1,n2,n3 table k.t id=2222 a:int* x:int",
        ],
        frozenset({"conflicting-table-ids", "schema-disagreement"}),
    ),
    Bug(
        "B2 - two definitions of one table",
        [
            "@10 p0 n1 invoke create-table k.t a:int* x:int",
            "@10 p1 n2 invoke create-table k.t b:int* y:int",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [
            f'{ALL} table k.t id=2222 {{"columns": {TWO_KEYS}}}',
        ],
        frozenset({"merged-definitions", "bad-primary-key"}),
    ),
    Bug(
        "B3 - DROP TYPE and CREATE TABLE that uses it",
        [
            "@10 p0 n1 invoke drop-type k.u",
            "@10 p1 n2 invoke create-table k.x a:int* c:frozen<u>",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [
            "settled n1,n2,n3 table k.x id=1 a:int* c:frozen<u>",
            "settled n1 version v1",
            "settled n2,n3 version v2",
            "restarted n1,n2,n3 error NodeUnreachable",
        ],
        frozenset({"dangling-type", "schema-disagreement"}),
        setup=[*SETUP, *TYPE],
    ),
    Bug(
        "B4 - DROP TYPE and CREATE TYPE that nests it",
        [
            "@10 p0 n1 invoke drop-type k.u",
            "@10 p1 n2 invoke create-type k.w b:frozen<u>",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} type k.w b:frozen<u>"],
        frozenset({"dangling-type"}),
        setup=[*SETUP, *TYPE],
    ),
    Bug(
        "B4 - DROP TYPE and ALTER TABLE that adds a column of it",
        [
            "@10 p0 n1 invoke drop-type k.u",
            "@10 p1 n2 invoke add-column k.t d:list<frozen<u>>",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} table k.t id=1 a:int* c:int d:list<frozen<u>> v:int"],
        frozenset({"dangling-type"}),
        setup=[*SETUP, *TABLE, *TYPE],
    ),
    Bug(
        "B5 - DROP FUNCTION and CREATE AGGREGATE that uses it",
        [
            '@7 p2 n1 invoke create-function k.f {"arguments": [["s", "int"]], "returns": "int", "body": "return s;"}',
            "@8 p2 n1 ok",
            "@10 p0 n1 invoke drop-function k.f",
            '@10 p1 n2 invoke create-aggregate k.g {"arguments": ["int"], "state_function": "f", "state_type": "int"}',
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f'{ALL} aggregate k.g {{"arguments": ["int"], "state_function": "f"}}'],
        frozenset({"dangling-function"}),
    ),
    Bug(
        "B6 - DROP TABLE and CREATE MATERIALIZED VIEW",
        [
            "@10 p0 n1 invoke drop-table k.t",
            '@10 p1 n2 invoke create-view k.m {"base": "t", "primary_key": ["v", "a"]}',
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f'{ALL} view k.m id=2 v:int* a:int+ c:int {{"base_table_id": "1", "base_table_name": "t"}}'],
        frozenset({"orphan-view"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B7 - DROP TABLE and ALTER TABLE WITH comment",
        [
            "@10 p0 n1 invoke drop-table k.t",
            "@10 p1 n2 invoke alter-options k.t comment=x",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [
            "@5 running n1,n2,n3 table k.t id=1 a:int* c:int v:int",
            'settled n1,n2,n3 table k.t id=1 {"options": {"comment": "x"}}',
            "settled n1 version v1",
            "settled n2,n3 version v2",
            "restarted n1,n2,n3 error NodeUnreachable",
        ],
        frozenset({"headless-table", "schema-disagreement", "resurrected-object"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B8 - DROP KEYSPACE and CREATE TABLE in it",
        [
            "@10 p0 n1 invoke drop-keyspace k",
            "@10 p1 n2 invoke create-table k.t1 a:int*",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} table k.t1 id=7 a:int*"],
        frozenset({"resurrected-object"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B9 - two options at once",
        [
            "@10 p0 n1 invoke alter-options k.t comment=x",
            "@10 p1 n2 invoke alter-options k.t gc_grace_seconds=1",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f'{ALL} table k.t id=1 a:int* c:int v:int {{"options": {{"comment": "", "gc_grace_seconds": 1}}}}'],
        frozenset({"lost-option"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B9 - an option and a column at once",
        [
            "@10 p0 n1 invoke alter-options k.t comment=x",
            "@10 p1 n2 invoke add-column k.t d:int",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f'{ALL} table k.t id=1 a:int* c:int d:int v:int {{"options": {{"comment": ""}}}}'],
        frozenset({"lost-option"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B10 - two fields at once",
        [
            "@10 p0 n1 invoke add-field k.u f1:int",
            "@10 p1 n2 invoke add-field k.u f2:int",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} type k.u f0:int f2:int"],
        frozenset({"lost-field"}),
        setup=[*SETUP, *TYPE],
    ),
    Bug(
        "B13b - DROP of a column and CREATE INDEX on it",
        [
            "@10 p0 n1 invoke drop-column k.t c",
            "@10 p1 n2 invoke create-index k.i t c",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f'{ALL} table k.t id=1 a:int* v:int {{"indexes": {{"i": {{"kind": "COMPOSITES", "target": "c"}}}}}}'],
        frozenset({"dangling-index-target"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B15 - two migrations at once: one acknowledged table is missing for good",
        [
            "@10 p0 n1 invoke create-table k.t1 a:int*",
            "@10 p1 n2 invoke create-table k.t2 a:int*",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [
            f"{ALL} version v1",
            "settled#1,restarted#1 n2 version v2",
            f"{ALL} table k.t1 id=3e8 a:int*",
            "settled#1,restarted#1 n2 keyspace k",
            "settled#1,restarted#1 n2 table k.t2 id=3e8 a:int*",
        ],
        frozenset({"schema-disagreement", "vanished-object", "shared-table-id"}),
    ),
    Bug(
        "B17 - one integer id for two tables while versions agree",
        [
            "@10 p0 n1 invoke create-table k.t1 a:int*",
            "@10 p1 n2 invoke create-table k.t2 a:int*",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} table k.t1 id=3e8 a:int*", f"{ALL} table k.t2 id=3e8 a:int*"],
        frozenset({"shared-table-id"}),
    ),
    Bug(
        "B23 - a DROP through a node whose clock is behind",
        ["@10 p0 n1 invoke drop-table k.t", "@12 p0 n1 ok"],
        [
            f"{ALL} table k.t id=1 a:int* c:int v:int",
            f"{ALL} live k CREATE KEYSPACE k",
            "settled n2,n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
            "restarted n1,n2,n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
        ],
        frozenset({"resurrected-object", "hidden-divergence", "memory-disk-divergence"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B23 - an ALTER through a node whose clock is behind",
        ["@10 p0 n1 invoke add-column k.t d:int", "@12 p0 n1 ok"],
        [
            f"{ALL} table k.t id=1 a:int* c:int v:int",
            "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, d int, v int)",
            "settled n2,n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
            "restarted n1,n2,n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
        ],
        frozenset({"lost-column", "hidden-divergence", "memory-disk-divergence"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B23 on 6.0 - rows of a clock that was ahead hide an ALTER in the copy of one node",
        ["@10 p0 n1 invoke add-column k.t d:int", "@12 p0 n1 ok"],
        [
            f'{ALL} version v9 {{"epoch": 9, "authority": "log"}}',
            "settled,restarted n1,n3 table k.t id=1 a:int* c:int d:int v:int",
            "settled,restarted n2 table k.t id=1 a:int* c:int v:int",
            f"{ALL} live k CREATE KEYSPACE k",
            f"{ALL} live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, d int, v int)",
        ],
        frozenset({"stale-schema-copy"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B24 - a CREATE after a DROP on a clock that is ahead",
        [
            "@10 p0 n1 invoke drop-table k.t",
            "@12 p0 n1 ok",
            "@14 p1 n2 invoke create-table k.t a:int* c:int v:int",
            "@16 p1 n2 ok",
        ],
        [
            f"{ALL} live k CREATE KEYSPACE k",
            "settled n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
        ],
        frozenset({"vanished-object", "hidden-divergence", "memory-disk-divergence"}),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "B25 - a column added after a DROP on a clock that is ahead",
        [
            "@10 p0 n1 invoke drop-column k.t c",
            "@12 p0 n1 ok",
            "@14 p1 n2 invoke add-column k.t c:int",
            "@16 p1 n2 ok",
        ],
        [f"{ALL} table k.t id=1 a:int* v:int"],
        frozenset({"lost-column"}),
        setup=[*SETUP, *TABLE],
    ),
]


CONTROLS = [
    Bug(
        "6.0 - the same name from three nodes: one ok, two AlreadyExists",
        [
            "@10 p0 n1 invoke create-table k.t a:int* x:int",
            "@10 p1 n2 invoke create-table k.t b:int* y:int",
            "@10 p2 n3 invoke create-table k.t a:int* z:int",
            "@12 p0 n1 fail AlreadyExists: k.t",
            "@12 p1 n2 ok",
            "@12 p2 n3 fail AlreadyExists: k.t",
        ],
        [f'{ALL} version v9 {{"epoch": 9}}', f"{ALL} table k.t id=9 b:int* y:int"],
        frozenset(),
    ),
    Bug(
        "6.0 - DROP TYPE after a table uses it is refused",
        [
            "@10 p0 n1 invoke drop-type k.u",
            "@10 p1 n2 invoke create-table k.x a:int* c:frozen<u>",
            "@12 p0 n1 fail InvalidRequest: in use",
            "@12 p1 n2 ok",
        ],
        [f"{ALL} type k.u f0:int", f"{ALL} table k.x id=9 a:int* c:frozen<u>"],
        frozenset(),
        setup=[*SETUP, *TYPE],
    ),
    Bug(
        "6.0 - DROP KEYSPACE first, CREATE TABLE refused",
        [
            "@10 p0 n1 invoke drop-keyspace k",
            "@10 p1 n2 invoke create-table k.t1 a:int*",
            "@12 p0 n1 ok",
            "@12 p1 n2 fail InvalidRequest: keyspace k does not exist",
            "@20 p3 n1 invoke create-keyspace k",
            "@21 p3 n1 ok",
        ],
        [],
        frozenset(),
        setup=[*SETUP, *TABLE],
    ),
    Bug(
        "6.0 - both options and both fields are there",
        [
            "@10 p0 n1 invoke alter-options k.t comment=x",
            "@10 p1 n2 invoke alter-options k.t gc_grace_seconds=1",
            "@10 p2 n3 invoke add-field k.u f1:int",
            "@10 p3 n3 invoke add-field k.u f2:int",
            "@12 p0 n1 ok",
            "@12 p1 n2 ok",
            "@12 p2 n3 ok",
            "@12 p3 n3 ok",
        ],
        [
            f'{ALL} table k.t id=1 a:int* c:int v:int {{"options": {{"comment": "x", "gc_grace_seconds": 1}}}}',
            f"{ALL} type k.u f0:int f2:int f1:int",
        ],
        frozenset(),
        setup=[*SETUP, *TABLE, *TYPE],
    ),
]

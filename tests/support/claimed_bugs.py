"""Known bugs whose symptoms are judged by more than the structure of the final schemas: rows, starts, deaths, logs, replicas.

Together with `known_bugs.BUGS` they show every bug that the catalogue of anomalies claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from histories import judged
from known_bugs import ALL, CHECKERS, KEYSPACE, SETUP, TABLE

from schemaquake.checkers.quorum.checker import Quorum
from schemaquake.checkers.rows.acked_rows import AckedRows
from schemaquake.checkers.run.restart import Restart
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import Records

__all__ = ["CLAIMED_BUGS", "ClaimedBug"]


@dataclass(frozen=True, kw_only=True)
class ClaimedBug:
    """A run in small that shows a bug, the findings that must be made of it, and its twin one event away, which is clean."""

    name: str
    checkers: Sequence[Checker]
    history: Sequence[str]
    observations: Sequence[str] = ()
    found: frozenset[str]
    twin: tuple[str, str]
    """Text that is replaced in every line to make the twin."""

    def records(self, *, twin: bool = False) -> Records:
        def lines(given: Sequence[str]) -> list[str]:
            return [line.replace(*self.twin) if twin else line for line in given]

        return judged(lines([*SETUP, *self.history]), lines([KEYSPACE, *self.observations]))

    def findings(self, *, twin: bool = False) -> set[str]:
        records = self.records(twin=twin)
        return {found.type for checker in self.checkers for found in checker.check(records, limit_s=10).anomalies}


def _start(node: str, error: str | None = None, *, phase: str = "restart") -> str:
    value = {"phase": phase, "served": error is None, "seconds": 9, "exit_code": None if error is None else 3}
    return f"-- {node} info node-start {orjson.dumps({**value, 'first_error': error}).decode()}"


def _read(at: int, node: str, value: int | None, writetime: int | None) -> list[str]:
    told = orjson.dumps({"value": value, "writetime": writetime}).decode()
    return [f'@{at} p{at} {node} invoke probe k.q/1 {{"consistency": "ONE"}}', f"@{at + 1} p{at} {node} ok {told}"]


_BOOTED = [_start(node, phase="boot") for node in ("n1", "n2", "n3")]
_NO_KEYS = "MissingColumns: No partition columns found for table k.t in system_schema.columns"

CLAIMED_BUGS = [
    ClaimedBug(
        name="B11 - many ALTERs at once: an added column is missing, a dropped one is back",
        checkers=CHECKERS,
        history=[
            *TABLE,
            *(
                "@10 p0 n1 invoke add-column k.t c1:int",
                "@11 p1 n2 invoke drop-column k.t v",
                "@12 p0 n1 ok",
                "@13 p1 n2 ok",
            ),
        ],
        observations=[f"{ALL} table k.t id=1 a:int* c:int v:int"],
        found=frozenset({"lost-column", "undead-column"}),
        twin=("k.t id=1 a:int* c:int v:int", "k.t id=1 a:int* c:int c1:int"),
    ),
    ClaimedBug(
        name="B12 - two collections added at once: the comparator has one of them",
        checkers=CHECKERS,
        history=[
            *TABLE,
            *("@10 p0 n1 invoke add-column k.t l1:list<int>", "@11 p1 n2 invoke add-column k.t l2:list<int>"),
            *("@12 p0 n1 ok", "@13 p1 n2 ok"),
        ],
        observations=[f"{ALL} table k.t id=1 a:int* c:int v:int l2:list<int>"],
        found=frozenset({"lost-column"}),
        twin=("v:int l2", "v:int l1:list<int> l2"),
    ),
    ClaimedBug(
        name="B16 - a node that is killed within a migration has the dropped table's rows when it is created again",
        checkers=[*CHECKERS, AckedRows()],
        history=[
            *TABLE,
            *('@5 p5 n1 invoke insert k.t {"row": {"a": 1}, "consistency": "ALL", "phase": "racing"}', "@6 p5 n1 ok"),
            *("@10 p0 n1 invoke drop-table k.t", "@11 p0 n1 ok"),
            *("@20 p0 n1 invoke create-table k.t a:int* c:int v:int", "@21 p0 n1 ok"),
            '@30 p6 n1 invoke read-rows k.t {"consistency": "ALL", "phase": "settled", "columns": ["a"], "where": {}}',
            '@31 p6 n1 ok {"rows": [{"a": 1}]}',
        ],
        observations=[f"{ALL} table k.t id=2 a:int* c:int v:int"],
        found=frozenset({"resurrected-rows"}),
        twin=('{"rows": [{"a": 1}]}', '{"rows": []}'),
    ),
    ClaimedBug(
        name="B16 - a node that is killed within a migration has the dropped table",
        checkers=CHECKERS,
        history=[*TABLE, "@10 p0 n1 invoke drop-table k.t", "@11 p0 n1 ok"],
        observations=[f"{ALL} table k.t id=1 a:int* c:int v:int"],
        found=frozenset({"resurrected-object"}),
        twin=("k.t id=1 a:int* c:int v:int", "k.t gone"),
    ),
    ClaimedBug(
        name="B18 - changes stamped with the time since boot: a younger node's CREATE is hidden",
        checkers=CHECKERS,
        history=["@10 p0 n1 invoke create-table k.y a:int*", "@11 p0 n1 ok"],
        observations=[f"{ALL} table k.y gone"],
        found=frozenset({"vanished-object"}),
        twin=("k.y gone", "k.y id=2 a:int*"),
    ),
    ClaimedBug(
        name="B19 - tombstones in the digest: contents agree, versions never do",
        checkers=CHECKERS,
        history=[*TABLE],
        observations=[
            f"{ALL} table k.t id=1 a:int* c:int v:int",
            "settled,restarted n1,n2 version v1",
            "settled,restarted n3 version v2",
        ],
        found=frozenset({"schema-disagreement"}),
        twin=("version v2", "version v1"),
    ),
    ClaimedBug(
        name="B19 - a version is announced before the schema is merged: a memory lacks the table",
        checkers=CHECKERS,
        history=[*TABLE],
        observations=[
            f"{ALL} table k.t id=1 a:int* c:int v:int",
            f"{ALL} live k CREATE KEYSPACE k",
            "settled,restarted n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
            "settled,restarted n3 live k.other CREATE TABLE k.other (a int PRIMARY KEY)",
        ],
        found=frozenset({"hidden-divergence", "memory-disk-divergence"}),
        twin=(
            "k.other CREATE TABLE k.other (a int PRIMARY KEY)",
            "k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, v int)",
        ),
    ),
    ClaimedBug(
        name="B20 - dropped columns are not in the digest: versions agree, schemas do not",
        checkers=CHECKERS,
        history=[*TABLE, "@10 p0 n1 invoke drop-column k.t v", "@11 p0 n1 ok"],
        observations=[
            'settled,restarted n1,n2 table k.t id=1 a:int* c:int {"dropped_columns": {"v": {"type": "int", "dropped_time": 11000}}}',
            'settled,restarted n3 table k.t id=1 a:int* c:int {"dropped_columns": {}}',
        ],
        found=frozenset({"hidden-divergence"}),
        twin=('{"dropped_columns": {}}', '{"dropped_columns": {"v": {"type": "int", "dropped_time": 11000}}}'),
    ),
    ClaimedBug(
        name="B21 - a node killed just after a change was acknowledged has half of it on disk",
        checkers=[Restart()],
        history=[*TABLE, *_BOOTED, _start("n1", f"ERROR [main] {_NO_KEYS}"), _start("n2"), _start("n3")],
        found=frozenset({"node-will-not-start"}),
        twin=(_start("n1", f"ERROR [main] {_NO_KEYS}"), _start("n1")),
    ),
    ClaimedBug(
        name="B22 - thousands of ALTERs: the stack overflows, and the node dies",
        checkers=[Restart()],
        history=[
            *TABLE,
            *_BOOTED,
            '-- n1 info node-died {"exit_code": 1, "first_error": "java.lang.StackOverflowError"}',
            *(_start(node) for node in ("n1", "n2", "n3")),
        ],
        found=frozenset({"node-died"}),
        twin=("info node-died", "info node-lived"),
    ),
    ClaimedBug(
        name="B26 - tombstones of the schema are purged: what was dropped comes back everywhere",
        checkers=CHECKERS,
        history=[*TABLE, "@10 p0 n1 invoke drop-table k.t", "@11 p0 n1 ok"],
        observations=["settled n1,n2,n3 table k.t gone", "restarted n1,n2,n3 table k.t id=1 a:int* c:int v:int"],
        found=frozenset({"resurrected-object", "changed-by-restart"}),
        twin=("k.t id=1 a:int* c:int v:int", "k.t gone"),
    ),
    ClaimedBug(
        name="B27 - a decommission that was tried again skips ranges: a value is on one replica of three",
        checkers=[Quorum()],
        history=[
            '@10 p0 n1 invoke put k.q/1 {"value": 7, "consistency": "QUORUM"}',
            "@12 p0 n1 ok",
            '@900 -- info phase {"phase": "final-settled", "state": "begins"}',
            *_read(901, "n1", 7, 11_000),
            *_read(903, "n2", None, None),
            *_read(905, "n3", None, None),
        ],
        found=frozenset({"under-replicated-value"}),
        twin=('{"value":null,"writetime":null}', '{"value":7,"writetime":11000}'),
    ),
]

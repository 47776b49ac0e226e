"""Schema linearizability at large: hundreds of changes, limits, and properties of whole runs. Apart, so that a mutant costs little."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from examples import examples
from histories import judged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfect_cluster import runs
from weakening import weakened

from schemaquake.checkers.ddl_order.checker import SchemaLinearizability
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict


def verdict_of(records: Records, **options: int) -> Verdict:
    return SchemaLinearizability(**options).check(records, limit_s=20)


def churn(seed: int, *, statements: int, lost: bool, joined: bool = False) -> Records:
    """Six workers on six tables of a keyspace that share one type; every answer is that of one order.

    `joined`: a DROP KEYSPACE that nobody heard of again makes one component of all objects.
    """
    chance = random.Random(seed)
    columns: dict[str, set[str]] = {f"t{number}": set() for number in range(6)}
    lines: list[tuple[int, str]] = [(0, "p90 n1 invoke create-keyspace k"), (1, "p90 n1 ok")]
    lines += [(2, "p91 n1 invoke create-type k.u f:int"), (3, "p91 n1 ok")]
    for number, table in enumerate(columns):
        lines += [(4, f"p{80 + number} n1 invoke create-table k.{table} a:int*"), (5, f"p{80 + number} n1 ok")]
    if joined:
        lines += [(50, "p95 n2 invoke drop-keyspace k"), (60, "p95 n2 info timed out")]
    point, processes = 100, list(range(6))
    for number in range(statements):
        point += 4
        worker, table, column = number % 6, chance.choice(list(columns)), f"c{number}"
        process, begins, ends = processes[worker], point - chance.randint(1, 10), point + chance.randint(1, 10)
        if columns[table] and chance.random() < 0.4:
            column = chance.choice(sorted(columns[table]))
            words = f"drop-column k.{table} {column}"
        else:
            words = f"add-column k.{table} {column}:{chance.choice(['int', 'frozen<u>'])}"
        happened = chance.random() < 0.97
        if happened:
            columns[table] ^= {column}
        unknown = not happened or chance.random() < 0.03
        node = f"n{worker % 3 + 1}"
        lines += [
            (begins, f"p{process} {node} invoke {words}"),
            (ends, f"p{process} {node} {'info' if unknown else 'ok'}"),
        ]
        processes[worker] += 6 if unknown else 0
    if lost:
        next(held for held in columns.values() if held).pop()
    shown = ["@9000 settled n1,n2,n3 keyspace k", "@9000 settled n1,n2,n3 type k.u f:int"]
    shown += [
        f"@9000 settled n1,n2,n3 table k.{t} id=1 a:int* {' '.join(f'{c}:x' for c in sorted(held))}".strip()
        for t, held in columns.items()
    ]
    return judged([f"@{at} {line}" for at, line in sorted(lines, key=lambda line: line[0])], shown)


@pytest.mark.parametrize("joined", [False, True], ids=["apart", "joined"])
@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_concurrent_changes_are_decided_in_as_many_steps(seed: int, joined: bool) -> None:
    statements = 200 if joined else 400
    held = verdict_of(churn(seed, statements=statements, lost=False, joined=joined))
    lost = verdict_of(churn(seed, statements=statements, lost=True, joined=joined))
    assert held.valid is True
    assert lost.valid is False
    assert max(verdict.stats["configurations"].value for verdict in (held, lost)) < 2 * statements
    assert len(lost.anomalies[0].ops) <= 3


def test_what_no_search_may_remember_is_unknown_and_says_so() -> None:
    verdict = verdict_of(churn(0, statements=200, lost=False), configurations_max=20)
    assert verdict.valid == "unknown"
    assert {doubt.kind for doubt in verdict.doubts} == {"memory"}


def test_the_time_limit_gives_unknown() -> None:
    verdict = SchemaLinearizability().check(churn(0, statements=300, lost=False), limit_s=0)
    assert verdict.valid == "unknown"
    assert {doubt.kind for doubt in verdict.doubts} == {"time"}


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────


def truthful(records: Records) -> Records:
    """The same run with refusals where that cluster calls a conditional statement a no-op, whatever refused it."""
    rows = records.history.to_pylist()
    for row in rows:
        if '"applied":false' in (row["value"] or ""):
            row |= {"type": "fail", "value": None, "error": "refused"}
    return Records.of(pa.Table.from_pylist(rows, schema=HISTORY), records.observations)


UNHURRIED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(records=runs())
def test_a_perfect_cluster_always_has_an_order(records: Records) -> None:
    verdict = verdict_of(truthful(records))
    assert not verdict.anomalies, verdict.anomalies[0].explanation
    assert verdict.valid is True


@UNHURRIED
@given(records=runs(), choices=st.data())
def test_weakening_answers_never_takes_the_order_away(records: Records, choices: st.DataObject) -> None:
    verdict = verdict_of(weakened(truthful(records), choices))
    assert not verdict.anomalies, verdict.anomalies[0].explanation

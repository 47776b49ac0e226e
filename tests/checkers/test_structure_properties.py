"""Properties of the structure checkers: no accusation of a perfect cluster, and nothing hangs on names or on luck."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pytest
from histories import judged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfect_cluster import runs
from test_known_bugs import BUGS, CHECKERS, CONTROLS, KEYSPACE, Bug

from harness.records import HISTORY, Records
from harness.verdict import Verdict

UNHURRIED = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def verdicts(records: Records) -> list[Verdict]:
    return [checker.check(records, limit_s=30) for checker in CHECKERS]


def weakened(records: Records, choices: st.DataObject) -> Records:
    """The same records, some answers of which never came."""
    rows = records.history.to_pylist()
    for row in rows:
        if row["type"] in {"ok", "fail"} and choices.draw(st.booleans()):
            row |= {"type": "info", "value": None, "error": "timed out"}
    return Records.of(pa.Table.from_pylist(rows, schema=HISTORY), records.observations)


@UNHURRIED
@given(records=runs())
def test_a_perfect_cluster_is_never_accused(records: Records) -> None:
    for verdict in verdicts(records):
        assert not verdict.anomalies, verdict.anomalies[0].explanation
        assert verdict.valid is True


@UNHURRIED
@given(records=runs(), choices=st.data())
def test_weakening_answers_to_info_never_turns_valid_into_invalid(records: Records, choices: st.DataObject) -> None:
    for verdict in verdicts(weakened(records, choices)):
        assert not verdict.anomalies, verdict.anomalies[0].explanation
        assert verdict.valid is not False


@settings(max_examples=40, deadline=None)
@given(bug=st.sampled_from([*BUGS, *CONTROLS]), choices=st.data())
def test_weakening_answers_of_a_damaged_run_adds_no_finding_of_operations(bug: Bug, choices: st.DataObject) -> None:
    before = {(v.checker, v.valid) for v in verdicts(bug.records())}
    after = {(v.checker, v.valid) for v in verdicts(weakened(bug.records(), choices))}
    newly_false = {checker for checker, valid in after - before if valid is False}
    assert not newly_false


NAMES = {
    "k": "shop",
    "t": "orders",
    "t1": "zebra",
    "t2": "apple",
    "u": "money",
    "w": "purse",
    "x": "extra",
    "m": "seen",
}
NODES = {"n1": "dc2-c", "n2": "dc1-b", "n3": "dc1-a"}


def renamed(line: str, names: Mapping[str, str]) -> str:
    def other(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return re.sub(r"(?<![\w-])\w+(?![\w-])", other, line)


def shifted(line: str) -> str:
    """Every process p as p + 100."""
    return re.sub(r"\bp(\d+) (?=n)", lambda match: f"p{int(match[1]) + 100} ", line)


def facts(records: Records, names: Mapping[str, str]) -> set[tuple[object, ...]]:
    return {
        (
            anomaly.type,
            frozenset(".".join(names.get(part, part) for part in key.split(".")) for key in anomaly.objects),
            frozenset(names.get(node, node) for node in anomaly.nodes),
            anomaly.ops,
        )
        for verdict in verdicts(records)
        for anomaly in verdict.anomalies
    }


@pytest.mark.parametrize("bug", [*BUGS, *CONTROLS], ids=lambda bug: bug.name)
def test_renaming_objects_nodes_and_processes_changes_nothing(bug: Bug) -> None:
    history = [shifted(line) for line in (*bug.setup, *bug.history)]
    observations = [KEYSPACE, *bug.observations]
    plain = judged(history, observations)
    other = judged(
        [renamed(renamed(line, NAMES), NODES) for line in history],
        [renamed(renamed(line, NAMES), NODES) for line in observations],
    )
    assert facts(other, {}) == facts(plain, {**NAMES, **NODES})

"""A perfect cluster is accused in no era's words, and a loss is found in all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_bugs import CHECKERS
from perfect_cluster import Request, changes, run
from told_by_eras import FOREIGN, LINES, told

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.model.records import OBSERVATIONS, Records
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Verdict

each_line = pytest.mark.parametrize("line", LINES)

OPENING = [
    ddl.create_keyspace("k", replication_factor=3),
    ddl.create_table("k", "t", columns=[("a", "int", "partition_key"), ("c", "int", "regular")]),
]


def expressible(change: Invoke, line: str) -> bool:
    types = [column[1] for column in change.value.get("columns", ())] + list(change.value.get("column", ())[1:])
    foreign = {"<"} if line < "1.2" else {"u"} if line < "2.1" else set()
    return change.f not in FOREIGN[line] and not any(mark in t for t in types for mark in foreign if isinstance(t, str))


def requests(line: str) -> st.SearchStrategy[list[Request]]:
    fates = ["answered"] * 6 + ["refused", "unknown", "never", "late"]
    span = st.integers(min_value=2, max_value=350)
    known = changes().filter(lambda change: expressible(change, line))
    request = st.builds(Request, known, span, span, st.sampled_from(fates), st.integers(0, 7))
    return st.lists(request, min_size=4, max_size=24)


def in_words_of(records: Records, line: str) -> Records:
    rows = told(records.observations.to_pylist(), line)
    return Records.of(records.history, pa.Table.from_pylist(rows, schema=OBSERVATIONS))


def verdicts(records: Records) -> list[Verdict]:
    return [checker.check(records, limit_s=30) for checker in CHECKERS]


@each_line
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(choices=st.data())
def test_a_perfect_cluster_is_accused_in_no_era_s_words(line: str, choices: st.DataObject) -> None:
    opening = [Request(change, 2, 2, "answered", 7) for change in OPENING]
    records = in_words_of(run([*opening, *choices.draw(requests(line))]), line)
    for verdict in verdicts(records):
        assert not verdict.anomalies, verdict.anomalies[0].explanation
        assert verdict.valid is True, verdict.reason


LOSABLE = [
    (ddl.create_keyspace("l", replication_factor=3), "vanished-object"),
    (ddl.alter_keyspace("k", replication_factor=2), "lost-option"),
    (ddl.drop_keyspace("k"), "resurrected-object"),
    (ddl.create_table("k", "x", columns=[("a", "int", "partition_key")]), "vanished-object"),
    (ddl.drop_table("k", "t"), "resurrected-object"),
    (ddl.add_column("k", "t", "e", "int"), "lost-column"),
    (ddl.drop_column("k", "t", "c"), "undead-column"),
    (ddl.alter_options("k", "t", {"comment": "x"}), "lost-option"),
    (ddl.create_index("k", "p", table="t", column="c"), "vanished-object"),
]


@pytest.mark.parametrize(
    ("line", "change", "found"),
    [
        pytest.param(line, change, found, id=f"{line}-{change.f}-{found}")
        for line in LINES
        for change, found in LOSABLE
        if change.f not in FOREIGN[line]  # a line that has no such change cannot lose it
    ],
)
def test_an_acknowledged_change_that_left_no_trace_is_found_in_every_era_s_words(
    line: str, change: Invoke, found: str
) -> None:
    opening = [Request(before, 2, 2, "answered", 0) for before in OPENING]
    acknowledged = run([*opening, Request(change, 2, 2, "answered", 0)]).history
    lost = in_words_of(run([*opening, Request(change, 2, 2, "never", 0)]), line).observations
    assert {a.type for verdict in verdicts(Records.of(acknowledged, lost)) for a in verdict.anomalies} == {found}


@each_line
def test_what_one_node_lacks_is_noticed_in_every_era_s_words(line: str) -> None:
    opening = [Request(change, 2, 2, "answered", 0) for change in OPENING]
    records = in_words_of(run([*opening, Request(ddl.add_column("k", "t", "e", "int"), 2, 2, "answered", 0)]), line)
    rows = records.observations.to_pylist()
    (table,) = [row for row in rows if (row["phase"], row["node"], row["kind"]) == ("settled", "n2", "table")]
    rows.remove(table)
    damaged = Records.of(records.history, pa.Table.from_pylist(rows, schema=OBSERVATIONS))
    found = {anomaly.type for verdict in verdicts(damaged) for anomaly in verdict.anomalies}
    assert {"hidden-divergence", "vanished-object"} <= found

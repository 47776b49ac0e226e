"""Properties of the structure checkers: no accusation of a perfect cluster, and nothing hangs on names or on luck."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from examples import examples
from histories import judged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_bugs import BUGS, CHECKERS, CONTROLS, KEYSPACE, Bug
from perfect_cluster import Request, run, runs
from weakening import weakened

from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Verdict

UNHURRIED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def verdicts(records: Records) -> list[Verdict]:
    return [checker.check(records, limit_s=30) for checker in CHECKERS]


@UNHURRIED
@given(records=runs())
def test_a_perfect_cluster_is_never_accused(records: Records) -> None:
    for verdict in verdicts(records):
        assert not verdict.anomalies, verdict.anomalies[0].explanation
        assert verdict.valid is True or verdict.judged_nothing


@UNHURRIED
@given(records=runs(), choices=st.data())
def test_weakening_answers_to_info_never_turns_valid_into_invalid(records: Records, choices: st.DataObject) -> None:
    for verdict in verdicts(weakened(records, choices)):
        assert not verdict.anomalies, verdict.anomalies[0].explanation
        assert verdict.valid is not False


@settings(max_examples=examples(40), deadline=None)
@given(bug=st.sampled_from([*BUGS, *CONTROLS]), choices=st.data())
def test_weakening_answers_of_a_damaged_run_adds_no_finding_of_operations(bug: Bug, choices: st.DataObject) -> None:
    before = {(v.checker, v.valid) for v in verdicts(bug.records())}
    after = {(v.checker, v.valid) for v in verdicts(weakened(bug.records(), choices))}
    newly_false = {checker for checker, valid in after - before if valid is False}
    assert not newly_false


@UNHURRIED
@given(records=runs(), choices=st.data())
def test_whatever_one_nodes_disk_lacks_is_noticed(records: Records, choices: st.DataObject) -> None:
    rows = records.observations.to_pylist()
    of_n2 = [row for row in rows if (row["phase"], row["node"]) == ("settled", "n2")]
    on_disk = [row for row in of_n2 if row["kind"] not in {"version", "live"}]
    if not on_disk:
        return
    lacking = choices.draw(st.sampled_from(on_disk))
    rows.remove(lacking)
    damaged = Records.of(records.history, pa.Table.from_pylist(rows, schema=OBSERVATIONS))
    found = {anomaly.type for verdict in verdicts(damaged) for anomaly in verdict.anomalies}
    assert "hidden-divergence" in found or _may_be_under_way(damaged, lacking)


def _may_be_under_way(records: Records, row: Mapping[str, Any]) -> bool:
    """Tell if divergence names a DROP or CREATE of unknown outcome that may be reaching this row's object just then."""
    key = row["keyspace"] if row["kind"] == "keyspace" else f"{row['keyspace']}.{row['name']}"
    unknown = {
        (event["f"], event["key"])
        for event in records.history.to_pylist()
        if event["type"] == "info" and event["f"].startswith(("drop-", "create-"))
    }
    verdict = next(verdict for verdict in verdicts(records) if verdict.checker == "divergence")
    doubted = {key for doubt in verdict.doubts if doubt.kind == "undecided" for key in doubt.objects}
    reaching = {(f"{verb}-{row['kind']}", key) for verb in ("drop", "create")} | {("drop-keyspace", row["keyspace"])}
    return verdict.valid == "unknown" and key in doubted and bool(unknown & reaching)


OPENING = [
    ddl.create_keyspace("k", replication_factor=3),
    ddl.create_type("k", "u", fields=[("f0", "int")]),
    ddl.create_type("k", "w", fields=[("f0", "int")]),
    ddl.create_table("k", "t", columns=[("a", "int", "partition_key"), ("c", "int", "regular"), ("d", "u", "regular")]),
    ddl.create_function("k", "f", arguments=[("s", "int")], returns="int", body="return s;"),
    ddl.create_function("k", "h", arguments=[("s", "int")], returns="int", body="return s;"),
    ddl.create_aggregate("k", "g", arguments=["int"], state_function="f", state_type="int"),
    ddl.create_index("k", "i", table="t", column="c"),
    ddl.create_table("k", "s", columns=[("a", "int", "partition_key"), ("c", "int", "regular")]),
    ddl.create_view("k", "m", base="s", primary_key=["c", "a"]),
]
LOSABLE = [
    (ddl.create_keyspace("l", replication_factor=3), "vanished-object"),
    (ddl.alter_keyspace("k", replication_factor=2), "lost-option"),
    (ddl.drop_keyspace("k"), "resurrected-object"),
    (ddl.create_table("k", "x", columns=[("a", "int", "partition_key")]), "vanished-object"),
    (ddl.drop_table("k", "t"), "resurrected-object"),
    (ddl.add_column("k", "t", "e", "int"), "lost-column"),
    (ddl.drop_column("k", "t", "d"), "undead-column"),
    (ddl.alter_options("k", "t", {"comment": "x"}), "lost-option"),
    (ddl.create_type("k", "v", fields=[("f0", "int")]), "vanished-object"),
    (ddl.add_field("k", "u", "f1", "int"), "lost-field"),
    (ddl.drop_type("k", "w"), "resurrected-object"),
    (ddl.create_function("k", "j", arguments=[], returns="int", body="return 1;"), "vanished-object"),
    (ddl.drop_function("k", "h"), "resurrected-object"),
    (ddl.create_aggregate("k", "o", arguments=[], state_function="f", state_type="int"), "vanished-object"),
    (ddl.drop_aggregate("k", "g"), "resurrected-object"),
    (ddl.create_view("k", "n", base="t", primary_key=["c", "a"]), "vanished-object"),
    (ddl.drop_view("k", "m"), "resurrected-object"),
    (ddl.create_index("k", "p", table="t", column="d"), "vanished-object"),
    (ddl.drop_index("k", "i"), "resurrected-object"),
]


@pytest.mark.parametrize(("change", "found"), LOSABLE, ids=lambda value: getattr(value, "f", value))
def test_an_acknowledged_change_that_left_no_trace_is_found_by_its_name(change: Invoke, found: str) -> None:
    opening = [Request(before, 2, 2, "answered", 0) for before in OPENING]
    history = {
        fate: run([*opening, Request(change, 2, 2, fate, 0)]).history.to_pylist() for fate in ("answered", "never")
    }
    assert history["answered"][-1]["type"] == "ok"
    lost = run([*opening, Request(change, 2, 2, "never", 0)]).observations
    acknowledged = Records.of(pa.Table.from_pylist(history["answered"], schema=HISTORY), lost)
    unknown = Records.of(pa.Table.from_pylist(history["never"], schema=HISTORY), lost)
    assert {anomaly.type for verdict in verdicts(acknowledged) for anomaly in verdict.anomalies} == {found}
    assert all(verdict.valid is True or verdict.judged_nothing for verdict in verdicts(unknown))


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

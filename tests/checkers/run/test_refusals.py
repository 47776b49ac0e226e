"""Storms of refused operations, and everything that explains refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from histories import judged

from schemaquake.checkers.run.availability import Availability
from schemaquake.harness.model.verdict import Verdict

CREATED = ("@1 p900 n1 invoke create-table k.t a:int*", "@2 p900 n1 ok")
ROW = 'insert k.t {"row": {"a": 1}, "consistency": "QUORUM"}'
NODES = ("n1", "n2", "n3")
REFUSED = "info WriteFailure: INCOMPATIBLE_SCHEMA from /10.0.0.2"


def calls(
    what: str, outcome: str, *, begins: int = 20_000, ends: int = 27_000, every: int = 500, nodes: Sequence[str] = NODES
) -> list[str]:
    """Calls of one kind, each through another node and 100 ms long; times in ms."""
    lines = []
    for number, time in enumerate(range(begins, ends, every)):
        process, node = f"p{time}", nodes[number % len(nodes)]
        lines += [f"@{time} {process} {node} invoke {what}", f"@{time + 100} {process} {node} {outcome}"]
    return lines


def verdict(*groups: Iterable[str]) -> Verdict:
    return Availability().check(judged([*CREATED, *(line for group in groups for line in group)]), limit_s=5)


def fault(node: str, *, begins: int = 15_000, ends: int = 60_000) -> list[str]:
    value = f'{{"id": {begins}, "nemesis": "kill", "nodes": ["{node}"]}}'
    return [f"@{begins} -- info fault-begins {value}", f"@{ends} -- info fault-ends {value}"]


STORMS = {
    "writes": (ROW, REFUSED, "write"),
    "writes that certainly failed": (ROW, "fail InvalidRequest: unconfigured table t", "write"),
    "reads": ('read-rows k.t {"consistency": "QUORUM"}', "fail ServerError: java.lang.RuntimeException: no", "read"),
    "schema changes": (
        "create-table k.x a:int*",
        "fail SchemaDisagreementException: not yet agreed",
        "schema change",
    ),
    "schema changes of unknown outcome": ("add-column k.t c:int", "info ServerError: no", "schema change"),
    "commits": ("drop-table k.y", "info InvalidRequest: Could not perform commit after 3 attempts", "schema change"),
}


@pytest.mark.parametrize(("what", "outcome", "kind"), STORMS.values(), ids=STORMS)
def test_a_storm_of_refusals_is_found_under_its_kind(what: str, outcome: str, kind: str) -> None:
    (found,) = verdict(calls(what, outcome)).anomalies
    assert (found.type, found.evidence["kind"], found.evidence["attempts"]) == ("refused-operations", kind, 14)
    assert found.nodes == NODES
    assert found.evidence["faults"] == []


def test_faults_on_other_nodes_are_told_and_explain_nothing() -> None:
    (found,) = verdict(calls(ROW, REFUSED, nodes=("n1", "n2")), fault("n3")).anomalies
    assert found.evidence["faults"] == [{"nemesis": "kill", "nodes": ["n3"]}]


LEGAL = {
    "one was answered": [*calls(ROW, REFUSED, ends=24_000), *calls(ROW, "ok", begins=23_800, ends=24_100), *calls(ROW, REFUSED, begins=24_250)],
    "not for long": calls(ROW, REFUSED, ends=24_500),
    "few": calls(ROW, REFUSED, every=2000),
    "with long pauses": calls(ROW, REFUSED.replace("info", "fail"), every=4000, ends=60_000),
    "through one coordinator of several": [*calls(ROW, "ok", begins=8000, ends=10_000), *calls(ROW, REFUSED, nodes=("n1",))],
    "of another kind than what was answered": [*calls(ROW, "info WriteTimeout: no"), *calls("read-rows k.t {}", "ok", begins=20_001)],
    "nobody answered": calls(ROW, "info OperationTimedOut: no"),
    "the schema does not admit it": calls("create-table k.t a:int*", "fail AlreadyExists: Table k.t already exists"),
    "there is no such object": calls("drop-table k.z", "fail InvalidRequest: Table 'k.z' doesn't exist"),
    "a fault on a majority": [*calls(ROW, REFUSED), *fault("n2"), *fault("n3", begins=15_001, ends=60_001)],
    "faults on the coordinators": [*calls(ROW, REFUSED, nodes=("n1", "n2")), *fault("n1"), *fault("n2", begins=15_001, ends=60_001)],
    "a fault on a majority that has just ended": [*calls(ROW, REFUSED, ends=26_000), *fault("n1", ends=22_000), *fault("n2", begins=15_001, ends=22_001)],
    "the table may be dropped": [*calls(ROW, REFUSED), "@19000 p901 n1 invoke drop-table k.t", "@19100 p901 n1 info no"],
    "its keyspace may be dropped": [*calls(ROW, REFUSED), "@19000 p901 n1 invoke drop-keyspace k"],
    "the table was changed in the meantime": [*calls(ROW, REFUSED), "@22000 p901 n1 invoke add-column k.t c:int", "@22010 p901 n1 ok"],
    "the table has just been created": [
        "@19000 p902 n1 invoke create-table k.u a:int*", "@19001 p902 n1 ok",
        *calls(ROW.replace("k.t", "k.u"), "fail InvalidRequest: unconfigured table u", ends=25_500),
    ],
    "the condition did not hold": calls(ROW, "fail not applied: the condition did not hold"),
}  # fmt: skip


@pytest.mark.parametrize("lines", LEGAL.values(), ids=LEGAL)
def test_what_is_no_storm(lines: Sequence[str]) -> None:
    judgement = verdict(lines)
    assert judgement.anomalies == ()
    assert judgement.valid is True


def test_a_drop_of_another_table_is_no_excuse() -> None:
    dropped = ("@19000 p901 n1 invoke drop-table k.other", "@19100 p901 n1 ok")
    assert [found.type for found in verdict(calls(ROW, REFUSED), dropped).anomalies] == ["refused-operations"]


# ── attempts that need every replica ─────────────────────────────────────────────────────────────────────────────────

AT_ALL = ROW.replace("QUORUM", "ALL")


@pytest.mark.parametrize(("what", "valid"), [(AT_ALL, True), (ROW, False)], ids=["ALL", "QUORUM"])
def test_attempts_that_need_every_replica_are_not_expected_to_succeed_while_one_is_down(
    what: str, *, valid: bool
) -> None:
    attempts = calls(what, "fail Unavailable: 2 of 3 are alive", ends=60_000, every=1000, nodes=("n1", "n2"))
    judgement = verdict(attempts, fault("n3"))
    assert judgement.valid is valid
    assert [found.type for found in judgement.anomalies] == ([] if valid else ["unavailable"])


def test_attempts_at_all_that_nobody_answers_are_unavailable_while_every_node_is_whole() -> None:
    attempts = calls(AT_ALL, "fail Unavailable: 2 of 3 are alive", ends=60_000, every=1000)
    assert [found.type for found in verdict(attempts).anomalies] == ["unavailable"]


def test_after_the_fault_attempts_at_all_must_be_answered_again() -> None:
    attempts = calls(AT_ALL, "fail Unavailable: 2 of 3 are alive", ends=60_000, every=1000, nodes=("n1", "n2"))
    assert [found.type for found in verdict(attempts, fault("n3", ends=25_000)).anomalies] == ["unavailable"]

"""Storms of refused operations, and everything that explains refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.run.availability import Availability
from schemaquake.checkers.run.refusals import Refusals
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
    "compare-and-sets": ("cas k.t", "fail InvalidRequest: unconfigured table t", "compare-and-set"),
    "compare-and-sets of unknown outcome": ("cas k.t", REFUSED, "compare-and-set"),
    "transactions": ("txn k.t", "fail InvalidRequest: unconfigured table t", "transaction"),
    "commits": ("drop-table k.y", "info InvalidRequest: Could not perform commit after 3 attempts", "schema change"),
}


@pytest.mark.parametrize(("what", "outcome", "kind"), STORMS.values(), ids=STORMS)
def test_a_storm_of_refusals_is_found_under_its_kind(what: str, outcome: str, kind: str) -> None:
    (found,) = verdict(calls(what, outcome)).anomalies
    assert (found.type, found.evidence["kind"], found.evidence["attempts"]) == ("refused-operations", kind, 14)
    assert found.nodes == NODES
    assert found.evidence["faults"] == []


ONE = calls(ROW.replace("QUORUM", "ONE"), "ok", begins=20_010)
OTHER = calls(ROW.replace("k.t", "k.z"), "ok", begins=20_020)
ANOTHER_TABLE = ("@3 p901 n1 invoke create-table k.z a:int*", "@4 p901 n1 ok")
PARTS = {
    "one level": (calls(ROW, REFUSED), ONE, {"consistency": "QUORUM"}),
    "one level of reads": (
        calls('read-rows k.t {"consistency": "QUORUM"}', "info ReadFailure: INCOMPATIBLE_SCHEMA from /10.0.0.2"),
        calls('read-rows k.t {"consistency": "ONE"}', "ok", begins=20_010),
        {"consistency": "QUORUM"},
    ),
    "one function": (calls(ROW, REFUSED), calls("truncate k.t", "ok", begins=20_010), {"consistency": "QUORUM"}),
    "one function without a level": (calls("truncate k.t", "info ServerError: no"), ONE, {"f": "truncate"}),
    "one table": (calls(ROW, REFUSED), [*ANOTHER_TABLE, *OTHER], {"table": "k.t"}),
    "one table at one level": (
        calls(ROW, REFUSED),
        [*ANOTHER_TABLE, *OTHER, *ONE],
        {"table": "k.t", "consistency": "QUORUM"},
    ),
    "one coordinator": (
        calls(ROW, REFUSED, nodes=("n1",)),
        calls(ROW, "ok", begins=20_010, nodes=("n2", "n3")),
        {"node": "n1"},
    ),
    "one coordinator and level": (
        calls(ROW, REFUSED, nodes=("n1",)),
        [*ONE, *calls(ROW, "ok", begins=20_030, nodes=("n2", "n3"))],
        {"node": "n1", "consistency": "QUORUM"},
    ),
    "one coordinator of compare-and-sets": (
        calls("cas k.t", REFUSED, nodes=("n1",)),
        calls("cas k.t", "ok", begins=20_010, nodes=("n2", "n3")),
        {"node": "n1"},
    ),
    "one coordinator of changes": (
        calls("add-column k.t c:int", "fail InvalidRequest: unconfigured table t", nodes=("n1",)),
        calls("add-column k.t d:int", "ok", begins=20_010, nodes=("n2", "n3"), every=3000),
        {"node": "n1"},
    ),
    "one kind of change": (
        calls("add-column k.t c:int", "fail ServerError: no"),
        calls("create-table k.x a:int*", "ok", begins=20_010),
        {"f": "add-column"},
    ),
}


@pytest.mark.parametrize(("refused", "answered", "narrowed"), PARTS.values(), ids=PARTS)
def test_a_storm_in_one_part_of_the_operations_is_found_although_others_are_answered(
    refused: Sequence[str], answered: Sequence[str], narrowed: dict[str, str]
) -> None:
    (found,) = verdict(refused, answered).anomalies
    assert {
        name: found.evidence.get(name) for name in ("f", "table", "consistency", "node") if name in found.evidence
    } == narrowed
    assert found.evidence["attempts"] == 14


IN_A_KEYSPACE = ("@1 p905 n1 invoke create-keyspace k", "@2 p905 n1 ok")
ADMITTED = {
    "a new column": ("add-column k.t c:int", "InvalidRequest: it cannot be done"),
    "a new column of a table that is said to be unknown": ("add-column k.t c:int", "InvalidRequest: Table 'k.t' doesn't exist"),
    "a comment": ("alter-options k.t comment=x", "InvalidRequest: Unknown property"),
    "a new table": ("create-table k.x a:int*", "InvalidRequest: Keyspace 'k' doesn't exist"),
    "a new table that is said to be there": ("create-table k.x a:int*", "AlreadyExists: Table 'k.x' already exists"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "error"), ADMITTED.values(), ids=ADMITTED)
def test_no_words_excuse_the_refusal_of_a_change_that_the_schema_certainly_admits(what: str, error: str) -> None:
    (found,) = verdict(IN_A_KEYSPACE, calls(what, f"fail {error}")).anomalies
    assert (found.type, found.evidence["kind"]) == ("refused-operations", "schema change")


CANNOT = "fail InvalidRequest: it cannot be done"
NOT_ADMITTED = {
    "a column that is there": calls("add-column k.t a:int", CANNOT),
    "a column that was there": ["@3 p906 n1 invoke drop-column k.t c", "@4 p906 n1 ok", *calls("add-column k.t c:int", CANNOT)],
    "a column of a type that may be unknown": calls("add-column k.t c:u", CANNOT),
    "a column of a table that may be gone": ["@3 p906 n1 invoke drop-table k.t", *calls("add-column k.t c:int", CANNOT)],
    "a column of a table that nobody knows": calls("add-column k.y c:int", CANNOT),
    "a column of a table that is young": ["@19000 p906 n1 invoke create-table k.y a:int*", "@19001 p906 n1 ok", *calls("add-column k.y c:int", CANNOT, ends=25_500)],
    "a column of a table of counters": ["@3 p906 n1 invoke create-table k.y a:int* b:counter", "@4 p906 n1 ok", *calls("add-column k.y c:int", CANNOT)],
    "a static column, of a table without clustering": calls('add-column k.t c:int {"static": true}', CANNOT),
    "a table that may be there": ["@19000 p906 n1 invoke create-table k.x a:int*", *calls("create-table k.x a:int*", CANNOT)],
    "a table with the name of a view": ['@19000 p906 n1 invoke create-view k.x {"base": "t", "primary_key": ["a"]}', *calls("create-table k.x a:int*", CANNOT)],
    "a table of a keyspace that may be gone": ["@19000 p906 n1 invoke drop-keyspace k", *calls("create-table k.x a:int*", CANNOT)],
    "a table without a key": calls("create-table k.x a:int", CANNOT),
    "an option with other values": calls("alter-options k.t gc_grace_seconds=-1", CANNOT),
    "what the system does not offer": calls("add-column k.t c:int", "fail InvalidRequest: not supported"),
    "a table of a keyspace with statements of free text": ['@3 p906 n1 invoke cql k {"statement": "DROP KEYSPACE k"}', *calls("create-table k.x a:int*", CANNOT)],
}  # fmt: skip


@pytest.mark.parametrize("lines", NOT_ADMITTED.values(), ids=NOT_ADMITTED)
def test_refusals_of_changes_that_the_schema_may_not_admit_are_no_storm(lines: Sequence[str]) -> None:
    assert verdict(IN_A_KEYSPACE, lines).anomalies == ()


FRESH = ("@1500 p906 n1 invoke create-table k.y a:int* c:int", "@1600 p906 n1 ok")
MARKED = ("@1500 p906 n1 invoke create-table k.y a:int* b:int+ v:int", "@1600 p906 n1 ok")


def rows(row: str, error: str = "fail InvalidRequest: no") -> list[str]:
    return calls(f'insert k.y {{"row": {{{row}}}, "consistency": "QUORUM"}}', error)


EXPLAINED = {
    "a column that the table never had": [*MARKED, *rows('"a": 1, "b": 2, "w": 3')],
    "a row without its whole key": [*MARKED, *rows('"a": 1, "v": 2')],
    "a column of two types": [*MARKED, "@1700 p906 n1 invoke add-column k.y v:text", *rows('"a": 1, "b": 2, "v": 3')],
    "a text for a number": [*MARKED, *rows('"a": 1, "b": 2, "v": "three"')],
    "a column whose ADD may not have happened": [*MARKED, "@1700 p906 n1 invoke add-column k.y w:int", "@1800 p906 n1 info no", *rows('"a": 1, "b": 2, "w": 3')],
    "a column that was renamed": [*MARKED, "@1700 p906 n1 invoke rename-column k.y b>c", "@1800 p906 n1 ok", *rows('"a": 1, "b": 2')],
    "nobody is connected": [*MARKED, *rows('"a": 1, "b": 2', "fail NotConnected: n1")],
    "a column that was dropped": [
        "@3 p906 n1 invoke drop-column k.t v", "@4 p906 n1 ok",
        *calls('insert k.t {"row": {"a": 1, "v": 2}, "consistency": "QUORUM"}', "fail InvalidRequest: Undefined column name v"),
    ],
    "a table that nodes may pull later": [
        '@1 -- info run-planned {"restart": "kill", "logs": [], "pull_delay_s": 60}', *FRESH, *OTHER, *ANOTHER_TABLE,
        *calls(ROW.replace("k.t", "k.y"), "info WriteFailure: INCOMPATIBLE_SCHEMA", nodes=("n2", "n3")),
    ],
    "probes of a final phase": [
        *ANOTHER_TABLE, *OTHER,
        *calls('insert k.t {"row": {"a": 1}, "consistency": "QUORUM", "phase": "settled"}', REFUSED),
    ],
    "rows of one table at ALL while a node is down": [
        *ONE, *fault("n3"), *calls(ROW.replace("QUORUM", "ALL"), REFUSED, nodes=("n1", "n2")),
    ],
}  # fmt: skip


def test_a_row_of_the_whole_key_and_known_columns_fits() -> None:
    added = ("@1700 p906 n1 invoke add-column k.y w:int", "@1800 p906 n1 ok")
    for row in ('"a": 1, "b": 2', '"a": 1, "b": 2, "v": 3', '"a": 1, "b": 2, "w": 3'):
        (found,) = verdict(MARKED, added, rows(row)).anomalies
        assert found.evidence["kind"] == "write"


@pytest.mark.parametrize("lines", EXPLAINED.values(), ids=EXPLAINED)
def test_what_explains_the_refusals_of_a_part(lines: Sequence[str]) -> None:
    assert [found for found in verdict(lines).anomalies if found.type == "refused-operations"] == []


def test_faults_on_other_nodes_are_told_and_explain_nothing() -> None:
    (found,) = verdict(calls(ROW, REFUSED, nodes=("n1", "n2")), fault("n3")).anomalies
    assert found.evidence["faults"] == [{"nemesis": "kill", "nodes": ["n3"]}]


LEGAL = {
    "one was answered": [*calls(ROW, REFUSED, ends=24_000), *calls(ROW, "ok", begins=23_800, ends=24_100), *calls(ROW, REFUSED, begins=24_250)],
    "not for long": calls(ROW, REFUSED, ends=24_500),
    "few": calls(ROW, REFUSED, every=2000),
    "with long pauses": calls(ROW, REFUSED.replace("info", "fail"), every=4000, ends=60_000),
    "through one coordinator of several, and few": [*calls(ROW, "ok", begins=8000, ends=10_000), *calls(ROW, REFUSED, nodes=("n1",), every=800)],
    "through one coordinator that answers others in between": [*calls(ROW, REFUSED, nodes=("n1",)), *calls(ROW, "ok", begins=20_050, nodes=("n1",), every=2000)],
    "through one coordinator under a fault": [*calls(ROW, "ok", begins=20_050, nodes=("n2", "n3")), *calls(ROW, REFUSED, nodes=("n1",)), *fault("n1")],
    "of changes through one coordinator that may not admit them": [
        *calls("create-table k.x a:int*", "fail InvalidRequest: Keyspace 'k' doesn't exist", nodes=("n1",)),
        *calls("create-table k.x a:int*", "ok", begins=20_050, nodes=("n2", "n3"), every=2000),
    ],
    "compare-and-sets that others had refused": calls("cas k.t", "info CasWriteUnknownResultException: no"),
    "compare-and-sets whose condition did not hold": calls("cas k.t", "fail not applied"),
    "transactions that others had refused": calls("txn k.t", "fail ServerError: could not serialize access"),
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
    "its CREATE was not acknowledged": [
        "@1000 p902 n1 invoke create-table k.u a:int*", "@1100 p902 n1 info OperationTimedOut: no",
        *calls(ROW.replace("k.t", "k.u"), "fail InvalidRequest: unconfigured table u"),
    ],
    "the CREATE of its keyspace was not acknowledged": [
        "@1000 p902 n1 invoke create-keyspace k", "@1100 p902 n1 info ConnectionShutdown: no",
        "@1200 p903 n1 invoke create-table k.u a:int*", "@1300 p903 n1 fail NoHostAvailable: no",
        *calls(ROW.replace("k.t", "k.u"), "fail InvalidRequest: Keyspace k does not exist"),
    ],
    "the condition did not hold": calls(ROW, "fail not applied: the condition did not hold"),
}  # fmt: skip


@pytest.mark.parametrize("lines", LEGAL.values(), ids=LEGAL)
def test_what_is_no_storm(lines: Sequence[str]) -> None:
    judgement = verdict(lines)
    assert judgement.anomalies == ()
    assert judgement.valid is True


def test_a_table_that_nobody_created_was_there_before() -> None:
    strange = calls(ROW.replace("k.t", "other.t"), "fail InvalidRequest: unconfigured table t")
    assert [found.type for found in verdict(strange).anomalies] == ["refused-operations"]


def test_a_drop_of_another_table_is_no_excuse() -> None:
    dropped = ("@19000 p901 n1 invoke drop-table k.other", "@19100 p901 n1 ok")
    assert [found.type for found in verdict(calls(ROW, REFUSED), dropped).anomalies] == ["refused-operations"]


def test_a_drop_explains_refusals_of_what_it_may_have_dropped_alone() -> None:
    """Tables and keyspaces of which the history has no CREATE were there before it."""
    storm = calls(ROW.replace("k.t", "old.t"), REFUSED)
    drops = {"drop-table k.t": True, "drop-table old.z": True, "drop-table old.t": False, "drop-keyspace old": False}
    for drop, found in drops.items():
        lines = ["@19000 p901 n1 invoke " + drop, "@19100 p901 n1 ok"]
        assert bool(attempts(storm, lines)) is found, drop


# ── changes of unknown outcome that take effect late ─────────────────────────────────────────────────────────────────


def altered(
    at: int = 3000, *, outcome: str = "info OperationTimedOut: no", what: str = "add-column k.t c:int"
) -> list[str]:
    return [f"@{at} p{at} n1 invoke {what}", f"@{at + 10} p{at} n1 {outcome}"]


def test_an_alter_of_unknown_outcome_that_took_effect_late_leaves_a_doubt() -> None:
    for what in ("add-column k.t c:int", 'alter-keyspace k {"replication": {"class": "SimpleStrategy"}}'):
        judgement = verdict(calls(ROW, REFUSED), altered(what=what))
        assert (judgement.valid, judgement.anomalies) == ("unknown", ())
        (doubt,) = judgement.doubts
        assert (doubt.kind, doubt.objects) == ("undecided", ("k.t",))
        assert "from 20.000 s to 26.600 s 14 operations (write)" in doubt.text


def test_reads_are_refused_by_a_late_effect_as_writes_are() -> None:
    reads = calls(ROW.replace("insert", "read-rows"), REFUSED)
    assert verdict(reads).valid is False
    assert (verdict(reads, altered()).valid, verdict(reads, altered()).anomalies) == ("unknown", ())


PLANTS = {
    "an ALTER that was acknowledged": altered(outcome="ok"),
    "one that was refused": altered(outcome="fail InvalidRequest: no"),
    "one of another table": [*ANOTHER_TABLE, *altered(what="add-column k.z c:int")],
    "one that began when the storm was over": altered(40_000),
    "one of an index": altered(what="create-index k.i t a"),
}


@pytest.mark.parametrize("lines", PLANTS.values(), ids=PLANTS)
def test_what_cannot_have_taken_effect_late_explains_nothing(lines: Sequence[str]) -> None:
    assert attempts(calls(ROW, REFUSED), lines) == [14]


def test_each_late_effect_explains_five_seconds() -> None:
    """Less than a storm is left before it and after it: it explains less than fifteen seconds of refusals, two less than twenty-five."""

    def seen(ends: int, *changes: list[str]) -> tuple[list[int], object]:
        storm = calls(ROW, REFUSED, begins=20_000, ends=ends, every=100)
        return attempts(storm, *changes), verdict(storm, *changes).valid

    assert seen(34_900, altered()) == ([], "unknown")
    assert seen(34_900, altered(), altered(4000)) == ([], "unknown"), "one of two explains it"
    assert seen(35_100, altered()) == ([151], False)
    assert seen(35_100, altered(), altered(4000)) == ([], "unknown")
    assert seen(44_800, altered(), altered(4000)) == ([], "unknown")
    assert seen(45_300, altered(), altered(4000)) == ([253], False)


def test_refusals_of_other_tables_are_not_explained_by_a_late_effect() -> None:
    other = calls(ROW.replace("k.t", "k.z"), REFUSED, begins=20_050)
    assert attempts(calls(ROW, REFUSED), other, ANOTHER_TABLE, altered()) == [28]
    few = calls(ROW.replace("k.t", "k.z"), REFUSED, begins=20_050, ends=24_000)
    judgement = verdict(calls(ROW, REFUSED), few, ANOTHER_TABLE, altered())
    assert (judgement.valid, len(judgement.doubts)) == ("unknown", 1)
    assert judgement.doubts[0].objects == ("k.t", "k.z")


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


# ── how many, for how long, and how near to what explains them ───────────────────────────────────────────────────────


def attempts(*groups: Iterable[str]) -> list[int]:
    """The attempts of each storm that is found."""
    return [found.evidence["attempts"] for found in verdict(*groups).anomalies if found.type == "refused-operations"]


def some(count: int, every: int, what: str = ROW, outcome: str = REFUSED, **more: Any) -> list[str]:
    return calls(what, outcome, begins=20_000, ends=20_000 + count * every, every=every, **more)


def test_a_storm_is_five_in_five_seconds_without_a_long_pause() -> None:
    assert attempts(some(5, 1225)) == [5], "five seconds from the begin of the first to the end of the last"
    assert attempts(some(5, 1224)) == []
    assert attempts(some(4, 1700)) == []
    assert attempts(some(5, 2600)) == [5]
    assert attempts(some(5, 2601)) == []


def test_a_storm_may_last_longer_than_the_run_before_it() -> None:
    longest = calls(ROW, REFUSED, begins=5_500, ends=17_000)
    assert attempts(longest) == [23]
    assert Refusals(judged([*CREATED, *longest]), NODES).longest_s == {"write": 11.1}


@pytest.mark.parametrize("begins", [16_000, 20_000])
def test_a_storm_of_one_level_is_found_whenever_it_comes(begins: int) -> None:
    storm = calls(ROW, REFUSED, begins=begins, ends=begins + 5_500)
    assert attempts(storm, calls(ROW.replace("QUORUM", "ONE"), "ok", begins=begins + 10)) == [11]


def test_a_storm_through_two_coordinators_of_three_is_one() -> None:
    before = calls(ROW, "ok", begins=8_000, ends=10_000)
    assert attempts(before, some(9, 640, nodes=("n1", "n2"))) == [9]


def test_a_storm_of_one_level_is_as_long() -> None:
    beside = calls(ROW.replace("QUORUM", "ONE"), "ok", begins=20_010, every=1000)
    assert attempts(some(5, 1225), beside) == [5]
    assert attempts(some(5, 1224), beside) == []
    assert attempts(some(4, 1700), beside) == []


def test_a_storm_through_one_coordinator_of_several_is_ten() -> None:
    beside = calls(ROW, "ok", begins=20_010, nodes=("n2", "n3"), every=400)
    assert attempts(some(10, 545, nodes=("n1",)), beside) == [10]
    assert attempts(some(9, 640, nodes=("n1",)), beside) == []


def test_many_answers_before_a_storm_do_not_hide_it() -> None:
    before = calls(ROW, "ok", begins=10_000, ends=16_000, every=20)
    assert len(before) == 600
    assert attempts(before, calls(ROW, REFUSED)) == [14]


@pytest.mark.parametrize(("ends", "counted"), [(14_999, 14), (15_401, 13), (15_901, 12)])
def test_a_fault_explains_refusals_for_five_seconds(ends: int, counted: int) -> None:
    faults = [*fault("n2", begins=10_000, ends=ends), *fault("n3", begins=10_001, ends=ends)]
    assert attempts(calls(ROW, REFUSED), faults) == [counted]


def on_table_u(*created: str, what: str = ROW) -> list[int]:
    return attempts(created, calls(what.replace("k.t", "k.u"), REFUSED))


def test_a_table_is_known_to_every_node_after_five_seconds() -> None:
    for answered, counted in ((15_000, 14), (15_001, 13), (15_501, 12)):
        made = ("@14000 p902 n1 invoke create-table k.u a:int*", f"@{answered} p902 n1 ok")
        assert on_table_u(*made) == [counted]
        assert on_table_u(*made, what="cas k.t/1/2") == [counted], "a row of it"


@pytest.mark.parametrize("change", ["alter-options k.t comment=x", "alter-keyspace k"])
def test_a_change_explains_refusals_for_five_seconds_before_and_after(change: str) -> None:
    def changed(begins: int, *answer: str) -> list[int]:
        return attempts(calls(ROW, REFUSED), [f"@{begins} p901 n1 invoke {change}", *answer])

    assert changed(14_000, "@15000 p901 n1 ok") == [14]
    assert changed(14_000, "@15001 p901 n1 ok") == [13]
    assert changed(14_000) == [], "it never ended"
    assert changed(14_000, "@15000 p901 n1 fail no") == [14]
    assert changed(31_600, "@31700 p901 n1 ok") == [14]
    assert changed(31_599, "@31700 p901 n1 ok") == [13]
    assert changed(31_099, "@31700 p901 n1 ok") == [12]


def test_a_table_that_was_dropped_long_before_is_not_there() -> None:
    def dropped(at: int) -> list[int]:
        return attempts(calls(ROW, REFUSED), [f"@{at} p901 n1 invoke drop-table k.t", f"@{at + 100} p901 n1 ok"])

    assert dropped(10_000) == []
    assert dropped(60_000) == [14]


def test_free_text_may_drop_a_table_at_the_moment_it_is_asked() -> None:
    def dropped(at: int) -> list[int]:
        return attempts(calls(ROW, REFUSED), [f'@{at} p901 n1 invoke cql k {{"statement": "DROP TABLE t"}}'])

    assert dropped(26_601) == [14]
    assert dropped(26_600) == [13]
    assert dropped(19_000) == []


def test_operations_without_a_table_count_unless_anything_may_have_been_dropped() -> None:
    storm = calls("txn", "fail InvalidRequest: no")
    assert attempts(storm) == [14]
    assert attempts(storm, ["@60000 p901 n1 invoke drop-table k.other", "@60100 p901 n1 info no"]) == []


def test_changes_of_one_kind_count_if_the_schema_certainly_admits_them() -> None:
    refused = calls("create-table k.x a:int*", "fail ServerError: no", nodes=("n1",))
    beside = calls("add-column k.t d:int", "ok", begins=20_050, nodes=("n2", "n3"), every=2000)
    assert attempts(refused, beside) == [], "nothing says that there is a keyspace"
    assert attempts(IN_A_KEYSPACE, refused, beside) == [14]


@pytest.mark.parametrize(("promise", "counted"), [("refused", []), ("allowed", [14])])
def test_nodes_that_become_another_release_may_refuse_changes_if_it_is_said(promise: str, counted: list[int]) -> None:
    value = {"operation": 1, "nodes": ["n3"], "parameters": {"stage": "node", "to": "b"}, "becomes": {"n3": "normal"}}
    promises = {"source": "x", "until": "last-steps", "schema_changes": {"old": promise, "new": promise}}
    done = {**value, "effect": {"attempts": [], "system": "b", "promises": promises}}
    upgrade = [
        f"@3 -- n3 invoke rolling-upgrade {orjson.dumps(value).decode()}",
        f"@4 -- n3 ok rolling-upgrade {orjson.dumps(done).decode()}",
    ]
    assert attempts(IN_A_KEYSPACE, upgrade, calls("create-table k.x a:int*", "fail ServerError: no")) == counted


@pytest.mark.parametrize(
    ("parameters", "end", "counted", "doubts"),
    [
        ({"stops_changes": True}, "ok", [], 0),
        ({"stops_changes": True}, "info", [], 0),
        ({}, "ok", [14], 0),
        ({"stops_changes": True}, "ok early", [11], 0),
        ({"stops_changes": True}, "info early", [], 1),
        ({"stops_changes": True}, "", [], 1),
    ],
)
def test_an_operation_that_keeps_the_schema_from_being_changed_explains_refusals(
    parameters: dict[str, bool], end: str, counted: list[int], doubts: int
) -> None:
    value = {"operation": 1, "nodes": [], "parameters": parameters, "becomes": {}}
    done = orjson.dumps({**value, "effect": {"attempts": [], "seconds": 9}}).decode()
    outcome, _, early = end.partition(" ")
    operation = [f"@19000 -- invoke pause-commits {orjson.dumps(value).decode()}"]
    operation += [f"@{21_050 if early else 28_000} -- {outcome} pause-commits {done}"] if end else []
    groups = (IN_A_KEYSPACE, operation, calls("create-table k.x a:int*", "fail ServerError: Commits are paused"))
    assert attempts(*groups) == counted
    assert len([one for one in verdict(*groups).doubts if "pause-commits" in one.text]) == doubts


def test_the_longest_stretch_is_told_by_kind_whatever_its_length() -> None:
    def longest(*groups: Iterable[str]) -> dict[str, float]:
        return Refusals(judged([*CREATED, *(line for group in groups for line in group)]), NODES).longest_s

    assert longest(calls(ROW, REFUSED)) == {"write": 6.6}
    assert longest(some(3, 500), calls(ROW, REFUSED, begins=30_000, ends=31_000)) == {"write": 1.1}
    assert longest(some(3, 500), calls("txn k.t", "fail InvalidRequest: no", begins=30_000, ends=32_500)) == {
        "write": 1.1,
        "transaction": 2.1,
    }
    assert longest(some(14, 500), calls(ROW.replace("QUORUM", "ONE"), "ok", begins=20_010)) == {}, "others are answered"
    assert longest(calls(ROW, "ok")) == {}


def test_a_finding_tells_of_the_first_two_and_the_last_of_what_was_refused() -> None:
    (alone,) = verdict(calls(ROW, REFUSED)).anomalies
    assert alone.evidence["errors"] == {"WriteFailure": 14}
    assert [f"op {index}:" in alone.explanation for index in alone.ops] == [True, True, *[False] * 11, True]
    assert "beside faults" not in alone.explanation
    assert "so that a write should have succeeded" in alone.explanation
    (beside,) = verdict(calls(ROW, REFUSED, nodes=("n1", "n2")), fault("n3"), ONE).anomalies
    assert "beside faults on other nodes (kill)" in beside.explanation
    assert "a write (QUORUM) should" in beside.explanation

"""Writability: what a probe's error proves, and what excuses it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from examples import examples
from histories import judged, with_other_names
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.rows.probe_errors import ProbeFault, classify_error, find_missing_column, shorten_error
from schemaquake.checkers.rows.writability import Writability
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.registry import load

CREATE = ("@1 p90 n1 invoke create-table k.t k:int* v:text", "@2 p90 n1 ok")
BROKEN = 'WriteFailure: Error from server: code=1500 [x] message="2 failures: INCOMPATIBLE_SCHEMA" info={}'
ABSENT = "InvalidRequest: table t does not exist"
SHOWN = (
    "settled,restarted n1,n2,n3 keyspace k",
    "settled,restarted n1,n2,n3 table k.t id=1 k:int* v:text",
)
FIRST = tuple(f"@20 {line.replace('settled,restarted', 'settled')}" for line in SHOWN)
"""One reading, before the probes."""
HIDDEN = ("settled,restarted n1,n2,n3 keyspace k",)


def _cell(column: str) -> str:
    """One cell of a row, of the column's own type."""
    return '"k": 1' if column == "k" else f'"{column}": "one"'


def probe(
    at: int,
    outcome: str = "ok",
    *,
    f: str = "insert",
    node: str = "n1",
    phase: str = "settled",
    consistency: str = "QUORUM",
    columns: tuple[str, ...] = ("k", "v"),
) -> list[str]:
    what = (
        '"row": {' + ", ".join(_cell(column) for column in columns) + "}"
        if f == "insert"
        else '"columns": [' + ", ".join(f'"{column}"' for column in columns) + "]"
    )
    value = f'{{{what}, "consistency": "{consistency}", "phase": "{phase}"}}'
    end = 'ok {"rows": []}' if outcome == "ok" and f == "read-rows" else outcome
    return [f"@{at} p{at} {node} invoke {f} k.t {value}", f"@{at + 1} p{at} {node} {end}"]


def judge(
    *lines: list[str], setup: tuple[str, ...] = CREATE, shown: tuple[str, ...] = SHOWN, limit_s: float = 5
) -> Verdict:
    return Writability().check(judged([*setup, *(text for line in lines for text in line)], shown), limit_s=limit_s)


def types(verdict: Verdict) -> list[str]:
    return [anomaly.type for anomaly in verdict.anomalies]


# ── broken ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("f", "type_"), [("insert", "unwritable-table"), ("read-rows", "unreadable-table")])
@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_table_that_is_there_must_serve(f: str, type_: str, outcome: str) -> None:
    verdict = judge(probe(30, f"{outcome} {BROKEN}", f=f, node="n2"))
    assert types(verdict) == [type_]
    assert verdict.anomalies[0].nodes == ("n2",)
    assert judge(probe(30, f=f, node="n2")).valid is True


def test_equal_errors_of_one_table_are_told_once() -> None:
    verdict = judge(probe(30, f"fail {BROKEN}"), probe(32, f"fail {BROKEN}", node="n2"), probe(34, node="n3"))
    (found,) = verdict.anomalies
    (error,) = found.evidence["errors"]
    assert (error["count"], error["through"], found.evidence["of"]) == (2, ["n1", "n2"], 3)
    assert error["error"] == 'WriteFailure: "2 failures: INCOMPATIBLE_SCHEMA"'
    assert "none through n3" in found.explanation


def test_a_table_that_only_its_coordinators_schema_shows_must_be_served_by_it() -> None:
    assert types(judge(probe(30, f"fail {BROKEN}"), setup=())) == ["unwritable-table"]
    assert judge(probe(30, f"fail {BROKEN}"), setup=(), shown=HIDDEN).valid is True


def test_half_a_table_need_not_be_served() -> None:
    assert judge(probe(30, f"fail {BROKEN}"), setup=(), shown=(*HIDDEN, "settled n1 table k.t id=1")).valid is True


# ── the table is not known ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shown", [SHOWN, HIDDEN])
def test_a_table_whose_create_stands_must_be_known(shown: tuple[str, ...]) -> None:
    assert types(judge(probe(30, f"fail {ABSENT}"), shown=shown)) == ["unwritable-table"]


@pytest.mark.parametrize("removal", ["drop-table k.t", "drop-keyspace k", 'cql k.t {"statement": "DROP TABLE k.t"}'])
def test_a_table_that_was_dropped_need_not_be_known(removal: str) -> None:
    drop = [f"@10 p1 n2 invoke {removal}", "@11 p1 n2 ok"]
    assert judge(drop, probe(30, f"fail {ABSENT}")).valid is True


@pytest.mark.parametrize("removal", ["drop-table k.t", "drop-keyspace k", 'cql k.t {"statement": "DROP TABLE k.t"}'])
def test_a_drop_of_unknown_outcome_leaves_a_doubt_and_none_where_the_reading_shows_it(removal: str) -> None:
    drop = [f"@10 p1 n2 invoke {removal}", "@11 p1 n2 info"]
    assert judge(drop, probe(30, f"fail {ABSENT}"), shown=FIRST).valid == "unknown"
    decided = "unknown" if "cql" in removal else False  # a later reading shows the table
    assert judge(drop, probe(30, f"fail {ABSENT}")).valid == decided
    assert judge(drop, probe(30, f"fail {ABSENT}"), shown=HIDDEN).valid is True


def test_a_drop_before_the_create_or_one_that_failed_is_no_excuse() -> None:
    failed = ["@10 p1 n2 invoke drop-table k.t", "@11 p1 n2 fail"]
    assert types(judge(failed, probe(30, f"fail {ABSENT}"))) == ["unwritable-table"]
    before = ["@0 p1 n2 invoke drop-table k.t", "@0 p1 n2 ok"]
    create = tuple(line.replace("@1 ", "@5 ").replace("@2 ", "@6 ") for line in CREATE)
    assert types(judge(probe(30, f"fail {ABSENT}"), setup=(*before, *create))) == ["unwritable-table"]


@pytest.mark.parametrize("end", ["info", "fail", 'ok {"applied": false}'])
def test_a_create_that_may_not_have_happened_makes_nothing_certain(end: str) -> None:
    assert judge(probe(30, f"fail {ABSENT}"), setup=(CREATE[0], f"@2 p90 n1 {end}"), shown=HIDDEN).valid is True


def test_a_drop_of_unknown_outcome_may_come_between_reading_and_probe() -> None:
    drop = ["@10 p1 n2 invoke drop-table k.t", "@11 p1 n2 info"]
    assert judge(drop, probe(30, f"fail {BROKEN}"), shown=FIRST).valid == "unknown"
    assert types(judge(drop, probe(30, f"fail {BROKEN}"))) == ["unwritable-table"], "a later reading shows the table"
    done = [drop[0], "@11 p1 n2 ok"]
    assert types(judge(done, probe(30, f"fail {BROKEN}"))) == ["unwritable-table"]


@pytest.mark.parametrize("error", [ABSENT, BROKEN])
@pytest.mark.parametrize("change", ["drop-table k.s", "alter-keyspace k", "add-column k.s v:int"])
def test_a_change_of_unknown_outcome_excuses_no_other_table(change: str, error: str) -> None:
    asked = [f"@10 p1 n2 invoke {change}", "@11 p1 n2 info"]
    found = judge(asked, probe(30, f"fail {error}"))
    # An error in execution may have come of any change in the keyspace: a type, another table's index.
    assert (types(found), found.valid) == ((["unwritable-table"], False) if error == ABSENT else ([], "unknown"))
    other = [line.replace("k.s", "l.s").replace("keyspace k", "keyspace l") for line in asked]
    assert types(judge(other, probe(30, f"fail {error}"))) == ["unwritable-table"]


@pytest.mark.parametrize("error", [ABSENT, BROKEN])
def test_a_drop_of_unknown_outcome_excuses_nothing_once_every_process_has_ended(error: str) -> None:
    drop = ["@10 p1 n2 invoke drop-table k.t", "@11 p1 n2 info"]
    boots = [f'@0 -- {n} info node-start {{"phase": "boot", "served": true}}' for n in ("n1", "n2", "n3")]
    starts = [f'@50 -- {n} info node-start {{"phase": "restart", "served": true}}' for n in ("n1", "n2", "n3")]
    shown = tuple(f"@60 {row}".replace("settled", "restarted") for row in SHOWN)
    late = probe(70, f"fail {error}", phase="restarted")
    assert types(judge(boots, drop, starts, late, shown=shown)) == ["unwritable-table"]
    assert judge(boots, drop, starts[:2], late, shown=shown).valid == "unknown"


def test_a_view_goes_with_its_base() -> None:
    view = ('@3 p91 n1 invoke create-view k.m {"base": "t", "primary_key": ["v", "k"]}', "@4 p91 n1 ok")
    read = [
        line.replace("k.t", "k.m") for line in probe(30, "fail InvalidRequest: table m does not exist", f="read-rows")
    ]
    assert types(judge(read, setup=(*CREATE, *view))) == ["unreadable-table"]
    drop = ["@10 p1 n2 invoke drop-table k.t", "@11 p1 n2 ok"]
    assert judge(drop, read, setup=(*CREATE, *view)).valid is True


# ── the statement does not fit ───────────────────────────────────────────────────────────────────────────────────────

NO_COLUMN = 'fail InvalidRequest: message="Undefined column name c in table k.t"'
ADD = ["@10 p1 n2 invoke add-column k.t c:int", "@11 p1 n2 ok"]


def test_an_acknowledged_column_must_be_known_and_another_need_not() -> None:
    read = probe(30, NO_COLUMN, f="read-rows", columns=("k", "c"))
    assert types(judge(ADD, read)) == ["unreadable-table"]
    assert judge(read).valid is True
    assert judge([ADD[0], "@11 p1 n2 info"], read).valid is True
    drop = ["@11 p2 n3 invoke drop-column k.t c", "@15 p2 n3 ok"]
    assert judge(ADD, drop, read).valid is True
    again = ["@16 p3 n1 invoke add-column k.t c:int", "@17 p3 n1 ok"]
    assert types(judge(ADD, drop, again, read)) == ["unreadable-table"]


MERGED = 'fail InvalidRequest: message="Some partition key parts are missing: b"'
OTHER = ["@1 p91 n2 invoke create-table k.t b:int* y:int", "@2 p91 n2 ok"]


def test_a_write_that_fits_an_acknowledged_definition_must_succeed() -> None:
    assert types(judge(OTHER, probe(30, MERGED))) == ["unwritable-table"]
    assert judge(OTHER, probe(30, MERGED, columns=("v",))).valid is True


def test_a_write_that_fits_a_definition_that_may_have_lost_is_excused() -> None:
    lost = (CREATE[0], "@2 p90 n1 fail AlreadyExists")
    assert judge(OTHER, probe(30, MERGED), setup=lost).valid is True
    assert judge(OTHER, probe(30, MERGED), setup=(CREATE[0], "@2 p90 n1 info")).valid is True


def test_a_type_that_is_not_certain_excuses_a_refused_value() -> None:
    refused = 'fail InvalidRequest: message="Invalid STRING constant (one) for v of type int"'
    other = ["@1 p91 n2 invoke create-table k.t k:int* v:int", "@2 p91 n2 ok"]
    assert types(judge(probe(30, refused))) == ["unwritable-table"]
    assert judge(other, probe(30, refused)).valid is True


# ── who serves ───────────────────────────────────────────────────────────────────────────────────────────────────────


def started(*served: bool) -> list[str]:
    """A note of every node's restart, at 51 ms and on."""
    return [
        f'@5{number} -- info node-start {{"phase": "restart", "served": {str(up).lower()}}}'
        for number, up in enumerate(served, start=1)
    ]


def with_nodes(records: Records) -> Records:
    """The notes of node starts, told of n1, n2 … in their order; the little language has no word for it."""
    rows = records.history.to_pylist()
    for number, row in enumerate((row for row in rows if row["f"] == "node-start"), start=1):
        row["node"] = f"n{number}"
    return Records.of(pa.Table.from_pylist(rows, schema=HISTORY), records.observations)


def restarted(*lines: list[str], served: tuple[bool, ...]) -> Verdict:
    texts = [*CREATE, *started(*served), *(text for line in lines for text in line)]
    return Writability().check(with_nodes(judged(texts, SHOWN)), limit_s=5)


def test_a_node_that_did_not_come_back_excuses_no_error_of_those_that_did() -> None:
    for error in (BROKEN, ABSENT):
        late = probe(60, f"fail {error}", phase="restarted", node="n2")
        assert types(restarted(late, served=(True, True, True))) == ["unwritable-table"]
        assert types(restarted(late, served=(False, True, True))) == ["unwritable-table"]


@pytest.mark.parametrize(
    ("consistency", "served", "valid"),
    [
        ("QUORUM", (True, True, True), False),
        ("QUORUM", (False, True, True), False),
        ("QUORUM", (False, True, False), "unknown"),
        ("ALL", (False, True, True), "unknown"),
        ("TWO", (False, True, True), False),
        ("TWO", (False, True, False), "unknown"),
        ("ONE", (False, True, False), False),
    ],
)
def test_missing_nodes_excuse_a_silence_only_where_too_few_are_left(consistency, served, valid) -> None:
    silent = [
        *probe(60, "info WriteTimeout: 1 of 2", phase="restarted", node="n2", consistency=consistency),
        *probe(62, "info WriteTimeout: 1 of 2", phase="restarted", node="n2", consistency=consistency),
    ]
    shown = (*SHOWN, *(row.replace("settled", "restarted") for row in SHOWN))
    texts = [*CREATE, *started(*served), *silent]
    assert Writability().check(with_nodes(judged(texts, shown)), limit_s=5).valid == valid


def test_a_node_that_did_not_come_back_excuses_no_other_at_one() -> None:
    def late(node: str) -> list[str]:
        return probe(60, f"fail {BROKEN}", f="read-rows", phase="restarted", node=node, consistency="ONE")

    assert types(restarted(late("n2"), served=(False, True, True))) == ["unreadable-table"]
    assert restarted(late("n1"), served=(False, True, True)).valid == "unknown"  # it did answer
    silent = [line.replace(BROKEN, "NoHostAvailable: n1") for line in late("n1")]
    assert restarted(silent, served=(False, True, True)).valid is True


def test_a_restart_that_failed_says_nothing_of_the_time_before() -> None:
    early = probe(30, f"fail {BROKEN}", node="n2")
    assert types(restarted(early, served=(False, True, True))) == ["unwritable-table"]


def test_a_node_that_was_not_read_excuses_no_error_of_the_others() -> None:
    shown = (
        "settled n1,n2 keyspace k",
        "settled n1,n2 table k.t id=1 k:int* v:text",
        "settled n3 error NoHostAvailable",
    )
    assert types(judge(probe(30, f"fail {BROKEN}"), shown=shown)) == ["unwritable-table"]
    assert judge(probe(30, "info WriteTimeout: 1 of 3", consistency="ALL"), shown=shown).valid == "unknown"


def test_too_few_live_replicas_are_no_matter_of_schema() -> None:
    verdict = judge(probe(30, "fail Unavailable: Cannot achieve consistency level QUORUM"))
    assert verdict.valid == "unknown"
    assert "Cannot achieve consistency level QUORUM" in (verdict.reason or "")


@pytest.mark.parametrize(
    "error",
    ["NoHostAvailable: {}", "OperationTimedOut: errors={}", "ConnectionShutdown: reset", "WriteTimeout: 1 of 2"],
)
def test_a_silence_counts_where_it_lasts(error: str) -> None:
    silent = [probe(30, f"info {error}", node="n2"), probe(32, f"fail {error}", node="n2", f="read-rows")]
    verdict = judge(*silent, probe(34, node="n1"), probe(36, node="n1", f="read-rows"))
    assert types(verdict) == ["unwritable-table", "unreadable-table"]
    assert {anomaly.nodes for anomaly in verdict.anomalies} == {("n2",)}
    assert judge(silent[0]).valid == "unknown"
    assert judge(*silent, probe(38, node="n2")).anomalies[0].type == "unreadable-table"


def test_a_probe_that_the_end_of_the_run_cut_off_is_undecided() -> None:
    assert judge(probe(30, "info")).valid == "unknown"


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("InvalidRequest: unconfigured table t", ProbeFault.NO_TABLE),
        ("InvalidRequest: unconfigured columnfamily t", ProbeFault.NO_TABLE),
        ('InvalidRequest: message="keyspace k does not exist"', ProbeFault.NO_TABLE),
        ("InvalidRequest: Keyspace 'k' does not exist", ProbeFault.NO_TABLE),
        ("InvalidRequest: Undefined column name c in table k.t", ProbeFault.NO_COLUMN),
        ("InvalidRequest: Unknown identifier c", ProbeFault.NO_COLUMN),
        ("InvalidRequest: Undefined name c in selection clause", ProbeFault.NO_COLUMN),
        ("InvalidRequest: Missing mandatory PRIMARY KEY part b", ProbeFault.STATEMENT),
        ("Unavailable: Cannot achieve consistency level ALL", ProbeFault.MEMBERSHIP),
        ("NoHostAvailable: nothing", ProbeFault.SILENCE),
        ("WriteTimeout: received only 1 responses", ProbeFault.SILENCE),
        ("WriteFailure: 1 failure", ProbeFault.EXECUTION),
        ("ServerError: java.nio.BufferUnderflowException", ProbeFault.EXECUTION),
    ],
)
def test_errors_are_classed_by_what_they_say_of_the_table(error: str, fault: ProbeFault) -> None:
    assert classify_error(error) is fault
    assert find_missing_column(error) == ("c" if fault is ProbeFault.NO_COLUMN else None)


def test_a_long_error_is_cut() -> None:
    assert len(shorten_error("ServerError: " + "x" * 1000)) < 310


# ── in general ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_probe_there_is_nothing_to_judge() -> None:
    racing = probe(30, f"fail {BROKEN}", phase="racing")
    assert judge(racing).judged_nothing


def test_the_time_limit_leaves_the_rest_unknown() -> None:
    verdict = judge(probe(30), limit_s=-1)
    assert verdict.valid == "unknown"
    assert "time limit" in (verdict.reason or "")


def test_it_is_registered() -> None:
    assert isinstance(load("checkers", "writability"), Writability)


DDL = (
    "drop-table k.t",
    "drop-keyspace k",
    "add-column k.t c:int",
    "drop-column k.t v",
    "create-table k.t k:int* v:text",
)
ERRORS = (
    "",
    BROKEN,
    ABSENT,
    "InvalidRequest: Undefined column name v in table k.t",
    "NoHostAvailable: {}",
    "Unavailable: 1",
)


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    """A table, changes of it with any outcome, and probes with any error."""
    lines = list(CREATE)
    for at in range(10, 10 + 2 * draw(st.integers(0, 3)), 2):
        lines += [
            f"@{at} p{at} n2 invoke {draw(st.sampled_from(DDL))}",
            f"@{at + 1} p{at} n2 {draw(st.sampled_from(['ok', 'fail']))}",
        ]
    for at in range(30, 30 + 2 * draw(st.integers(1, 4)), 2):
        error = draw(st.sampled_from(ERRORS))
        f = draw(st.sampled_from(["insert", "read-rows"]))
        lines += probe(at, f"fail {error}" if error else "ok", f=f, node=draw(st.sampled_from(["n1", "n2", "n3"])))
    return lines


@settings(max_examples=examples(80), deadline=None)
@given(lines=histories(), shown=st.sampled_from([SHOWN, HIDDEN]), choices=st.data())
def test_weakening_schema_changes_to_info_never_turns_valid_into_invalid(
    lines: list[str], shown: tuple[str, ...], choices: st.DataObject
) -> None:
    before = judged(lines, shown)
    rows = before.history.to_pylist()
    for row in rows:
        if row["type"] in {"ok", "fail"} and row["f"] not in {"insert", "read-rows"} and choices.draw(st.booleans()):
            row |= {"type": "info", "value": None, "error": "timed out"}
    after = Records.of(pa.Table.from_pylist(rows, schema=HISTORY), before.observations)
    one, two = (Writability().check(told, limit_s=5) for told in (before, after))
    assert not (one.valid is not False and two.valid is False)
    assert set(types(two)) <= set(types(one))


@settings(max_examples=examples(40), deadline=None)
@given(lines=histories())
def test_names_of_nodes_and_processes_and_keyspaces_mean_nothing(lines: list[str]) -> None:
    records = judged(lines, SHOWN)
    other = with_other_names(records)
    one, two = (Writability().check(told, limit_s=5) for told in (records, other))
    assert (one.valid, types(one)) == (two.valid, types(two))
    assert [a.ops for a in one.anomalies] == [a.ops for a in two.anomalies]

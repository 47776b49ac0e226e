"""Promises: kept by decided tries alone, broken with the cells that show it, and every sentence with its source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from matrices import SYSTEMS, matrix

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.harness.registry import names
from schemaquake.results.matrix.eras import ERAS
from schemaquake.results.matrix.promises import (
    DOCUMENTS,
    PROMISES,
    Judgement,
    Promise,
    judge,
    judgements,
    promises_from,
)
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.summary.cell import Cell, CellState, wilson

TEXT = {
    "id": "p", "era": "tcm", "kind": "promise", "versions": "6.0..", "says": "It holds.", "source": ["seed 4, Goals"],
    "tickets": [],
}  # fmt: skip


def promise(**changes: Any) -> Promise:
    """One of 6.0, broken by lost-column in add-columns."""
    return promises_from({"promise": [{**TEXT, "tried_by": ["add-columns"], "broken_by": ["lost-column"], **changes}]})[
        0
    ]


def cell(
    state: CellState, broken: int = 0, tried: int = 0, *, anomaly: str | None = None, workload: str = "add-columns",
    mode: str = "barrier", nemeses: tuple[str, ...] = (), system: str = "cassandra:6.0.1", reason: str = "",
) -> Cell:  # fmt: skip
    low, high = wilson(broken, tried)
    return Cell(
        system=system, workload=workload, mode=mode, nemeses=nemeses, anomaly=anomaly, state=state, broken=broken, tried=tried,
        low=low, high=high, reason=reason,
    )  # fmt: skip


def found(*cells: Cell) -> Matrix:
    """A matrix of these cells alone; those of mode single are its controls."""
    return Matrix(
        systems=tuple(dict.fromkeys(one.system for one in cells)),
        rows=tuple(
            Row(workload=one.workload, mode=one.mode, nemeses=one.nemeses, anomaly=one.anomaly) for one in cells
        ),
        cells=tuple(one for one in cells if one.mode != "single"),
        controls=tuple(one for one in cells if one.mode == "single"),
        started="2026-11-21T10:00:00+00:00",
        command="schemaquake matrix",
    )


def judged(identity: str, made: Matrix) -> Judgement:
    return next(one for one in judgements(made) if one.promise.id == identity)


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_promise_is_kept_with_the_number_of_tries_behind_it():
    one = judge(promise(), found(cell("held", 0, 7)))
    assert (one.state, one.tried) == ("kept", 7)


def test_a_promise_is_broken_by_an_anomaly_that_contradicts_it():
    lost = cell("broke", 3, 7, anomaly="lost-column")
    one = judge(promise(), found(cell("broke", 4, 7), lost))
    assert one.state == "broken"
    assert one.systems[0].shown == (lost,)


def test_another_anomaly_of_the_same_races_does_not_break_it():
    one = judge(promise(), found(cell("broke", 4, 7), cell("broke", 4, 7, anomaly="lost-option")))
    assert (one.state, one.tried) == ("kept", 7)


@pytest.mark.parametrize("state", ["unknown", "not run"])
def test_what_was_not_decided_keeps_no_promise_and_says_why(state: CellState):
    one = judge(promise(), found(cell(state, reason="the time budget ended")))
    assert one.state == "not judged"
    assert one.reason == f"no try was decided (add-columns: {state}, the time budget ended)"


def test_what_an_era_cannot_express_keeps_no_promise():
    one = judge(promise(), found(cell("not applicable", reason="it has no columns")))
    assert (one.state, one.reason) == ("not judged", "nothing that tests it was run")


def test_tries_do_not_count_where_the_very_anomaly_was_not_decided():
    doubtful = cell("unknown", anomaly="lost-column", reason="the checker gave up")
    one = judge(promise(), found(cell("broke", 2, 7), doubtful))
    assert one.state == "not judged"
    assert "the checker gave up" in one.reason


def test_controls_keep_no_promise_that_does_not_name_them():
    made = found(cell("held", 0, 7, mode="single"))
    assert judge(promise(), made).state == "not judged"
    assert judge(promise(modes=["single"]), made).state == "kept"


def test_races_with_faults_count_for_a_mode():
    assert (
        judge(promise(modes=["barrier"]), found(cell("held", 0, 7, mode="barrier", nemeses=("kill", "pause")))).state
        == "kept"
    )


def test_what_needs_a_fault_is_not_tried_without_it():
    with_fault = promise(faults=["kill"])
    assert judge(with_fault, found(cell("held", 0, 7))).state == "not judged"
    assert judge(with_fault, found(cell("held", 0, 7, mode="barrier", nemeses=("kill", "pause")))).tried == 7


def test_a_nemesis_counts_by_its_name_whatever_its_options_are():
    joining = promise(faults=["bootstrap"])
    aimed = found(cell("held", 0, 3, mode="barrier", nemeses=("bootstrap:aim=kill@stream",)))
    assert judge(joining, aimed).tried == 3
    other = found(cell("held", 0, 3, mode="barrier", nemeses=("abort-bootstrap:aim=kill@stream",)))
    assert judge(joining, other).state == "not judged"


@pytest.mark.parametrize(
    ("identity", "anomaly"),
    [
        ("6.0-quorums-meet", "missed-rows"),
        ("6.0-schema-before-bootstrap", "schema-disagreement"),
        ("6.0-ordered-with-topology", "forked-metadata-log"),
    ],
)
def test_a_matrix_of_operations_judges_what_is_promised_of_a_changing_ring(identity: str, anomaly: str):
    def run(state: CellState, broken: int, kind: str | None = None) -> Cell:
        return cell(state, broken, 3, anomaly=kind, workload="descriptors", mode="barrier", nemeses=("bootstrap",))

    assert judged(identity, found(run("held", 0))).state == "kept"
    assert judged(identity, found(run("broke", 1), run("broke", 1, anomaly))).state == "broken"
    assert judged(identity, found(cell("held", 0, 7))).state == "not judged", "races of a ring at rest do not try it"


def test_any_anomaly_breaks_what_promises_that_there_is_none():
    whole = cell("broke", 1, 7)
    one = judge(promise(broken_by=["*"]), found(whole, cell("broke", 1, 7, anomaly="lost-option")))
    assert one.systems[0].shown == (whole,)


def test_versions_are_judged_apart_and_broken_outweighs_kept():
    made = found(
        cell("held", 0, 7, system="cassandra:6.0.1"),
        cell("broke", 1, 7, system="cassandra:6.1.0"),
        cell("broke", 1, 7, system="cassandra:6.1.0", anomaly="lost-column"),
        cell("held", 0, 7, system="cassandra:5.0.9"),
    )
    one = judge(promise(), made)
    assert one.state == "broken"
    assert {on.system: on.state for on in one.systems} == {"cassandra:6.0.1": "kept", "cassandra:6.1.0": "broken"}


def test_a_weakness_is_confirmed_or_not_seen_and_never_kept():
    weakness = promise(kind="weakness", seen_by=["lost-column"])
    assert judge(weakness, found(cell("held", 0, 7))).state == "not seen"
    assert judge(weakness, found(cell("broke", 1, 7, anomaly="lost-column"))).state == "confirmed"


def test_what_no_matrix_can_tell_is_not_judged_whatever_was_found():
    one = judge(promise(unjudged="nobody joins"), found(cell("held", 0, 7)))
    assert (one.state, one.reason) == ("not judged", "nobody joins")


@pytest.mark.parametrize(
    ("system", "why"),
    [("cassandra:5.0.9", "no version that it covers is in this matrix"), ("scylladb:6.0.1", "no Cassandra is in this matrix")],
)  # fmt: skip
def test_a_version_that_is_not_there_kept_nothing(system: str, why: str):
    one = judge(promise(), found(cell("held", 0, 7, system=system)))
    assert (one.state, one.systems, one.reason) == ("not judged", (), why)


# ── what is on record ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("identity", "state"),
    [
        ("0.7-one-at-a-time", "confirmed"),
        ("0.7-through-one-node", "kept"),
        ("0.7-laggards-are-sent-what-they-lack", "broken"),
        ("0.7-died-after-step-4", "not judged"),
        ("0.7-instant-database", "not judged"),  # no node is killed in this matrix
        ("1.1-two-tables-at-once", "confirmed"),
        ("1.1-in-any-order", "broken"),
        ("1.2-two-tables-at-once", "kept"),
        ("2.1-no-files-of-the-dead", "kept"),
        ("2.1-drop-type", "confirmed"),
        ("2.2-drop-function", "not judged"),
        ("6.0-linearizable", "kept"),
        ("6.0-ordered-with-topology", "not judged"),
        ("group0-one-order", "not judged"),
    ],
)
def test_the_eras_are_judged_by_what_was_found(identity: str, state: str):
    assert judged(identity, matrix()).state == state


def test_the_note_of_1_1_on_two_tables_at_once_does_not_count_against_its_promise_to_agree():
    # The document itself says that concurrent creation is unsafe before 1.2: only other races try what it promises.
    made = matrix()
    loud = tuple(
        replace(one, state="broke", broken=1, tried=2)
        if (one.system, one.workload, one.anomaly) == ("cassandra:1.1.12", "create-table", "schema-disagreement")
        else one
        for one in made.cells
    )
    assert judged("1.1-no-lasting-disagreement", replace(made, cells=loud)).state == "kept"


def test_scylladb_is_recorded_and_not_judged():
    of_scylla = [one for one in judgements(matrix()) if one.promise.era == "group0"]
    assert len(of_scylla) >= 6
    assert {one.state for one in of_scylla} == {"not judged"}
    assert "no ScyllaDB is in this matrix" in {one.reason for one in of_scylla}


def test_every_version_of_the_matrix_has_promises_that_it_can_keep_or_break():
    for system in SYSTEMS:
        assert [one for one in PROMISES if system in one.versions and not one.unjudged], system


def test_ids_are_unique():
    ids = [one.id for one in PROMISES]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("one", PROMISES, ids=[one.id for one in PROMISES])
def test_every_promise_has_a_source_and_can_be_judged_or_says_why_not(one: Promise):
    assert one.era in {era.name for era in ERAS}
    assert one.says.endswith(".")
    assert one.source or one.tickets
    assert {source.partition(",")[0] for source in one.source} <= set(DOCUMENTS)
    assert all(re.fullmatch(r"CASSANDRA-\d{4,5}|scylladb#\d+", ticket) for ticket in one.tickets)
    assert bool(one.shown_by) != bool(one.unjudged)
    assert set(one.shown_by) <= {*CATALOGUE, "*"}
    assert set(one.tried_by) <= set(names("workloads"))
    assert set(one.faults) <= set(names("nemeses"))


def test_the_failure_table_of_the_first_document_is_whole():
    steps = {one.id.removeprefix("0.7-died-after-step-"): one.kind for one in PROMISES if "died-after-step" in one.id}
    assert steps == dict.fromkeys(["1", "1.1", "2", "3", "5", "6"], "promise") | {"4": "weakness"}

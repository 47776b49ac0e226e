"""Observed: what a run must have before any other verdict on it means something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.run.observed import Observed
from schemaquake.harness.model.verdict import Verdict

ACKED = ("p0 n1 invoke create-table k.t a:int*", "p0 n1 ok")
READ = ("settled n1,n2 keyspace k",)


def started(node: str, phase: str = "boot", *, served: bool = True) -> str:
    return f'-- {node} info node-start {{"phase": "{phase}", "served": {str(served).lower()}}}'


BOOTED = (started("n1"), started("n2"))


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return Observed().check(judged(history, observations), limit_s=5)


def test_one_acknowledged_change_and_a_reading_of_every_node_can_be_judged() -> None:
    judgement = verdict([*BOOTED, *ACKED], READ)
    assert judgement.valid is True
    assert judgement.reason is None


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(["p0 n1 invoke create-table k.t a:int*", "p0 n1 info timed out"], id="unknown outcome"),
        pytest.param(["p0 n1 invoke create-table k.t a:int*", "p0 n1 fail AlreadyExists: k.t"], id="refused"),
        pytest.param(["p0 n1 invoke create-table k.t a:int*"], id="never answered"),
        pytest.param(["p0 n1 invoke create-table k.t a:int*", 'p0 n1 ok {"applied": false}'], id="no-op"),
        pytest.param(['p0 n1 invoke read-rows k.t {"columns": null}', "p0 n1 ok"], id="a read alone"),
        pytest.param(["-- info insert k.t {}"], id="a note"),
    ],
)
def test_without_anything_acknowledged_there_is_nothing_to_judge(history: Sequence[str]) -> None:
    judgement = verdict([*BOOTED, *history], READ)
    assert judgement.valid == "unknown"
    assert judgement.reason == "no schema change and no write was acknowledged"


WRITE = ('p0 n1 invoke insert k.t {"row": {"a": 1}}', "p0 n1 ok")


def test_an_acknowledged_write_that_was_read_back_can_be_judged() -> None:
    read = ('p0 n1 invoke read-rows k.t {"phase": "settled"}', "p0 n1 ok")
    assert verdict([*BOOTED, *WRITE, *read], READ).valid is True


def test_rows_that_were_never_read_back_leave_the_run_undecided() -> None:
    judgement = verdict([*BOOTED, *WRITE, 'p0 n1 invoke read-rows k.t {"phase": "racing"}', "p0 n1 ok"], READ)
    assert judgement.valid == "unknown"
    assert judgement.reason == "rows were written and never read after the cluster settled"


DROPPED = ("p0 n1 invoke drop-table k.t", "p0 n1 ok")


@pytest.mark.parametrize(
    ("drop", "readings", "valid"),
    [
        pytest.param(DROPPED, READ, True, id="dropped, and nobody has it"),
        pytest.param(
            ("p0 n1 invoke drop-keyspace k", "p0 n1 info timed out"), READ, True, id="perhaps with its keyspace"
        ),
        pytest.param(DROPPED, (*READ, "settled n2 table k.t a:int*"), "unknown", id="a node has it still"),
        pytest.param(("p0 n1 invoke drop-table k.t", "p0 n1 fail InvalidRequest: no"), READ, "unknown", id="refused"),
        pytest.param(("p0 n1 invoke drop-table k.other", "p0 n1 ok"), READ, "unknown", id="another table"),
        pytest.param((), READ, "unknown", id="gone without a DROP"),
    ],
)
def test_rows_that_went_with_their_table_need_not_be_read(drop, readings, valid) -> None:
    assert verdict([*BOOTED, *ACKED, *WRITE, *drop], readings).valid == valid


def test_one_table_that_may_be_there_is_enough() -> None:
    other = ('p0 n1 invoke insert k.other {"row": {"a": 1}}', "p0 n1 ok")
    assert verdict([*BOOTED, *WRITE, *other, *DROPPED], READ).valid == "unknown"


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("observations", "told"),
    [
        pytest.param(["settled n1 keyspace k"], "no reading of it was recorded", id="not read"),
        pytest.param(["settled n1 keyspace k", "settled n2 error NoHostAvailable"], "NoHostAvailable", id="error"),
        pytest.param(
            ["settled n1 keyspace k", "running n2 keyspace k"], "no reading of it was recorded", id="only before"
        ),
    ],
)
def test_a_booted_node_without_a_final_reading_leaves_the_run_undecided(observations: Sequence[str], told: str) -> None:
    judgement = verdict([*BOOTED, *ACKED], observations)
    assert judgement.valid == "unknown"
    assert judgement.reason == f"n2 was not read after the cluster settled: {told}"


def test_without_any_reading_nothing_was_observed() -> None:
    assert verdict([*BOOTED, *ACKED], []).reason == "no node was read after the cluster settled"


def test_a_node_that_served_again_must_be_read_again() -> None:
    restarted = [started("n1", "restart"), started("n2", "restart")]
    judgement = verdict([*BOOTED, *ACKED, *restarted], [*READ, "restarted n1 keyspace k"])
    assert judgement.valid == "unknown"
    assert judgement.reason == "n2 was not read after every node was restarted: no reading of it was recorded"


def test_a_node_that_did_not_serve_again_need_not_be_read() -> None:
    restarted = [started("n1", "restart"), started("n2", "restart", served=False)]
    assert verdict([*BOOTED, *ACKED, *restarted], [*READ, "restarted n1 keyspace k"]).valid is True


def test_a_history_without_notes_names_its_nodes_by_their_coordinators() -> None:
    assert verdict(ACKED, ["settled n1 keyspace k"]).valid is True
    assert verdict([*ACKED, "p1 n2 invoke drop-table k.t"], ["settled n1 keyspace k"]).valid == "unknown"


# ── phases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def phase(name: str, state: str) -> str:
    return f'-- info phase {{"phase": "{name}", "state": "{state}"}}'


@pytest.mark.parametrize(
    ("notes", "kinds"),
    [
        pytest.param([phase("main", "begins"), phase("main", "ends")], [], id="to its end"),
        pytest.param([phase("main", "begins")], ["incomplete-run"], id="no end"),
        pytest.param(['-- info phase-cut-short {"phase": "final-settled"}'], ["incomplete-run"], id="cut short"),
        pytest.param(
            ['-- info phase-cut-short {"phase": "probe-settled"}', '-- info phase-cut-short {"phase": "main"}'],
            ["incomplete-run"] * 2,
            id="two cut short",
        ),
        pytest.param(
            ['-- info phase-ended-early {"phase": "main", "because": "no"}'] * 2, ["incomplete-run"], id="ended early"
        ),
    ],
)
def test_a_phase_whose_steps_were_not_all_taken_is_a_doubt(notes: Sequence[str], kinds: Sequence[str]) -> None:
    made = ["p1 n1 invoke create-keyspace k", "p1 n1 ok create-keyspace"]
    judgement = verdict([*BOOTED, *made, *ACKED, *notes], READ)
    assert [doubt.kind for doubt in judgement.doubts] == kinds
    assert judgement.valid == ("unknown" if kinds else True)


# ── what is counted ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_outcomes_and_classes_of_error_are_counted() -> None:
    drops = ["p1 n2 invoke drop-table k.t", "p1 n2 fail InvalidRequest: no: table"] * 2
    drops += ["p1 n2 invoke drop-table k.t", "p1 n2 info OperationTimedOut"]
    assert verdict([*BOOTED, *ACKED, *drops], READ).figures == {
        "operations": 4,
        "by_f": {"create-table": {"ok": 1}, "drop-table": {"fail": 2, "info": 1}},
        "errors": {"InvalidRequest": 2, "OperationTimedOut": 1},
        "acknowledged_changes": 1,
        "acknowledged_writes": 0,
    }


@given(read=st.frozensets(st.sampled_from(["n1", "n2", "n3"])), order=st.permutations(["n1", "n2", "n3"]))
def test_renaming_nodes_changes_nothing(read: frozenset[str], order: Sequence[str]) -> None:
    names = dict(zip(("n1", "n2", "n3"), order, strict=True))

    def of(nodes: Sequence[str], seen: Sequence[str]) -> Verdict:
        return verdict([*map(started, nodes), *ACKED], [f"settled {node} keyspace k" for node in seen])

    before = of(("n1", "n2", "n3"), sorted(read))
    assert before.valid == of(order, [names[node] for node in sorted(read)]).valid
    assert (before.valid is True) == (len(read) == 3)

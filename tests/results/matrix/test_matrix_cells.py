"""What counts as a try, and what a cell says of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.findings.catalogue import CATALOGUE, finders
from schemaquake.harness.model.verdict import Doubt
from schemaquake.results.matrix.cells import any_cell, cell_of, rows_of
from schemaquake.results.matrix.facts import Finding, RaceFacts, RunFacts, refused
from schemaquake.results.matrix.matrix_plan import Condition
from schemaquake.results.summary.cell import Evidence

SYSTEM = "cassandra:5.0.9"
BARRIER = Condition("barrier")


def race(number=0, *anomalies, workload="drop-type", acknowledged=9, doubts=()):
    keyspace = f"sq_{workload.replace('-', '_')}_{number:03d}"
    return RaceFacts(
        keyspace=keyspace,
        workload=workload,
        number=number,
        acknowledged=acknowledged,
        anomalies=tuple(sorted(anomalies)),
        doubts=tuple(doubts),
    )


def run(*races, at_large=(), doubts=(), completed=True, error="", name="runs/a", findings=()):
    return RunFacts(
        run=name,
        completed=completed,
        error=error,
        races=races,
        at_large=tuple(at_large),
        doubts=tuple(doubts),
        findings=tuple(findings),
    )


def whole(*runs, workload="drop-type", racing=True):
    return any_cell(SYSTEM, workload, BARRIER, runs, racing=racing)


def of(anomaly, *runs, workload="drop-type"):
    return cell_of(SYSTEM, workload, BARRIER, anomaly, runs)


def told(cell):
    return cell.state, cell.broken, cell.tried, cell.unit


# ── any anomaly ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), ("not run", 0, 0)),
        ((refused("no types", applicable=False),), ("not applicable", 0, 0)),
        ((refused("no Java", applicable=True),), ("unknown", 0, 0)),
        ((run(race(0), race(1)),), ("held", 0, 2)),
        ((run(race(0, "lost-rows"), race(1)),), ("broke", 1, 2)),
        ((run(race(0)), run(race(1, "lost-rows"))), ("broke", 1, 2)),
        ((run(race(0, acknowledged=0)),), ("unknown", 0, 0)),
        ((run(race(0, doubts=[Doubt("unread", "why", checker="objects")]), race(1)),), ("held", 0, 1)),
        ((run(race(0, "lost-rows", doubts=[Doubt("unread", "why", checker="objects")])),), ("broke", 1, 1)),
        ((run(race(0), doubts=[Doubt("unread", "n1 was not read", checker="observed")]),), ("unknown", 0, 0)),
        (
            (run(race(0), doubts=[Doubt("nothing-to-judge", "no node was restarted", checker="restart")]),),
            ("held", 0, 1),
        ),
        ((run(race(0), at_large=["schema-disagreement"]),), ("broke", 1, 1)),
        ((run(race(0), race(1), race(2), at_large=["schema-disagreement"]),), ("broke", 1, 3)),
        ((run(race(0, "lost-rows"), race(1), at_large=["schema-disagreement"]),), ("broke", 1, 2)),
        ((run(),), ("unknown", 0, 0)),
    ],
    ids=[
        *(
            "nothing was run",
            "not applicable",
            "refused",
            "two held",
            "one of two",
            "over two runs",
            "nothing acknowledged",
        ),
        *("one undecided", "broken though undecided", "the run undecided", "a question that did not arise"),
        *("at large, one race", "at large, three races", "at large beside a broken one", "no race began"),
    ],
)
def test_the_row_any_anomaly_counts_races_that_were_decided(runs, expected):
    cell = whole(*runs)
    assert (cell.state, cell.broken, cell.tried) == expected


def test_a_race_that_is_at_large_with_nobody_decided_is_one_of_one_and_not_one_of_none():
    doubt = Doubt("unread", "n1 was not read", checker="observed")
    assert told(whole(run(race(0), race(1), at_large=["node-died"], doubts=[doubt]))) == ("broke", 1, 1, "race")


def test_a_run_that_was_not_completed_may_show_that_something_broke_but_not_that_something_held():
    doubt = Doubt("incomplete-run", "it was not completed: interrupted", checker="run")
    cell = whole(run(race(0, "lost-rows"), race(1), completed=False, doubts=[doubt]))
    assert told(cell) == ("broke", 1, 1, "race")


def test_what_was_not_decided_stands_beside_the_cell_with_its_reason():
    cell = whole(run(race(0)), run(race(1), doubts=[Doubt("unread", "n1 was not read", checker="observed")]))
    assert told(cell) == ("held", 0, 1, "race")
    assert cell.reason == "observed: n1 was not read"


# ── one anomaly ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_anomaly_of_a_race_counts_the_races_in_which_its_checker_decided():
    blind = Doubt("unread", "rows could not be looked for", checker="acked-rows")
    runs = [run(race(0, "dangling-type", doubts=[blind]), race(1, "lost-rows"), race(2))]
    assert told(of("lost-rows", *runs)) == ("broke", 1, 2, "race")
    assert told(of("dangling-type", *runs)) == ("broke", 1, 3, "race")


def test_an_anomaly_whose_checker_never_decided_is_unknown_and_says_why():
    cell = of(
        "lost-rows", run(race(0, "dangling-type", doubts=[Doubt("unread", "nobody answered", checker="acked-rows")]))
    )
    assert told(cell) == ("unknown", 0, 0, "race")
    assert cell.reason == "acked-rows: nobody answered"


def test_an_anomaly_of_the_whole_cluster_counts_runs():
    runs = [run(race(0), race(1), at_large=["node-will-not-start"]), run(race(2), race(3))]
    assert told(of("node-will-not-start", *runs)) == ("broke", 1, 2, "run")
    assert told(of("schema-disagreement", *runs)) == ("held", 0, 2, "run")


def test_a_run_in_which_no_node_was_restarted_is_no_try_of_a_node_that_does_not_start():
    doubt = Doubt("nothing-to-judge", "no node was restarted", checker="restart")
    assert told(of("node-will-not-start", run(race(0), doubts=[doubt]))) == ("unknown", 0, 0, "run")
    assert told(of("schema-disagreement", run(race(0), doubts=[doubt]))) == ("held", 0, 1, "run")


def test_an_anomaly_at_large_that_is_otherwise_one_of_a_race_is_of_one_race_at_least():
    assert told(of("unexpected-log-error", run(race(0), race(1), at_large=["unexpected-log-error"]))) == (
        *("broke", 1, 2),
        "race",
    )


# ── kinds that share a cluster ───────────────────────────────────────────────────────────────────────────────────────


def test_a_shared_run_in_which_nothing_befell_the_cluster_counts_for_every_kind():
    shared = run(race(0), race(0, "lost-column", workload="add-columns"))
    assert told(whole(shared)) == ("held", 0, 1, "race")
    assert told(whole(shared, workload="add-columns")) == ("broke", 1, 1, "race")
    assert told(of("node-will-not-start", shared)) == ("held", 0, 1, "run")


def test_a_shared_run_in_which_something_befell_the_cluster_counts_for_none_of_them():
    shared = run(race(0, "lost-rows"), race(0, workload="add-columns"), at_large=["node-will-not-start"])
    for workload in ("drop-type", "add-columns"):
        cell = whole(shared, workload=workload)
        assert told(cell) == ("unknown", 0, 0, "race")
        assert "several kinds of race shared it" in cell.reason


def test_a_run_meant_to_be_shared_in_which_one_kind_alone_began_is_that_kinds():
    early = run(race(0), at_large=["schema-disagreement"])
    assert told(of("schema-disagreement", early)) == ("broke", 1, 1, "run")
    other = whole(early, workload="add-columns")
    assert told(other) == ("unknown", 0, 0, "race")
    assert other.reason == "no race of this kind began before the cluster stopped accepting changes"


# ── workloads without races ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_workload_without_races_is_counted_by_runs():
    cell = whole(run(at_large=["lost-column"]), run(), workload="schema-churn", racing=False)
    assert told(cell) == ("broke", 1, 2, "run")
    found = cell_of(
        SYSTEM, "schema-churn", BARRIER, "lost-column", [run(at_large=["lost-column"]), run()], racing=False
    )
    assert told(found) == ("broke", 1, 2, "run")


# ── rows and evidence ────────────────────────────────────────────────────────────────────────────────────────────────


def evidence(text):
    return Evidence(run="runs/a", keyspace=None, title=text, explanation="")


def test_rows_begin_with_any_then_lost_nodes_and_end_with_what_follows_from_the_others():
    runs = [
        run(race(0, "non-linearizable-ddl", "lost-rows"), race(1, "lost-rows", "dangling-type")),
        run(race(2, "non-linearizable-ddl"), at_large=["node-will-not-start"]),
    ]
    assert [row.anomaly for row in rows_of("drop-type", BARRIER, runs)] == [
        *(None, "node-will-not-start", "lost-rows", "dangling-type"),
        "non-linearizable-ddl",
    ]


def test_evidence_of_any_is_that_of_the_lost_node_and_what_names_its_race_tells_more():
    findings = [
        Finding("drop-type", "lost-rows", evidence("rows")),
        Finding(None, "node-will-not-start", evidence("a node")),
        Finding("drop-type", "node-will-not-start", evidence("a node, by this race")),
        Finding("add-columns", "node-died", evidence("somebody else's")),
    ]
    one = run(race(0, "lost-rows"), at_large=["node-will-not-start"], findings=findings)
    assert whole(one).evidence.title == "a node, by this race"
    assert of("lost-rows", one).evidence.title == "rows"
    assert of("dangling-type", one).evidence is None


def test_every_anomaly_of_a_known_bug_has_a_checker_that_finds_it():
    assert {kind.name for kind in CATALOGUE.values() if kind.bugs} <= finders().keys()
    assert finders()["lost-rows"] == {"acked-rows"}


TYPES = ("lost-rows", "dangling-type", "node-will-not-start", "schema-disagreement")


@st.composite
def facts(draw):
    races = [
        race(
            number,
            *draw(st.sets(st.sampled_from(TYPES[:2]))),
            workload=draw(st.sampled_from(["drop-type", "add-columns"])),
            acknowledged=draw(st.integers(0, 2)),
            doubts=[
                Doubt("unread", "why", checker=name)
                for name in draw(st.sets(st.sampled_from(["acked-rows", "references"])))
            ],
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    return run(*races, at_large=draw(st.sets(st.sampled_from(TYPES))), completed=draw(st.booleans()))


@given(st.lists(facts(), max_size=4))
def test_counts_never_contradict_each_other(runs):
    every = [whole(*runs), *(of(kind, *runs) for kind in TYPES)]
    for cell in every:
        assert 0 <= cell.broken <= cell.tried
        assert (cell.state == "broke") == (cell.broken > 0)
        assert (cell.state == "held") == (cell.broken == 0 < cell.tried)
        assert cell.low <= cell.high
    if any(cell.broken for cell in every[1:]):
        assert every[0].broken


@given(st.lists(facts(), min_size=1, max_size=4))
def test_facts_are_read_back_as_they_were(runs):
    assert [RunFacts.from_json(one.to_json()) for one in runs] == runs

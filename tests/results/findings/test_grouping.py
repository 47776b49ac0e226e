"""Grouping: one cause, one finding, and every anomaly in one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from contested_runs import ContestedRun
from recorded_0_1 import lay_out_old_run

from schemaquake.harness.ddl.schema_changes import (
    add_column,
    alter_options,
    create_index,
    create_table,
    create_type,
    drop_aggregate,
    drop_column,
    drop_index,
    drop_table,
    drop_type,
)
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.results.findings.finding import Finding, Rate
from schemaquake.results.findings.grouping import Grouped, listed_anomalies
from schemaquake.results.runs.execution import conclude
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary


def anomaly(kind: str, *objects: str, ops: tuple[int, ...] = (), evidence: object = None) -> Anomaly:
    return Anomaly(type=kind, title="", objects=objects, ops=ops, evidence=evidence)  # type: ignore[arg-type]


def table(keyspace: str, name: str = "x") -> Invoke:
    return create_table(keyspace, name, columns=[("k", "int", "partition_key"), ("c", "frozen<u>", "regular")])


def dropped_types(*keyspaces: str, **named: str) -> ContestedRun:
    """A run in which a type is dropped while a table is created with it, in each keyspace."""
    run = ContestedRun()
    for number, keyspace in enumerate(keyspaces):
        run.race(keyspace, [drop_type(keyspace, "u")], [table(keyspace)], at=1.0 + 3 * number, **named)
    return run


def causes(grouped: Grouped) -> list[list[str]]:
    return [[str(shape) for shape in finding.cause.statements] for finding in grouped.findings]


DROPPED_TYPE = ["drop-type(A)", "create-table(B uses A)"]


def test_many_anomalies_of_one_kind_of_race_are_one_finding_the_worst_first() -> None:
    found = dropped_types("a", "b", "c").group(
        anomaly("unexpected-log-error", "a.u", "b.u"),
        anomaly("unreadable-table", "a.x"),
        anomaly("dangling-type", "a.x"),
        anomaly("dangling-type", "b.x"),
        anomaly("node-will-not-start", "b.u"),
    )
    (finding,) = found.findings
    assert causes(found) == [DROPPED_TYPE]
    assert [(one.type, one.anomalies, one.races) for one in finding.symptoms] == [
        ("node-will-not-start", (4,), ("b",)),
        ("dangling-type", (2, 3), ("a", "b")),
        ("unreadable-table", (1,), ("a",)),
        ("unexpected-log-error", (0,), ("a", "b")),
    ]
    assert finding.symptoms[2].follows_from == ("dangling-type",)
    assert (finding.races, finding.rate) == (("a", "b"), Rate(2, 3, "race"))
    assert finding.anomalies == (0, 1, 2, 3, 4)


def test_races_with_other_statements_are_other_findings() -> None:
    run = dropped_types("a")
    run.race("b", [drop_table("b", "t")], [add_column("b", "t", "c", "int")], at=9.0)
    found = run.group(anomaly("dangling-type", "a.x"), anomaly("lost-rows", "b.t"))
    assert causes(found) == [["drop-table(A)", "add-column(A)"], DROPPED_TYPE], "lost rows are worse"
    assert [finding.rate for finding in found.findings] == [Rate(1, 1, "race"), Rate(1, 1, "race")]


def test_equal_statements_on_another_design_are_another_finding_and_on_another_version_the_same() -> None:
    run, broken = dropped_types("a"), anomaly("dangling-type", "a.x")
    of_4_1, of_5_0, of_6_0, elsewhere = (
        run.group(broken, system=system).findings[0]
        for system in ("cassandra:4.1.0", "cassandra:5.0.9", "cassandra:6.0-alpha2", "nothing-known:1.0")
    )
    assert of_4_1.id == of_5_0.id
    assert len({of_5_0.id, of_6_0.id, elsewhere.id}) == 3
    assert of_5_0.cause.across_designs == of_6_0.cause.across_designs != elsewhere.cause.across_designs


def test_what_did_not_break_counts_only_if_it_was_decided() -> None:
    run = dropped_types("a", "b")
    run.race("c", [drop_type("c", "u")], [table("c")], at=20.0, outcome="fail")
    broken = anomaly("dangling-type", "a.x")
    assert run.group(broken).findings[0].rate == Rate(1, 2, "race"), "nothing was acknowledged in c"
    doubt = Verdict(
        valid="unknown", checker="acked-rows", doubts=(Doubt("time", "", ("b",)),), undecided=("b",)
    )  # fmt: skip
    assert run.group(broken, parts=[doubt]).findings[0].rate == Rate(1, 1, "race")
    whole = Verdict.unknown("restart", Doubt("unread", ""))
    assert run.group(broken, parts=[whole]).findings[0].rate == Rate(1, 1, "race")
    nothing = Verdict.unknown("restart", Doubt("nothing-to-judge", ""))
    assert run.group(broken, parts=[nothing]).findings[0].rate == Rate(1, 2, "race")


def test_a_race_that_held_is_remembered_with_its_statements() -> None:
    grouped = dropped_types("a").group()
    assert grouped.findings == ()
    assert [str(shape) for shape in grouped.contested["a"]] == DROPPED_TYPE
    assert grouped.decided == {"a"}


# ── at large ─────────────────────────────────────────────────────────────────────────────────────────────────────────

DISAGREE = anomaly("schema-disagreement", "a.x")


def test_an_anomaly_at_large_has_the_only_cause_there_was() -> None:
    (finding,) = dropped_types("a", "b").group(DISAGREE, anomaly("dangling-type", "a.x")).findings
    assert [one.type for one in finding.symptoms] == ["schema-disagreement", "dangling-type"]
    assert finding.races == ("a",)


def test_and_none_if_there_were_two_or_a_fault() -> None:
    other = dropped_types("a")
    other.race("b", [drop_table("b", "t")], [add_column("b", "t", "c", "int")], at=9.0)
    faulty = dropped_types("a")
    faulty.fault("kill", 1.5, 2.5)
    for run in (other, faulty):
        known, unknown = run.group(DISAGREE, anomaly("dangling-type", "a.x")).findings
        assert (known.cause.known, unknown.cause.known) == (True, False)
        assert unknown.cause.symptom == "schema-disagreement"
        assert (unknown.races, unknown.rate.unit) == ((), "run")


def test_nor_if_somebody_else_changed_the_schema() -> None:
    run = dropped_types("a")
    run.ask("n3", drop_table("elsewhere", "t"), at=1.5, until=2)
    found = run.group(DISAGREE, anomaly("lost-rows", "elsewhere.t"), anomaly("dangling-type", "a.x"))
    assert causes(found) == [DROPPED_TYPE, [], []]
    assert [finding.cause.symptom for finding in found.findings] == [None, "lost-rows", "schema-disagreement"]


def test_log_errors_of_two_mechanisms_are_two_findings() -> None:
    def logged(rule: str, exception: str) -> Anomaly:
        entry = {"message": "m", "stack": f"org.x.{exception}: at 7\n\tat a.b"}
        return anomaly("unexpected-log-error", evidence={"rule": rule, "first": {"n1": entry}})

    some = [logged("r", "FooException"), logged("r", "BarError"), logged("r", "FooException"), logged("s", "FooException")]  # fmt: skip
    found = ContestedRun().group(*some).findings
    assert sorted(len(finding.anomalies) for finding in found) == [1, 1, 2]
    assert {finding.cause.mechanism for finding in found} == {"r FooException", "r BarError", "s FooException"}


def test_operations_of_two_kinds_that_hang_are_two_findings() -> None:
    some = [anomaly("hanging-change", evidence={"operation": f}) for f in ("address-change", "bootstrap", "bootstrap")]
    found = ContestedRun().group(*some).findings
    assert {finding.cause.mechanism: len(finding.anomalies) for finding in found} == {
        "address-change": 1,
        "bootstrap": 2,
    }


# ── long sides ───────────────────────────────────────────────────────────────────────────────────────────────────────


def columns(keyspace: str) -> list[list[Invoke]]:
    return [
        [add_column(keyspace, "t", f"c{n}", "int"), drop_column(keyspace, "t", f"d{n}"), add_column(keyspace, "t", f"e{n}", "int")]
        for n in range(2)
    ]  # fmt: skip


def test_of_long_sides_the_statements_count_that_the_worst_anomaly_names() -> None:
    run = ContestedRun()
    ops = run.race("a", *columns("a"))
    held = run.race("b", *columns("b"), at=9.0)
    found = run.group(
        anomaly("lost-column", "a.t", ops=(ops[0], ops[3])), anomaly("non-linearizable-ddl", "a.t", ops=tuple(ops))
    )
    (finding,) = found.findings
    assert causes(found) == [["add-column(A) 2+"]]
    assert [str(shape) for shape in finding.sides[0]] == ["drop-column(A) 2+", "add-column(A) 2+"]
    assert finding.rate == Rate(1, 2, "race"), f"{held} was the same race"


@pytest.mark.parametrize("named", [0, 1], ids=["none", "one"])
def test_and_all_of_them_if_it_does_not_name_two(named: int) -> None:
    run = ContestedRun()
    ops = run.race("a", *columns("a"))
    found = run.group(anomaly("lost-column", "a.t", ops=tuple(ops[:named])))
    assert causes(found) == [["drop-column(A) 2+", "add-column(A) 2+"]]


# ── outside of races ─────────────────────────────────────────────────────────────────────────────────────────────────


def churned() -> tuple[ContestedRun, int, int, int]:
    """A long run: a type is made early, dropped while a column with it is added, and a table lives elsewhere."""
    run = ContestedRun()
    made = run.ask("n1", create_type("k", "u", fields=[("a", "int")]), at=0, until=0.5)
    run.ask("n1", table("k", "other"), at=2, until=3)
    dropped = run.ask("n2", drop_type("k", "u"), at=10, until=12)
    added = run.ask("n3", add_column("k", "t", "c", "frozen<u>"), at=11, until=13)
    return run, made, dropped, added


def test_one_broken_table_is_one_finding_of_the_changes_that_met() -> None:
    run, made, dropped, added = churned()
    found = run.group(
        anomaly("dangling-type", "k.t", ops=(made, dropped, added)),
        anomaly("unreadable-table", "k.t"),
        anomaly("non-linearizable-ddl", "k.u", ops=(dropped,)),
    )
    assert causes(found) == [["drop-type(A)", "add-column(B uses A)"]]
    assert found.findings[0].rate.unit == "run"
    assert found.findings[0].statements == (dropped, added)


def test_what_names_no_changes_has_those_that_met_on_its_objects() -> None:
    run, *_ = churned()
    run.ask("n1", drop_table("k", "t"), at=12.5, until=14)
    assert causes(run.group(anomaly("lost-rows", "k.t"))) == [["drop-table(A)", "add-column(A)"]]


def test_another_table_is_another_finding() -> None:
    run, _, dropped, added = churned()
    found = run.group(anomaly("dangling-type", "k.t", ops=(dropped, added)), anomaly("lost-rows", "k.other"))
    assert causes(found) == [["drop-type(A)", "add-column(B uses A)"], []]
    assert found.findings[1].cause.symptom == "lost-rows"


def test_a_fault_is_part_of_the_cause_only_where_one_coordinator_took_part() -> None:
    alone = ContestedRun()
    op = alone.ask("n1", drop_index("k", "i"), at=10, until=12)
    alone.fault("kill", 11.5, 20)
    alone.fault("pause", 13, 20)
    resurrected = anomaly("resurrected-object", "k.i", ops=(op,))
    assert alone.group(resurrected).findings[0].cause.fault == "kill"
    met, _, dropped, added = churned()
    met.fault("kill", 11.5, 20)
    assert met.group(anomaly("dangling-type", "k.t", ops=(dropped, added))).findings[0].cause.fault is None


def test_a_change_that_was_refused_met_nothing() -> None:
    run = ContestedRun()
    one = run.ask("n1", drop_table("k", "t"), at=1, until=3)
    run.ask("n2", add_column("k", "t", "c", "int"), at=2, until=4, outcome="fail")
    assert causes(run.group(anomaly("lost-rows", "k.t", ops=(one,)))) == [["drop-table(A)"]]


def two_meetings() -> tuple[ContestedRun, list[int], list[int], int]:
    """A table that is altered while it is dropped, and later altered twice at once, beside which an aggregate is dropped."""
    run = ContestedRun()
    dropped = [
        run.ask("n1", drop_column("k", "t", "c"), at=10, until=12),
        run.ask("n3", drop_table("k", "t"), at=10, until=11),
    ]
    altered = [
        run.ask("n1", alter_options("k", "t", {"comment": "a"}), at=30, until=31),
        run.ask("n2", alter_options("k", "t", {"gc_grace_seconds": 1}), at=30, until=31),
    ]
    aside = run.ask("n3", drop_aggregate("k", "g"), at=30.5, until=31)
    return run, dropped, altered, aside


DROPPED_COLUMN = ["drop-column(A)", "drop-table(A)"]
ALTERED_TWICE = ["alter-options(A) 2+"]


def test_two_meetings_of_one_table_are_two_findings_and_what_names_both_goes_where_it_follows_from() -> None:
    run, dropped, altered, aside = two_meetings()
    whole_history = (*dropped, *altered, aside)
    found = run.group(
        anomaly("node-will-not-start", "k.t", ops=whole_history),
        anomaly("dangling-index-target", "k.i", ops=tuple(dropped)),
        anomaly("lost-option", "k.t", ops=tuple(altered)),
        anomaly("unexplained-sighting", "k.t"),
        anomaly("unexpected-log-error", "k.t", "k.g", ops=whole_history),
    )
    assert causes(found) == [DROPPED_COLUMN, ALTERED_TWICE]
    assert [one.anomalies for one in found.findings] == [(0, 1, 3, 4), (2,)]
    assert found.findings[0].statements == tuple(dropped)


def test_what_names_both_and_follows_from_neither_is_of_the_one_that_removed_something() -> None:
    run, dropped, altered, _ = two_meetings()
    found = run.group(anomaly("resurrected-object", "k.t", ops=(*dropped, *altered)))
    assert causes(found) == [DROPPED_COLUMN]


def test_an_entry_of_a_log_that_names_two_meetings_is_of_neither_if_nothing_else_is_known() -> None:
    run, dropped, altered, _ = two_meetings()
    logged = anomaly("unexpected-log-error", "k.t", ops=(*dropped, *altered), evidence={"rule": "r"})
    (finding,) = run.group(logged).findings
    assert (causes(run.group(logged)), finding.cause.mechanism) == ([[]], "r")
    assert causes(run.group(logged, anomaly("lost-option", "k.t", ops=tuple(altered)))) == [ALTERED_TWICE]


def test_changes_that_met_and_share_no_object_are_no_meeting_unless_nothing_else_met() -> None:
    run, _, altered, aside = two_meetings()
    found = run.group(anomaly("lost-option", "k.t", ops=(*altered, aside)))
    assert causes(found) == [ALTERED_TWICE]
    assert causes(run.group(anomaly("lost-option", "k.t", ops=(altered[0], aside)))) == [
        ["drop-aggregate(A)", "alter-options(B)"]
    ]


def test_an_index_belongs_to_the_table_of_its_create_when_it_is_dropped() -> None:
    run = ContestedRun()
    run.ask("n1", create_index("k", "i", table="t", column="c"), at=1, until=2)
    run.ask("n1", create_index("k", "j", table="other", column="c"), at=1, until=2)
    altered = run.ask("n1", alter_options("k", "t", {"comment": "a"}), at=10, until=12)
    dropped = run.ask("n2", drop_index("k", "i"), at=10, until=12)
    elsewhere = run.ask("n3", drop_index("k", "j"), at=10, until=12)
    found = run.group(anomaly("lost-option", "k.t", ops=(altered, dropped, elsewhere)))
    assert found.findings[0].statements == (altered, dropped)


def test_an_answer_that_came_too_late_meets_what_was_asked_before_it_and_not_everything_after() -> None:
    run = ContestedRun()
    lost = run.ask("n1", drop_table("k", "t"), at=1, until=11, outcome="info")
    met = run.ask("n2", add_column("k", "t", "c", "int"), at=5, until=6)
    later = run.ask("n3", add_column("k", "t", "d", "int"), at=40, until=41)
    assert run.group(anomaly("lost-column", "k.t", ops=(lost, met, later))).findings[0].statements == (lost, met)
    assert run.group(anomaly("lost-column", "k.t", ops=(lost, later))).findings[0].statements == (lost, later)


def test_of_changes_that_never_met_the_last_removal_counts_or_the_last_one() -> None:
    run = ContestedRun()
    made = run.ask("n1", create_type("k", "u", fields=[("a", "int")]), at=0, until=1)
    dropped = run.ask("n2", drop_type("k", "u"), at=10, until=12)
    again = run.ask("n2", create_type("k", "u", fields=[("a", "int")]), at=20, until=21)
    assert causes(run.group(anomaly("memory-disk-divergence", "k.u", ops=(made, dropped, again)))) == [["drop-type(A)"]]
    assert run.group(anomaly("memory-disk-divergence", "k.u", ops=(made, again))).findings[0].statements == (again,)


# ── in the middle of an upgrade ──────────────────────────────────────────────────────────────────────────────────────


def upgraded(outcome: str = "ok", end: str = "fail") -> ContestedRun:
    """A run in whose 10th to 20th and 20th to 30th second two nodes become another version; the last step begins at 50 s."""
    run = ContestedRun()
    run.upgrade("n1", 10, 20, outcome=outcome)
    run.upgrade("n2", 20.5, 30, outcome=outcome)
    run.upgrade("n2", 50, 51, stage="finish", outcome=end)
    return run


def test_what_changes_of_mixed_times_brought_about_is_one_finding() -> None:
    run = upgraded()
    early = run.ask("n3", table("k", "t"), at=1, until=2)
    added = run.ask("n3", add_column("k", "t", "c", "int"), at=32, until=33)
    dropped = run.ask("n3", drop_index("k", "i"), at=34, until=35)
    found = run.group(
        anomaly("lost-column", "k.t", ops=(early, added)),
        anomaly("resurrected-object", "k.i", ops=(dropped,)),
        anomaly("upgrade-does-not-end", "n2", ops=(added, dropped)),
    )
    (finding,) = found.findings
    assert (finding.cause.statements, finding.cause.upgrade_to) == ((), "tcm")
    assert finding.anomalies == (0, 1, 2)
    assert finding.statements == (added,), "the anomaly that names the fewest"


def test_changes_before_or_after_it_and_those_that_met_have_their_own_cause() -> None:
    run = upgraded(end="info")
    early = run.ask("n3", add_column("k", "a", "c", "int"), at=8, until=9)
    late = run.ask("n3", add_column("k", "b", "c", "int"), at=52, until=53)
    over = run.ask("n3", add_column("k", "e", "c", "int"), at=9, until=11)
    met = [run.ask(f"n{number}", one, at=40, until=41) for number, one in enumerate(columns("k")[0], 2)]
    found = run.group(
        anomaly("lost-column", "k.a", ops=(early,)),
        anomaly("lost-column", "k.b", ops=(late,)),
        anomaly("lost-column", "k.e", ops=(over,)),
        anomaly("lost-column", "k.t", ops=tuple(met)),
    )
    assert {finding.cause.upgrade_to for finding in found.findings} == {None}
    assert {place for finding in found.findings for place in finding.anomalies} == {0, 1, 2, 3}


def test_versions_stay_mixed_after_a_last_step_that_was_refused() -> None:
    run = upgraded()
    dropped = run.ask("n3", drop_index("k", "i"), at=52, until=53)
    (finding,) = run.group(anomaly("resurrected-object", "k.i", ops=(dropped,))).findings
    assert (finding.cause.statements, finding.cause.upgrade_to) == ((), "tcm")


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_versions_are_mixed_only_once_a_node_is_known_to_be_the_newer_one(outcome: str) -> None:
    run = upgraded(outcome)
    added = run.ask("n3", add_column("k", "t", "c", "int"), at=32, until=33)
    assert run.group(anomaly("lost-column", "k.t", ops=(added,))).findings[0].cause.upgrade_to is None


def test_a_change_that_was_refused_or_not_answered_in_mixed_times_is_not_to_blame() -> None:
    for outcome, until in (("fail", 33), ("info", None)):
        run = upgraded()
        added = run.ask("n3", add_column("k", "t", "c", "int"), at=32, until=until, outcome=outcome)
        assert run.group(anomaly("lost-column", "k.t", ops=(added,))).findings[0].cause.upgrade_to is None


# ── whatever comes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(20))
def test_no_anomaly_is_lost_and_the_order_of_the_anomalies_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    run, *ops = churned()
    ops += [run.ask(f"n{n % 3 + 1}", one, at=40 + n / 2, until=41 + n / 2) for n, one in enumerate(columns("k")[0] * 2)]
    ops += run.race("a", [drop_type("a", "u")], [table("a")], at=20)
    ops += run.race("b", *columns("b"), at=30, canary="sq_canary.b")
    kinds = [
        "lost-rows",
        "schema-disagreement",
        "node-will-not-start",
        "dangling-type",
        "unheard-of",
        "non-linearizable-ddl",
    ]
    objects = ["k.t", "k.other", "a.u", "b.t", "sq_canary.b", "nowhere.t", "k", "a"]
    some = [
        anomaly(chance.choice(kinds), *chance.sample(objects, chance.randint(0, 2)), ops=tuple(chance.sample([*ops, 999], chance.randint(0, 3))))
        for _ in range(chance.randint(1, 12))
    ]  # fmt: skip
    found = run.group(*some).findings
    assert {place for finding in found for place in finding.anomalies} == set(range(len(some)))
    assert len({finding.id for finding in found}) == len(found)
    for finding in found:
        assert finding.rate.broken <= finding.rate.tried
        assert Finding.from_json(finding.to_json()) == finding
    mixed = list(range(len(some)))
    chance.shuffle(mixed)
    again = run.group(*(some[place] for place in mixed)).findings

    def told(findings: Sequence[Finding], places: Sequence[int]) -> dict[str, set[int]]:
        return {one.id: {places[place] for place in one.anomalies} for one in findings}

    assert told(again, mixed) == told(found, range(len(some)))


def test_a_recorded_run_has_its_findings_in_the_verdict_and_the_summary(tmp_path) -> None:
    run = lay_out_old_run("broken", tmp_path)
    finished = conclude(run, engine="local")
    store = Store(run)
    summary = read_summary(store)
    assert summary.findings == finished.findings
    assert [[str(shape) for shape in one.cause.statements] for one in summary.findings if one.cause.known] == [
        DROPPED_TYPE
    ]
    everything = {place for finding in summary.findings for place in finding.anomalies}
    assert everything == set(range(len(listed_anomalies(store.read_verdict()))))
    assert next(iter(finished.document())) == "findings"
    assert store.path("verdict.json").read_text(encoding="utf-8").startswith('{\n  "findings": [')
    assert store.read_verdict() == finished.verdict

"""Whose anomaly it is, and what is at nobody's door."""

import orjson
import pyarrow as pa
import pytest

from schemaquake.harness.errors import ExitCode
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.harness.run.runner import Outcome
from schemaquake.results.engines.combination import of_all_keyspaces
from schemaquake.results.matrix.cells import any_cell
from schemaquake.results.matrix.facts import RunFacts, facts_of
from schemaquake.results.matrix.matrix_plan import Condition
from schemaquake.results.runs.execution import FinishedRun
from schemaquake.results.store.store import Store, write_table
from schemaquake.results.summary.summarise import write_summary
from schemaquake.results.tables.races import RACES

NOTE = orjson.dumps({"canary": "sq_canary.drop_type_001"}).decode()
PLAN = Plan(system="cassandra:5.0.9", workloads=("drop-type",), options={"races": "2"})


def anomaly(kind, *objects, nodes=(), evidence=None):
    return Anomaly(type=kind, title=kind.replace("-", " "), objects=objects, nodes=nodes, evidence=evidence)


def settle(phase, *, agreed):
    return {"index": 90 + len(phase), "time": 99, "process": -1, "type": "info", "f": "settle", "key": None} | {
        "value": orjson.dumps({"phase": phase, "agreed": agreed, "seconds": 10.0}).decode()
    }


def finished(tmp_path, *anomalies, kinds=("drop-type", "drop-type"), parts=(), completed=True, error=None, settles=()):
    """A judged run of races in `sq_0`, `sq_1`, …, one of each kind."""
    store = Store(tmp_path)
    store.write_plan(PLAN)
    rows = [
        {
            "keyspace": f"sq_{n}",
            "workload": kind,
            "number": n,
            "mode": "barrier",
            "sides": [["DROP TYPE u"], ["CREATE TABLE t"]],
            "broken": False,
            "anomalies": [],
            "ok": 3,
            "fail": 0,
            "info": 0,
        }
        for n, kind in enumerate(kinds)
    ]
    store.write_analysis("races", RACES.empty_table().from_pylist(rows, schema=RACES))
    store.write_analysis("operations", OPERATIONS.empty_table())
    notes = [
        {"index": n, "time": n, "process": -1, "type": "info", "f": "race", "key": row["keyspace"], "value": NOTE}
        for n, row in enumerate(rows)
    ]
    write_table(tmp_path / "history.parquet", pa.Table.from_pylist([*notes, *settles], schema=HISTORY))
    write_table(tmp_path / "observations.parquet", OBSERVATIONS.empty_table())
    verdict = Verdict(valid=False, checker="all", anomalies=tuple(anomalies), parts=tuple(parts))
    write_summary(store, verdict, Outcome(completed=completed, error=error, exit_code=ExitCode.INVALID))
    return FinishedRun(
        store=store, plan=PLAN, verdict=verdict, completed=completed, error=error, exit_code=ExitCode.INVALID
    )


def facts(*arguments, **named):
    return facts_of(finished(*arguments, **named), folder="runs/a", seconds=12.5)


def test_an_anomaly_belongs_to_the_race_whose_keyspace_it_names(tmp_path):
    found = facts(tmp_path, anomaly("lost-rows", "sq_1.t"), anomaly("dangling-type", "sq_0.x", "sq_1.x"))
    assert [race.anomalies for race in found.races] == [("dangling-type",), ("dangling-type", "lost-rows")]
    assert found.at_large == ()
    assert not found.ambiguous


def test_a_disagreement_is_of_everything_whatever_was_changed_last(tmp_path):
    found = facts(tmp_path, anomaly("schema-disagreement", "sq_0.t"))
    assert [race.anomalies for race in found.races] == [(), ()]
    assert found.at_large == ("schema-disagreement",)


def test_a_node_that_names_a_race_when_it_does_not_start_is_that_races_and_the_runs(tmp_path):
    found = facts(tmp_path, anomaly("node-will-not-start", "sq_0.u"))
    assert [race.anomalies for race in found.races] == [("node-will-not-start",), ()]
    assert found.at_large == ("node-will-not-start",)


def test_what_befell_a_canary_is_the_last_races_and_at_large(tmp_path):
    found = facts(tmp_path, anomaly("vanished-object", "sq_canary.drop_type_001"))
    assert [race.anomalies for race in found.races] == [(), ("vanished-object",)]
    assert found.at_large == ("vanished-object",)


@pytest.mark.parametrize(
    ("kinds", "ambiguous"),
    [(("drop-type", "drop-type"), False), (("drop-type", "add-columns"), True)],
    ids=["one", "two"],
)
def test_what_is_at_large_among_several_kinds_is_ambiguous(tmp_path, kinds, ambiguous):
    assert facts(tmp_path, anomaly("node-died"), kinds=kinds).ambiguous is ambiguous
    assert facts(tmp_path, anomaly("lost-rows", "sq_0.t"), kinds=kinds).ambiguous is False


HELD = Verdict(valid=True, checker="acked-rows")


def test_doubts_are_of_a_race_where_a_checker_says_so_and_else_of_the_run(tmp_path):
    parts = [
        of_all_keyspaces(
            "acked-rows", {"sq_0": HELD, "sq_1": Verdict.unknown("acked-rows", Doubt("unread", "nobody answered"))}
        ),
        Verdict.unknown("observed", Doubt("unread", "n1 was not read")),
        of_all_keyspaces("references", {"sq_0": Verdict.unknown("references", Doubt("nothing-to-judge", "no types"))}),
        Verdict(valid=True, checker="objects"),
    ]
    found = facts(tmp_path, parts=parts)
    assert [[doubt.sentence for doubt in race.doubts] for race in found.races] == [[], ["acked-rows: nobody answered"]]
    assert [doubt.sentence for doubt in found.doubts] == ["observed: n1 was not read"]


def test_a_run_that_was_not_completed_is_in_doubt_as_a_whole(tmp_path):
    found = facts(tmp_path, completed=False, error="interrupted")
    assert [doubt.sentence for doubt in found.doubts] == ["run: the run was not completed: interrupted"]


def test_a_run_that_never_began_says_why(tmp_path):
    run = finished(tmp_path, completed=False, error="no Java 11")
    (tmp_path / "analysis" / "races.parquet").unlink()
    found = facts_of(run, folder="runs/a", seconds=1)
    assert (found.completed, found.applicable, found.error, found.races) == (False, True, "no Java 11", ())


def test_evidence_quotes_the_log_and_gives_the_statements_and_the_command(tmp_path):
    error = "ERROR [main] x - Exception during startup\norg.a.InvalidRequestException: Unknown type sq_0.u\n at a.b(C.java:1)"
    found = facts(
        tmp_path,
        anomaly("node-will-not-start", "sq_0.u", nodes=("n2",), evidence={"first_error": error}),
        anomaly("unexpected-log-error", evidence={"first": {"n3": {"level": "WARN", "message": "odd", "stack": None}}}),
    )
    named, at_large, log = found.findings
    assert (named.workload, at_large.workload, log.workload) == ("drop-type", None, None)
    assert named.evidence.keyspace == "sq_0"
    assert named.evidence.statements == (("DROP TYPE u",), ("CREATE TABLE t",))
    assert named.evidence.log_lines == (
        "n2: ERROR [main] x - Exception during startup",
        "n2: org.a.InvalidRequestException: Unknown type sq_0.u",
    )
    assert named.evidence.command == PLAN.command()
    assert at_large.evidence.statements == named.evidence.statements, "all races are of one kind: any is an example"
    assert log.evidence.log_lines == ("n3: WARN odd",)


def test_the_nodes_logs_are_searched_for_the_race_where_the_anomaly_quotes_none(tmp_path):
    node = tmp_path / "nodes" / "n1"
    node.mkdir(parents=True)
    (node / "system-0.log").write_text(
        "ERROR [x] 2026-01-01 09:00:00,123 A.java:1 - cannot load sq_1.t\n"
        "WARN  [x] 2026-01-01 09:00:00,124 A.java:1 - of something else\n",
        encoding="utf-8",
    )
    (finding,) = facts(tmp_path, anomaly("lost-rows", "sq_1.t")).findings
    assert finding.evidence.log_lines == ("n1: ERROR cannot load sq_1.t",)


def test_facts_are_read_back_from_their_json_as_they_were(tmp_path):
    found = facts(tmp_path, anomaly("lost-rows", "sq_1.t"), anomaly("node-died"))
    assert RunFacts.from_json(orjson.loads(orjson.dumps(found.to_json()))) == found


def test_a_run_that_began_before_its_nodes_agreed_on_the_setup_decides_nothing(tmp_path):
    broke = [anomaly("lost-rows", "sq_1.t"), anomaly("schema-disagreement", "sq_0.t")]
    apart = facts(tmp_path, *broke, settles=[settle("setup", agreed=False), settle("settled", agreed=True)])
    assert [race.anomalies for race in apart.races] == [(), ()]
    assert (apart.at_large, apart.findings, apart.judged) == ((), (), None)
    assert [(doubt.kind, doubt.weighs) for doubt in apart.doubts] == [("undecided", True)]
    assert RunFacts.from_json(orjson.loads(orjson.dumps(apart.to_json()))) == apart
    cell = any_cell(PLAN.system, "drop-type", Condition("barrier"), [apart])
    assert (cell.state, cell.tried) == ("unknown", 0)


def test_a_cluster_that_disagrees_after_its_races_is_judged_as_ever(tmp_path):
    late = facts(
        tmp_path,
        anomaly("lost-rows", "sq_1.t"),
        settles=[settle("setup", agreed=True), settle("settled", agreed=False)],
    )
    assert [race.anomalies for race in late.races] == [(), ("lost-rows",)]
    assert late.judged is not None

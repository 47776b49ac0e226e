"""The engines agree: whatever is judged or analysed on Spark is what this process would have said. A corpus has every run once."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from urllib.parse import quote, unquote

import orjson
import pyarrow as pa
import pytest
from bundles import RUN, judged_run
from corpora import regressed, table_of, with_tables
from questioners import Counts, Crashes, Endless, FailedInserts, Says
from site_runs import further_run, held
from small_runs import small_run

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import OBSERVATIONS
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.results.corpus.asking import ask, questions
from schemaquake.results.corpus.building import Corpus
from schemaquake.results.corpus.tables import SCHEMAS
from schemaquake.results.engines.engine import Local, Spark, choose
from schemaquake.results.findings.curation import NOTHING_CURATED
from schemaquake.results.findings.lifecycle import follow_findings
from schemaquake.results.judging.judge import judge
from schemaquake.results.site.building import publish
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.swarm.sweep import Order, Swarm
from schemaquake.results.tables.pipeline import TABLES, analyse

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

CHECKERS = [
    FailedInserts(),
    FailedInserts("run", name="failed-inserts-at-once"),
    Counts(),
    Crashes(on="ks2"),
    Says("unknown", doubts=(Doubt("nothing-to-judge", "no table"),), scope="keyspace"),
]


def stored(folder, seed: int) -> Store:
    run = small_run(seed)
    store = Store.create(folder, "w", "s:1")
    store.write_history(run.history)
    store.write_observations(run.observations)
    log = store.path("nodes") / "n1" / "system-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("WARN  [main] 2026-11-21 09:00:00,000 A.java:1 - slow\n")
    return store


def test_both_engines_give_the_same_verdict_on_a_store(tmp_path):
    store = stored(tmp_path, 11)
    local = judge(store, checkers=CHECKERS, engine="local")
    assert judge(store, checkers=CHECKERS, engine="spark").to_json() == local.to_json()
    assert local.valid is False
    assert len(local.anomalies) > 3


def test_both_engines_give_the_same_verdict_on_records():
    run = small_run(12)
    local = judge(run, checkers=CHECKERS, engine="local")
    assert judge(run, checkers=CHECKERS, engine="spark").to_json() == local.to_json()


def test_both_engines_make_the_same_tables(tmp_path):
    tables = {}
    for engine in ("local", "spark"):
        store = stored(tmp_path, 13)
        analyse(store, Verdict(valid=True, checker="all"), engine=engine)
        tables[engine] = {name: store.read_analysis(name) for name in TABLES}
        assert sorted(path.stem for path in store.path("analysis").iterdir()) == sorted(TABLES)
    for name in TABLES:
        assert tables["spark"][name].equals(tables["local"][name]), name
        assert len(tables["local"][name]) or name == "meetings"  # only churn notes them


def test_a_checker_that_does_not_end_is_ended_there_too():
    verdict = judge(small_run(1), checkers=[Endless(), Says()], engine="spark", limit_s=0.3)
    assert "did not end by itself within twice its limit of 0.3 s" in (verdict.parts[0].reason or "")
    assert verdict.parts[1].valid is True


def test_an_error_of_a_step_is_told_in_its_own_words(tmp_path):
    store = stored(tmp_path, 13)
    history = store.read_history()
    store.write_history(history.filter(pa.array([index != 20 for index in range(len(history))])))
    store.write_observations(OBSERVATIONS.empty_table())
    with pytest.raises(HistoryError, match=r"^process \d+ "):
        analyse(store, Verdict(valid=True, checker="all"), engine="spark")


def test_records_in_memory_are_not_sent_to_a_cluster():
    with pytest.raises(PlanError, match="put them into a store"):
        judge(small_run(1), checkers=[Says()], engine="spark", master="spark://elsewhere:7077")


def test_a_session_that_is_there_is_used_and_left_running(spark):
    with choose("spark", events=0) as engine:
        assert isinstance(engine, Spark)
        assert engine.context is spark.sparkContext
        assert engine.width == 2
    assert spark.range(3).count() == 3


def test_a_master_means_spark_and_a_large_history_does_where_there_is_java():
    with choose("auto", events=0, master="local[2]") as engine:
        assert isinstance(engine, Spark)
    with choose("auto", events=200_000) as engine:
        assert isinstance(engine, Spark)
    with choose("auto", events=199_999) as engine:
        assert isinstance(engine, Local)


def test_no_groups_make_no_rows(spark):
    schema = pa.schema([("n", pa.int64())])
    assert (
        Spark(spark.sparkContext, 2)
        .carry(lambda group: group, pa.table({"unit": pa.array([], pa.int32())}), schema)
        .equals(schema.empty_table())
    )


# ── a corpus of runs: here, because a session takes longer to start than all of it ───────────────────────────────────


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four runs that hold or broke, one of them with a name that means something to globs; three that cannot be read."""
    folder = tmp_path_factory.mktemp("runs")
    run = judged_run(folder / RUN, "create-table,quorum", ("partition",), time_limit_s=12.0, rate=5.0)
    (folder / "latest").symlink_to(run.name)
    with_tables(run, folder / "deep" / "{a,b} 100%41+[x]*?", seed=7)
    with_tables(run, folder / "held", system="simulated:cassandra-6.0", **held(run))
    further_run(run, folder / "without tables", seed=8)
    damaged = with_tables(run, folder / "damaged operations", seed=9)
    operations = damaged / "analysis" / "operations.parquet"
    operations.write_bytes(operations.read_bytes()[:-50])
    further_run(run, folder / "edited", seed=10)
    summary = folder / "edited" / "summary.json"
    summary.write_bytes(summary.read_bytes().replace(b'"nodes": 3', b'"nodes": 4', 1))
    (folder / "begun").mkdir()
    (folder / "begun" / "plan.json").write_bytes((run / "plan.json").read_bytes())
    return folder


@pytest.fixture(scope="module")
def corpus(runs, spark, tmp_path_factory):
    made = Corpus(spark, f"file:{tmp_path_factory.mktemp('tables')}")
    (added,) = made.add([str(runs)])
    assert sorted(place.rpartition("/")[2] for place, _ in added.unread) == ["begun", "damaged operations", "edited"]
    return made


def test_every_run_is_in_the_tables_once_and_a_damaged_one_is_a_row_with_the_reason(corpus, runs):
    rows = {row["name"]: row for row in corpus.frames().frame("runs").toArrow().to_pylist()}
    states = {name: row["state"] for name, row in rows.items()}
    whole = {RUN, "{a,b} 100%41+[x]*?", "held", "without tables"}
    others = {"edited": "damaged", "begun": "not judged", "damaged operations": "incomplete"}
    assert states == dict.fromkeys(whole, "judged") | others
    operations = Store(runs / RUN).read_analysis("operations")
    assert rows["{a,b} 100%41+[x]*?"]["operations"] == rows[RUN]["operations"] == len(operations)
    assert rows["damaged operations"]["operations"] == rows["without tables"]["operations"] == 0
    of_run = corpus.frames().frame("operations").where(f"run = '{rows[RUN]['run']}'").orderBy("index").toArrow()
    for column in ("index", "type", "f", "node", "key", "invoked", "completed"):
        assert of_run[column].to_pylist() == operations[column].to_pylist(), column


@pytest.mark.long
def test_a_place_without_a_run_is_named(spark, tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(PlanError, match=f"no run, bundle or sweep lies at or below {tmp_path}/runs$"):
        list(Corpus(spark, f"file:{tmp_path}/tables").add([f"{tmp_path}/runs"]))


def test_questions_are_answered_with_intervals_and_agree_with_the_runs(corpus, runs):
    frames = corpus.frames()
    summaries = [read_summary(Store(runs / name)) for name in (RUN, "held")]
    rates = {(row["system"], row["kind"]): row for row in ask(frames, "rates")}
    for kind in summaries[0].races[0].anomalies:
        row = rates[summaries[0].system, kind]
        assert (row["broken"], row["tried"]) == (4, 4)
        assert (row["low"], row["high"]) == (0.5101, 1.0)
    assert (rates[summaries[1].system, None]["broken"], rates[summaries[1].system, None]["tried"]) == (0, 1)
    found = {(row["finding"], row["system"]): (row["broken"], row["tried"]) for row in ask(frames, "findings")}
    (finding,) = summaries[0].findings
    assert found == {(finding.id, summaries[0].system): (4, 4), (finding.id, summaries[1].system): (0, 1)}
    availability = ask(frames, "availability")
    attempts = sum(row["attempts"] for row in availability if row["fault"] == "none")
    assert {row["fault"] for row in availability} == {"none", "partition"}
    assert attempts < frames.frame("operations").count() == sum(row["attempts"] for row in availability)
    assert {row["phase"] for row in ask(frames, "slowest")} >= {"main"}
    assert {row["state"] for row in ask(frames, "unread")} == {"damaged", "not judged", "incomplete"}
    assert all(row["reason"] and row["runs"] >= 1 for row in ask(frames, "undecided"))


@pytest.mark.long
def test_a_site_of_a_corpus_answers_the_questions_and_leads_on(corpus, runs, tmp_path):
    tables, site = Path(corpus.root.removeprefix("file:")), tmp_path / "site"
    published = publish([tables], site)
    assert sorted(run for run, _ in published.unread) == ["begun", "edited"]
    page = (site / "answers.html").read_text("utf-8")
    assert 'href="answers.html"' in (site / "index.html").read_text("utf-8")
    for name in questions().keys() - {"tries"}:
        (file,) = (site / "answers").glob(f"*-{name}.json")
        assert orjson.loads(file.read_bytes()) == ask(corpus.frames(), name), name
        assert f'href="answers/{quote(file.name)}"' in page or not ask(corpus.frames(), name)
    (finding,) = read_summary(Store(runs / RUN)).findings
    led = [link for link in re.findall(r'href="([^"#]+)"', page) if "://" not in link]
    assert {f"findings/{finding.id}.html", "versions/simulated-cassandra-5.0.html"} <= {*led}
    assert [link for link in led if not (site / unquote(link)).is_file()] == []
    memory = {path: path.stat().st_mtime_ns for path in (site / ".schemaquake" / "answers").iterdir()}
    assert publish([tables], site).written == 0
    assert {path: path.stat().st_mtime_ns for path in (site / ".schemaquake" / "answers").iterdir()} == memory != {}
    publish([runs / RUN], site)
    assert not (site / "answers.html").exists()
    assert not [*(site / "answers").iterdir()]


@pytest.mark.long
def test_regressions_are_those_of_the_life_cycle(spark, runs, tmp_path):
    example = runs / RUN
    for system, holding in (("simulated:cassandra-5.0", 20), ("simulated:cassandra-6.0", 2)):
        regressed(example, tmp_path / "runs", systems=(system,), holding=holding)
    made = Corpus(spark, f"file:{tmp_path}/tables")
    assert sum(added.commit.runs for added in made.add([str(tmp_path / "runs")], batch=20)) == 26
    judged = [read_summary(Store(path)).judged() for path in sorted((tmp_path / "runs").iterdir())]
    followed = follow_findings(
        sorted(judged, key=lambda one: one.started),
        ["simulated:cassandra-5.0", "simulated:cassandra-6.0"],
        NOTHING_CURATED,
    )
    events = {(event.run, event.system) for one in followed for event in one.life.events if event.kind == "regressed"}
    answer = ask(made.frames(), "regressions")
    assert (
        {(row["run"], row["system"]) for row in answer} == events == {("cassandra-5.0-22", "simulated:cassandra-5.0")}
    )
    assert answer[0]["held"] == 20
    (new,) = ask(made.frames(), "new", since="2026-10-01")
    assert new["run"] == "cassandra-5.0-01"
    assert ask(made.frames(), "new", since="2026-10-02") == []


@pytest.mark.long
def test_a_second_call_reads_nothing_and_a_run_that_was_judged_again_counts_once(runs, spark, tmp_path):
    folder, tables = tmp_path / "runs", f"file:{tmp_path}/tables"
    for number in range(3):
        with_tables(runs / RUN, folder / f"r{number}", seed=number)
    made = Corpus(spark, tables)
    assert len(list(made.add([str(folder)], batch=2))) == 2
    before = {name: table_of(made.frames(), name) for name in SCHEMAS}
    assert list(made.add([str(folder)])) == []

    class Died(Exception):
        pass

    def die(*_arguments, **_named):
        raise Died

    shutil.rmtree(folder / "r1")
    with_tables(runs / RUN, folder / "r1", seed=1, **held(runs / RUN))
    dying = Corpus(spark, tables)
    dying._commit = die
    with pytest.raises(Died):
        list(dying.add([str(folder)]))
    assert {name: table_of(made.frames(), name) for name in SCHEMAS} == before, "files without a commit do not count"
    (added,) = made.add([str(folder)])
    assert added.commit.runs == 1
    after = {name: table_of(made.frames(), name) for name in SCHEMAS}
    assert (len(after["runs"]), len(after["races"]), len(after["operations"])) == (3, 3, len(before["operations"]))
    assert (len(before["findings"]), len(after["findings"])) == (3, 2)
    assert made.compact().replaces
    assert made.compact() is None
    gone = made.vacuum(0, int(time.time() * 1000) + 1000)
    assert len([path for path in gone if path.endswith(".json")]) == 3
    assert {name: table_of(made.frames(), name) for name in SCHEMAS} == after
    assert list(made.add([str(folder)])) == []


@pytest.mark.long
def test_the_seeds_of_a_sweep_are_runs_of_the_same_tables(spark, tmp_path):
    swarm = Swarm.begin(tmp_path / "swarm", Order(first=3, last=5, systems=("simulated:cassandra-6.0",), wave=2))
    (rows,) = swarm.run(Local())
    made = Corpus(spark, f"file:{tmp_path}/tables")
    (added,) = made.add([str(tmp_path / "swarm")])
    runs = {row["seed"]: row for row in made.frames().frame("runs").toArrow().to_pylist()}
    assert {seed: row["valid"] for seed, row in runs.items()} == {row["seed"]: row["outcome"] for row in rows}
    assert added.commit.rows["findings"] == sum(len(row["findings"]) for row in rows)
    assert list(made.add([str(tmp_path / "swarm")])) == []


def test_a_folder_with_other_files_is_refused(spark, tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(PlanError, match=r"thesis\.txt"):
        list(Corpus(spark, f"file:{tmp_path}").add([str(tmp_path)]))

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.atomic import replacing
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.journal import Journal, ObservationJournal, start_clock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats
from schemaquake.harness.run_process import process_start_time
from schemaquake.results.store.store import FILES, Store, read_table

PLAN = Plan(system="cassandra:5.0.9", workloads=("drop-type",), distribution=Path("/opt/cassandra"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "runs", "drop-type", "cassandra:5.0.9")


def history(count: int = 4) -> pa.Table:
    rows = [
        {
            "index": index,
            "time": 10 * index,
            "process": index // 2,
            "type": ("invoke", "ok")[index % 2],
            "f": "insert",
            "node": "n1",
            "key": "ks.t",
            "value": None,
            "error": None,
            "mops": [{"f": "append", "k": 1, "v": index, "vs": None}],
        }
        for index in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def observations() -> pa.Table:
    row = {"time": 5, "phase": "settled", "node": "n1", "sample": 1, "kind": "version", "id": "v"}
    return pa.Table.from_pylist([row], schema=OBSERVATIONS)


def journalled(store: Store) -> None:
    """What a run writes ahead: two events of one worker, a note, and a reading."""
    folder = store.path("journals")
    started_ns = start_clock(folder)
    with Journal(folder / "events-0000.jsonl", started_ns) as worker:
        worker.event(0, "invoke", "insert", "n1", "ks.t")
        worker.event(0, "ok", "insert", "n1", "ks.t")
    with Journal(folder / "events-conductor.jsonl", started_ns) as conductor:
        conductor.event(NEMESIS, "info", "phase")
    with ObservationJournal(folder / "observations-observer.jsonl", started_ns) as observer:
        reading = Observation(time=started_ns + 1, phase="settled", node="n1", sample=1, kind="version", id="v")
        observer.append([reading])


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_named_after_its_time_workload_and_system(store):
    assert store.folder.is_dir()
    time, rest = store.folder.name.split("-", 1)
    assert (len(time), time[8], time[-1]) == (16, "T", "Z")
    assert rest == "drop-type-cassandra-5.0.9"


def test_a_name_cannot_lead_out_of_the_folder_of_runs(tmp_path):
    store = Store.create(tmp_path / "runs", "../drop-type, create/table", "../../etc:1")
    assert store.folder.parent == tmp_path / "runs"
    assert store.folder.name.split("-", 1)[1] == "..-drop-type-create-table-..-..-etc-1"


def test_runs_started_in_the_same_second_get_folders_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: Store.create(tmp_path, "w", "s:1"), range(24)))
    assert len({store.folder for store in stores}) == 24
    assert all(store.folder.is_dir() for store in stores)


def test_latest_points_to_the_newest_run(tmp_path, store):
    latest = tmp_path / "runs" / "latest"
    assert latest.resolve() == store.folder
    newer = Store.create(tmp_path / "runs", "create-table", "cassandra:6.0")
    assert latest.resolve() == newer.folder
    assert str(latest.readlink()) == newer.folder.name, "relative, so that the folder of runs can be moved"


def test_something_else_named_latest_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    assert Store.create(tmp_path, "w", "s:1").folder.is_dir()
    assert not (tmp_path / "latest").is_symlink()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(PlanError, match=r"cannot make a folder for the run in .*runs: it is a file"):
        Store.create(tmp_path / "runs", "w", "s:1")


def test_a_run_that_could_not_be_started_is_discarded_and_latest_goes_back(tmp_path):
    first = Store.create(tmp_path, "a", "s:1")
    first.write_plan(PLAN)
    never = Store.create(tmp_path, "b", "s:1")
    (never.folder / "nodes").mkdir()
    never.discard()
    assert not never.folder.exists()
    assert (tmp_path / "latest").resolve() == first.folder
    first.discard()
    assert list(tmp_path.iterdir()) == []


def test_discarding_an_older_run_leaves_latest_alone(tmp_path):
    older, newer = Store.create(tmp_path, "a", "s:1"), Store.create(tmp_path, "b", "s:1")
    older.discard()
    assert (tmp_path / "latest").resolve() == newer.folder


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_read_back(store):
    verdict = Verdict(
        valid=False,
        checker="table-ids",
        anomalies=(Anomaly(type="t", title="ids differ: »ü«", objects=("ks.t",), evidence={"b": 1, "a": None}),),
        stats=make_stats({"tables": 3}),
        parts=(Verdict.unknown("x", Doubt("nothing-to-judge", "no table")),),
    )
    store.write_plan(PLAN)
    store.write_history(history())
    store.write_observations(observations())
    store.write_verdict(verdict)
    store.write_analysis("rates", pa.table({"window": [1]}))
    store.write_text("report.md", "# ü\n")
    assert store.read_plan() == PLAN
    assert store.read_history().equals(history())
    assert store.read_history().schema.equals(HISTORY), "dictionary columns stay dictionaries"
    assert store.read_observations().equals(observations())
    assert store.read_verdict() == verdict
    assert store.read_analysis("rates").to_pydict() == {"window": [1]}
    assert (store.folder / "report.md").read_text(encoding="utf-8") == "# ü\n"
    assert {path.name for path in store.folder.iterdir()} <= FILES.keys(), "no drafts are left"


def test_tables_are_compressed_with_zstd(store):
    store.write_history(history())
    group = pq.ParquetFile(store.path("history.parquet")).metadata.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"ZSTD"}


def test_a_verdict_is_the_same_bytes_in_whatever_order_it_was_made(store):
    one, other = ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    store.write_verdict(Verdict(valid=True, checker="c", stats=make_stats(one)))
    first = store.path("verdict.json").read_bytes()
    store.write_verdict(Verdict(valid=True, checker="c", stats=make_stats(other)))
    assert store.path("verdict.json").read_bytes() == first


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with replacing(path) as draft:
            draft.write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("named", [False, True], ids=["without a name", "with the draft's"])
def test_a_write_for_which_there_is_no_room_names_the_file(tmp_path, named):
    path = tmp_path / "file"

    def write() -> None:
        with replacing(path) as draft:  # Arrow's errors have a number and no name
            raise OSError(errno.ENOSPC, "Error writing bytes to file", *([str(draft)] if named else []))

    with pytest.raises(OSError, match="No space left on device") as raised:
        write()
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(path))
    assert list(tmp_path.iterdir()) == []


def test_records_are_the_three_tables(store):
    store.write_history(history())
    store.write_observations(observations())
    log_file = store.path("nodes") / "n1" / "system-0.log"
    log_file.parent.mkdir(parents=True)
    log_file.write_text(
        "INFO  [main] 2026-01-01 09:00:00,123 A.java:1 - Requesting schema\n"
        "WARN  [main] 2026-01-01 09:00:00,124 A.java:1 - slow\n"
    )
    records = store.records(noted=["Requesting"])
    assert records.history.equals(history())
    assert records.observations.equals(observations())
    assert records.logs["message"].to_pylist() == ["Requesting schema", "slow"]
    assert store.records().logs["message"].to_pylist() == ["Requesting schema", "slow"]


# ── tables of other tools ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_history_another_tool_wrote_is_read(store):
    foreign = plain(history(6)).drop_columns(["mops", "error"])
    foreign = foreign.set_column(6, "key", foreign["key"].cast(pa.large_string()))
    foreign = foreign.set_column(2, "process", foreign["process"].cast(pa.int64()))
    shuffled = foreign.select(foreign.schema.names[::-1]).take(pa.array([3, 1, 0, 5, 4, 2]))
    pq.write_table(shuffled.append_column("more", pa.nulls(6)), store.path("history.parquet"))
    read = store.read_history()
    assert read.schema.equals(HISTORY)
    assert plain(read).drop_columns("mops").equals(plain(history(6)).drop_columns("mops"))
    assert read["mops"].null_count == 6


@pytest.mark.parametrize(
    ("table", "message"),
    [
        pytest.param(history().drop_columns("process"), "lacks the required column 'process'", id="column missing"),
        pytest.param(
            history().set_column(1, "time", pa.array([1.5] * 4)),
            "has a column 'time' of double, not int64",
            id="of another type",
        ),
        pytest.param(history().set_column(1, "time", pa.nulls(4, pa.int64())), "has nulls in column 'time'", id="null"),
        pytest.param(
            history().set_column(0, "index", pa.array([0, 1, 1, 2])), "has index 1 more than once", id="index twice"
        ),
    ],
)
def test_what_cannot_be_a_history_is_refused(store, table, message):
    pq.write_table(table, store.path("history.parquet"))
    with pytest.raises(HistoryError, match=message):
        store.read_history()


def test_null_columns_of_any_type_may_be_left_out_but_not_misspelt_ones(tmp_path):
    pq.write_table(pa.table({"index": [0]}), tmp_path / "t.parquet")
    schema = pa.schema(
        [pa.field("index", pa.int64(), nullable=False), pa.field("v", pa.dictionary(pa.int32(), pa.string()))]
    )
    assert read_table(tmp_path / "t.parquet", schema).to_pylist() == [{"index": 0, "v": None}]


def test_events_are_counted_without_reading_them(store):
    store.write_history(history(6))
    assert store.event_count() == 6
    store.path("history.parquet").write_bytes(b"PAR1")
    with pytest.raises(HistoryError, match="not a whole Parquet file"):
        store.event_count()


# ── missing, damaged, incomplete ─────────────────────────────────────────────────────────────────────────────────────


def test_a_history_that_can_be_recovered_says_so(store):
    store.write_plan(PLAN)
    start_clock(store.path("journals"))
    with pytest.raises(HistoryError, match=r'no history\.parquet.*"schemaquake recover .*" makes it anew'):
        store.read_history()


def test_a_history_that_cannot_be_recovered_says_so(store):
    store.write_plan(PLAN)
    with pytest.raises(HistoryError, match=r"no observations\.parquet. There are no journals to recover it from"):
        store.read_observations()


def test_a_folder_that_is_no_run_is_told(tmp_path):
    with pytest.raises(HistoryError, match="Is it a run's folder"):
        Store(tmp_path).read_history()
    with pytest.raises(HistoryError, match=r"it has no plan\.json"):
        Store(tmp_path).read_plan()


def test_half_a_parquet_file_is_told_with_the_remedy(store):
    store.write_history(history())
    path = store.path("history.parquet")
    path.write_bytes(path.read_bytes()[:-10])
    start_clock(store.path("journals"))
    with pytest.raises(HistoryError, match=r"history\.parquet is not a whole Parquet file .*schemaquake recover"):
        store.read_history()


def test_an_incomplete_plan_is_told(store):
    store.path("plan.json").write_text('{"workloads": ["drop-type"]}')
    with pytest.raises(PlanError, match="lacks: system"):
        store.read_plan()


def test_a_damaged_plan_is_told(store):
    store.path("plan.json").write_text('{"system": ')
    with pytest.raises(HistoryError, match=r"plan\.json is damaged"):
        store.read_plan()


def test_a_verdict_that_is_missing_or_damaged_says_what_makes_it(store):
    with pytest.raises(HistoryError, match=r"is not a run's folder: it has no plan\.json"):
        store.read_verdict()
    store.path("plan.json").write_text("{}")
    with pytest.raises(HistoryError, match='has no verdict yet: "schemaquake check'):
        store.read_verdict()
    for text in ("", "[]", '{"valid": true}', '{"valid": true, "checker": "c", "anomalies": [7], "stats": {}}'):
        store.path("verdict.json").write_text(text)
        with pytest.raises(HistoryError, match=r"verdict\.json is damaged .*writes it anew"):
            store.read_verdict()
    store.path("verdict.json").write_text("null")
    with pytest.raises(HistoryError, match=r"verdict\.json is damaged \(it holds no object\)"):
        store.read_verdict()


def test_a_table_that_was_not_made_says_what_makes_it(store):
    with pytest.raises(HistoryError, match=r'rates\.parquet is missing: "schemaquake check'):
        store.read_analysis("rates")
    store.path("analysis").mkdir()
    (store.path("analysis") / "rates.parquet").write_bytes(b"PAR1")
    with pytest.raises(HistoryError, match=r"rates\.parquet is damaged .*makes it anew"):
        store.read_analysis("rates")


# ── recovery ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_recovery_merges_the_journals(store):
    journalled(store)
    recovered = store.recover()
    assert (recovered.events, recovered.observations, recovered.torn) == (3, 1, 0)
    assert store.read_history()["type"].to_pylist() == ["invoke", "ok", "info"]
    assert store.read_observations()["time"].to_pylist() == [1]


def test_recovery_twice_gives_the_same_bytes(store):
    journalled(store)
    store.recover()
    files = [store.path("history.parquet"), store.path("observations.parquet")]
    first = [path.read_bytes() for path in files]
    assert store.recover() == store.recover()
    assert [path.read_bytes() for path in files] == first


def test_torn_journals_are_counted_and_the_history_remembers(store):
    journalled(store)
    journal = store.path("journals") / "events-0000.jsonl"
    journal.write_bytes(journal.read_bytes()[:-3])
    assert store.recover().torn == 1
    store.path("journals").rename(store.folder / "elsewhere")
    assert store.recover().torn == 1


def test_a_run_whose_journals_are_gone_is_left_as_it_is(store):
    store.write_history(history())
    store.write_observations(observations())
    assert store.recover().events == 4


def test_a_run_that_never_began_has_nothing_to_recover(store):
    with pytest.raises(HistoryError, match="neither a history nor journals"):
        store.recover()


def test_damage_to_a_journal_leaves_the_tables_that_were_made_of_it_before(store):
    journalled(store)
    store.recover()
    before = store.path("history.parquet").read_bytes()
    journal = store.path("journals") / "events-0000.jsonl"
    journal.write_bytes(b"damage\n" + journal.read_bytes())
    assert store.recover().damage == ()
    assert store.path("history.parquet").read_bytes() == before


def test_everything_before_and_after_damage_is_recovered_and_the_place_is_kept(store):
    journalled(store)
    journal = store.path("journals") / "events-0000.jsonl"
    journal.write_bytes(b"damage\n" + journal.read_bytes())
    recovered = store.recover()
    (place,) = recovered.damage
    assert place.startswith("events-0000.jsonl, line 1: ")
    assert recovered.events == len(store.read_history()) == 3
    assert store.damage() == (place,)
    assert store.recover() == recovered


def test_a_run_that_is_going_on_is_not_recovered(store):
    journalled(store)
    identity = {"pid": os.getpid(), "start_time": process_start_time(os.getpid())}
    store.path("process.json").write_bytes(orjson.dumps(identity))
    with pytest.raises(PlanError, match=f"still being written .process {os.getpid()}"):
        store.recover()


def test_when_a_run_began_is_known_from_its_journals(store):
    with pytest.raises(HistoryError, match="the time when the run began"):
        store.started()
    start_clock(store.path("journals"))
    assert store.started().utcoffset() is not None
    (store.path("journals") / "started.json").write_text('{"started_utc": "noon"}')
    with pytest.raises(HistoryError, match=r"started\.json is damaged"):
        store.started()

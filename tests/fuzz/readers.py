"""Readers of files that may come from anybody, each with files that it reads: what a fuzzer needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.clusters.cluster_file.parse import read_cluster_file
from schemaquake.clusters.nodes.run_name import run_name
from schemaquake.harness.errors import ExitCode, SchemaquakeError
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, examine_ledger, read_ledger
from schemaquake.harness.history.journal import (
    STARTED,
    Journal,
    ObservationJournal,
    read_clock,
    read_started,
    start_clock,
)
from schemaquake.harness.history.merge import merge_history, merge_observations
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Doubt, Verdict
from schemaquake.harness.run.runner import Outcome, read_outcome
from schemaquake.harness.run_process import still_running
from schemaquake.results.formats import ahead, fast_reading, reading
from schemaquake.results.formats.reading import read_history
from schemaquake.results.store import examination
from schemaquake.results.store.store import Store, write_table
from schemaquake.results.summary.summarise import read_summary, summary_of
from schemaquake.results.tables.races import RACES

__all__ = ["READERS", "Reader", "crash_of"]

_RECORDED: Final = Path(__file__).parents[1] / "recorded" / "0.1"


@dataclass(frozen=True)
class Reader:
    """One reader: the name of its file, how it is called with that file's path, and files that it reads."""

    name: str
    file: str
    read: Callable[[Path], object]
    write_seeds: Callable[[Path], None]
    is_slow: bool = False
    """True if each file takes a process of its own."""

    def seeds(self) -> Sequence[bytes]:
        """Return the contents of files that are read without an error."""
        return _seeds(self)


@cache
def _seeds(reader: Reader) -> tuple[bytes, ...]:
    with TemporaryDirectory(prefix="schemaquake-") as name:
        reader.write_seeds(Path(name))
        return tuple(path.read_bytes() for path in sorted(Path(name).rglob("*")) if path.is_file())


def crash_of(reader: Reader, content: bytes) -> BaseException | None:
    """Return what a reader raised for this content if that is none of our own errors, which are sentences."""
    with TemporaryDirectory(prefix="schemaquake-") as name:
        path = Path(name) / reader.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            reader.read(path)
        except SchemaquakeError as error:
            return None if str(error) else error
        except Exception as error:  # noqa: BLE001 - what a fuzzer looks for
            return error
    return None


# ── the readers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _events(folder: Path) -> None:
    with Journal(folder / "events-0000.jsonl", 0) as journal:
        journal.event(0, "invoke", "txn", "n1", "ks.t", {"a": [1, "ü"]}, mops=[("append", 1, 2, None)])
        journal.event(0, "ok", "txn", "n1", "ks.t", error="no \udcff", mops=[("r", 1, None, [2, 3])])
    (folder / "old.jsonl").write_bytes(b'{"time":5,"process":0,"type":"invoke","f":"read"}\n' * 2)


def _observations(folder: Path) -> None:
    with ObservationJournal(folder / "observations-0.jsonl", 0) as journal:
        reading = [
            Observation(
                time=9,
                phase="settled",
                node="n1",
                sample=1,
                kind="table",
                keyspace="ks",
                name=name,
                definition={"c": 1},
            )
            for name in ("t", "u")
        ]
        journal.append(reading)


def _ledger(folder: Path) -> None:
    ledger = Ledger(folder / FILE_NAME)
    ledger.name_run("run-1")
    fault = Fault(id=3, nemesis="cut", begins_s=1.5, ends_s=2, nodes=("n1",), parameters={"grudge": {"n1": ["n2"]}})
    ledger.injected(ledger.plan(fault), {"rules": 2})
    ledger.concluded(ledger.plan_operation(fault), "info")
    ledger.close()
    (folder / "old.jsonl").write_bytes(
        b'{"id": 0, "at": "2026", "kind": "fault", "state": "planned", "nemesis": "cut", '
        b'"fault": {"id": 3, "begins_s": 1, "ends_s": 2, "nodes": ["n1"], "parameters": {}}, "effect": null}\n'
    )


def _parquet(folder: Path) -> None:
    rows = [
        {
            "index": n,
            "time": n,
            "process": 0,
            "type": kind,
            "f": "txn",
            "mops": [{"f": "r", "k": 1, "v": None, "vs": [n]}],
        }
        for n, kind in enumerate(("invoke", "ok"))
    ]
    table = pa.Table.from_pylist(rows, schema=HISTORY)
    write_table(folder / "ours.parquet", table)
    pq.write_table(table, folder / "theirs.parquet")


def _edn(folder: Path) -> None:
    (folder / "a.edn").write_bytes(
        b"{:process 0, :type :invoke, :f :txn, :value [[:append 1 2] [:r 1 nil]], :time 12, :index 0}\n"
        b"{:process 0, :type :ok, :f :txn, :value [[:append 1 2] [:r 1 [2]]], :time 13, :index 1}\n"
    )
    (folder / "b.edn").write_bytes(
        b'[#jepsen.history.Op{:process :nemesis, :type :info, :f :start, :value "\\u00fc \\n"}]'
    )


def _json(folder: Path) -> None:
    (folder / "a.json").write_bytes(
        b'[{"type":"invoke","f":"txn","process":0,"time":1,"index":0,"value":[["append",1,2],["r",1,null]]},\n'
        b'{"type":"ok","f":"txn","process":0,"time":2,"index":1,"value":[["append",1,2],["r",1,[2]]]}]'
    )


def _scanned_as_read(path: Path) -> None:
    """Read a text by the scanner, in threads, from pieces of a few hundred bytes, and by the general reader: they agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_SCANNED_FROM", 1 << 60)
        plain = _outcome(path)
        patch.setattr(reading, "_SCANNED_FROM", 0)
        patch.setattr(ahead, "_PIECE", 200)
        patch.setattr(fast_reading, "_STRETCH", 2000)
        scanned = _outcome(path)
    refused = isinstance(scanned, str) and isinstance(plain, str)  # of two things that are wrong, either may be named
    if scanned != plain and not refused:
        raise AssertionError(f"scanned: {str(scanned)[:80]}, read: {str(plain)[:80]}")


def _outcome(path: Path) -> object:
    """Return the rows of a history, or the sentence with which it is refused."""
    try:
        table = read_history(path)
    except SchemaquakeError as error:
        return str(error)
    return table.schema.metadata, table.to_pylist()


def _many(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return a writer of the same files, each with its ops thirty times, so that they have several pieces."""

    def written(folder: Path) -> None:
        write(folder)
        for path in folder.iterdir():
            lines = path.read_bytes().strip(b"[] \n").splitlines()
            path.write_bytes(b"\n".join(lines * 30) + b"\n")

    return written


def _compressed(write: Callable[[Path], None], codec: str) -> Callable[[Path], None]:
    """Return a writer of the same files, compressed."""

    def written(folder: Path) -> None:
        write(folder)
        for path in folder.iterdir():
            path.write_bytes(pa.Codec(codec).compress(path.read_bytes(), asbytes=True))

    return written


def _handed_over(path: Path) -> None:
    """Read a Parquet file as it is handed over by the process that examines it, and by this one: they agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "_HANDED_FROM", 0)
        handed = _outcome(path)
    if _outcome(path) != handed:
        raise AssertionError("what is handed over is not what is read")


def _plan(folder: Path) -> None:
    plan = Plan(system="cassandra:5.0.9", workloads=("create-table",), nemeses=("kill",), options={"races": "3"})
    (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))


def _verdict(folder: Path) -> None:
    for number, path in enumerate(sorted(_RECORDED.glob("*/verdict.json"))):
        (folder / f"{number}.json").write_bytes(path.read_bytes())
    (folder / "new.json").write_bytes(
        b'{"schema":2,"valid":"unknown","checker":"all","anomalies":[],"stats":{"n":{"value":1,"unit":"s"}},'
        b'"doubts":[{"kind":"time","text":"t"}],"parts":[{"valid":true,"checker":"a","anomalies":[],"stats":{}}]}'
    )


def _summary(folder: Path) -> None:
    doubt = Doubt("time", "it took too long", objects=("sq_0",), checker="bank")
    summary = summary_of(
        "run",
        Plan(system="cassandra:5.0.9", workloads=("create-table",)).to_json(),
        Verdict.unknown("all", doubt),
        Outcome(completed=False, error="e", exit_code=ExitCode.CRASHED),
        notes=HISTORY.empty_table(),
        operations=OPERATIONS.empty_table(),
        races=RACES.empty_table(),
        started=None,
        seconds=1.5,
    )
    (folder / "summary.json").write_bytes(orjson.dumps(summary.to_json(), option=orjson.OPT_NON_STR_KEYS))


def _cluster_file(folder: Path) -> None:
    (folder / "cluster.toml").write_bytes(
        b'provider = "ssh"\nsystem = "cassandra:5.0.9"\nallow = ["partition", "kill"]\nmax_fault_seconds = 60\n'
        b'keyspace_prefix = "sq"\n[nodes]\nn1 = "10.0.0.1"\nn2 = "10.0.0.2"\n[ssh]\nuser = "root"\nkey = "~/.ssh/id"\n'
    )


def _both(read: Callable[..., object]) -> Callable[[Path], object]:
    def merged(path: Path) -> object:
        read([path], 0, keep_going=True)
        return read([path], 0)

    return merged


def _read_ledger(path: Path) -> object:
    examine_ledger(path)
    return read_ledger(path)


def _read_clock(path: Path) -> object:
    read_started(path.parent)
    return read_clock(path.parent)


def _texts(*texts: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for number, text in enumerate(texts):
            (folder / str(number)).write_bytes(text)

    return write


READERS: Final[Mapping[str, Reader]] = {
    reader.name: reader
    for reader in (
        Reader("events", "events-0000.jsonl", _both(merge_history), _events),
        Reader("observations", "observations-0.jsonl", _both(merge_observations), _observations),
        Reader("started", STARTED, _read_clock, lambda folder: (start_clock(folder), None)[1]),
        Reader("ledger", FILE_NAME, _read_ledger, _ledger),
        Reader("parquet", "history.parquet", read_history, _parquet, is_slow=True),
        Reader("edn", "history.edn", read_history, _edn),
        Reader("json", "history.json", read_history, _json),
        Reader("edn-scanned", "history.edn", _scanned_as_read, _many(_edn)),
        Reader("json-scanned", "history.json", _scanned_as_read, _many(_json)),
        Reader("edn-gz", "history.edn.gz", read_history, _compressed(_edn, "gzip")),
        Reader("json-zst", "history.json.zst", read_history, _compressed(_json, "zstd")),
        Reader("parquet-handed-over", "history.parquet", _handed_over, _parquet, is_slow=True),
        Reader("cluster-file", "cluster.toml", read_cluster_file, _cluster_file),
        Reader("plan", "plan.json", lambda path: Plan.read(path.parent), _plan),
        Reader("verdict", "verdict.json", lambda path: Store(path.parent).read_verdict(), _verdict),
        Reader(
            "summary",
            "summary.json",
            lambda path: read_summary(Store(path.parent)),
            _summary,
        ),
        Reader(
            "outcome",
            "outcome.json",
            lambda path: read_outcome(path.parent),
            _texts(b'{"completed":false,"error":"e","exit_code":255,"applicable":true,"interrupted":true}'),
        ),
        Reader(
            "process",
            "process.json",
            lambda path: still_running(path.parent),
            _texts(b'{"pid":4194000,"start_time":"1"}'),
        ),
        Reader("run-name", "deployed.json", lambda path: run_name(path.parent), _texts(b'{"run":"r-1"}')),
    )
}

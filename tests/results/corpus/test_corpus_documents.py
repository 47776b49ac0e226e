"""Documents: a summary becomes rows in every table, copies have one identity, and what cannot be read is a row with the reason."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from bundles import RUN, judged_run

from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.results.bundle.bundling import bundle_run
from schemaquake.results.corpus.documents import parse_documents, rows_of, unread_rows
from schemaquake.results.corpus.tables import DOCUMENT, FROM_SUMMARIES
from schemaquake.results.findings.finding import Finding
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return judged_run(tmp_path_factory.mktemp("runs") / RUN)


@pytest.fixture(scope="module")
def summary(run) -> bytes:
    return (run / "summary.json").read_bytes()


def changed(summary: bytes, **values) -> bytes:
    return dump_sealed(load_sealed(summary) | values)


def parsed(content: bytes, place: str = "file:/runs/one"):
    batch = pa.RecordBatch.from_pylist([{"place": place, "content": content}])
    (table,) = [pa.Table.from_batches([batch]) for batch in parse_documents([batch])]
    assert table.schema == DOCUMENT
    return table.to_pylist()[0]


def test_every_race_anomaly_finding_checker_and_phase_of_a_summary_is_a_row(run, summary):
    rows, known = parsed(summary), read_summary(Store(run))
    row = rows["row"]
    assert (row["state"], row["reason"], row["valid"]) == ("judged", None, "invalid")
    assert (row["product"], row["version"]) == ("simulated", "cassandra-5.0")
    assert {name: row[name] for name in FROM_SUMMARIES} == {name: len(rows[name]) for name in FROM_SUMMARIES}
    assert [race["keyspace"] for race in rows["races"]] == [race.keyspace for race in known.races]
    assert [one["checker"] for one in rows["checkers"]] == [one.checker for one in known.checkers]
    (finding,), (found,) = rows["findings"], known.findings
    assert (finding["finding"], finding["broken"], finding["tried"]) == (found.id, found.rate.broken, found.rate.tried)
    assert Finding.from_json(orjson.loads(finding["document"])).cause == found.cause
    assert {each["run"] for name in FROM_SUMMARIES for each in rows[name]} == {row["run"]}


def test_a_copy_has_the_same_identity_and_so_has_a_run_that_was_judged_again(summary):
    one, copy = rows_of("file:/a/r", summary)["row"], rows_of("s3a://b/r", summary)["row"]
    assert (one["run"], one["digest"]) == (copy["run"], copy["digest"])
    again = rows_of("file:/a/r", changed(summary, valid="unknown"))["row"]
    assert again["run"] == one["run"]
    dated = rows_of("file:/a/r", changed(summary, started="2000-01-01T00:00:00+00:00"))["row"]
    assert dated["run"] == one["run"], "so it was summarised before"
    assert again["digest"] != one["digest"]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 99},
        {"system": "simulated:cassandra-6.0"},
        {"run": "other"},
        {"started": "2026-11-28T10:00:00+00:00"},
        {"system": "cassandra:5.0.9"},
    ],
)
def test_another_run_has_another_identity(summary, other):
    assert rows_of("p", changed(summary, **other))["row"]["run"] != rows_of("p", summary)["row"]["run"]


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (b"", "damaged"),
        (b"[1]", "not judged"),
        (b'{"schema": 2}', "damaged"),
        (b'{"schema": 1}', "not judged"),
        (b"\xff\xfe", "damaged"),
    ],
)
def test_what_is_no_summary_is_a_row_with_the_reason(content, state):
    row = parsed(content)["row"]
    assert (row["state"], row["name"]) == (state, "one")
    assert row["reason"]


def test_an_edited_summary_is_damaged_and_so_is_one_with_a_number_that_no_column_holds(summary):
    edited = parsed(summary.replace(b'"broken": 1', b'"broken": 0', 1))
    assert edited["row"]["state"] == "damaged"
    assert edited["races"] == []
    assert parsed(changed(summary, seed=(1 << 64) - 1))["row"]["state"] == "damaged"


def test_a_bundle_is_read_as_the_run_that_it_has(run, summary, tmp_path):
    made = bundle_run(run, to=tmp_path / "b.sqz.zip")
    row = parsed(made.path.read_bytes(), "file:/b.sqz.zip")["row"]
    assert (row["state"], row["run"]) == ("judged", rows_of("p", summary)["row"]["run"])
    assert parsed(b"PK rubbish", "file:/b.sqz.zip")["row"]["state"] == "damaged"
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    assert parsed(empty.getvalue(), "file:/b.sqz.zip")["row"]["state"] == "damaged"


def test_a_run_without_a_summary_is_not_judged():
    row = unread_rows("file:/runs/one")["row"]
    assert (row["state"], row["name"], row["operations"]) == ("not judged", "one", 0)

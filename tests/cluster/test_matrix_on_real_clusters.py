"""A matrix of two light versions, from the first boot to the page, and interrupted on the way."""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from real_runs import living

from schemaquake.harness.wait import until
from schemaquake.results.matrix.matrix_folder import MatrixFolder
from schemaquake.results.matrix.tally import Matrix

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SYSTEMS = ("cassandra:1.2.19", "cassandra:2.0.17")


@pytest.fixture
def runs():
    # Not below pytest's own folder, which only its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="schemaquake-matrix-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def matrix(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", "matrix", *arguments, "--jobs", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_versions_are_interrupted_resumed_and_drawn(runs, prepared):
    for system in SYSTEMS:
        prepared(system=system)
    systems = [word for system in SYSTEMS for word in ("--system", system)]
    first = matrix(*systems, "--workload", "add-columns", "--races", "2", "--controls", "--runs", str(runs))
    folder = runs / "latest-matrix"
    until(
        lambda: first.poll() is not None or ((folder / "progress.jsonl").exists() and MatrixFolder(folder).done()),
        deadline_s=300,
        what="a run that is done",
        every_s=0.5,
    )
    if first.poll() is None:
        first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=120)
    done = MatrixFolder(folder).done()
    assert not living(folder.resolve())
    assert any(one.facts.completed for one in done), (errors, [one.facts.error for one in done])

    second = matrix("--resume", str(folder))
    out, errors = second.communicate(timeout=600)
    found = MatrixFolder(folder).done()
    assert found[: len(done)] == list(done), "what was done is not done again"
    assert len({one.unit.id for one in found}) == len(found) == 4, errors[-2000:]
    document = orjson.loads(out)
    told = Matrix.from_json({name: value for name, value in document.items() if name not in {"folder", "page"}})
    assert told.systems == SYSTEMS
    assert {cell.state for cell in told.cells if cell.anomaly is None} <= {"broke", "held"}, errors[-2000:]
    assert {cell.broken for cell in told.controls} == {0}, "nothing may break through one coordinator"
    races = pq.read_table(folder / "races.parquet")
    assert races.num_rows == sum(len(one.facts.races) for one in found)
    assert "add-columns" in (folder / "matrix.html").read_text(encoding="utf-8")
    assert second.returncode in {0, 1}
    assert not living(folder.resolve())
    assert (folder / "matrix.md").exists()

"""Files that a user names: whatever a path leads to, reading it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from schemaquake.clusters.cluster_file.parse import read_cluster_file
from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.healing import heal_everywhere
from schemaquake.harness.named_files import read_named_bytes, read_named_text
from schemaquake.results.findings.curation import read_curation
from schemaquake.results.grid.rediscovery import read_known_races
from schemaquake.workloads.races.scenario import ScenarioOptions


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xc3\xa9" * 100_000)
    assert read_named_text(path) == "é" * 100_000
    assert read_named_bytes(Path(os.devnull)) == b""


def test_a_pipe_is_read_to_its_end_if_somebody_writes_to_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    at = Path(f"/dev/fd/{reading}")

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            for _ in range(100):
                pipe.write(b"x" * 5000)

    writer = threading.Thread(target=write)
    writer.start()
    assert len(read_named_bytes(at)) == 500_000
    writer.join()
    os.close(reading)


READERS: dict[str, Callable[[Path], object]] = {
    "cluster file": read_cluster_file,
    "curation": read_curation,
    "races": read_known_races,
    "everywhere": heal_everywhere,
    "scenario": lambda path: ScenarioOptions(scenario=str(path)).check(None),  # type: ignore[arg-type]  # it asks nothing of it
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("kind", "why"),
    [("pipe", "a pipe that nobody writes to"), ("folder", "Is a directory"), ("dangling", "No such file")],
)
def test_what_is_no_file_is_refused_by_its_name_at_once(
    read: Callable[[Path], object], kind: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / kind
    {"pipe": lambda: os.mkfifo(path), "folder": path.mkdir, "dangling": lambda: path.symlink_to("nowhere")}[kind]()
    with pytest.raises(PlanError, match=rf"({kind}|nowhere).*{why}"):
        read(path)

"""The process runner itself: one server a folder, however many ask for it at once."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.harness.wait import until

SCRIPT = "process_runner.sh"


def runner(verb: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["sh", str(folder.parent / SCRIPT), verb, str(folder), *arguments]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)


def test_a_script_is_whole_where_it_is_alone():
    for name in ("guard.sh", "process_runner.sh"):
        script = read_script(name).decode()
        assert script.startswith("#!/bin/sh\n")
        assert script.count("started() {") == 1, "the functions that scripts share are in each, once"
        assert "# include" not in script


@pytest.fixture
def folder(tmp_path: Path):
    (tmp_path / SCRIPT).write_bytes(read_script(SCRIPT))
    yield tmp_path / "server"
    runner("kill", tmp_path / "server")


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    mark = folder.parent / "begun"
    return runner("start", folder, str(folder / "console"), "-", "sh", "-c", f'echo x >> "{mark}"; exec sleep 60')


def test_of_many_starts_at_once_one_starts_the_server(folder: Path):
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(start, [folder] * 8))
    assert [one.returncode for one in asked] == [0] * 8, [one.stderr for one in asked]
    begun = folder.parent / "begun"
    until(begun.exists, deadline_s=120, what="the server")
    assert begun.read_text() == "x\n"
    assert not (folder / "starting").exists()


def test_a_start_that_died_in_the_middle_keeps_nobody_from_starting_for_long(folder: Path):
    (folder / "starting").mkdir(parents=True)
    assert start(folder).returncode == 0
    assert int(runner("status", folder).stdout) > 0

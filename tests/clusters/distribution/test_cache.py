"""The cache: folders appear whole or not at all, and one process at a time builds one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schemaquake.clusters.distribution.cache import cache_folder, only_one, staged


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SCHEMAQUAKE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/schemaquake"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, "/c/.cache/schemaquake"),
        ({"HOME": "/c"}, "/c/.cache/schemaquake"),
    ],
    ids=["our own variable first", "then the XDG one", "a relative XDG path is ignored", "else the home"],
)
def test_cache_folder_is_where_the_user_says(monkeypatch, environment, expected):
    for name in ("SCHEMAQUAKE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_an_explicit_cache_wins_over_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", "/elsewhere")
    assert cache_folder(tmp_path) == tmp_path


def test_staged_folder_appears_under_its_name_only_at_the_end(tmp_path):
    target = tmp_path / "deep" / "target"
    with staged(target) as staging:
        (staging / "file").write_text("whole")
        assert not target.exists()
    assert (target / "file").read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_failed_staging_leaves_what_was_there(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("old")

    def interrupted():
        with staged(target) as staging:
            (staging / "file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (target / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_replacement_takes_the_place_of_the_old_folder_whole(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").write_text("old")
    with staged(target) as staging:
        (staging / "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


_KILLED_WHILE_STAGING = """
import sys, time
from pathlib import Path
from schemaquake.clusters.distribution.cache import only_one, staged
target = Path(sys.argv[1])
with only_one(target, waiting=lambda: None), staged(target) as staging:
    (staging / "half").write_text("half")
    print("staging", flush=True)
    time.sleep(60)
"""


def test_killed_process_blocks_nobody_and_leaves_nothing_under_the_name(tmp_path):
    target = tmp_path / "target"
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED_WHILE_STAGING, target],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "staging\n"
        process.send_signal(signal.SIGKILL)
    assert not target.exists()
    with only_one(target, waiting=lambda: pytest.fail("a dead process holds the lock")), staged(target) as staging:
        assert list(staging.iterdir()) == []
    assert target.exists()


def test_second_builder_is_told_and_waits_for_the_first(tmp_path):
    events = []
    first_is_in = threading.Event()
    second_waits = threading.Event()

    def first():
        with only_one(tmp_path / "target", waiting=lambda: events.append("first waits")):
            first_is_in.set()
            assert second_waits.wait(10)
            events.append("first done")

    def told():
        events.append("second waits")
        second_waits.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert first_is_in.wait(10)
    with only_one(tmp_path / "target", waiting=told):
        events.append("second in")
    thread.join()
    assert events == ["second waits", "first done", "second in"]


def test_locks_of_two_targets_do_not_meet(tmp_path):
    with (
        only_one(tmp_path / "a", waiting=lambda: pytest.fail("a waits")),
        only_one(tmp_path / "b", waiting=lambda: pytest.fail("b waits")),
    ):
        pass

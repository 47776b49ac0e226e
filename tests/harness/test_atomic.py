"""Atomic files: what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from schemaquake.harness.atomic import write_bytes


def test_a_file_is_replaced_and_a_link_to_nothing_becomes_one(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to("nowhere")
    for each in (path, path, link):
        write_bytes(each, b"content")
        assert each.read_bytes() == b"content"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
def test_a_pipe_stays_what_it_is_and_so_does_a_device(linked: bool, tmp_path: Path) -> None:
    """A pipe stands for both: root may replace the machine's /dev/null."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="Not a regular file") as refused:
        write_bytes(link if linked else pipe, b"content")
    assert refused.value.filename == str(link if linked else pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_folder_is_refused_as_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        write_bytes(tmp_path, b"content")

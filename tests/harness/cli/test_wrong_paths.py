"""Paths that lead to something else: each command says in one line what is there, makes nothing, and waits for nothing."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.named_folders import make_wanted_folder, why_no_folder
from schemaquake.results.grid.tally import CELLS

SYSTEM = ("--system", "simulated:cassandra-5.0")
GRID = ("grid", *SYSTEM, "--cells", "drop-type/*", "--quick")
MATRIX = ("matrix", *SYSTEM, "--workload", "drop-type")

THERE = {
    "loop": "a link that leads back to itself",
    "dangling": "a link to nowhere, which is not there",
    "file": "a file",
    "pipe": "a pipe",
    "file/below": "file is a file",
    "loop/below": "loop is a link that leads back to itself",
}


@pytest.fixture
def places(tmp_path):
    """A folder with something of each kind, in which the command runs."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_text("here\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table({"index": [1, 2]}), tmp_path / "other.parquet")
    return tmp_path


def refused(schemaquake, places, *argv):
    """The one line of a command that is refused."""
    before = sorted(places.rglob("*"))
    code, out, err = schemaquake(*argv)
    assert (code, out) == (ExitCode.BAD_ARGUMENTS, ""), err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert sorted(places.rglob("*")) == before, "nothing was made"
    return err


@pytest.mark.parametrize("path", THERE)
@pytest.mark.parametrize(
    "argv",
    [
        ("heal",), ("recover",), ("report",), ("shrink",), ("grid", "--resume"), ("matrix", "--resume"),
        (*GRID, "--runs"), (*MATRIX, "--runs"), ("swarm", "--seeds", "0:2", "--folder"),
        ("serve", "folder", "--port", "0", "--site"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_no_folder_is_called_what_it_is(schemaquake, places, argv, path):
    assert THERE[path] in refused(schemaquake, places, *argv, path)


def test_publishing_to_what_is_no_folder_says_what_is_there(schemaquake, places):
    assert "it is a link to nowhere" in refused(schemaquake, places, "publish", "folder", "--to", "dangling")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pipe", "pipe is a pipe, and a table is a file"),
        ("folder", "folder is a folder, and a table is a file"),
        ("file", "file is not a whole Parquet file"),
        ("missing", "missing cannot be read: it is not there. Name the "),
        ("file/below", "file/below cannot be read: Not a directory. Name the "),
        ("other.parquet", "other.parquet has no "),
    ],
)
@pytest.mark.parametrize(
    "argv", [(*GRID, "--known"), (*MATRIX, "--known"), ("model-against-server",)], ids=lambda argv: argv[0]
)
def test_what_is_no_table_is_called_what_it_is(schemaquake, places, argv, path, sentence):
    assert sentence in refused(schemaquake, places, *argv, path)


def test_a_table_of_something_else_has_no_rediscovered_races(schemaquake, places):
    assert "has no cells of a grid: it lacks the columns system," in refused(
        schemaquake, places, "rediscovered", "other.parquet"
    )


def test_a_grid_of_statements_of_another_version_is_called_that(schemaquake, places):
    row = {
        "system": "cassandra:5.0.9",
        "mode": "barrier",
        "cell": "a/b/c",
        "first": "drop-planet",
        "second": "drop-type",
    }
    pq.write_table(pa.Table.from_pylist([row], schema=CELLS), places / "cells.parquet")
    assert 'has no statement "drop-planet"' in refused(schemaquake, places, "rediscovered", "cells.parquet")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it has no [[race]]"),
        ("[[race]]\nname = 'x'\n", "a race lacks 'pairs'"),
        ("race = 7\n", "is no list of races"),
    ],
)
def test_a_list_of_races_that_is_none_is_refused(schemaquake, places, text, sentence):
    pq.write_table(pa.Table.from_pylist([], schema=CELLS), places / "cells.parquet")
    (places / "races.toml").write_text(text, encoding="utf-8")
    assert sentence in refused(schemaquake, places, "rediscovered", "cells.parquet", "--races", "races.toml")


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("pipe", "cannot be read: it is a pipe"),
        ("folder", "Is a directory"),
        ("missing/page.md", "there is no such folder"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_raced(schemaquake, places, page, sentence):
    assert sentence in refused(schemaquake, places, "model-against-server", "other.parquet", "--page", page)


def test_a_sweep_of_seeds_that_fit_no_number_is_refused(schemaquake, places):
    assert "must fit into 64 bits" in refused(
        schemaquake, places, "swarm", "--seeds", f"0:{10**23}", "--folder", "sweep"
    )


def test_a_system_that_is_given_twice_is_named(schemaquake, places):
    assert "--system simulated:cassandra-5.0 is given twice" in refused(schemaquake, places, *MATRIX, *SYSTEM)


@pytest.mark.parametrize(("path", "end"), THERE.items())
def test_a_folder_that_cannot_be_made_is_refused_with_the_part_that_is_in_its_way(places, path, end):
    with pytest.raises(PlanError, match=f"cannot make the folder .*{end}"):
        make_wanted_folder(places / path)


def test_a_shrinking_without_time_does_not_say_that_the_anomaly_did_not_show(schemaquake):
    schemaquake("run", *SYSTEM, "--workload", "drop-type", "--races", "2", "--seed", "1")
    code, out, err = schemaquake("shrink", "runs/latest", "--time-budget", "0")
    assert (code, out) == (ExitCode.UNKNOWN, "")
    assert "the time budget ended before" in err
    assert "give a larger --time-budget" in err
    assert "did not show again" not in err


def test_a_folder_and_one_that_is_not_there_are_told_apart(places):
    assert why_no_folder(places / "folder") is None
    assert why_no_folder(places / "missing") == "there is no such folder"
    (places / "link").symlink_to("folder")
    assert why_no_folder(places / "link") is None

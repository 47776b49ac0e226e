"""Commits: which files count, after copies, judging again, compaction, and writers that died or met."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemaquake.harness.errors import HistoryError
from schemaquake.results.corpus.commits import Commit, Snapshot, batch_name


def commit(batch: str, generation: int, *, replaces=(), attempt: str = "a") -> Commit:
    files = {"runs": [f"runs/batch={batch}/attempt={attempt}/part-0.parquet"]}
    return Commit(
        batch=batch, attempt=attempt, generation=generation, runs=2, rows={"runs": 2}, files=files, replaces=replaces
    )


def test_a_commit_is_read_back_as_it_was_written():
    one = commit("b1", 3, replaces=["b0"])
    assert Commit.from_bytes(one.to_bytes(), "b1") == replace(one, replaces=["b0"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        commit("b", 1).to_bytes().replace(b'"files"', b'"flies"'),
        commit("b", 1).to_bytes()[:-20],
    ],
)
def test_a_damaged_commit_is_an_error_and_no_empty_corpus(content):
    with pytest.raises(HistoryError, match=r"b\.json"):
        Commit.from_bytes(content, "b.json")


def test_a_commit_of_a_later_version_is_refused():
    with pytest.raises(HistoryError, match="later version"):
        Commit.from_bytes(commit("b", 1).to_bytes().replace(b'"schema": 1', b'"schema": 2'), "b.json")


def test_commits_stand_in_the_order_in_which_their_writers_saw_one_another():
    snapshot = Snapshot.of([commit("b", 2), commit("c", 1), commit("a", 1)])
    assert [one.batch for one in snapshot.commits] == ["a", "c", "b"]
    assert snapshot.generation == 2
    assert snapshot.name == Snapshot.of([commit("a", 1), commit("b", 2), commit("c", 1)]).name


def test_what_was_compacted_no_longer_counts_even_if_the_compaction_was_compacted():
    first = commit("c1", 3, replaces=["a", "b"])
    second = commit("c2", 5, replaces=["c1", "d"])
    every = [commit("a", 1), commit("b", 2), first, commit("d", 4), second]
    assert [one.batch for one in Snapshot.of(every).commits] == ["c2"]
    late = commit("e", 4)  # its writer saw neither d nor the compaction
    assert [one.batch for one in Snapshot.of([*every, late]).commits] == ["e", "c2"]


def test_no_commit_erases_itself():
    assert [one.batch for one in Snapshot.of([commit("a", 1, replaces=["a"])]).commits] == ["a"]


def test_a_batch_is_named_by_its_runs_in_any_order_and_by_their_contents():
    runs = [("r1", "d1"), ("r2", "d2")]
    assert batch_name(runs) == batch_name(reversed(runs))
    assert len({batch_name(runs), batch_name(runs[:1]), batch_name([("r1", "d1"), ("r2", "d3")])}) == 3

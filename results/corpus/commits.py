"""Commits: the files that count. A batch of runs is written into files of its own, and counts from the moment its commit is there.

A commit is one small JSON object with every file of the batch. Writing it is the only step that changes what a reader sees, and it
needs no rename of data, so an object store without renames will do. Whoever dies before it leaves files that nobody reads; whoever
dies after it has nothing left to do. Two writers of one batch commit equal sets under one name.

A run that was judged again is in two commits: the later one counts (`generation`, then name). Compaction writes a commit that replaces others.
Source: Delta's and Iceberg's logs are orders of commits, too; both would bring a second engine for Parquet (docs/corpus.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.results.corpus.tables import CORPUS_SCHEMA

__all__ = ["COMMITS", "Commit", "Snapshot", "batch_name"]

COMMITS: Final = "_commits"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One batch of runs that counts."""

    batch: str
    attempt: str
    """The name of the folder below `batch=…` in each table."""
    generation: int
    """One more than the highest that the writer saw."""
    runs: int
    rows: Mapping[str, int]
    """Rows by table."""
    files: Mapping[str, Sequence[str]]
    """Paths of files by table, from the folder of the corpus."""
    replaces: Sequence[str] = ()
    """Batches that this one has in it."""
    schema: int = CORPUS_SCHEMA

    @property
    def order(self) -> tuple[int, str]:
        """The place among commits; the last one that has a run counts."""
        return self.generation, self.batch

    def to_bytes(self) -> bytes:
        """Render the commit. Equal commits give equal bytes."""
        document = {
            "format": _FORMAT,
            "schema": self.schema,
            "batch": self.batch,
            "attempt": self.attempt,
            "generation": self.generation,
            "runs": self.runs,
            "rows": dict(self.rows),
            "files": {name: sorted(files) for name, files in self.files.items()},
            "replaces": sorted(self.replaces),
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Commit:
        """Parse what `to_bytes` rendered. Raises HistoryError for anything else, and for a format of a later version."""
        try:
            document: dict[str, Any] = orjson.loads(content)
            written = (document.pop("format"), document["schema"])
            commit = cls(**document)
            whole = (
                isinstance(commit.files, dict) and isinstance(commit.rows, dict) and isinstance(commit.generation, int)
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HistoryError(f"the commit {name} of the corpus is damaged: {error}") from error
        if not whole:
            raise HistoryError(f"the commit {name} of the corpus is damaged: it lacks its files")
        if written[0] != _FORMAT or written[1] > CORPUS_SCHEMA:
            raise HistoryError(f"the commit {name} of the corpus was written by a later version of Schemaquake")
        return commit


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The commits that count together."""

    commits: Sequence[Commit] = ()
    generation: int = field(default=0)
    """The highest of all commits, replaced ones among them."""

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> Snapshot:
        """Take the commits that no other replaces, in their order."""
        every = sorted(commits, key=lambda commit: commit.order)
        replaced = {name for commit in every for name in commit.replaces if name != commit.batch}
        live = [commit for commit in every if commit.batch not in replaced]
        return cls(live, max((commit.generation for commit in every), default=0))

    @property
    def name(self) -> str:
        """A name that changes with the commits that count."""
        return _digest([[commit.batch, commit.attempt] for commit in self.commits])

    @property
    def runs(self) -> int:
        """Number of rows of `runs`, of runs that were judged again each."""
        return sum(commit.runs for commit in self.commits)

    def files(self, table: str) -> list[str]:
        """List the files of a table."""
        return [file for commit in self.commits for file in commit.files.get(table, ())]


def batch_name(runs: Iterable[tuple[str, str]]) -> str:
    """Name a batch after its runs (identity and digest of the summary) and the version of the columns."""
    return _digest([CORPUS_SCHEMA, sorted(map(list, runs))])


def _digest(value: Any) -> str:
    return hashlib.blake2b(orjson.dumps(value), digest_size=10).hexdigest()

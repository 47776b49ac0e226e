"""The table: for every step what the seed document says, and what happened to nodes that died there."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from schemaquake.results.experiments.crash_table.evidence import (
    ACKNOWLEDGED,
    UNTOLD,
    Evidence,
    died_after,
    what_happened,
)

__all__ = ["Row", "Step", "as_markdown", "as_told", "evidence_of", "rows_of", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of applying a migration, as the document has it; see `steps.toml`."""

    id: str
    does: str
    says: str
    starts: bool
    applied: bool
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The tries of one kind of change that died after one step."""

    died_after: str
    kind: str
    steps: tuple[Step, ...]
    """One; two where nothing tells them apart; none where every step was done, or nobody could look."""
    tries: int
    as_told: int
    """How many went as the document says of (one of) the steps; every one where it says nothing."""
    happened: Mapping[str, int]
    """What happened, in a sentence → how often."""
    examples: tuple[int, ...]
    """The number of one try of each sentence."""


@cache
def steps() -> tuple[Step, ...]:
    """What the document says, in its order."""
    document = tomllib.loads(files(__package__).joinpath("steps.toml").read_text(encoding="utf-8"))
    return tuple(Step(**{**entry, "left": tuple(entry["left"])}) for entry in document["step"])


def as_told(step: Step, told: Evidence) -> bool:
    """Whether a node that died after that step did what the document says."""
    left = {
        "definitions": told.definitions and not told.moved,
        "migration": told.migration and not told.moved,
        "files": told.kind == "create-table" or told.files_after,
    }
    if told.started != step.starts:
        return False
    return told.applied == step.applied and (step.id == "4" or all(left[what] for what in step.left))


def rows_of(tries: Sequence[Evidence]) -> Iterator[Row]:
    """A row for every step and kind of change that was met, in the order of steps, and for every step that was not."""
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for told in tries:
        groups.setdefault((died_after(told), told.kind), []).append(told)
    known = {step.id: step for step in steps()}
    for step_id, kind in sorted(groups, key=lambda group: (_ORDER.index(group[0]), group[1])):
        some = groups[step_id, kind]
        meant = tuple(known[part] for part in step_id.split(" or ") if part in known)
        happened = Counter(map(what_happened, some))
        yield Row(
            died_after=step_id,
            kind=kind,
            steps=meant,
            tries=len(some),
            as_told=sum(not meant or any(as_told(step, told) for step in meant) for told in some),
            happened=dict(happened.most_common()),
            examples=tuple(
                next(t.number for t in some if what_happened(t) == text) for text, _ in happened.most_common()
            ),
        )


_ORDER = ("1", "1.1", "2", "3", "4", "5", "5 or 6", "6", ACKNOWLEDGED, UNTOLD)


def as_markdown(system: str, tries: Sequence[Evidence], command: str) -> str:
    """The table for a repository, with the command that repeats it."""
    lines = [
        f"# A node killed at every step of a migration: {system}",
        "",
        f"{len(tries)} tries: one node, a schema change, kill -9 in the middle of it, a start. `{command}`",
        "",
        "| died after | change | the 0.7 document says | tries | as it says | what happened |",
        "|---|---|---|---|---|---|",
    ]
    rows = list(rows_of(tries))
    for row in rows:
        says = " ".join(f"{step.id}, {step.does}: {step.says}" for step in row.steps) or _WITHOUT_STEP[row.died_after]
        happened = "<br>".join(f"{count} of {row.tries}: {text}" for text, count in row.happened.items())
        agreed = f"{row.as_told} of {row.tries}" if row.steps else ""
        lines.append(f"| {row.died_after} | {row.kind} | {says} | {row.tries} | {agreed} | {happened} |")
    met = {part for row in rows for part in row.died_after.split(" or ")}
    lines += [
        "",
        *(
            f"- Step {step.id} ({step.does}) was never the last: {_never(step)}."
            for step in steps()
            if step.id not in met
        ),
    ]
    return "\n".join(lines) + "\n"


_WITHOUT_STEP = {
    ACKNOWLEDGED: "(every step was done, and the client was told so)",
    UNTOLD: "(the node did not start, so its tables tell nothing)",
}


def _never(step: Step) -> str:
    return "this version takes the snapshot in step 6" if step.id == "1.1" else "no kill met it"


def evidence_of(document: Mapping[str, Any]) -> Evidence:
    """A try from its line of `tries.jsonl`."""
    told = {name: document[name] for name in Evidence.__slots__}
    return Evidence(**{**told, "log": tuple(told["log"])})

"""The table: for every step the seed document's claim, and the result of tries in which the node died there."""

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
    UNKNOWN_STEP,
    Evidence,
    describe_result,
    died_after,
)

__all__ = ["Row", "Step", "agrees", "evidence_of", "render_markdown", "rows_of", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of applying a migration, as in the document; see `steps.toml`."""

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
    """The step; two if they cannot be distinguished; none if every step was done, or the tables could not be read."""
    tries: int
    as_told: int
    """The number of tries that went as the document says of (one of) the steps; every one where it says nothing."""
    happened: Mapping[str, int]
    """The result in a sentence → the number of its tries."""
    examples: tuple[int, ...]
    """The number of one try of each sentence."""


@cache
def steps() -> tuple[Step, ...]:
    """Return the document's steps, in its order."""
    document = tomllib.loads(files(__package__).joinpath("steps.toml").read_text(encoding="utf-8"))
    return tuple(Step(**{**entry, "left": tuple(entry["left"])}) for entry in document["step"])


def agrees(step: Step, evidence: Evidence) -> bool:
    """Return True if a node that died after that step did what the document says."""
    left = {
        "definitions": evidence.definitions and not evidence.moved,
        "migration": evidence.migration and not evidence.moved,
        "files": evidence.kind == "create-table" or evidence.files_after,
    }
    if evidence.started != step.starts:
        return False
    return evidence.applied == step.applied and (step.id == "4" or all(left[part] for part in step.left))


def rows_of(tries: Sequence[Evidence]) -> Iterator[Row]:
    """Yield a row for every step and kind of change that was met, in the order of steps."""
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for evidence in tries:
        groups.setdefault((died_after(evidence), evidence.kind), []).append(evidence)
    known = {step.id: step for step in steps()}
    for step_id, kind in sorted(groups, key=lambda group: (_ORDER.index(group[0]), group[1])):
        group = groups[step_id, kind]
        steps_met = tuple(known[part] for part in step_id.split(" or ") if part in known)
        happened = Counter(map(describe_result, group))
        yield Row(
            died_after=step_id,
            kind=kind,
            steps=steps_met,
            tries=len(group),
            as_told=sum(not steps_met or any(agrees(step, evidence) for step in steps_met) for evidence in group),
            happened=dict(happened.most_common()),
            examples=tuple(
                next(t.number for t in group if describe_result(t) == text) for text, _ in happened.most_common()
            ),
        )


_ORDER = ("1", "1.1", "2", "3", "4", "5", "5 or 6", "6", ACKNOWLEDGED, UNKNOWN_STEP)


def render_markdown(system: str, tries: Sequence[Evidence], command: str) -> str:
    """Return the table for a repository, with the command that repeats it."""
    lines = [
        f"# A node killed at every step of a migration: {system}",
        "",
        f"{len(tries)} tries: one node, a schema change, kill -9 in the middle of it, a start. `{command}`",
        "",
        "| died after | change | the design says | tries | as it says | what happened |",
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
    ACKNOWLEDGED: "(every step was done, and the change was acknowledged)",
    UNKNOWN_STEP: "(the node did not start, so its tables could not be read)",
}


def _never(step: Step) -> str:
    return "this version takes the snapshot in step 6" if step.id == "1.1" else "no kill met it"


def evidence_of(document: Mapping[str, Any]) -> Evidence:
    """Parse a try from its line of `tries.jsonl`."""
    fields = {name: document[name] for name in Evidence.__slots__}
    return Evidence(**{**fields, "log": tuple(fields["log"])})

"""Comparing two versions: what is new, stays and is gone, and what the tries do not suffice to say.

That something did not show says little if it was tried once. A finding is gone, or new, only if so many tries held on the one
version that its rate where it was seen would have shown it with 95 %: as many as make it *verified* there. A rate that differs is told
only if chance does not explain it: Fisher's exact test, corrected for the number of findings compared (Holm).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemaquake.results.findings.finding import Rate
from schemaquake.results.findings.lifecycle import tries_needed
from schemaquake.results.intervals import fisher, holm
from schemaquake.results.wording import counted

__all__ = ["GROUPS", "compare_versions", "summarise"]

_SURE: Final = 0.05

GROUPS: Final = (
    ("New", "new", "new", "Affected now. Before, so many tries held that this rate would have shown with 95 %."),
    ("Perhaps new", "perhaps-new", "perhaps new", "Affected now. Not seen before, in too few tries to say that it was not there."),
    ("Affected now, not tried before", "untried-before", "affected now and not tried before", "It may be older: the first version had no decided try of the same."),
    ("Stays", "stays", "on both", "Affected on both."),
    ("Gone", "gone", "gone", "Affected before. Now so many tries held that the old rate would have shown with 95 %."),
    ("Perhaps gone", "perhaps-gone", "perhaps gone", "Affected before. Not seen now, in too few tries to say that it is gone."),
    ("Affected before, not tried now", "untried-after", "affected before and not tried now", "Not known: the second version had no decided try of the same."),
    ("On neither", "neither", "on neither", "Seen on other versions only."),
)  # fmt: skip
"""Heading, name, phrase and note of each group, in the order in which somebody who may change versions asks for them."""


def compare_versions(
    pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Compare findings on two versions: rows in lists, each with its views on both. Returns those that were tried on one of them."""
    rows = []
    for row, before, after in pairs:
        kind, missing = _kind(before, after)
        if before["state"] != "not tried" or after["state"] != "not tried":
            notes = {
                name: missing if each["state"] == "held" else ""
                for name, each in (("before", before), ("after", after))
            }
            rows.append({**row, "kind": kind, "before": before, "after": after, "notes": notes})
    stays = [row for row in rows if row["kind"] == "stays"]
    chances = holm([fisher(_pair(row["before"]), _pair(row["after"])) for row in stays])
    for row, chance in zip(stays, chances, strict=True):
        if chance < _SURE:
            old, new = (_rate(row[name]).broken / _rate(row[name]).tried for name in ("before", "after"))
            row["notes"]["after"] = "more often than before" if new > old else "more seldom than before"
    return rows


def summarise(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count the rows of each group that has some, with the worst symptom among them: rows come with the worst first."""
    listed = list(rows)
    summaries = []
    for heading, kind, phrase, note in GROUPS:
        mine = [row for row in listed if row["kind"] == kind]
        if mine:
            worst = next((row["worst"] for row in mine if row["worst"]), "")
            summaries.append(
                {"heading": heading, "kind": kind, "phrase": phrase, "note": note, "rows": mine, "worst": worst}
            )
    return summaries


def _kind(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, str]:
    """Name the change of a finding from one version to another, and how many of the tries that would decide it there were."""
    states = before["state"], after["state"]
    if states == ("affected", "affected"):
        return "stays", ""
    if "affected" not in states:
        return "neither", ""
    if states[0] == "affected":
        seen, held, names = before, after, ("gone", "perhaps-gone", "untried-after")
    else:
        seen, held, names = after, before, ("new", "perhaps-new", "untried-before")
    if held["state"] == "not tried":
        return names[2], ""
    # The tries that the version's own page asks for before it says "verified": of the rate on all versions that show the finding.
    needed = tries_needed(_rate(seen)) if held["needed"] is None else held["needed"]
    enough = held["tried"] >= needed
    return names[
        0 if enough else 1
    ], "" if enough else f"{held['tried']} of the {counted(needed, 'try', 'tries')} that would show it"


def _rate(sighting: Mapping[str, Any]) -> Rate:
    return Rate(sighting["broken"], sighting["tried"], sighting["unit"])


def _pair(sighting: Mapping[str, Any]) -> tuple[int, int]:
    return sighting["broken"], sighting["tried"]

"""Odd sightings: what one reading shows otherwise than the others of the same release, while nodes become another one.

A release has defaults of its own, and may write what it shows in its own way. So a reading from that time is compared with readings
of nodes that were of the same release, and those of the newest release with the final ones, too. Finds nothing that is certain: a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemaquake.checkers.evidence.sights import Sight
from schemaquake.checkers.evidence.upgrades import Upgrades
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Shown", "find_odd", "is_mixed"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One fact of a sighting: what was asked (equal for all readings that must agree), its value, and its name in a sentence."""

    sight: Sight
    question: Hashable
    text: str
    label: str


def is_mixed(upgrades: Upgrades, sight: Sight) -> bool:
    """Tell if a sighting is from the time before all nodes were of one release again."""
    return upgrades.mixed is not None and sight.ends <= upgrades.mixed[1]


def find_odd(upgrades: Upgrades, shown: Iterable[Shown], final: Mapping[Any, Iterable[str]]) -> Iterator[Doubt]:
    """Yield a doubt for each fact that differs from what most readings of its release have, the first sighting of each object.

    `final` maps questions to the values that final readings have, with which those of the newest release are compared.
    """
    facts = list(_by_version(upgrades, shown))
    newest = len(upgrades.each)
    counts: dict[tuple[int, Hashable], Counter[str]] = {}
    for one, version in facts:
        counts.setdefault((version, one.question), Counter())[one.text] += 1
    odd: dict[tuple[str, str], Shown] = {}
    for one, version in facts:
        ended = frozenset(final.get(one.question, ()))
        expected = _expected(counts[version, one.question], ended, is_newest=version == newest)
        if one.text not in expected:
            odd.setdefault((one.sight.subject.key, one.label), one)
    for (key, label), one in sorted(odd.items()):
        place = "in memory" if one.sight.place.side == "memory" else "on disk"
        text = (
            f"at {seconds(one.sight.ends)} {one.sight.place.node} showed {label} as {one.text} {place}, and other readings of nodes of "
            "the same release have another value"
        )
        yield Doubt("unread", text, (key,))


def _expected(counts: Counter[str], ended: frozenset[str], *, is_newest: bool) -> frozenset[str]:
    """Return the values that readings of one release may have: that of most, and for the newest one those that final readings have."""
    most = max(counts.values())
    usual = frozenset(text for text, count in counts.items() if count == most)
    if is_newest and ended:
        return ended | (usual if most > 1 and len(usual) == 1 else frozenset())
    return usual if len(usual) == 1 else usual & ended


def _by_version(upgrades: Upgrades, shown: Iterable[Shown]) -> Iterator[tuple[Shown, int]]:
    """Yield each fact with the version of its node (`Upgrades.versions_of`).

    Where the node was changing, that is the oldest it may have been of which another reading shows the same, or else the newest.
    """
    changing = []
    seen: dict[tuple[Hashable, str], set[int]] = {}
    for one in shown:
        oldest, newest = upgrades.versions_of(one.sight.place.node, one.sight.begins, one.sight.ends)
        if oldest < newest:
            changing.append((one, range(oldest, newest)))
            continue
        seen.setdefault((one.question, one.text), set()).add(oldest)
        yield one, oldest
    for one, older in changing:
        yield one, min(seen.get((one.question, one.text), set()).intersection(older), default=older.stop)

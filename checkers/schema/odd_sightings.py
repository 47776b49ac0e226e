"""Odd sightings: what one reading shows otherwise than the others of the same release, while nodes become another one.

A release has defaults of its own, and may write what it shows in its own way. So a reading from that time is compared with readings
of nodes that were of the same release, and those of the newer release with the final ones, too. Finds nothing that is certain: a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from schemaquake.checkers.evidence.sights import Sight
from schemaquake.checkers.evidence.upgrades import Upgrades
from schemaquake.checkers.findings.explanation import seconds
from schemaquake.harness.model.verdict import Doubt

__all__ = ["Shown", "find_odd", "is_mixed"]

_Release: TypeAlias = Literal["old", "new"]


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

    `final` maps questions to the values that final readings have, with which those of the newer release are compared.
    """
    facts = list(_by_release(upgrades, shown))
    counts: dict[tuple[_Release, Hashable], Counter[str]] = {}
    for one, release in facts:
        counts.setdefault((release, one.question), Counter())[one.text] += 1
    odd: dict[tuple[str, str], Shown] = {}
    for one, release in facts:
        expected = _expected(release, counts[release, one.question], frozenset(final.get(one.question, ())))
        if one.text not in expected:
            odd.setdefault((one.sight.subject.key, one.label), one)
    for (key, label), one in sorted(odd.items()):
        place = "in memory" if one.sight.place.side == "memory" else "on disk"
        text = (
            f"at {seconds(one.sight.ends)} {one.sight.place.node} showed {label} as {one.text} {place}, and other readings of nodes of "
            "the same release have another value"
        )
        yield Doubt("unread", text, (key,))


def _expected(release: _Release, counts: Counter[str], ended: frozenset[str]) -> frozenset[str]:
    """Return the values that readings of one release may have: that of most, and for the newer one those that final readings have."""
    most = max(counts.values())
    usual = frozenset(text for text, count in counts.items() if count == most)
    if release == "new" and ended:
        return ended | (usual if most > 1 and len(usual) == 1 else frozenset())
    return usual if len(usual) == 1 else usual & ended


def _by_release(upgrades: Upgrades, shown: Iterable[Shown]) -> Iterator[tuple[Shown, _Release]]:
    """Yield each fact with the release of its node. Where the node was changing, that is the older one if it shows what that showed."""
    changing = []
    older: set[tuple[Hashable, str]] = set()
    for one in shown:
        release = upgrades.side_of(one.sight.place.node, one.sight.begins, one.sight.ends)
        if release is None:
            changing.append(one)
            continue
        if release == "old":
            older.add((one.question, one.text))
        yield one, release
    yield from ((one, "old" if (one.question, one.text) in older else "new") for one in changing)

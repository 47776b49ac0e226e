"""Life cycle: new → known → fixed (a claim) → verified, and regressed, from the runs that tried a finding's statements.

A finding that is no longer seen is verified as fixed on a system only after so many decided tries without it that its old rate would
have shown it with 95 %: m ≥ ln 0.05 / ln(1 − low), where `low` is the lower end of the old rate's interval (Wilson; 3 of 3
need 6 tries, 11 of 24 need 10, 1 of 3 needs 48). One sighting after that, or on a version that was said to be fixed, is a regression.
Source: syzkaller #7880, closing by age takes masked for fixed; #6054, without reopening a regression is a second bug.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from schemaquake.results.findings.curation import Curated, Curation
from schemaquake.results.findings.finding import Rate
from schemaquake.results.findings.tracking import JudgedRun, Observation, TrackedFinding, observe_causes

__all__ = [
    "FollowedFinding",
    "Life",
    "LifeEvent",
    "Stage",
    "SystemLife",
    "follow_findings",
    "follow_on_system",
    "is_at_or_after",
    "tries_needed",
]

Stage: TypeAlias = Literal["new", "known", "fixed", "verified", "regressed", "invalid"]
EventKind: TypeAlias = Literal["new", "verified", "regressed"]

_SURE: Final = 0.05
"""Probability of that many tries without a sighting, if the old rate still held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEvent:
    """A change of a finding's stage on one system, brought about by one run."""

    kind: EventKind
    system: str
    run: str
    at: str | None
    """Start of the run, UTC; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLife:
    """A finding on one system."""

    system: str
    is_seen: bool
    is_claimed_fixed: bool
    stage: Literal["affected", "held", "verified", "regressed"]
    """`held`: tried without a sighting, but too seldom to say that it is free of it."""
    held_since: int
    """Decided tries since the last sighting."""
    needed: int | None
    """Tries without a sighting that make it verified; None without a sighting anywhere before."""
    events: tuple[LifeEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A finding over all its systems."""

    stage: Stage
    systems: tuple[SystemLife, ...]
    """Those that were tried, in their order."""

    @property
    def events(self) -> tuple[LifeEvent, ...]:
        """The events of all systems by date; `new` is the first sighting alone."""
        every = sorted((event for one in self.systems for event in one.events), key=lambda event: event.at or "")
        first = next((event for event in every if event.kind == "new"), None)
        return tuple(event for event in every if event.kind != "new" or event is first)

    def on(self, system: str) -> SystemLife | None:
        """Return the life on one system; None if it was not tried there."""
        return next((one for one in self.systems if one.system == system), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedFinding:
    """One finding, merged as people decided, with its sightings by system and its life."""

    id: str
    """The name of its page: the first id of its entry, or the id of the first run that has it."""
    ids: tuple[str, ...]
    """Every id that it has on any design."""
    tracked: TrackedFinding
    life: Life
    curated: Curated | None
    observations: tuple[Observation, ...]
    """The runs that tried it, in order."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding with its life as JSON."""
        return {
            "id": self.id,
            "ids": list(self.ids),
            "stage": self.life.stage,
            **self.tracked.to_json(),
            "life": [
                {
                    "system": one.system,
                    "stage": one.stage,
                    "claimed_fixed": one.is_claimed_fixed,
                    "held_since": one.held_since,
                    "needed": one.needed,
                }
                for one in self.life.systems
            ],
            "events": [
                {"kind": event.kind, "system": event.system, "run": event.run, "at": event.at}
                for event in self.life.events
            ],
        }


def follow_findings(
    runs: Iterable[JudgedRun], systems: Sequence[str], curation: Curation
) -> tuple[FollowedFinding, ...]:
    """Collect the findings of runs with their lives: those of known cause first, in the order in which they first appear.

    Runs are taken in the order of their start; those without one come first.
    """
    ordered = sorted(runs, key=lambda run: (run.started or "", run.run))
    groups: dict[str, list[Observation]] = {}
    for observations in observe_causes(ordered).values():
        ids = [one.finding.id for one in observations if one.finding is not None]
        curated = curation.of(ids)
        groups.setdefault(curated.ids[0] if curated else ids[0], []).extend(observations)
    followed = [_follow(name, _by_run(observations), systems, curation) for name, observations in groups.items()]
    return tuple(sorted(followed, key=lambda one: not one.tracked.example.cause.known))


def _by_run(observations: Iterable[Observation]) -> list[Observation]:
    """Join what merged causes observed in one run, in the order of the runs."""
    joined: dict[tuple[str, str | None, str], Observation] = {}
    for one in observations:
        key = (one.run, one.started, one.system)
        known = joined.get(key)
        joined[key] = (
            one
            if known is None
            else replace(
                known,
                broken=known.broken + one.broken,
                tried=known.tried + one.tried,
                finding=known.finding or one.finding,
            )
        )
    return sorted(joined.values(), key=lambda one: (one.started or "", one.run))


def _follow(
    name: str, observations: Sequence[Observation], systems: Sequence[str], curation: Curation
) -> FollowedFinding:
    ids = tuple(dict.fromkeys(one.finding.id for one in observations if one.finding is not None))
    curated = curation.of((name, *ids))
    tracked = TrackedFinding.from_observations(observations, systems)
    unit = tracked.example.rate.unit
    fixed_in = curated.fixed_in if curated else ()
    affected = [one for one in observations if not any(is_at_or_after(one.system, fix) for fix in fixed_in)]
    old = Rate(sum(one.broken for one in affected), sum(one.tried for one in affected), unit)
    lives = tuple(
        follow_on_system(
            system,
            mine,
            is_claimed_fixed=any(is_at_or_after(system, fix) for fix in fixed_in),
            old=_rate_of_sightings(affected, unit) if old.broken else None,
        )
        for system in systems
        if (mine := [one for one in observations if one.system == system and one.tried])
    )
    stage = _stage(lives, curated, is_known=tracked.example.known is not None)
    return FollowedFinding(
        id=name,
        ids=tuple(dict.fromkeys((name, *(curated.ids if curated else ()), *ids))),
        tracked=tracked,
        life=Life(stage=stage, systems=lives),
        curated=curated,
        observations=tuple(observations),
    )


def _rate_of_sightings(observations: Sequence[Observation], unit: Any) -> Rate:
    """Return the rate in the runs that saw it, where it is known to have been there."""
    seen = [one for one in observations if one.broken]
    return Rate(sum(one.broken for one in seen), sum(one.tried for one in seen), unit)


def follow_on_system(
    system: str, observations: Iterable[Observation], *, is_claimed_fixed: bool = False, old: Rate | None = None
) -> SystemLife:
    """Follow a finding through the runs of one system, in their order. `old` is its rate where it is not said to be fixed."""
    events: list[LifeEvent] = []
    broken = tried = held = 0
    was_verified = is_seen = has_regressed = False
    for one in observations:
        if one.broken:
            if (was_verified and is_seen) or (is_claimed_fixed and not is_seen):
                events.append(LifeEvent(kind="regressed", system=system, run=one.run, at=one.started))
                has_regressed = True
            elif not is_seen:
                events.append(LifeEvent(kind="new", system=system, run=one.run, at=one.started))
            is_seen, was_verified, held = True, False, 0
            broken, tried = broken + one.broken, tried + one.tried
            continue
        held += one.tried
        if not was_verified and (is_seen or old is not None):
            rate = Rate(broken, tried, "race") if is_seen else old
            if rate is not None and held >= tries_needed(rate):
                was_verified, has_regressed = True, False
                if is_seen or is_claimed_fixed:
                    events.append(LifeEvent(kind="verified", system=system, run=one.run, at=one.started))
    rate = Rate(broken, tried, "race") if is_seen else old
    stage: Literal["affected", "held", "verified", "regressed"] = (
        "verified" if was_verified else "regressed" if has_regressed else "affected" if is_seen else "held"
    )
    return SystemLife(
        system=system,
        is_seen=is_seen,
        is_claimed_fixed=is_claimed_fixed,
        stage=stage,
        held_since=held,
        needed=None if rate is None else tries_needed(rate),
        events=tuple(events),
    )


def tries_needed(rate: Rate) -> int:
    """Return how many tries without a sighting contradict a rate. Raises ValueError for a rate without a sighting."""
    low, _ = rate.interval
    if not rate.broken or low <= 0:
        raise ValueError("what was never seen cannot be missed")
    return 1 if low >= 1 else math.ceil(math.log(_SURE) / math.log(1 - low))


def is_at_or_after(system: str, fixed_in: str) -> bool:
    """Return True if a system is a version in which something is said to be fixed, or a later one of the same product.

    A pre-release stands before its release: `6.0-alpha2` < `6.0`.
    """
    product, _, version = system.partition(":")
    fixed_product, _, fixed_version = fixed_in.partition(":")
    return product == fixed_product and _order(version) >= _order(fixed_version)


def _order(version: str) -> tuple[Any, ...]:
    """Make a version comparable: its numbers, then its pre-release; a version without one comes last."""
    numbers, _, pre = re.sub(r"^\D+", "", version).partition("-")
    parts = [int(part) for part in re.findall(r"\d+", numbers)]
    while parts and parts[-1] == 0:
        parts.pop()
    return (
        tuple(parts),
        not pre,
        [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.findall(r"\d+|[a-z]+", pre)],
    )


def _stage(lives: Sequence[SystemLife], curated: Curated | None, *, is_known: bool) -> Stage:
    if curated is not None and curated.invalid is not None:
        return "invalid"
    if any(one.stage == "regressed" for one in lives):
        return "regressed"
    claimed = [one for one in lives if one.is_claimed_fixed]
    seen = [one for one in lives if one.is_seen]
    if curated is not None and curated.fixed_in:
        return "verified" if claimed and all(one.stage == "verified" for one in claimed) else "fixed"
    if seen and all(one.stage == "verified" for one in seen):
        return "verified"
    return "known" if is_known or (curated is not None and curated.tickets) else "new"

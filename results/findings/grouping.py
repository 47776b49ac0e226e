"""Grouping: from a verdict's anomalies to its findings, one for each cause. No anomaly is left out.

The anomalies of one race have one cause: the statements that raced. Where a side is more than one statement, these are the
statements that the worst anomaly names. Outside of races, anomalies that name changes of one meeting have one cause (`meetings`);
those that name none have the meeting on their objects. Where no change met another and one of theirs was made while nodes were
being upgraded, the upgrade is the cause, and it is one cause for the whole run.

An anomaly at large is attributed to contested statements only if nothing but one kind of race can have caused it: no other kind
raced in the run, and no nemesis was active. Otherwise its cause is not known, and it is a finding by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from schemaquake.checkers.evidence.notes import read_notes
from schemaquake.checkers.evidence.upgrades import Upgrades
from schemaquake.checkers.findings.catalogue import CATALOGUE, prominence_of, scope_of
from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.engines.combination import doubts_of, keyspaces_undecided
from schemaquake.results.findings.cause import Cause, read_design
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.meetings import Clue, Meetings, explain
from schemaquake.results.findings.shapes import Shape, make_shapes
from schemaquake.results.tables.attribution import Attribution, Ground, attribute_all, read_ground
from schemaquake.results.tables.chronicle import FaultWindow, chronicle_of
from schemaquake.results.tables.statements import Statement, read_changes

__all__ = ["Grouped", "group_anomalies", "listed_anomalies"]

_EXCEPTION: Final = re.compile(r"(?<![\w.$])(?:[\w$]+\.)*(\w+(?:Exception|Error))(?=[:\s]|$)")


def listed_anomalies(verdict: Verdict) -> tuple[Anomaly, ...]:
    """Return the anomalies to which findings refer: the verdict's own, or those of its parts if it lists none."""
    return verdict.anomalies or tuple(one for part in verdict.parts for one in part.anomalies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """The findings of a run, and what raced in it, whether or not it broke."""

    findings: tuple[Finding, ...] = ()
    """The worst first; those of unknown cause last."""
    contested: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    """Keyspace → shapes of the race's contested statements, for every race that began."""
    decided: frozenset[str] = frozenset()
    """Keyspaces of the races in which an operation was acknowledged and every check decided."""


def group_anomalies(
    verdict: Verdict,
    *,
    system: str,
    history: pa.Table,
    operations: pa.Table,
    races: pa.Table,
    started: datetime | None = None,
) -> Grouped:
    """Group a run's anomalies by cause. Equal runs give equal findings.

    `history` needs the notes alone (process −1), `operations` and `races` are the run's tables.
    """
    anomalies = listed_anomalies(verdict)
    ground = read_ground(history)
    if not anomalies and not ground.races:
        return Grouped()
    changes = read_changes(operations)
    contested = _contested(changes, ground)
    run = _Run(
        anomalies=anomalies,
        attributions=attribute_all(anomalies, ground, operations),
        ground=ground,
        changes=changes,
        indices=frozenset(one.index for one in changes),
        meetings=Meetings(changes),
        contested=contested,
        shapes={keyspace: make_shapes(statements) for keyspace, statements in contested.items()},
        faults=chronicle_of(history).faults,
        mixed=_mixed_times(Upgrades(read_notes(history)), changes),
        design=read_design(system),
        decided=_decided_races(verdict, races),
        started=started,
    )
    drafts: dict[str, _Draft] = {}
    for draft in (*_of_races(run), *_elsewhere(run)):
        known = drafts.get(draft.cause.id)
        drafts[draft.cause.id] = draft if known is None else known.joined(draft)
    findings = sorted((_finding(run, draft) for draft in drafts.values()), key=_place)
    return Grouped(findings=tuple(findings), contested=run.shapes, decided=run.decided)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The records of a run that grouping needs."""

    anomalies: Sequence[Anomaly]
    attributions: Sequence[Attribution]
    ground: Ground
    changes: Sequence[Statement]
    indices: frozenset[int]
    """Indices of the changes."""
    meetings: Meetings
    faults: Sequence[FaultWindow]
    design: tuple[str, str]
    contested: Mapping[str, tuple[Statement, ...]]
    """Keyspace → the race's contested statements."""
    shapes: Mapping[str, tuple[Shape, ...]]
    """Keyspace → their shapes."""
    decided: frozenset[str]
    """Keyspaces of races in which an operation was acknowledged and every check decided."""
    mixed: _MixedTimes
    started: datetime | None

    def sides(self, keyspace: str) -> tuple[Statement, ...]:
        """Return the contested statements of a race."""
        return self.contested.get(keyspace, ())

    def cause(self, statements: Sequence[Statement], worst: Anomaly) -> Cause:
        """Make the cause of these statements; of the worst anomaly if there are none."""
        product, era = self.design
        if not statements:
            return Cause(product=product, era=era, symptom=worst.type, mechanism=_mechanism(worst))
        fault = _fault_during(self.faults, statements)
        return Cause(product=product, era=era, statements=make_shapes(statements), fault=fault)

    def cause_of_upgrade(self, to: str) -> Cause:
        """Make the cause of what changes brought about that were made while nodes were becoming this era."""
        product, era = self.design
        return Cause(product=product, era=era, upgrade_to=to)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MixedTimes:
    """The changes that were made while nodes were of two versions, and may have been carried out."""

    changes: Mapping[int, Statement] = field(default_factory=dict)
    """Those changes by index."""
    eras: Mapping[int, str] = field(default_factory=dict)
    """By the same index the era that nodes were becoming; empty if it is not installed."""

    def era_of(self, changes: Iterable[Statement]) -> str:
        """Return the era that nodes were becoming at the last of these changes."""
        return self.eras[max(one.index for one in changes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The anomalies of one cause so far, as places in the verdict."""

    cause: Cause
    places: tuple[int, ...]
    races: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    """Contested statements of the first race or the first place."""
    times: tuple[int, ...] = ()
    """When statements of it were contested, ns."""

    def joined(self, other: _Draft) -> _Draft:
        """Return both as one; the example is this one's."""
        return replace(
            self,
            places=tuple(dict.fromkeys((*self.places, *other.places))),
            races=tuple(dict.fromkeys((*self.races, *other.races))),
            times=(*self.times, *other.times),
        )


# ── anomalies of races ───────────────────────────────────────────────────────────────────────────────────────────────


def _contested(changes: Iterable[Statement], ground: Ground) -> dict[str, tuple[Statement, ...]]:
    """Select for each race the statements that its note lists as its sides, of those that were invoked."""
    texts = {
        keyspace: {text for side in _sides(note) for text in side if isinstance(text, str)}
        for keyspace, note in ground.races.items()
    }
    contested: dict[str, list[Statement]] = {keyspace: [] for keyspace in ground.races}
    for one in changes:
        keyspace = keyspace_of(one.key)
        if keyspace is not None and one.text in texts.get(keyspace, ()):
            contested[keyspace].append(one)
    return {keyspace: tuple(some) for keyspace, some in contested.items()}


def _sides(note: Mapping[str, Any]) -> list[list[Any]]:
    """Return the sides of a race's note; a workload from elsewhere may note them in another form, or none."""
    sides = note.get("sides")
    return [side for side in sides if isinstance(side, list)] if isinstance(sides, list) else []


def _of_races(run: _Run) -> Iterator[_Draft]:
    """Draft one finding for each race that broke, in the order in which they began."""
    for keyspace, note in run.ground.races.items():
        places = [place for place, one in enumerate(run.attributions) if keyspace in one.races]
        if places:
            sides = run.sides(keyspace)
            is_long = any(len(side) > 1 for side in _sides(note))
            met = (_named_by_worst(run, places, sides) if is_long else ()) or sides
            cause = run.cause(met, run.anomalies[_worst(run, places)])
            times = tuple(one.invoked for one in met)
            yield _Draft(cause=cause, places=tuple(places), races=(keyspace,), statements=met, times=times)


def _worst(run: _Run, places: Sequence[int]) -> int:
    """Return the place of the worst anomaly; at equal prominence, of one that does not follow from another."""
    types = {run.anomalies[place].type for place in places}
    return min(places, key=lambda place: (_badness(run.anomalies[place].type, types), place))


def _named_by_worst(run: _Run, places: Sequence[int], sides: Sequence[Statement]) -> tuple[Statement, ...]:
    """Select the contested statements that anomalies of the worst type name; none if they do not name two that met."""
    worst = run.anomalies[_worst(run, places)].type
    named = {op for place in places if run.anomalies[place].type == worst for op in run.anomalies[place].ops}
    chosen = tuple(one for one in sides if one.index in named)
    return chosen if len(chosen) > 1 else ()


# ── anomalies outside of races ───────────────────────────────────────────────────────────────────────────────────────


def _elsewhere(run: _Run) -> Iterator[_Draft]:
    """Draft the findings of anomalies that belong to no race."""
    of_upgrades: dict[str, list[int]] = {}
    rest = [place for place, one in enumerate(run.attributions) if not one.races]
    located = [place for place in rest if scope_of(run.anomalies[place].type) != "cluster" and _links(run, place)]
    explained, others = explain([_clue(run, place) for place in located])
    for one in explained:
        worst = run.anomalies[_worst(run, list(one.named))].type
        named = {
            each.index: each
            for place, group in one.named.items()
            if run.anomalies[place].type == worst
            for each in group
        }
        met = tuple(sorted(named.values(), key=lambda each: (each.invoked, each.index)))
        if (era := _upgrade_of(run, met, one.places)) is not None:
            of_upgrades.setdefault(era, []).extend(one.places)
            continue
        cause = run.cause(met, run.anomalies[_worst(run, one.places)])
        yield _Draft(cause=cause, places=one.places, statements=met, times=tuple(each.invoked for each in met))
    for places in _components(others, lambda place: _links(run, place)):
        met = _met_outside(run, places)
        if (era := _upgrade_of(run, met, places)) is not None:
            of_upgrades.setdefault(era, []).extend(places)
            continue
        times = tuple(one.invoked for one in met)
        for group in [places] if met else _by_type(run, places):
            cause = run.cause(met, run.anomalies[_worst(run, group)])
            yield _Draft(cause=cause, places=tuple(group), statements=met, times=times)
    only = _only_race(run)
    for place in rest:
        if place in located:
            continue
        if (era := _upgrade_of(run, (), [place])) is not None:
            of_upgrades.setdefault(era, []).append(place)
        else:
            times = tuple(one.invoked for one in only)
            cause = run.cause(only, run.anomalies[place])
            yield _Draft(cause=cause, places=(place,), statements=only, times=times)
    for era, places in of_upgrades.items():
        yield _of_upgrade(run, era, sorted(places))


def _mixed_times(upgrades: Upgrades, changes: Iterable[Statement]) -> _MixedTimes:
    """Select the changes all of whose time lies in mixed ones, which begin with the first node that did become the newer version.

    One without an answer may have been made at any time, and is left out.
    """
    exchanged = {
        upgrade.to: [one.invoked for one in upgrade.operations if one.stage == "node" and one.outcome == "ok"]
        for upgrade in upgrades.each
    }
    made: dict[int, Statement] = {}
    eras: dict[int, str] = {}
    for one in changes:
        if one.type == "fail" or one.completed is None:
            continue
        upgrade = upgrades.during(one.node, one.invoked, one.completed)
        if upgrade is not None and one.invoked > min(exchanged[upgrade.to], default=one.invoked):
            made[one.index], eras[one.index] = one, read_design(upgrade.to)[1]
    return _MixedTimes(changes=made, eras=eras)


def _of_mixed_times(run: _Run, place: int) -> tuple[Statement, ...]:
    """Select the changes of mixed times that an anomaly names."""
    return tuple(run.mixed.changes[op] for op in sorted({*run.anomalies[place].ops} & run.mixed.changes.keys()))


def _upgrade_of(run: _Run, met: Sequence[Statement], places: Iterable[int]) -> str | None:
    """Return the era that nodes were becoming at the changes that anomalies name; None if they name none, or two statements that met."""
    named = [one for place in places for one in _of_mixed_times(run, place)]
    return run.mixed.era_of(named) if named and len(met) < 2 else None


def _of_upgrade(run: _Run, era: str, places: Sequence[int]) -> _Draft:
    """Draft the finding of changes that were made in the middle of an upgrade; its example is the anomaly that names the fewest."""
    named = [changes for place in places if (changes := _of_mixed_times(run, place))]
    times = tuple(sorted({one.invoked for changes in named for one in changes}))
    return _Draft(cause=run.cause_of_upgrade(era), places=tuple(places), statements=min(named, key=len), times=times)


def _by_type(run: _Run, places: Sequence[int]) -> list[list[int]]:
    """Divide anomalies whose cause is not known by type and mechanism; a type that follows from another stays with it."""
    types = {run.anomalies[place].type for place in places}
    groups: dict[str, list[int]] = {}
    for place in places:
        kind, seen = run.anomalies[place].type, frozenset[str]()
        while causes := _causes(kind, types) - seen - {kind}:
            kind, seen = min(causes), seen | {kind}
        groups.setdefault(kind, []).append(place)
    divided = []
    for kind, some in groups.items():
        own = [place for place in some if run.anomalies[place].type == kind]
        others = [place for place in some if place not in own]
        by_mechanism: dict[str | None, list[int]] = {}
        for place in own:
            by_mechanism.setdefault(_mechanism(run.anomalies[place]), []).append(place)
        first, *further = sorted(by_mechanism.items(), key=lambda each: each[0] or "")
        divided += [sorted([*first[1], *others]), *(places for _, places in further)]
    return divided


def _only_race(run: _Run) -> tuple[Statement, ...]:
    """Return the contested statements of a run in which nothing else can have caused damage; none for any other run."""
    racing = {*run.ground.races, *run.ground.canaries}
    if (
        run.faults
        or len(set(run.shapes.values())) != 1
        or any(keyspace_of(one.key) not in racing for one in run.changes)
    ):
        return ()
    return run.sides(next(iter(run.ground.races)))


def _links(run: _Run, place: int) -> frozenset[object]:
    """Return what an anomaly may share with others of its cause: objects, and the schema changes that it names.

    A whole keyspace is no such thing, unless the anomaly names nothing else.
    """
    anomaly = run.anomalies[place]
    objects = [name for name in anomaly.objects if "." in name] or anomaly.objects
    return frozenset((*objects, *(op for op in anomaly.ops if op in run.indices)))


def _components(places: Sequence[int], links: Callable[[int], frozenset[object]]) -> list[list[int]]:
    """Divide places into groups that share a link, directly or through others; in order of their first place."""
    groups: list[tuple[set[object], list[int]]] = []
    for place in places:
        joined: tuple[set[object], list[int]] = (set(links(place)), [place])
        for group in [group for group in groups if group[0] & joined[0]]:
            groups.remove(group)
            joined = (joined[0] | group[0], group[1] + joined[1])
        groups.append(joined)
    return sorted(sorted(members) for _, members in groups)


def _clue(run: _Run, place: int) -> Clue:
    """Collect what an anomaly says of its cause."""
    anomaly = run.anomalies[place]
    known = CATALOGUE.get(anomaly.type)
    return Clue(
        place=place,
        kind=anomaly.type,
        prominence=prominence_of(anomaly.type),
        causes=frozenset(known.follows_from if known else ()),
        links=_links(run, place),
        groups=run.meetings.groups(anomaly.ops),
    )


def _met_outside(run: _Run, places: Sequence[int]) -> tuple[Statement, ...]:
    """Select the changes on the objects of anomalies that met, or else the last removal that they name, or the last change.

    None if several meetings are possible, and nothing tells which it was.
    """
    worst = run.anomalies[_worst(run, places)].type
    leading = [run.anomalies[place] for place in places if run.anomalies[place].type == worst]
    named = {op for anomaly in leading for op in anomaly.ops}
    objects = {name for anomaly in leading for name in anomaly.objects}
    named_changes = [one for one in run.changes if one.index in named]
    possible = [*named_changes, *(one for one in run.changes if one.key in objects and one.index not in named)]
    met = run.meetings.overlapping(named_changes) if prominence_of(worst) >= 0 else ()
    if not met and len(run.meetings.groups(one.index for one in possible)) > 1:
        return ()
    alone = sorted(named_changes, key=lambda one: (one.f.startswith("drop-"), one.invoked, one.index))
    return met or run.meetings.overlapping(possible) or tuple(alone[-1:])


def _fault_during(faults: Iterable[FaultWindow], statements: Sequence[Statement]) -> str | None:
    """Name the nemeses that were active meanwhile, if all statements went through one coordinator."""
    if len({one.node for one in statements}) > 1:
        return None
    begins = min(one.invoked for one in statements)
    ends = max(one.invoked if one.completed is None else one.completed for one in statements)
    active = {one.nemesis for one in faults if one.begins <= ends and (one.ends is None or one.ends >= begins)}
    return "+".join(sorted(active)) or None


# ── symptoms ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mechanism(anomaly: Anomaly) -> str | None:
    """Return the rule of the log that an anomaly broke, the class of the exception that it quotes, the error of what was refused, or the operation that hangs."""
    evidence = anomaly.evidence if isinstance(anomaly.evidence, Mapping) else {}
    first = evidence.get("first")
    entries = list(first.values()) if isinstance(first, Mapping) else []
    quoted = [evidence.get("first_error"), *(entry.get("stack") for entry in entries if isinstance(entry, Mapping))]
    classes = (match[1] for text in quoted if isinstance(text, str) for match in _EXCEPTION.finditer(text))
    rule = evidence.get("rule")
    told = (rule, next(classes, None), evidence.get("refused_with"), evidence.get("operation"))
    named = [part for part in told if isinstance(part, str) and part]
    return " ".join(named) or None


def _badness(kind: str, types: Iterable[str]) -> tuple[int, int, str]:
    """Sort types of one finding: the most prominent first, and what causes another before it."""
    return -prominence_of(kind), _depth(kind, frozenset(types), frozenset()), kind


def _depth(kind: str, types: frozenset[str], above: frozenset[str]) -> int:
    """Count the steps from a type that follows from none of the others."""
    causes = _causes(kind, types) - above
    return 1 + max(_depth(cause, types, above | {kind}) for cause in causes) if causes else 0


def _causes(kind: str, types: Iterable[str]) -> frozenset[str]:
    known = CATALOGUE.get(kind)
    return frozenset(known.follows_from if known else ()) & frozenset(types) - {kind}


def _symptoms(run: _Run, draft: _Draft) -> tuple[Symptom, ...]:
    found: dict[tuple[str, str | None], list[int]] = {}
    for place in sorted(draft.places):
        anomaly = run.anomalies[place]
        found.setdefault((anomaly.type, _mechanism(anomaly)), []).append(place)
    types = {kind for kind, _ in found}
    symptoms = [
        Symptom(
            type=kind,
            mechanism=mechanism,
            anomalies=tuple(places),
            races=tuple(name for name in draft.races if any(name in run.attributions[place].races for place in places)),
            nodes=tuple(sorted({node for place in places for node in run.anomalies[place].nodes})),
            follows_from=tuple(sorted(_causes(kind, types))),
        )
        for (kind, mechanism), places in found.items()
    ]
    return tuple(
        sorted(symptoms, key=lambda one: (_badness(one.type, types), -len(one.anomalies), one.mechanism or ""))
    )


# ── from drafts to findings ──────────────────────────────────────────────────────────────────────────────────────────


def _finding(run: _Run, draft: _Draft) -> Finding:
    sides = tuple(dict.fromkeys(run.shapes[keyspace] for keyspace in draft.races))
    return Finding(
        cause=draft.cause,
        symptoms=_symptoms(run, draft),
        races=draft.races,
        sides=sides,
        rate=_rate(run, draft, sides),
        statements=tuple(one.index for one in draft.statements),
        first_seen=_date(run.started, min(draft.times, default=0)),
        last_seen=_date(run.started, max(draft.times, default=0)),
    )


def _rate(run: _Run, draft: _Draft, sides: Sequence[tuple[Shape, ...]]) -> Rate:
    """Count the races with these statements that broke, of those that were decided; runs, outside of races."""
    if not draft.races:
        return Rate(1, 1, "run")
    broken = {race for one in run.attributions for race in one.races}
    held = [race for race in run.ground.races if race in run.decided and race not in broken]
    tried = sum(run.shapes[race] in sides for race in held)
    return Rate(len(draft.races), len(draft.races) + tried, "race")


def _decided_races(verdict: Verdict, races: pa.Table) -> frozenset[str]:
    """Collect the races in which an operation was acknowledged and every check decided."""
    rows = plain(races.select(["keyspace", "ok"])).to_pylist()
    return frozenset(row["keyspace"] for row in rows if row["ok"] and not _undecided(verdict, row["keyspace"]))


def _undecided(verdict: Verdict, keyspace: str) -> bool:
    """Return True if a check of this keyspace, or of the whole run, did not decide."""
    if any(doubt.weighs and doubt.checker is None for doubt in verdict.doubts):
        return True
    for part in verdict.parts:
        if part.undecided is not None:
            if any(doubt.weighs for doubt in keyspaces_undecided(part, {keyspace})):
                return True
        elif part.valid == "unknown" and any(doubt.weighs for doubt in doubts_of(part)):
            return True
    return False


def _date(started: datetime | None, time: int) -> str | None:
    return None if started is None else (started + timedelta(microseconds=time // 1000)).isoformat(timespec="seconds")


def _place(finding: Finding) -> tuple[bool, int, int, str]:
    """Sort known causes first, then by the worst symptom, then by the number of races."""
    worst = max(prominence_of(symptom.type) for symptom in finding.symptoms)
    return not finding.cause.known, -worst, -len(finding.races), finding.id

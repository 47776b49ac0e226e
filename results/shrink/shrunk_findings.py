"""Shrunk findings: every finding of a run with the few statements that are to blame, found on common clusters.

A finding may have several symptoms, and each may have statements of its own: the smallest race is looked for by symptom. Left out are those that
another one of the finding is known to bring about, and those that only a whole run shows, such as a node that does not start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from schemaquake.checkers.findings.catalogue import CATALOGUE, counted_by_runs
from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.findings.description import title_of
from schemaquake.results.findings.finding import Finding, Symptom
from schemaquake.results.findings.grouping import listed_anomalies
from schemaquake.results.shrink.abreast import Oracle, Smallest, Target, shrink_abreast
from schemaquake.results.shrink.candidate import Candidate, statements_of
from schemaquake.results.shrink.failing_run import FailingRun, remade_races
from schemaquake.results.shrink.racing_abreast import RacingAbreast
from schemaquake.results.shrink.shrinking import Shrunk
from schemaquake.results.shrink.shrunk_run import SHRUNK_FOLDER, ShrunkRun, print_shrunk, write_shrunk
from schemaquake.results.shrink.suspects import Suspects, read_suspects
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.wording import counted
from schemaquake.workloads.races.engine import Race

__all__ = ["ShrunkFinding", "print_findings", "shrunk_findings", "targets_of"]

_SYMPTOMS: Final = 4
"""Symptoms of a finding that are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkFinding:
    """One symptom of a finding, and the smallest race that shows it."""

    finding: Finding
    anomaly: str
    suspects: int
    """Number of races that may have brought it about."""
    smallest: Smallest | None
    """None for a symptom that no race can be asked for."""
    written: ShrunkRun | None = None
    """The files of the smallest race; None if there is none."""
    why_not: str = ""
    """The reason why there is none."""

    def to_json(self) -> dict[str, Any]:
        """Return what findings.json holds of it."""
        document: dict[str, Any] = {
            "finding": self.finding.id,
            "title": title_of(self.finding),
            "known": None if self.finding.known is None else self.finding.known.known_as.to_json(),
            "anomaly": self.anomaly,
            "suspects": self.suspects,
            "why_not": self.why_not,
        }
        if self.smallest is not None and self.smallest.race is not None:
            setup, sides = statements_of(self.smallest.race)
            measured = self.smallest.measured
            document |= {
                "setup": list(setup),
                "sides": [list(side) for side in sides],
                "broken": measured.broken,
                "tried": measured.tried,
                "minimal": self.smallest.minimal,
                "folder": "" if self.written is None else self.written.folder.name,
            }
        return document


def shrunk_findings(
    run: Path,
    *,
    tries: int,
    confirm: int,
    rate: float,
    ends: float | None,
    oracle: Oracle | None = None,
) -> list[ShrunkFinding]:
    """Look for the smallest race of every finding of a judged run, until `ends` (of time.monotonic) at most, and write them down.

    `oracle` replaces the one that races on real clusters. Raises HistoryError for a run that was not judged, PlanError if it shows no
    anomaly or its races cannot be made again.
    """
    store = Store(run)
    plan = store.read_plan()
    folder = run.resolve() / SHRUNK_FOLDER
    folder.mkdir(exist_ok=True)
    wanted = list(targets_of(store, plan))
    if not wanted:
        raise PlanError(f"{store.folder} shows no anomaly: there is nothing to shrink")
    targets = [target for _, _, target in wanted if target is not None and target.suspects]
    asked = oracle or RacingAbreast(plan, folder, ends)
    found = {one.target.id: one for one in shrink_abreast(targets, asked, rate=rate, tries=tries, confirm=confirm)}
    some = [
        _written(
            folder, plan, finding, anomaly, None if target is None else found.get(target.id), tries=max(tries, confirm)
        )
        for finding, anomaly, target in wanted
    ]
    write_bytes(folder / "findings.json", orjson.dumps([one.to_json() for one in some], option=orjson.OPT_INDENT_2))
    write_bytes(folder / "findings.md", _render(some).encode())
    return some


def targets_of(store: Store, plan: Plan) -> Iterator[tuple[Finding, str, Target | None]]:
    """Yield each finding with each symptom to look for, and its suspected races; None where a race cannot be asked for it.

    Raises HistoryError, PlanError.
    """
    summary = read_summary(store)
    every = listed_anomalies(store.read_verdict())
    races = remade_races(plan, summary.races)
    chosen = {
        (finding.id, symptom.type): [every[place] for place in symptom.anomalies]
        for finding in summary.findings
        for symptom in _symptoms(finding)
    }
    suspects = None if races else read_suspects(store, plan, [one for some in chosen.values() for one in some])
    for finding in summary.findings:
        for symptom in _symptoms(finding):
            if counted_by_runs(symptom.type):
                yield finding, symptom.type, None
            else:
                mine = _suspected(symptom, chosen[finding.id, symptom.type], races, suspects)
                id_ = f"{finding.id}-{symptom.type}"
                yield finding, symptom.type, Target(id=id_, anomaly=symptom.type, suspects=mine)


def _symptoms(finding: Finding) -> list[Symptom]:
    """Return the symptoms that none other of the finding brings about, each type once, the worst first."""
    own: dict[str, Symptom] = {}
    for symptom in finding.symptoms:
        if not symptom.follows_from:
            own.setdefault(symptom.type, symptom)
    return list(own.values())[:_SYMPTOMS]


def _suspected(
    symptom: Symptom, anomalies: Sequence[Anomaly], races: Mapping[str, Race], suspects: Suspects | None
) -> tuple[Race, ...]:
    if suspects is not None:
        return suspects.of(anomalies)
    return tuple(races[keyspace] for keyspace in symptom.races if keyspace in races)


def _written(
    folder: Path, plan: Plan, finding: Finding, anomaly: str, smallest: Smallest | None, *, tries: int
) -> ShrunkFinding:
    """Write the files of the smallest race, if there is one."""
    suspects = 0 if smallest is None else len(smallest.target.suspects)
    if smallest is None or smallest.race is None:
        if smallest is not None and not smallest.raced:
            why = "no suspected race was decided before the time budget ended"
        elif smallest is not None:
            why = f"it did not show again in the {smallest.raced} of {suspects} suspected races that were tried"
        elif counted_by_runs(anomaly):
            why = "only a whole run shows it: schemaquake shrink RUN --anomaly looks for it"
        else:
            why = "no race of the run is known to have brought it about"
        return ShrunkFinding(finding=finding, anomaly=anomaly, suspects=suspects, smallest=smallest, why_not=why)
    if not smallest.measured.broken:
        again = counted(smallest.measured.tried, "race")
        why = f"what was left of it showed it while it was looked for, and in none of the {again} after that"
        return ShrunkFinding(finding=finding, anomaly=anomaly, suspects=suspects, smallest=None, why_not=why)
    races = (smallest.race,)
    title = CATALOGUE[anomaly].title if anomaly in CATALOGUE else anomaly
    failing = FailingRun(plan=plan, anomaly=anomaly, title=title, races=races, shows=races)
    candidate = Candidate(races=races, nodes=plan.nodes, restart=plan.restart)
    shrunk = Shrunk(candidate=candidate, measured=smallest.measured, minimal=smallest.minimal, asked=smallest.raced)
    own = folder / smallest.target.id
    own.mkdir(exist_ok=True)
    document = write_shrunk(own, failing, shrunk, tries=tries)
    return ShrunkFinding(
        finding=finding,
        anomaly=anomaly,
        suspects=suspects,
        smallest=smallest,
        written=ShrunkRun(failing, own, shrunk, document=document),
    )


def print_findings(console: Console, some: Sequence[ShrunkFinding]) -> None:
    """Print the statements of each, once where symptoms of a finding have the same, and the reason where there are none."""
    before: ShrunkFinding | None = None
    headed = ""
    for one in some:
        if headed != one.finding.id:
            headed = one.finding.id
            console.print(f"\n{one.finding.id}: {title_of(one.finding)}", style="bold", markup=False)
        if one.written is None:
            console.print(f"{one.anomaly}: {one.why_not}", markup=False)
        else:
            print_shrunk(console, one.written, statements=before is None or not _says_the_same(before, one))
            before = one


def _says_the_same(one: ShrunkFinding, other: ShrunkFinding) -> bool:
    """Return True for two symptoms of one finding whose smallest races have the same statements."""
    races = [None if each.smallest is None else each.smallest.race for each in (one, other)]
    texts = [None if race is None else statements_of(race) for race in races]
    return one.finding.id == other.finding.id and None not in texts and texts[0] == texts[1]


def _render(some: Sequence[ShrunkFinding]) -> str:
    """Render the page of all of them in Markdown."""
    lines = ["# The statements to blame", ""]
    before: ShrunkFinding | None = None
    for one in some:
        known = one.finding.known
        standing = "new" if known is None else f"known: {', '.join(known.tickets) or 'no ticket yet'}"
        lines += [f"## {one.finding.id}: {one.anomaly}", "", f"{title_of(one.finding)} ({standing})", ""]
        if one.smallest is None or one.smallest.race is None:
            lines += [f"Not shrunk: {one.why_not}.", ""]
            continue
        measured = one.smallest.measured
        how = "nothing more can be left out" if one.smallest.minimal else "the time budget ended first"
        lines += [f"Showed in {measured.broken} of {measured.tried} races of these statements alone; {how}.", ""]
        if before is not None and _says_the_same(before, one):
            lines += ["The statements are those above.", ""]
            continue
        before = one
        setup, sides = statements_of(one.smallest.race)
        lines += ["```sql", *(f"{text};" for text in setup)]
        for number, side in enumerate(sides, 1):
            lines += [f"-- coordinator {number}", *(f"{text};" for text in side)]
        lines += ["```", ""]
    return "\n".join(lines)

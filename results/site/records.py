"""Records of a site: what the pages of many runs need of each, small enough for tens of thousands in memory.

The full summary of a run is read once, for its own page; what stays is its row in lists and the findings and races that
tracking needs, whose equal parts are shared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Any, Final

import orjson

from schemaquake.harness.model.verdict import Validity
from schemaquake.results.findings.finding import Finding
from schemaquake.results.findings.tracking import JudgedRace, JudgedRun
from schemaquake.results.summary.run_summary import RunSummary

__all__ = ["RecordReader", "RunRow", "SiteRecord", "file_name", "record_of", "system_file_name"]

_STAMP: Final = r"[0-9]{8}T[0-9]{6}Z"
_DEVICES: Final = r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)"
_PLAIN: Final = re.compile(rf"(?:{_STAMP}|(?!(?i:{_STAMP}|{_DEVICES}))[a-z0-9])[a-z0-9_+-]*(?:\.[a-z0-9_+-]+)*")
"""Names without capitals, but for the time with which those of runs begin: two that are equal but for case are one file on some systems."""
_NAME_MOST: Final = 120
_SLIM: Final[Mapping[str, Any]] = {"anomalies": [], "races": [], "nodes": [], "follows_from": []}


def file_name(text: str) -> str:
    """Return a name for a page's file: the text itself if it is harmless everywhere, else one made of its hash."""
    if len(text) <= _NAME_MOST and _PLAIN.fullmatch(text) is not None:
        return text
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    return f"{readable}-{digest}" if readable else f"x-{digest}"


def system_file_name(system: str) -> str:
    """Return the name of a version's page: `cassandra-5.0.9`."""
    product, colon, version = system.partition(":")
    return file_name(f"{product}-{version}" if colon and product.isalnum() else system)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in a list."""

    run: str
    page: str
    """Name of its page below `runs/`, without its suffix."""
    system: str
    cluster: str
    workloads: tuple[str, ...]
    nemeses: tuple[str, ...]
    mode: str
    seed: int
    nodes: int
    started: str | None
    seconds: float
    completed: bool
    valid: Validity
    findings: tuple[str, ...]
    """Ids, the worst first."""
    races: int
    broken: int
    """Races."""
    operations: int
    report: bool
    """True if the run's folder has a report."""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """One run as the pages of many runs need it."""

    row: RunRow
    judged: JudgedRun

    def to_bytes(self) -> bytes:
        """Render the record as one line of JSON."""
        judged = self.judged.to_json()
        slim = [
            {**finding, "known": None, "statements": [], "races": [], "symptoms": _slim(finding["symptoms"])}
            for finding in judged["findings"]
        ]
        return orjson.dumps({"row": asdict(self.row), "judged": judged | {"findings": slim}})


def _slim(symptoms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**symptom, **_SLIM} for symptom in symptoms]


def record_of(summary: RunSummary, *, has_report: bool) -> SiteRecord:
    """Make the record of a run."""
    judged = summary.judged()
    row = RunRow(
        run=summary.run,
        page=file_name(summary.run),
        system=summary.system,
        cluster=summary.cluster,
        workloads=summary.workloads,
        nemeses=summary.nemeses,
        mode=summary.mode,
        seed=summary.seed,
        nodes=summary.nodes,
        started=summary.started,
        seconds=summary.seconds,
        completed=summary.completed,
        valid=summary.valid,
        findings=tuple(finding.id for finding in summary.findings),
        races=len(summary.races),
        broken=sum(bool(race.anomalies) for race in summary.races),
        operations=sum(summary.operations.values()),
        report=has_report,
    )
    return SiteRecord(row, judged)


class RecordReader:
    """A reader of records that shares their equal parts: shapes, causes, symptoms, names."""

    def __init__(self) -> None:
        """Share nothing yet."""
        self._shared: dict[Any, Any] = {}

    def __call__(self, line: bytes) -> SiteRecord:
        """Parse what `SiteRecord.to_bytes` rendered. Raises ValueError, KeyError, TypeError for anything else."""
        document = orjson.loads(line)
        row, judged = document["row"], document["judged"]
        names = {field.name for field in fields(RunRow)}
        lists = {name: self._share(tuple(row[name])) for name in ("workloads", "nemeses", "findings")}
        return SiteRecord(
            RunRow(**{name: value for name, value in row.items() if name in names} | lists),
            JudgedRun(
                system=self._share(judged["system"]),
                run=judged["run"],
                valid=judged["valid"],
                workloads=lists["workloads"],
                nemeses=lists["nemeses"],
                findings=tuple(map(self._finding, judged["findings"])),
                races=tuple(self._race(*race) for race in judged["races"]),
                started=judged["started"],
            ),
        )

    def _finding(self, document: Mapping[str, Any]) -> Finding:
        found = Finding.from_json(document) if (key := _key(document)) not in self._shared else None
        if found is not None:
            self._shared[key] = (found.cause, found.symptoms, found.sides)
            return found
        cause, symptoms, sides = self._shared[key]
        plain = {"cause": cause, "symptoms": symptoms, "sides": sides, "races": ()}
        rate = document["rate"]
        return Finding(
            **plain,
            rate=self._share(_rate(rate)),
            first_seen=document["first_seen"],
            last_seen=document["last_seen"],
        )

    def _race(self, statements: list[str], broken: bool, decided: bool) -> JudgedRace:
        race: JudgedRace = self._share(JudgedRace(self._share(tuple(statements)), broken=broken, decided=decided))
        return race

    def _share(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)


def _rate(document: Mapping[str, Any]) -> Any:
    from schemaquake.results.findings.finding import Rate  # noqa: PLC0415 - one name for one line

    return Rate.from_json(document)


def _key(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps([document["cause"], document["symptoms"], document["sides"]])

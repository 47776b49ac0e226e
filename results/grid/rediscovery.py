"""Rediscovery: which races of a list a grid, or runs of churn, have found without being given them.

A race of the list is two kinds of statements (`create-table`, `drop-type`), as histories name them, and the anomalies that it may
show. In a grid it is found where a cell of two such statements broke in that way. In a run of churn it is found where a finding's
contested statements, or the schema changes that the explanation of an anomaly names, are of these two kinds and no others; where there are
others it is found in company, which `schemaquake shrink` can end.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.harness.named_files import read_named_text
from schemaquake.results.findings.shapes import Shape
from schemaquake.results.grid.tally import CELLS, State
from schemaquake.results.report.markdown import code_span, escaped
from schemaquake.results.report.material import anomalies_of
from schemaquake.results.store.named_tables import read_named_table
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.tables.meetings import tabulate_meetings
from schemaquake.results.wording import counted
from schemaquake.workloads.statements.meetings import meetings

__all__ = [
    "ANSWERS",
    "BY_WORTH",
    "Answer",
    "KnownRace",
    "Rediscovered",
    "Rediscovery",
    "read_known_races",
    "rediscover",
]

Answer: TypeAlias = Literal["found", "found in company", "broke otherwise", "undecided", "held", "met", "not met"]
"""`broke otherwise`: with none of the race's anomalies; `met`: in churn, with no finding about it."""

BY_WORTH: Final[Sequence[Answer]] = (
    "found",
    "found in company",
    "broke otherwise",
    "undecided",
    "held",
    "met",
    "not met",
)
"""All answers; of several about one race the first counts."""

ANSWERS: Final = pa.schema(
    [("race", pa.string()), ("source", pa.string()), ("answer", pa.string()), ("evidence", pa.list_(pa.string()))]
)
_CELLS: Final = pa.schema(
    [
        CELLS.field(name)
        for name in ("system", "mode", "cell", "first", "second", "state", "broken", "tried", "anomalies")
    ]
)
_NEEDED: Final = ("system", "mode", "cell", "first", "second")
_OF_STATES: Final[Mapping[State, Answer]] = {"unknown": "undecided", "held": "held", "refused": "held"}

Pair: TypeAlias = tuple[str, str]
"""Two kinds of statements, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRace:
    """One race of a list."""

    name: str
    pairs: frozenset[Pair]
    anomalies: frozenset[str] = frozenset()
    """Types of anomaly of which one must be seen; empty: any will do."""

    def shows(self, types: Iterable[str]) -> bool:
        """Tell if one of these anomalies is this race's."""
        return not self.anomalies.isdisjoint(types) if self.anomalies else any(True for _ in types)


@dataclass(frozen=True, slots=True)
class Rediscovered:
    """The best answer of one source about a race, and the cells, or the findings with their runs, that gave it."""

    answer: Answer
    evidence: tuple[str, ...] = ()


@dataclass(slots=True)
class Rediscovery:
    """Answers about each race of a list, by source: `grid of cassandra:5.0.9`, `schema-churn on cassandra:5.0.9`."""

    races: Sequence[KnownRace]
    sources: dict[str, None] = field(default_factory=dict)
    _found: dict[tuple[str, str, Answer], list[str]] = field(default_factory=dict)

    def add(self, race: KnownRace, source: str, answer: Answer, evidence: str) -> None:
        """Add one answer of a source about a race."""
        self._found.setdefault((race.name, source, answer), []).append(evidence)

    def best(self, race: KnownRace, source: str) -> Rediscovered:
        """Return the best answer of a source about a race."""
        known = (one for one in BY_WORTH if (race.name, source, one) in self._found)
        answer: Answer = next(known, "not met")
        return Rediscovered(answer, tuple(dict.fromkeys(self._found.get((race.name, source, answer), ()))))

    def to_table(self) -> pa.Table:
        """Return one row a race and source (`ANSWERS`), with the best answer."""
        rows = [
            {"race": race.name, "source": source, "answer": found.answer, "evidence": list(found.evidence)}
            for race in self.races
            for source in self.sources
            for found in [self.best(race, source)]
        ]
        return pa.Table.from_pylist(rows, schema=ANSWERS)

    def add_table(self, answers: pa.Table) -> None:
        """Add what `to_table` returned for other sources; races that are not on this list are left out."""
        by_name = {race.name: race for race in self.races}
        own = set(self.sources)
        for row in answers.to_pylist():
            if row["race"] in by_name and row["source"] not in own:
                self.sources[row["source"]] = None
                for evidence in row["evidence"]:
                    self.add(by_name[row["race"]], row["source"], row["answer"], evidence)

    def lacking(self) -> list[KnownRace]:
        """List the races that no source has found."""
        found = {"found", "found in company"}
        return [race for race in self.races if not any(self.best(race, one).answer in found for one in self.sources)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return one object a race, with the best answer of each source."""
        return [
            {
                "name": race.name,
                "pairs": sorted(map(list, race.pairs)),
                "anomalies": sorted(race.anomalies),
                "answers": {
                    source: {"answer": found.answer, "evidence": list(found.evidence)}
                    for source in self.sources
                    for found in [self.best(race, source)]
                },
            }
            for race in self.races
        ]

    def to_markdown(self) -> str:
        """Render a table: a row a race, a column a source, with the first evidence of what was found."""
        lines = [
            f"| race | statements | {' | '.join(map(escaped, self.sources))} |",
            f"|---|---|{'---|' * len(self.sources)}",
        ]
        for race in self.races:
            pairs = ", ".join(f"{code_span(first)} with {code_span(second)}" for first, second in sorted(race.pairs))
            cells = [_cell(self.best(race, source)) for source in self.sources]
            lines.append(f"| {escaped(race.name)} | {pairs} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _cell(found: Rediscovered) -> str:
    broke = found.answer in {"found", "found in company", "broke otherwise"}
    return f"{found.answer}: {escaped(found.evidence[0])}" if broke else found.answer


def read_known_races(path: Path | None = None) -> Sequence[KnownRace]:
    """Read a list of races; without a path the project's own, `known_races.toml`. Raises PlanError for a file that is none."""
    try:
        text = (
            files(__package__).joinpath("known_races.toml").read_text("utf-8")
            if path is None
            else read_named_text(path)
        )
        entries = tomllib.loads(text).get("race")
        if not entries:
            raise PlanError(f"{path} is no list of races: it has no [[race]]")
        return [_read_entry(entry) for entry in entries]
    except OSError as error:
        raise PlanError(f"cannot read the list of races {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        lack = f"a race lacks {error}" if isinstance(error, KeyError) else str(error)
        raise PlanError(f"{path} is no list of races: {lack}") from error


def rediscover(races: Sequence[KnownRace], places: Iterable[Path]) -> Rediscovery:
    """Answer for each race. `places` are folders of grids and of runs, and tables of cells; those of one system and kind are one source.

    Raises HistoryError for a place that is none of these, or that is damaged.
    """
    found = Rediscovery(races)
    for place in places:
        table = place if place.suffix == ".parquet" else place / "cells.parquet"
        if table.exists():
            rows = read_named_table(
                table, _CELLS, rows="cells of a grid", usual="the cells.parquet of a grid", needed=_NEEDED
            )
            _refuse_other_statements(table, rows)
            _ask_cells(found, rows.to_pylist())
        elif (place / "plan.json").exists():
            _ask_run(found, Store(place))
        else:
            raise HistoryError(f"{place} is neither the folder of a grid or of a run, nor a table of cells")
    return found


def _refuse_other_statements(path: Path, rows: pa.Table) -> None:
    """Raise HistoryError for a table of a grid that had other statements than this version has."""
    for name in (name for column in ("first", "second") for name in rows[column].unique().to_pylist()):
        if name not in _kinds():
            raise HistoryError(
                f'{path} is of a grid of another version of Schemaquake: this one has no statement "{name}". Race the grid again'
            )


def _ask_cells(found: Rediscovery, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        source = f"grid of {row['system']}"
        found.sources[source] = None
        pair = _pair(_kinds()[row["first"]], _kinds()[row["second"]])
        for race in (each for each in found.races if pair in each.pairs):
            where = f"{row['cell']}, {row['mode']}"
            if row["broken"]:
                answer: Answer = "found" if race.shows(row["anomalies"]) else "broke otherwise"
                found.add(race, source, answer, f"{where}: {row['broken']}/{row['tried']}")
            elif row["state"] in _OF_STATES:
                found.add(race, source, _OF_STATES[row["state"]], where)


def _ask_run(found: Rediscovery, store: Store) -> None:
    plan = store.read_plan(keep_going=True)
    source = f"{', '.join(plan.workloads)} on {plan.system}"
    found.sources[source] = None
    for pair, count in _met(store).items():
        for race in (each for each in found.races if pair in each.pairs):
            found.add(race, source, "met", f"{' and '.join(pair)}: {counted(count, 'time')}")
    for finding in read_summary(store).findings:
        kinds = _contested(finding.cause.statements)
        types = [symptom.type for symptom in finding.symptoms]
        for race in found.races:
            if any(not Counter(pair) - kinds for pair in race.pairs):
                alone = any(Counter(pair) == kinds for pair in race.pairs)
                answer: Answer = "found" if alone else "found in company"
                seen = f"{finding.id}: {', '.join(types)}"
                found.add(race, source, answer if race.shows(types) else "broke otherwise", seen)
    for anomaly, kinds in _explained(store):
        for race in found.races:
            if race.shows([anomaly.type]) and any(not Counter(pair) - kinds for pair in race.pairs):
                alone = any(Counter(pair) == kinds for pair in race.pairs)
                found.add(race, source, "found" if alone else "found in company", anomaly.title)


def _explained(store: Store) -> Iterator[tuple[Anomaly, Counter[str]]]:
    """Yield each anomaly of a run with the kinds of the schema changes that its explanation names."""
    operations = store.read_analysis("operations").select(["index", "completion", "f"]).to_pylist()
    changes = {row[end]: row for row in operations if row["f"] in SCHEMA_CHANGES for end in ("index", "completion")}
    for anomaly in anomalies_of(store.read_verdict()):
        named = {changes[op]["index"]: changes[op]["f"] for op in anomaly.ops if op in changes}
        yield anomaly, Counter(named.values())


def _met(store: Store) -> Counter[Pair]:
    """Count how often two kinds of statements met in a run of churn, on objects that have more in common than their keyspace."""
    met: Counter[Pair] = Counter()
    for row in tabulate_meetings(store.read_history()).to_pylist():
        first, second, relation = row["cell"].split("/")
        if relation != "keyspace" or "keyspace" in first:
            met[_pair(_kinds()[first], _kinds()[second])] += row["count"]
    return met


def _contested(shapes: Iterable[Shape]) -> Counter[str]:
    """Count the kinds of a finding's statements, what came more than once as two."""
    counts: Counter[str] = Counter()
    for shape in shapes:
        counts[shape.f] += 1 + shape.several
    return counts


@cache
def _kinds() -> Mapping[str, str]:
    """Map the name of each statement of the grid to its kind: `create-table-of-type` to `create-table`."""
    return {
        statement.name: statement.write(cell.names("ks", side)).f
        for cell in meetings()
        for side, statement in enumerate(cell.statements)
    }


def _pair(first: str, second: str) -> Pair:
    low, high = sorted((first, second))
    return low, high


def _read_entry(entry: Mapping[str, Any]) -> KnownRace:
    return KnownRace(
        name=str(entry["name"]),
        pairs=frozenset(_pair(first, second) for first, second in entry["pairs"]),
        anomalies=frozenset(entry.get("anomalies", ())),
    )

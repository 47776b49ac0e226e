"""The catalogue: every anomaly type a checker may report, with its sources.

Types are described in files named `anomalies.toml`. Each package that has one registers itself as an entry point of the
group `schemaquake.anomalies`, so a checker from outside the tree brings its own types. Reports, docs and `schemaquake list
anomalies` read them through `CATALOGUE`, and checkers build their findings with `anomaly`, so a finding cannot bear a name
that is described nowhere.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from schemaquake.checkers.findings.argument import Argument
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.harness.registry import load_all, resources

__all__ = [
    "CATALOGUE",
    "AnomalyScope",
    "AnomalyType",
    "anomaly",
    "counted_by_runs",
    "finders",
    "halts_changes",
    "prominence_of",
    "scope_of",
]

AnomalyScope: TypeAlias = Literal["object", "node", "cluster"]
Elsewhere: TypeAlias = Literal["never", "stopped", "divided"]

_FILE: Final = "anomalies.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyType:
    """One kind of violation, with its harm to a user and its sources.

    `seeds` are passages of the four founding documents, `tickets` are Apache JIRA keys, `bugs` are numbers in the
    list of known bugs (B1 …), `papers` define what is judged. Anomalies of data need no founding document.
    """

    name: str
    title: str
    description: str
    worst: str
    seeds: tuple[str, ...] = ()
    tickets: tuple[str, ...] = ()
    bugs: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    scope: AnomalyScope = "object"
    """The thing that is damaged, and so the unit in which a rate of it is counted.

    `object`: the objects that the anomaly names; counted by the races that use them.
    `node`: a node as a whole; counted by runs, and also by the races whose objects it names.
    `cluster`: the agreement of all nodes; counted by runs alone, since the objects it names need not be its cause.
    """
    prominence: int = 0
    """Place in a report: the highest first, among equals the most frequent. Negative: after everything else."""
    follows_from: tuple[str, ...] = ()
    """Anomaly types that are known to bring this one about."""
    halts_changes: bool = False
    """True if a node may apply no schema change of any keyspace afterwards (see `schemaquake.workloads.races.racing_ddl`)."""
    elsewhere: Elsewhere = "never"
    """Whether it is then seen in other keyspaces, too.

    `stopped`: on such nodes. `divided`: there, if nodes also no longer merge what others have, so that each side lacks the other's changes.
    """

    @property
    def references(self) -> tuple[str, ...]:
        """Sources that a finding of this type cites: tickets, seed documents, papers."""
        return self.tickets + self.seeds + self.papers


class _Catalogue(Mapping[str, AnomalyType]):
    """All registered anomaly types by name, in the order of the files; read when first asked."""

    def __getitem__(self, name: str) -> AnomalyType:
        return _read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_read())

    def __len__(self) -> int:
        return len(_read())


CATALOGUE: Final[Mapping[str, AnomalyType]] = _Catalogue()
"""Raises PlanError, at any use, for a file that does not describe its types or describes another package's."""


@cache
def _read() -> Mapping[str, AnomalyType]:
    found: dict[str, AnomalyType] = {}
    packages: dict[str, str] = {}
    for package, text in resources("anomalies", _FILE).items():
        try:
            entries = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"{_FILE} of {package} is not TOML: {error}") from error
        for name, entry in entries.items():
            if name in found:
                raise PlanError(f'the anomaly "{name}" of {package} is already described by {packages[name]}')
            found[name] = _type(name, entry, package)
            packages[name] = package
    return MappingProxyType(found)


def _type(name: str, entry: Mapping[str, Any], package: str) -> AnomalyType:
    where = f'the anomaly "{name}" of {package}'
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    try:
        known = AnomalyType(name=name, **values)
    except TypeError as error:  # names the field that is missing, or that there is not
        raise PlanError(f"{where}: {error}") from error
    for field, value, legal in (("scope", known.scope, AnomalyScope), ("elsewhere", known.elsewhere, Elsewhere)):
        if value not in get_args(legal):
            raise PlanError(f'{where}: {field} is {" or ".join(get_args(legal))}, not "{value}"')
    return known


def prominence_of(name: str) -> int:
    """Look up a type's prominence; 0 for one that is described nowhere."""
    known = CATALOGUE.get(name)
    return 0 if known is None else known.prominence


def scope_of(name: str) -> AnomalyScope:
    """Look up a type's scope; `object` for one that is described nowhere."""
    known = CATALOGUE.get(name)
    return "object" if known is None else known.scope


def counted_by_runs(name: str) -> bool:
    """Tell if a rate of that type counts runs and not races."""
    return scope_of(name) != "object"


def halts_changes(name: str) -> bool:
    """Tell if a node may apply no schema change any more after an anomaly of that type."""
    known = CATALOGUE.get(name)
    return known is not None and known.halts_changes


@cache
def finders() -> Mapping[str, frozenset[str]]:
    """Map each anomaly type to the names of the registered checkers that may find it."""
    found: dict[str, set[str]] = {}
    for name, checker in load_all("checkers").items():
        for kind in checker.finds:
            found.setdefault(kind, set()).add(name)
    return {kind: frozenset(checkers) for kind, checkers in found.items()}


def anomaly(
    type: str,  # noqa: A002 - the word of the verdict's format
    *,
    objects: Iterable[str] = (),
    nodes: Iterable[str] = (),
    ops: Iterable[int] = (),
    evidence: JSON = None,
    explanation: str | Argument,
) -> Anomaly:
    """Build a finding of that type, with title and references from the catalogue.

    `ops` are indices of invocations. Nodes and ops are sorted and listed once. Raises KeyError for a type that the
    catalogue does not know.
    """
    known = CATALOGUE[type]
    return Anomaly(
        type=type,
        title=known.title,
        objects=tuple(objects),
        nodes=tuple(sorted(set(nodes))),
        ops=tuple(sorted(set(ops))),
        evidence=evidence,
        explanation=explanation if isinstance(explanation, str) else explanation.render(),
        references=known.references,
    )

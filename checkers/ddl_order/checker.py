"""Schema linearizability: the changes of a keyspace took effect in one order that real time allows.

Judges every possible DDL of one keyspace and each node's final readings (phases `settled` and `restarted`). An `ok` must
have taken effect between its call and its answer, an `info` may have at any later time, or never; in that order each
must have been legal (`schemaquake.checkers.ddl_order.model`), and the closing readings must show its outcome.
Finds: `non-linearizable-ddl`, with a minimal witness. Sources: CEP-21, "strict linearizability of metadata changes";
ScyllaDB, Making Schema Changes Safe with Raft, "a single defined order". Before 6.0 Cassandra never promised it: there
a finding shows an order that a client may not rely on.

What is left open on purpose, because a false accusation is worse than a miss:
- A `fail` is ignored. It changed nothing, and what it says may be old: 6.0 refuses in a dry run on the coordinator's own
  metadata, which may lag behind. A no-op of IF [NOT] EXISTS is believed of any moment up to its answer, for that reason.
  Where a coordinator asks the log first (group 0's read barrier), a no-op, and a CREATE that is refused because its object is there,
  are believed of moments between call and answer alone; other refusals may come before the barrier.
- An object that no possible change of the history creates may have been there before, in any shape, unless the history
  created its keyspace; from the first acknowledged change that needed it, it was there.
- Statements recorded as raw `cql` may change whatever they name: what they touch is judged `unknown`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from schemaquake.checkers.ddl_order.components import (
    ALWAYS,
    Component,
    Event,
    compute_domains,
    decide,
    drop_idle_guards,
    find_components,
)
from schemaquake.checkers.ddl_order.model import Dependents, model_change, model_refusal
from schemaquake.checkers.ddl_order.observation import model_reading
from schemaquake.checkers.ddl_order.variables import Change
from schemaquake.checkers.ddl_order.vocabulary import read_vocabulary
from schemaquake.checkers.ddl_order.witness import explain_refutation
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import PHASES, FinalReadings, NodeSchema
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import Records, keyspace_of
from schemaquake.harness.model.verdict import Doubt, Stat, Verdict, combine, make_stats

__all__ = ["SchemaLinearizability"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLinearizability:
    """Schema changes took effect in one order, and the closing readings show it.

    `configurations_max` bounds what one search may remember (about 1 KB each where hundreds of changes hang together):
    it ends with `unknown`, never for want of memory.
    """

    name: str = "schema-linearizability"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("non-linearizable-ddl",)
    vouches: bool = True
    configurations_max: int = 150_000

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every keyspace of the records. Raises HistoryError."""
        deadline = time.monotonic() + limit_s
        case = Evidence.of(records)
        changes = case.changes
        possible = _by_keyspace(changes.all, lambda operation: operation.possible)
        follows_log = any(schema.follows_log for schema in case.readings.schemas)
        is_fresh = bool(case.readings.schemas) and all(
            schema.asks_before_it_answers for schema in case.readings.schemas
        )
        dependents = _dependents(case)
        refused = _by_keyspace(
            changes.all if is_fresh else (),
            lambda operation: not operation.possible and operation.completed is not None,
        )
        verdicts = []
        for number, (keyspace, of_keyspace) in enumerate(possible.items()):
            problem = _KeyspaceProblem(
                keyspace,
                of_keyspace,
                changes.texts(keyspace),
                case.readings,
                case.begins,
                follows_log=follows_log,
                is_fresh=is_fresh,
                dependents=dependents,
                refused=refused.get(keyspace, ()),
            )
            now = time.monotonic()
            share = now + (deadline - now) / (len(possible) - number)
            verdicts.append(problem.verdict(self.name, deadline=share, configurations_max=self.configurations_max))
        if len(verdicts) == 1:
            return verdicts[0]
        if not verdicts:
            doubt = Doubt("nothing-to-judge", "no schema change may have taken effect")
            if any(operation.f == "cql" and operation.possible for operation in changes.all):
                doubt = Doubt("undecided", "no schema change but raw cql, whose meaning is not known")
            return Verdict.unknown(self.name, doubt)
        return Verdict(
            valid=combine(verdict.valid for verdict in verdicts),
            checker=self.name,
            anomalies=tuple(found for verdict in verdicts for found in verdict.anomalies),
            stats=make_stats({"keyspaces": len(verdicts), "operations": sum(map(len, possible.values()))}),
            doubts=tuple(doubt for verdict in verdicts for doubt in verdict.doubts),
        )


def _by_keyspace(
    operations: Iterable[PairedOperation], wanted: Callable[[PairedOperation], bool]
) -> dict[str, list[PairedOperation]]:
    """Group the wanted ones of some schema changes by their keyspace; those of none are left out."""
    found: dict[str, list[PairedOperation]] = {}
    for operation in operations:
        keyspace = keyspace_of(operation.key)
        if operation.f in SCHEMA_CHANGES and keyspace is not None and wanted(operation):
            found.setdefault(keyspace, []).append(operation)
    return found


def _dependents(case: Evidence) -> Dependents:
    """Tell what keeps a column from being dropped; where nodes are being upgraded, some may be older."""
    schemas = case.readings.schemas
    if not schemas or case.notes.upgrades.mixed is not None:
        return "none"
    if all(schema.asks_before_it_answers for schema in schemas):
        return "by views"
    # DESCRIBE came with 4.0; ScyllaDB before group 0 has it, too, and has other dependents.
    is_described = all(schema.shows_memory == "statements" and not schema.asks_before_it_answers for schema in schemas)
    return "of the table" if is_described else "none"


class _KeyspaceProblem:
    """The components of one keyspace, decided one after another."""

    def __init__(
        self,
        keyspace: str,
        possible: Sequence[PairedOperation],
        texts: Sequence[PairedOperation],
        readings: FinalReadings,
        began: Mapping[tuple[str, str], int],
        *,
        follows_log: bool,
        is_fresh: bool,
        dependents: Dependents,
        refused: Sequence[PairedOperation],
    ) -> None:
        """`is_fresh`: coordinators know all that was committed before, so that the refusals prove something, too."""
        self._follows_log = follows_log
        self._is_fresh = is_fresh
        self._dependents = dependents
        self._refused = refused
        self._possible = possible
        self._texts = texts
        self._readings = readings
        self._began = began
        self._vocabulary = read_vocabulary(keyspace, possible, is_known=not texts)
        events = [*self._changes(), *self._shown()]
        numbered = [replace(event, label=label) for label, event in enumerate(events)]
        domains = compute_domains(self._vocabulary, numbered)
        self._components = find_components(drop_idle_guards(numbered, domains), domains)

    def _changes(self) -> Iterator[Event]:
        for operation in self._possible:
            modelled = model_change(
                operation,
                self._vocabulary,
                follows_log=self._follows_log,
                is_fresh=self._is_fresh,
                dependents=self._dependents,
            )
            if modelled is not None:
                yield Event(
                    label=0,
                    change=modelled,
                    begins=ALWAYS if modelled.stale else operation.invoked,
                    ends=operation.completed if operation.type == "ok" else None,
                    operation=operation,
                )

        known = frozenset(self._vocabulary.variables())
        for operation in self._refused:
            modelled = model_refusal(operation, self._vocabulary)
            # Of names that no possible change has, nothing is known before.
            if modelled is not None and known.issuperset(g.variable for g in modelled.alternatives[0].guards):
                yield Event(
                    label=0, change=modelled, begins=operation.invoked, ends=operation.completed, operation=operation
                )

    def _shown(self) -> Iterator[Event]:
        """Make one event for all nodes that showed the same in a phase."""
        for phase in PHASES:
            alike: dict[tuple[str, ...], list[tuple[NodeSchema, Change]]] = {}
            for schema in self._readings.of(phase):
                seen = model_reading(schema, self._vocabulary)
                alike.setdefault(tuple(guard.needs for guard in seen.alternatives[0].guards), []).append((schema, seen))
            for group in alike.values():
                yield Event(
                    label=0,
                    change=group[0][1],
                    begins=min(self._began.get((phase, schema.node), schema.time) for schema, _ in group),
                    ends=max(schema.time for schema, _ in group),
                    phase=phase,
                    nodes=tuple(schema.node for schema, _ in group),
                )

    def verdict(self, checker: str, *, deadline: float, configurations_max: int) -> Verdict:
        """Decide every component, and combine the answers."""
        tally = Tally(checker)
        configurations = decided = 0
        for number, component in enumerate(self._components):
            now = time.monotonic()
            if now > deadline:
                tally.doubt(
                    Doubt("time", f"the time limit was reached after {number} of {len(self._components)} parts")
                )
                break
            doubt = self._doubt(component)
            if doubt is not None:
                tally.doubt(doubt)
                continue
            share = now + (deadline - now) / (len(self._components) - number)
            decision = decide(component, deadline=share, configurations_max=configurations_max)
            configurations += decision.outcome.configurations
            decided += (decision.outcome.found != "unknown") * _changes_in(component)
            if decision.outcome.found is False:
                tally.add(explain_refutation(decision, deadline=share))
            elif decision.outcome.found == "unknown":
                limit = decision.outcome.limit or Doubt("undecided", "not decided")
                text = f"{len(component.events)} changes and readings: {limit.text}"
                tally.doubt(Doubt(limit.kind, text, component.objects))
        tally.doubt(*self._unread())
        largest = max((len(component.events) for component in self._components), default=0)
        undecided = sum(map(_changes_in, self._components)) - decided
        return tally.verdict(
            **({"undecided_operations": undecided} if undecided else {}),
            operations=len(self._possible),
            components=len(self._components),
            largest_component=Stat(largest, merge="max"),
            configurations=configurations,
        )

    def _unread(self) -> Iterable[Doubt]:
        if not self._readings.of("settled"):
            yield Doubt(
                "unread", f"no node's settled reading of {self._vocabulary.keyspace}: only the answers could be judged"
            )
        for unread in self._readings.unread:
            if unread.phase == "settled":
                yield Doubt("unread", f"{unread.node} could not be read in phase settled: {unread.error}")

    def _doubt(self, component: Component) -> Doubt | None:
        """Return the reason why this component cannot be judged although it could be searched; None if there is none."""
        names = {variable.name for variable in component.variables} - {""}
        for operation in self._texts:
            text = str(operation.argument.get("statement", "")).lower()
            if re.search(r"\bkeyspace\b", text) or names & set(re.findall(r"\w+", text)):
                text = f"op {operation.index} is raw cql, whose meaning is not known, and may change them"
                return Doubt("undecided", text, component.objects)
        for variable in component.variables:
            if variable.kind == "routine" and len(self._vocabulary.routines[variable.name]) > 1:
                text = "declared with several argument types: overloads are not modelled"
                return Doubt("undecided", text, (variable.object,))
        return None


def _changes_in(component: Component) -> int:
    return sum(event.operation is not None for event in component.events)

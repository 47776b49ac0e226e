"""Evidence: what checkers read from a run's records, derived once and shared by all who judge the same records.

    evidence = Evidence.of(records)
    evidence.changes, evidence.readings, evidence.notes

Every part is derived when it is first asked for. A check that asks for none of it pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.authority import Judged, StaleObject, judge_by_authority
from schemaquake.checkers.evidence.node_schemas import FinalReadings, Sighting, read_final_schemas, read_sightings
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operations import PairedOperation, operations, select_functions, values_of
from schemaquake.checkers.evidence.schema_changes import SchemaChanges
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import ends, pair
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records, plain

__all__ = ["Evidence"]

T = TypeVar("T")
_Positions: TypeAlias = npt.NDArray[np.int64]

_KEPT_MOST: Final = 1 << 15
"""Events of a history whose operations are all kept as values, some 1 KB each, for every checker that asks for some of them."""


class Evidence:
    """The paired operations, schema changes, schemas and notes of some records.

    It holds the tables and not the `Records`, so that it ends with them: `Evidence.of` keeps no records alive. Values
    derived from it are shared and must not be changed.
    """

    def __init__(self, history: pa.Table, observations: pa.Table) -> None:
        """Take a history (`HISTORY`) and observations (`OBSERVATIONS` of `schemaquake.harness.model.records`)."""
        self.history = history
        self._observations = observations
        self._derived: dict[Callable[[Evidence], Any], Any] = {}
        self._sightings: dict[str, tuple[Sighting, ...]] = {}
        self._definitions = _Definitions()

    @classmethod
    def of(cls, records: Records) -> Evidence:
        """Return the evidence of these records: the same one as long as the records live."""
        known = _KNOWN.get(records)
        if known is None:
            known = _KNOWN[records] = cls(records.history, records.observations)
        return known

    @cached_property
    def observations(self) -> pa.Table:
        """The observations, with plain strings (`plain`)."""
        return plain(self._observations)

    @cached_property
    def nodes(self) -> frozenset[str]:
        """Every node that the history names."""
        return frozenset(pc.unique(self.history["node"]).drop_null().to_pylist())

    @cached_property
    def changes(self) -> SchemaChanges:
        """The schema changes. Raises HistoryError."""
        return SchemaChanges(
            self.operations(SchemaChanges.functions),
            mistakes_no_ops=lambda: any(schema.mistakes_no_ops for schema in self.shown.schemas),
        )

    @cached_property
    def shown(self) -> FinalReadings:
        """The final reading of every node that the history or an observation names, as the node itself showed it."""
        return read_final_schemas(self.observations, nodes=self.nodes, gone=self.notes.gone, parse=self._definitions)

    @cached_property
    def _judged(self) -> Judged:
        return judge_by_authority(self.shown)

    @property
    def readings(self) -> FinalReadings:
        """The final readings by which the schema is judged: `shown`, without copies that its authority contradicts."""
        return self._judged.readings

    @property
    def stale(self) -> tuple[StaleObject, ...]:
        """The objects of which a node has another copy than the schema's authority, in order of phases."""
        return self._judged.stale

    @cached_property
    def begins(self) -> Mapping[tuple[str, str], int]:
        """The earliest time (ns) at which each final reading, by (phase, node), may have begun.

        An observation has only the time of its answer. A reading counts from the moment at which the conductor, or the
        client that read, noted its begin: changes under way at that moment may not yet be in it.
        """
        begins: dict[tuple[str, str], int] = {}
        readings = self.observations.group_by(["phase", "node"], use_threads=False)
        for row in readings.aggregate([("time", "min")]).to_pylist():
            phase = self.notes.began(f"final-{row['phase']}")
            begins[row["phase"], row["node"]] = min(row["time_min"], row["time_min"] if phase is None else phase)
        for operation in self.operations(["read-schema"]):
            if operation.node is not None and isinstance(operation.argument, dict):
                place = (operation.argument.get("phase", ""), operation.node)
                begins[place] = min(begins.get(place, operation.invoked), operation.invoked)
        return begins

    def interval(self, phase: str, nodes: Collection[str] | None = None) -> tuple[int, int]:
        """Return the time (ns) from the begin of the first to the end of the last final reading of these nodes; None: all."""
        of_phase = [schema for schema in self.shown.of(phase) if nodes is None or schema.node in nodes]
        ends = [schema.time for schema in of_phase]
        return min(self.begins.get((phase, s.node), s.time) for s in of_phase), max(ends)

    @cached_property
    def notes(self) -> Notes:
        """The conductor's notes."""
        return Notes(self.history)

    def parse(self, text: str) -> JSON:
        """Parse the definition of an observation. The value is shared with all who read the same text, and must not be changed."""
        return self._definitions(text)

    def sightings(self, kind: str) -> tuple[Sighting, ...]:
        """Return every observation of one kind, in all phases, in order of time."""
        if kind not in self._sightings:
            self._sightings[kind] = tuple(read_sightings(self.observations, kind, parse=self._definitions))
        return self._sightings[kind]

    def operations(
        self, functions: Collection[str], *, processes: pa.Array | None = None
    ) -> tuple[PairedOperation, ...]:
        """Pair the operations whose `f` is among these, in order of invocation; of these processes, or of all.

        Those of a long history are not kept: of reads and writes there may be millions. Raises HistoryError.
        """
        by_function = self._by_function
        if by_function is None:
            events = select_functions(self.history, functions)
            if processes is not None:
                events = events.filter(pc.is_in(events["process"], value_set=processes))
            return tuple(operations(events))
        if processes is not None:
            chosen = frozenset(processes.to_pylist())
            return tuple(operation for operation in self.operations(functions) if operation.process in chosen)
        found = [by_function[function] for function in functions if function in by_function]
        if len(found) < 2:
            return found[0] if found else ()
        return tuple(sorted((operation for one in found for operation in one), key=lambda operation: operation.index))

    def paired(self) -> pa.Table:
        """Pair the whole history (`OPERATIONS` of `harness.history.pairing`). That of a long one is not kept. Raises HistoryError."""
        return self._paired if self._is_kept else pair(self.history)

    def ends(self) -> tuple[_Positions, _Positions]:
        """Return `harness.history.pairing.ends` of the history. That of a long one is not kept. Raises HistoryError."""
        return self._ends if self._is_kept else ends(self.history)

    def pair_functions(self, functions: Collection[str]) -> pa.Table:
        """Pair the operations whose `f` is among these (`OPERATIONS`), whatever is wrong with others. Raises HistoryError."""
        paired = self._soundly_paired
        return (
            pair(select_functions(self.history, functions)) if paired is None else select_functions(paired, functions)
        )

    @property
    def _is_kept(self) -> bool:
        return len(self.history) <= _KEPT_MOST

    @cached_property
    def _ends(self) -> tuple[_Positions, _Positions]:
        return ends(self.history)

    @cached_property
    def _paired(self) -> pa.Table:
        return pair(self.history, known_ends=self._ends)

    @cached_property
    def _soundly_paired(self) -> pa.Table | None:
        """The whole history in pairs; None for a long one, and for one of which not every part can be paired."""
        try:
            return self._paired if self._is_kept else None
        except HistoryError:
            return None  # who asks for a part that is sound gets it

    @cached_property
    def _by_function(self) -> Mapping[str, tuple[PairedOperation, ...]] | None:
        """Every operation by its `f`; None as of `_soundly_paired`."""
        paired = self._soundly_paired
        if paired is None:
            return None
        by_function: dict[str, list[PairedOperation]] = {}
        for operation in values_of(paired):
            by_function.setdefault(operation.f, []).append(operation)
        return {function: tuple(found) for function, found in by_function.items()}

    def derive(self, make: Callable[[Evidence], T]) -> T:
        """Return `make(evidence)`, made once: for what several checkers of one room read. `make` is a module's own function."""
        if make not in self._derived:
            self._derived[make] = make(self)
        found: T = self._derived[make]
        return found


_KNOWN: Final[WeakKeyDictionary[Records, Evidence]] = WeakKeyDictionary()


class _Definitions:
    """A parser that parses each text once: most definitions are seen again on every node and in every sample."""

    def __init__(self) -> None:
        self._parsed: dict[str, JSON] = {}

    def __call__(self, text: str) -> JSON:
        """Parse a definition, or return what it was parsed to before."""
        if text not in self._parsed:
            self._parsed[text] = orjson.loads(text)
        return self._parsed[text]

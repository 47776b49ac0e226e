"""Meetings: which pairs of statements met in a run of churn, under which faults, and in which phase of a restart.

A meeting is an event of process −1 with f = "meeting": its key is the keyspace, its value has the `sides` (statements of
each worker) and the `cells` of the grid in which they meet. The conductor's notes of faults and starts say what was under way at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.notes import Fault, Notes
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import plain
from schemaquake.harness.units import S
from schemaquake.workloads.churn.conditions import BACK_S, STOPPING, Condition

__all__ = ["MEETINGS", "Coverage", "cover", "tabulate_meetings"]

MEETINGS: Final = pa.schema(
    [
        ("cell", pa.string()),  # STATEMENT/STATEMENT/RELATION, as the grid names it
        ("relation", pa.string()),
        ("faults", pa.string()),  # the nemeses under way, with + between them; empty: none
        ("restart", pa.string()),  # down, back (up for less than 5 s), or empty
        ("count", pa.int64()),
        ("first", pa.int64()),  # ns since the run started
    ]
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The meetings of a run: rounds, cells by relation and by condition, and the number of cells that could have met."""

    rounds: int
    statements: int
    cells: int
    possible: int
    by_relation: Sequence[tuple[str, int]]
    by_condition: Sequence[tuple[str, str, int, int]]
    """(faults, phase of restart, cells, meetings), the most cells first."""


def tabulate_meetings(history: pa.Table) -> pa.Table:
    """Return one row a cell and condition (`MEETINGS`), in the order in which they were met first. `history` is of the whole run."""
    notes = Notes(history)
    met: dict[tuple[str, Condition], list[int]] = {}
    for time, value in _noted(history, "meeting"):
        condition = _condition(notes.faults, time)
        for cell in value.get("cells") or ():
            met.setdefault((cell, condition), []).append(time)
    rows = [
        {
            "cell": cell,
            "relation": cell.rpartition("/")[2],
            "faults": condition.faults,
            "restart": condition.restart,
            "count": len(times),
            "first": times[0],
        }
        for (cell, condition), times in met.items()
    ]
    return pa.Table.from_pylist(rows, schema=MEETINGS)


def cover(history: pa.Table) -> Coverage | None:
    """Sum up what met in a run; None for one in which nothing was to meet."""
    noted = [value for _, value in _noted(history, "meeting")]
    planned = next((value for _, value in _noted(history, "meetings-planned")), {})
    if not noted:
        return None
    table = tabulate_meetings(history).to_pylist()
    relations: dict[str, set[str]] = {}
    conditions: dict[Condition, tuple[set[str], int]] = {}
    for row in table:
        relations.setdefault(row["relation"].partition("-")[0], set()).add(row["cell"])
        cells, count = conditions.setdefault(Condition(row["faults"], row["restart"]), (set(), 0))
        cells.add(row["cell"])
        conditions[Condition(row["faults"], row["restart"])] = (cells, count + row["count"])
    return Coverage(
        rounds=len(noted),
        statements=sum(len(side) for value in noted for side in value.get("sides") or ()),
        cells=len({row["cell"] for row in table}),
        possible=int(planned.get("cells") or 0),
        by_relation=[
            (name, len(relations[name])) for name in sorted(relations, key=lambda name: -len(relations[name]))
        ],
        by_condition=sorted(
            ((under.faults, under.restart, len(cells), count) for under, (cells, count) in conditions.items()),
            key=lambda row: -row[2],
        ),
    )


def _noted(history: pa.Table, f: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the time (ns) and the value of each note of this name."""
    events = plain(history.select(["time", "process", "f", "value"]))
    wanted = events.filter(pc.and_(pc.equal(events["process"], NEMESIS), pc.equal(events["f"], f)))
    for row in wanted.to_pylist():
        value = orjson.loads(row["value"] or "{}")
        yield row["time"], value if isinstance(value, dict) else {}


def _condition(faults: Sequence[Fault], time: int) -> Condition:
    """Return the condition at a time (ns)."""
    under = {fault.nemesis for fault in faults if fault.begins <= time and (fault.ends is None or time < fault.ends)}
    back = any(
        fault.nemesis in STOPPING and fault.ends is not None and fault.ends <= time < fault.ends + BACK_S * S
        for fault in faults
    )
    return Condition("+".join(sorted(under)), "down" if under & STOPPING else "back" if back else "")

"""Event lines: a history as a log that people can write, one event a line.

8.214 p0 n1 invoke add-column sq.t {"keyspace": "sq", "table": "t", "column": ["c0", "int"]}
8.219 p0 n1 ok add-column sq.t
9.001 p1 n2 fail read-rows sq.t ! Undefined column name c0 in table sq.t
"""

import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from schemaquake.api import JSON, HistoryError

_FIELDS = 6


class EventLines:
    """`schemaquake check history.events`."""

    name = "event-lines"
    suffixes = (".events",)

    def events(self, file: BinaryIO, name: str) -> Iterator[tuple[int, Mapping[str, JSON]]]:
        """Read second, process, node, type, f and key of each line, and a value as JSON or an error behind `!`."""
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield number, event(line.decode("utf-8").strip())
            except ValueError as error:
                raise HistoryError(f"{name}, line {number}: not an event: {error}") from error


def event(line: str) -> Mapping[str, JSON]:
    """Make the map of one event. Raises ValueError."""
    fields = line.split(" ", _FIELDS)
    if len(fields) < _FIELDS:
        raise ValueError(f"it has {len(fields)} fields, and at least {_FIELDS} are needed")
    second, process, node, kind, f, key, *rest = fields
    known: dict[str, JSON] = {"type": kind, "f": f, "node": node, "key": key}
    known |= {"time": round(float(second) * 1e9), "process": int(process.removeprefix("p"))}
    if rest and rest[0].startswith("! "):
        known["error"] = rest[0].removeprefix("! ")
    elif rest:
        known["value"] = json.loads(rest[0])
    return known

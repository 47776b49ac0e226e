"""Copied logs: each start of a server left a log of its own.

A line bears the time (ms) at which it was written, so that two lines of one text and one time, in the logs of two nodes or of two starts, are a
copy, and the log that they stand for is missing. Some may meet by chance, as nodes see one node come up, or refuse a write of one client, at
one time; half of a log, and five lines in a row, do not. The starts of a node are in the order of their logs: unless a fault moved clocks, the first dated line of a later start is not
older than that of an earlier one. And where servers read the clock of the run (the note of the plan says what it showed), a log is of the time
of the run, in some time zone.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import combinations, pairwise
from typing import Final

import pyarrow as pa

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.harness.model.records import plain
from schemaquake.harness.units import MS

__all__ = ["find_copied_logs"]

_LINES_LEAST: Final = 5
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_ZONE_MS: Final = 900_000
"""All zones are whole quarters of an hour from UTC."""
_ZONES: Final = (-48, 56)
"""The westernmost and the easternmost zone, in quarters of an hour."""
_SLACK_MS: Final = 300_000
"""How long before its begin and after its last event a run may have had servers: they are started first, and stopped last."""


def find_copied_logs(logs: pa.Table, notes: Notes) -> Iterator[str]:
    """Yield the logs half of which, and five lines or more, stand in a row in another log, too, the nodes whose logs are not in the order of their starts, and logs of another time."""
    holders: dict[tuple[str, str, str], set[tuple[str, int]]] = defaultdict(set)
    lines: dict[tuple[str, int], list[tuple[str, str, str]]] = defaultdict(list)
    firsts: dict[tuple[str, int], str] = {}
    lasts: dict[tuple[str, int], str] = {}
    columns = plain(logs.select(["node", "boot", "timestamp", "thread", "message"]))
    for line in columns.to_pylist():
        if line["timestamp"] is not None:
            place = (line["node"], line["boot"])
            key = (line["timestamp"], line["thread"] or "", line["message"])
            holders[key].add(place)
            lines[place].append(key)
            if _DATED.match(line["timestamp"]):
                firsts.setdefault(place, line["timestamp"])
                lasts[place] = line["timestamp"]
    shared = Counter(both for places in holders.values() for both in combinations(sorted(places), 2))
    for (one, other), count in sorted(shared.items()):
        least = max(_LINES_LEAST, math.ceil(min(len(lines[one]), len(lines[other])) / 2))
        if count >= least and (longest := _find_longest(lines[one], lines[other])) >= least:
            yield f"the logs of start {one[1]} of {one[0]} and of start {other[1]} of {other[0]} have {longest} lines in a row of one text and one time"
    if not any(fault.offsets for fault in notes.faults):
        yield from _find_misdated(notes, firsts, lasts)


def _find_longest(one: Sequence[tuple[str, str, str]], other: Sequence[tuple[str, str, str]]) -> int:
    """Count the lines of the longest piece that two logs have in common."""
    return SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size


def _find_misdated(
    notes: Notes, firsts: Mapping[tuple[str, int], str], lasts: Mapping[tuple[str, int], str]
) -> Iterator[str]:
    """Yield the logs that are older than that of an earlier start, and those of another time than the run."""
    for (one, first), (other, then) in pairwise(sorted(firsts.items())):
        if one[0] == other[0] and then < first:
            yield f"the log of start {other[1]} of {one[0]} is older than that of start {one[1]}"
    for (node, boot), first in sorted(firsts.items()):
        if notes.begins_ms is not None and not _may_be_of(notes, first, lasts[node, boot]):
            yield f"the log of start {boot} of {node} is of another time than the run: {first} to {lasts[node, boot]}"


def _may_be_of(notes: Notes, first: str, last: str) -> bool:
    """Tell if there is a time zone in which the run went on at both of these times."""
    assert notes.begins_ms is not None
    try:
        times = [datetime.fromisoformat(each[:19]).replace(tzinfo=UTC).timestamp() * 1000 for each in (first, last)]
    except ValueError:
        return False
    # Servers of a run that was broken off may have gone on for any time.
    lasted_ms = math.inf if notes.unended else max((event["time"] for event, _ in notes.all), default=0) / MS
    latest = (times[0] - notes.begins_ms + _SLACK_MS) / _ZONE_MS
    earliest = max((times[1] - notes.begins_ms - lasted_ms - _SLACK_MS) / _ZONE_MS, _ZONES[0])
    return math.ceil(earliest) <= min(math.floor(latest), _ZONES[1])

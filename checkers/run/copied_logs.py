"""Copied logs: each start of a server left a log of its own.

A line bears the time (ms) at which it was written, so that two lines of one text and one time, in the logs of two nodes or of two starts, are a
copy, and the log that they stand for is missing. A few may meet by chance, as nodes see one node come up at one time; half of a log, and five
lines, do not. The starts of a node are in the order of their logs: unless a fault moved clocks, the first dated line of a later start is not
older than that of an earlier one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Final

import pyarrow as pa

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.harness.model.records import plain

__all__ = ["find_copied_logs"]

_LINES_LEAST: Final = 5
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d ")


def find_copied_logs(logs: pa.Table, notes: Notes) -> Iterator[str]:
    """Yield the logs half of whose lines, and five or more, are another log's, and the nodes whose logs are not in the order of their starts."""
    holders: dict[tuple[str, str, str], set[tuple[str, int]]] = defaultdict(set)
    lines: Counter[tuple[str, int]] = Counter()
    firsts: dict[tuple[str, int], str] = {}
    columns = plain(logs.select(["node", "boot", "timestamp", "thread", "message"]))
    for line in columns.to_pylist():
        if line["timestamp"] is not None:
            place = (line["node"], line["boot"])
            holders[line["timestamp"], line["thread"] or "", line["message"]].add(place)
            lines[place] += 1
            if _DATED.match(line["timestamp"]):
                firsts.setdefault(place, line["timestamp"])
    shared = Counter(both for places in holders.values() for both in combinations(sorted(places), 2))
    for (one, other), count in sorted(shared.items()):
        if count >= _LINES_LEAST and 2 * count >= min(lines[one], lines[other]):
            yield f"the logs of start {one[1]} of {one[0]} and of start {other[1]} of {other[0]} have {count} lines of one text and one time"
    if any(fault.offsets for fault in notes.faults):
        return
    for (one, first), (other, then) in pairwise(sorted(firsts.items())):
        if one[0] == other[0] and then < first:
            yield f"the log of start {other[1]} of {one[0]} is older than that of start {one[1]}"

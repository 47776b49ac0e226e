"""Following: a run in progress, from the files that it appends to. Nothing is asked of the run's process.

Journals are read from where the last reading ended; a line without its end is left for the next one. What is shown before the run is
judged are signs (nodes that died or did not serve, schemas that did not agree, errors in logs) and what the run's own process found visibly
broken (`schemaquake.results.judging.provisional`). Findings come with the verdict.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.journal import EVENT_JOURNALS, read_clock
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.run_process import still_running
from schemaquake.harness.units import S
from schemaquake.results.findings.description import describe_rate, title_of
from schemaquake.results.judging.provisional import read_provisional
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import FILE_NAME, read_summary

__all__ = ["RunFollower"]

_READ_MOST: Final = 8 << 20  # bytes of one file in one reading
_SHOWN: Final = 50
_SIGNS: Final = (b"ERROR", b"FATAL")
_WINDOW_NS: Final = 1 * S


class RunFollower:
    """A reader of one run's journals and logs that remembers how far it came."""

    def __init__(self, folder: Path) -> None:
        """Begin with nothing read."""
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._operations: Counter[str] = Counter()
        self._recent: deque[int] = deque()
        self._phases: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._races = 0
        self._signs: deque[str] = deque(maxlen=_SHOWN)
        self._began: int | None = None
        """When the run began, by the clock of its journals; the time of its first event, if that is not noted."""
        self._latest = 0

    def poll(self) -> dict[str, Any]:
        """Read what is new, and return the state of the run as JSON."""
        for line in self._new_lines(sorted(self._folder.glob(f"journals/{EVENT_JOURNALS}"))):
            self._take(line)
        for node in sorted(self._folder.glob("nodes/*")):
            for line in self._new_lines(sorted(node.glob("system*.log"))):
                if line.lstrip()[:5] in _SIGNS:
                    self._signs.append(f"{node.name}: {line.decode(errors='replace').strip()[:300]}")
        while self._recent and self._recent[0] < self._latest - _WINDOW_NS:
            self._recent.popleft()
        is_running = still_running(self._folder) is not None
        return {
            "run": self._folder.name,
            "running": is_running,
            "seconds": round((self._latest - (self._began or 0)) / 1e9, 1),
            "phases": [{"name": name, "state": state} for name, state in self._phases.items()],
            "faults": list(self._faults.values()),
            "races": self._races,
            "operations": {kind: self._operations[kind] for kind in ("invoke", "ok", "fail", "info")},
            "rate": len(self._recent),
            "signs": list(self._signs),
            "provisional": [str(one) for one in read_provisional(self._folder)] if is_running else [],
            "findings": [] if is_running else self._findings(),
            "judged": (self._folder / FILE_NAME).is_file(),
        }

    def _new_lines(self, paths: list[Path]) -> Iterator[bytes]:
        """Yield the whole lines that were appended since the last reading. Only plain files are opened."""
        for path in paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    continue
                file.seek(self._offsets.get(path, 0))
                text = file.read(_READ_MOST)
            end = text.rfind(b"\n") + 1
            if end == 0 and len(text) == _READ_MOST:
                end = len(text)  # a line that long is none of ours
            self._offsets[path] = self._offsets.get(path, 0) + end
            yield from text[:end].splitlines()

    def _take(self, line: bytes) -> None:
        """Add one event of a journal. A damaged line is passed over: the judge names it later."""
        try:
            event = orjson.loads(line)
            process, kind, time = event["process"], str(event["type"]), int(event["time"])
        except (ValueError, KeyError, TypeError):
            return
        if self._began is None:
            self._began = self._start_of_run(time)
        self._latest = max(self._latest, time)
        if process == NEMESIS:
            self._note(str(event.get("f")), _value(event.get("value")), str(event.get("node", "")))
            return
        self._operations[kind] += 1
        if kind != "invoke":
            self._recent.append(time)

    def _start_of_run(self, time: int) -> int:
        try:
            return read_clock(self._folder / "journals")
        except (HistoryError, OSError):
            return time

    def _note(self, f: str, value: Mapping[str, Any], node: str) -> None:
        if f == "phase":
            self._phases[str(value.get("phase"))[:60]] = "runs" if value.get("state") == "begins" else "done"
        elif f == "race":
            self._races += 1
        elif f == "fault-begins":
            nodes = value.get("nodes")
            named = ", ".join(map(str, nodes)) if isinstance(nodes, list) else ""
            self._faults[str(value.get("id"))] = f"{value.get('nemesis')} {named}"[:200]
        elif f in {"fault-ends", "fault-failed"}:
            self._faults.pop(str(value.get("id")), None)
        elif f == "node-died":
            self._signs.append(f"{node} died: {value.get('first_error')}"[:300])
        elif f == "node-start" and value.get("served") is False:
            self._signs.append(f"{node} does not start: {value.get('first_error')}"[:300])
        elif f == "settle" and value.get("agreed") is False:
            self._signs.append(f"schemas did not agree in phase {value.get('phase')}"[:300])

    def _findings(self) -> list[dict[str, str]]:
        """Return the findings of a judged run; none while there is no readable verdict."""
        try:
            found = read_summary(Store(self._folder)).findings
        except (HistoryError, PlanError, OSError, ValueError, KeyError, TypeError):
            return []
        return [{"id": one.id, "title": title_of(one), "rate": describe_rate(one.rate)} for one in found]


def _value(text: object) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

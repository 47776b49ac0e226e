"""Node logs: the warnings and errors of the servers' own logs, as one table.

A node's folder holds a log a start: `system-0.log`, `system-1.log`, … (or a single `system.log`), and beside them
`stdout-0.log`, … where the console is kept apart. Three dialects are read: logback's (Cassandra 2.1 and later),
log4j's (up to 2.0) and seastar's. A line that starts no entry belongs to the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from schemaquake.harness.model.records import LOGS

__all__ = ["Entry", "entries", "read_logs"]

_STACK_LINES_MAX: Final = 30
_ALWAYS: Final = frozenset({"WARN", "ERROR", "FATAL"})
_CONSOLE: Final = "console: "
_FILE: Final = re.compile(r"(?P<kind>system|stdout)(?:-(?P<boot>\d+))?\.log")

# INFO  [main] 2026-01-01 09:00:00,123 StorageService.java:100 - message
#  INFO [main] 2012-01-01 09:00:00,123 StorageService.java (line 100) message
# INFO  2026-01-01 09:00:00,123 [shard 0:main] storage_service - message
_ENTRY: Final = re.compile(
    r"""\s?(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\ +
        (?:\[(?P<thread>.*?)\]\ )?
        (?P<timestamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+Z?)\ +
        (?:\[(?P<shard>shard\ [^\]]*)\]\ )?
        (?:\S+\ -\ |\S+\ \(line\ [\d?]+\)\ )?
        (?P<message>.*)""",
    re.VERBOSE,
)
# The messages that a JVM prints by itself when it gives up, also in the middle of another entry's lines.
_LAST_WORDS: Final = re.compile(
    r"Exception in thread |Exception \([\w.$]+\) encountered |Error: |Error occurred during initialization|"
    r"# A fatal error|Terminating due to |OpenJDK .*\berror\b|Unrecognized (?:VM )?option|"
    # … and those of a server in C++
    r"(?:Aborting|Segmentation fault|Illegal instruction|Bus error) on shard \d|\w+: \S+:\d+: .*: Assertion "
)
# An exception printed before there was a logger. After an entry it is that entry's stack trace.
_EXCEPTION: Final = re.compile(r"(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b")


@dataclass(slots=True)
class Entry:
    """One entry of a log. `line` counts from 1; `stack` holds the first thirty lines that follow it."""

    line: int
    timestamp: str | None
    level: str
    thread: str | None
    message: str
    stack: list[str] = field(default_factory=list)


def read_logs(nodes: Path, *, noted: Sequence[str | re.Pattern[str]] = (), firsts: bool = False) -> pa.Table:
    """Read the warnings and errors of every node under `nodes`, as `LOGS`, by node, start and line.

    Entries below WARN are kept where one of the patterns `noted` is found in their first line. With `firsts` the first
    entry of each start is kept as well: it shows that there is a log, also where the log has nothing to report. The message of an entry from
    the console alone starts with `console: `, and its line counts there. A folder without logs has no rows.
    """
    patterns = [re.compile(pattern) for pattern in noted]
    rows: list[dict[str, Any]] = []
    for folder in sorted(path for path in nodes.iterdir() if path.is_dir()) if nodes.is_dir() else []:
        for boot, files in sorted(_group_by_boot(folder).items()):
            kept = [
                entry
                for number, entry in enumerate(_read_boot(files))
                if (firsts and number == 0) or _is_kept(entry, patterns)
            ]
            rows += [_row(folder.name, boot, entry) for entry in kept]
    return pa.Table.from_pylist(rows, schema=LOGS)


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield a log's entries. A line outside the format that reports a fatal error is an entry of level ERROR without a time."""
    current: Entry | None = None
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        started = _begun(text, number, current)
        if started is None:
            if current is not None and len(current.stack) < _STACK_LINES_MAX:
                current.stack.append(text)
            continue
        if current is not None:
            yield current
        current = started
    if current is not None:
        yield current


def _begun(text: str, number: int, current: Entry | None) -> Entry | None:
    """Return the entry that starts with this line, None if none does."""
    match = _ENTRY.match(text)
    if match is not None:
        thread = match["thread"] or match["shard"]
        return Entry(number, match["timestamp"], match["level"], thread, match["message"])
    if _LAST_WORDS.match(text) or (current is None and _EXCEPTION.match(text)):
        return Entry(number, None, "ERROR", None, text)
    return None


def _group_by_boot(folder: Path) -> dict[int, dict[str, Path]]:
    """Group the files by start. An unnumbered file is the latest start's, where others are numbered."""
    found = {path: match for path in sorted(folder.iterdir()) if (match := _FILE.fullmatch(path.name))}
    last = max((int(match["boot"]) for match in found.values() if match["boot"]), default=-1)
    boots: dict[int, dict[str, Path]] = {}
    for path, match in found.items():
        if match["boot"]:
            boots.setdefault(int(match["boot"]), {})[match["kind"]] = path
    for path, match in found.items():
        already = boots.get(last, {}).get(match["kind"])
        if not match["boot"] and not (already is not None and already.samefile(path)):
            boots.setdefault(last + 1, {})[match["kind"]] = path
    return boots


def _read_boot(files: dict[str, Path]) -> Iterator[Entry]:
    logged = list(_read_entries(files["system"])) if "system" in files else []
    yield from logged
    if "stdout" in files:
        known = {(entry.timestamp, entry.level, entry.thread, entry.message) for entry in logged}
        for entry in _read_entries(files["stdout"]):
            if (entry.timestamp, entry.level, entry.thread, entry.message) not in known:
                entry.message = _CONSOLE + entry.message
                yield entry


def _read_entries(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from entries(lines)


def _is_kept(entry: Entry, patterns: Sequence[re.Pattern[str]]) -> bool:
    return entry.level in _ALWAYS or any(pattern.search(entry.message) for pattern in patterns)


def _row(node: str, boot: int, entry: Entry) -> dict[str, Any]:
    return {
        "node": node,
        "boot": boot,
        "line": entry.line,
        "timestamp": entry.timestamp,
        "level": entry.level,
        "thread": entry.thread,
        "message": entry.message,
        "stack": "\n".join(entry.stack) or None,
    }

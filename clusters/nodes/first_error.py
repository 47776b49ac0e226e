"""First error: the entry of a server's log that shows why it gave up."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["first_error"]

_FATAL: Final = re.compile(
    r"Exception encountered during startup|Fatal exception during initialization|FATAL"
    r"|Exiting due to error while processing commit log during initialization"
)
_ERROR: Final = re.compile(
    r"^\s*(?:ERROR|FATAL)\b|^Error: |^Exception in thread|^Unrecognized |^OpenJDK .* error", re.MULTILINE
)
_CAUSE: Final = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error|Columns)\b.*", re.MULTILINE)
_NEXT_ENTRY: Final = re.compile(r"^\s*(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b", re.MULTILINE)
_LINES_MAX: Final = 14


def first_error(text: str) -> str:
    """Cut the first fatal entry out of a log, else the first ERROR, else the last lines, with exception and causes."""
    entries = list(_ERROR.finditer(text))
    if not entries:
        return "\n".join(text.strip().splitlines()[-5:]) or "(the log is empty)"
    start = next((e.start() for e in entries if _FATAL.search(text[e.start() : _line_end(text, e.start())])), None)
    begin = entries[0].start() if start is None else start
    following = _NEXT_ENTRY.search(text, _line_end(text, begin))
    entry = text[begin : following.start() if following else len(text)].strip()
    lines = entry.splitlines()
    # The stack frames between stay in the log; a message needs the exceptions.
    kept = lines[:3] + [line for line in lines[3:] if _CAUSE.match(line)]
    # Old servers print the same again on their console, which is the same file.
    return "\n".join(list(dict.fromkeys(line.rstrip() for line in kept))[:_LINES_MAX])


def _line_end(text: str, begin: int) -> int:
    """Find the end of the line that begins there; the last line of a log that was cut short has no newline."""
    end = text.find("\n", begin + 1)
    return len(text) if end < 0 else end + 1

"""Console: what the person who waits sees on standard error, and the same as JSON for whoever reads the run tomorrow."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from rich.text import Text

__all__ = ["configure_logging", "stderr"]

_BEGAN: Final = time.monotonic()
_STANDARD: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_STYLES: Final = {logging.WARNING: "yellow", logging.ERROR: "bold red", logging.DEBUG: "dim"}


def stderr() -> Console:
    """The console for progress and messages; never standard output, which belongs to `--json`."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def configure_logging(json_file: Path | None = None, *, verbose: bool = False) -> None:
    """One line an event to standard error, and every event as JSON to `json_file`. Called by entry points only."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG)
    for handler in list(root.handlers):
        root.removeHandler(handler)
    lines = _Lines()
    lines.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.addHandler(lines)
    if json_file is not None:
        file = logging.FileHandler(json_file, encoding="utf-8")
        file.setFormatter(_Json())
        root.addHandler(file)
    for noisy in ("cassandra", "py4j", "asyncio", "matplotlib"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)


def _facts(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class _Lines(logging.Handler):
    """`[  12.3 s] node serves CQL  node=n1 seconds=9.6`."""

    def __init__(self) -> None:
        super().__init__()
        self._console = stderr()

    def emit(self, record: logging.LogRecord) -> None:
        line = Text(f"[{time.monotonic() - _BEGAN:6.1f} s] ", style="dim")
        line.append(record.getMessage(), style=_STYLES.get(record.levelno, ""))
        for name, value in _facts(record).items():
            text = str(value)
            if "\n" in text:
                line.append(f"\n           {name}: ", style="dim").append(text.replace("\n", "\n             "))
            else:
                line.append(f"  {name}=", style="dim").append(text)
        self._console.print(line)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            document["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return orjson.dumps(document, default=str).decode()

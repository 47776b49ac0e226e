"""Console: progress and log lines on standard error, and the same events as JSON in the run's folder."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from schemaquake.harness.standard_streams import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "answers",
    "changing_line",
    "clock_of_the_command",
    "configure_logging",
    "lines_of_the_command",
    "progress",
    "stderr",
    "stdout",
    "write_line",
]

log = logging.getLogger(__name__)

_CLOCK: Final = "_SCHEMAQUAKE_BEGAN"
_BEGAN: Final = float(os.environ.get(_CLOCK) or time.monotonic())
"""When the command began, s of the machine's monotonic clock: lines count from there, in the processes that it starts, too."""
_LINES: Final = "_SCHEMAQUAKE_LINES"
"""The variable of the environment that holds the level from which a process that is started prints lines."""
_LINE_EVERY_S: Final = 30.0
_STANDARD: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_STYLES: Final = {logging.WARNING: "yellow", logging.ERROR: "bold red", logging.DEBUG: "dim"}


_brief = False
_of_children = logging.INFO


@cache
def stderr() -> Console:
    """Return the console for progress and messages: standard error, because standard output belongs to `--json`.

    Texts are printed as they are: brackets are no markup, and nothing that a terminal would obey gets to it.
    """
    return _console(to_stderr=True)


def stdout() -> Console:
    """Return a console for answers that are tables; texts are printed as on `stderr`."""
    return _console(to_stderr=False)


def answers(*, as_json: bool) -> Console:
    """Return the console of what a command answers: standard output; where a JSON document is printed there, standard error."""
    return stderr() if as_json else stdout()


def write_line(text: str) -> None:
    """Write a line of an answer to standard output: as it is to a program, printable to a terminal."""
    sys.stdout.write(f"{printable(text) if sys.stdout.isatty() else text}\n")


def _console(*, to_stderr: bool) -> Console:
    from rich.console import Console, ConsoleOptions, RenderableType  # noqa: PLC0415 - many commands print nothing
    from rich.segment import Segment  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    class Plain(Console):
        """A console through which names can be printed that come from files and from other people's servers."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            if isinstance(renderable, Table):
                for column in renderable.columns:
                    if column.overflow == "ellipsis":
                        column.overflow = "fold"  # half of a finding's id is none
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    # Rich leaves out colours alone where NO_COLOR is set; bold and dim letters are codes, too.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Plain(stderr=to_stderr, highlight=False, soft_wrap=True, markup=False, emoji=False, color_system=colors)


@contextmanager
def progress(phase: str, *, limit_s: float | None = None) -> Iterator[None]:
    """Show the progress of `phase` while the block runs: a bar on a terminal, a log line at intervals elsewhere.

    Shows nothing in a command that is brief, which has a line of its own. `limit_s` is the expected duration; with it the time left is shown.
    """
    if _brief:
        yield
        return
    console = stderr()
    ended = threading.Event()
    show = _bar if console.is_terminal else _plain_lines
    shown = threading.Thread(target=show, args=(phase, limit_s, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


@contextmanager
def changing_line(first: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress on standard error: in one changing line on a terminal, in plain lines elsewhere."""
    console = stderr()
    if not console.is_terminal:
        yield lambda text: console.print(text, markup=False)
        return
    from rich.text import Text  # noqa: PLC0415 - as above

    with console.status(Text(first)) as status:
        yield lambda text: status.update(Text(text))


def _bar(phase: str, limit_s: float | None, ended: threading.Event) -> None:
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if limit_s is not None:
        columns.append(TimeRemainingColumn())
    began = time.monotonic()
    with Progress(*columns, console=stderr(), transient=True) as bars:
        task = bars.add_task(phase, total=limit_s)
        while not ended.wait(0.2):
            if limit_s is not None:
                bars.update(task, completed=min(limit_s, time.monotonic() - began))


def _plain_lines(phase: str, limit_s: float | None, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(_LINE_EVERY_S):
        facts = {"phase": phase, "seconds": round(time.monotonic() - began)}
        if limit_s is not None:
            facts["seconds_left"] = max(0, round(limit_s - (time.monotonic() - began)))
        log.info("still at work", extra=facts)


def clock_of_the_command() -> Mapping[str, str]:
    """Return the variable of the environment by which a process that is started counts its lines' seconds as this one does."""
    return {_CLOCK: repr(_BEGAN)}


def lines_of_the_command() -> Mapping[str, str]:
    """Return the variable of the environment by which a process that is started prints as many lines as this one does."""
    return {_LINES: str(_of_children)}


def configure_logging(json_file: Path | None = None, *, verbose: bool = False, brief: bool = False) -> None:
    """Log one line an event to standard error, and every event as JSON to `json_file`. For entry points only.

    `verbose` prints every step; `brief` only what goes wrong with the command itself, and of the processes that it starts only what
    ends them. Without either: as the process that started this one does.
    """
    global _brief, _of_children  # noqa: PLW0603 - there is one standard error
    inherited = os.environ.get(_LINES, "")
    level = int(inherited) if inherited.isdecimal() else logging.INFO
    if verbose or brief:
        level = logging.DEBUG if verbose else logging.WARNING
    _brief = level > logging.INFO
    _of_children = logging.ERROR if _brief else level
    logging.raiseExceptions = False  # a log that cannot be written ends no thread that is to heal
    root = logging.getLogger()
    root.setLevel(logging.DEBUG)
    for handler in list(root.handlers):
        root.removeHandler(handler)
    lines = _Lines()
    lines.setLevel(level)
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

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line. Raises nothing: the caller may be the thread that is to heal."""
        with suppress(Exception):
            stderr().print(self._line(record))

    def _line(self, record: logging.LogRecord) -> Text:
        from rich.text import Text  # noqa: PLC0415 - as above

        line = Text(f"[{time.monotonic() - _BEGAN:6.1f} s] ", style="dim")
        line.append(_message(record), style=_STYLES.get(record.levelno, ""))
        for name, value in _facts(record).items():
            text = _text(value)
            if "\n" in text:
                line.append(f"\n           {name}: ", style="dim").append(text.replace("\n", "\n             "))
            else:
                line.append(f"  {name}=", style="dim").append(text)
        if self.level <= logging.DEBUG and record.exc_info is not None and record.exc_info[0] is not None:
            line.append("\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip(), style="dim")
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Render the record; facts that JSON cannot hold as text. Raises nothing."""
        document: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _message(record),
            **_facts(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            document["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        try:
            return orjson.dumps(document, default=_text).decode()
        except (
            TypeError,
            ValueError,
            RecursionError,
        ):  # a key that is no text, a number of more than 64 bits, half a character
            return orjson.dumps({name: printable(_text(fact)) for name, fact in document.items()}).decode()


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - arguments that do not fit their text
        return f"{record.msg} {_text(record.args)}"


def _text(value: object) -> str:
    """Render any value; one that cannot render itself by its type."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a fault of the value's own
        return f"<{type(value).__name__}>"

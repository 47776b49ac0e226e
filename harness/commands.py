"""The kernel's own commands: list what is installed, recover a run's history, heal what a dead run left."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from harness.console import configure_logging, stderr
from harness.errors import ExitCode, PlanError
from harness.healing import heal
from harness.registry import load_all

__all__ = ["register"]

_KINDS = ("workloads", "nemeses", "checkers", "clusters", "anomalies", "errors")


def register(app: typer.Typer) -> None:
    """Add `list` and `heal`."""
    app.command("list")(_list)
    app.command("heal")(_heal)


def _list(
    kind: Annotated[str, typer.Argument(help=f"one of {', '.join(_KINDS)}")] = "workloads",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on standard output")] = False,
) -> None:
    """List what is installed: workloads, nemeses, checkers, clusters, anomalies, errors."""
    if kind not in _KINDS:
        raise PlanError(f'cannot list "{kind}"; lists there are: {", ".join(_KINDS)}')
    match kind:
        case "anomalies":
            rows = {
                name: anomaly.description
                for catalogue in load_all("anomalies").values()
                for name, anomaly in catalogue.items()
            }
        case "errors":
            rows = {
                f"{row.error}{f' /{row.text}/' if row.text else ''} on {row.on}": f"{row.means}: {row.because}"
                for table in load_all("outcomes").values()
                for row in table
            }
        case _:
            rows = {name: _first_line(found) for name, found in load_all(kind).items()}
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return
    width = max(map(len, rows), default=0)
    for name, description in rows.items():
        sys.stdout.write(f"{name:<{width}}  {description}\n")


def _first_line(found: object) -> str:
    """What the module says of itself, or the class if the module is silent."""
    module = inspect.getmodule(found if inspect.isclass(found) else type(found))
    text = (module.__doc__ if module else None) or inspect.getdoc(found) or ""
    return text.strip().splitlines()[0] if text.strip() else ""


def _heal(run: Annotated[Path, typer.Argument(help="the run's folder")]) -> None:
    """Undo whatever a run left behind: faults of its ledger, processes, namespaces. May be repeated."""
    configure_logging()
    done = heal(run)
    console = stderr()
    for sentence in done or ["nothing was left to heal"]:
        console.print(sentence, markup=False)
    raise typer.Exit(ExitCode.VALID)

"""The kernel's own commands: list what is installed, recover a run's history, heal what a dead run left."""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from schemaquake.harness.cli import completion
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FILE, AsJson
from schemaquake.harness.cli.sections import PREPARE, RUN, add_command
from schemaquake.harness.console import configure_logging, stderr, write_line
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.installed_options import InstalledOption, options_of
from schemaquake.harness.registry import load_all, names, resources

if TYPE_CHECKING:
    from schemaquake.harness.model.protocols import Nemesis

__all__ = ["register"]

_Rows: TypeAlias = Mapping[str, str | Mapping[str, str | int]]
"""By the name of what is installed a text, or named cells."""

_KINDS = (
    "workloads",
    "nemeses",
    "checkers",
    "clusters",
    "systems",
    "formats",
    "anomalies",
    "errors",
    "options",
    "flaws",
    "steps",
)
_LAST_CELL_LEAST: Final = 32
"""Characters of a line that the last cell of a row needs to stand beside the others."""


def register(app: typer.Typer) -> None:
    """Add `list`, `heal` and `completion`."""
    add_command(
        app,
        _list,
        "list",
        PREPARE,
        "schemaquake list workloads",
        "schemaquake list nemeses",
        "schemaquake list anomalies --json",
        page="docs/workloads.md",
    )
    add_command(
        app,
        _heal,
        "heal",
        RUN,
        "schemaquake heal runs/latest",
        "schemaquake heal ledger.jsonl --cluster cluster.toml",
        "schemaquake heal --everywhere cluster.toml",
        page="docs/deployed.md",
    )
    completion.register(app)


def _list(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"One of {', '.join(_KINDS)}.",
            autocompletion=lambda incomplete: [kind for kind in _KINDS if kind.startswith(incomplete)],
        ),
    ] = "workloads",
    as_json: AsJson = False,
) -> None:
    """List what is installed: workloads, nemeses, checkers, clusters, systems, formats, anomalies, errors, options, flaws and steps of simulated systems."""
    if kind not in _KINDS:
        raise PlanError(f'cannot list "{kind}"; lists there are: {", ".join(_KINDS)}')
    if kind == "options":
        _list_options(as_json=as_json)
        return
    rows = _rows_of(kind)
    if as_json:
        print_json(rows)
        return
    for line in _columns(rows):
        write_line(line)


def _rows_of(kind: str) -> _Rows:
    """Look up what is installed of a kind, `options` aside."""
    match kind:
        case "systems":
            return {
                str(system): system.facts()
                for product, family in load_all("systems").items()
                for system in (family.parse(f"{product}:{version}") for version in family.known_versions)
            }
        case "anomalies":
            texts = resources("anomalies", "anomalies.toml").values()
            return {name: entry["description"] for text in texts for name, entry in tomllib.loads(text).items()}
        case "errors":
            return {
                f"{row.error}{f' /{row.text}/' if row.text else ''} on {row.on}": f"{row.means}: {row.because}"
                for table in load_all("outcomes").values()
                for row in table
            }
        case "flaws" | "steps":
            return {name: row for listing in load_all(kind).values() for name, row in listing().items()}
        case "nemeses":
            return {name: _nemesis_row(nemesis) for name, nemesis in load_all("nemeses").items()}
    return {name: _first_line(found) for name, found in load_all(kind).items()}


def _columns(rows: _Rows, *, heads: bool = True) -> Iterator[str]:
    """Render the rows with aligned cells, with `heads` under a head line where cells have names.

    A row is one line, for programs that read it; on a terminal its last cell goes on below itself, or below the name where
    that leaves too little room.
    """
    cells = [[name, *([row] if isinstance(row, str) else map(str, row.values()))] for name, row in rows.items()]
    named = next((list(row) for row in rows.values() if not isinstance(row, str)), None)
    if heads and named is not None:
        cells.insert(0, ["", *named])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = _room()
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    for row in cells:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        if room is None or len(line) <= room:
            yield line
        elif room - indent >= _LAST_CELL_LEAST:
            yield from _wrapped(line, room, indent=indent)
        else:
            yield from _wrapped(line[:indent].rstrip(), room, indent=4)
            yield from (f"    {part}" for part in _wrapped(row[-1], room - 4, indent=0))


def _room() -> int | None:
    """Return the width of the terminal; None if standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _wrapped(line: str, room: int, *, indent: int) -> Sequence[str]:
    """Wrap a line between its words; names with hyphens stay whole."""
    return textwrap.wrap(line, room, subsequent_indent=" " * indent, break_on_hyphens=False)


def _list_options(*, as_json: bool) -> None:
    """List what `-O` takes, by the plugins that read it; plugins with the same options share a paragraph."""
    found = {
        kind: {name: options for name in names(kind) if (options := options_of(kind, name))}
        for kind in ("workloads", "nemeses", "clusters")
    }
    if as_json:
        print_json(
            {
                kind: {
                    plugin: {each.name: {"default": each.default, "help": each.help} for each in options}
                    for plugin, options in plugins.items()
                }
                for kind, plugins in found.items()
            }
        )
        return
    for kind, plugins in found.items():
        alike: dict[tuple[InstalledOption, ...], list[str]] = {}
        for plugin, options in plugins.items():
            alike.setdefault(options, []).append(plugin)
        for options, owners in alike.items():
            head, room = f"{kind}: {', '.join(owners)}", _room()
            for line in [head] if room is None else _wrapped(head, room, indent=4):
                write_line(line)
            rows = {f"  {each.name}": {"default": each.default or "-", "help": each.help} for each in options}
            for line in _columns(rows, heads=False):  # they would be repeated in every paragraph
                write_line(line)


def _nemesis_row(nemesis: Nemesis) -> Mapping[str, str | int]:
    """Describe a nemesis: what it needs of a cluster, the word that allows it on a deployed one, and its module's first line."""
    from schemaquake.harness.model.protocols import TopologyNemesis, Undoable  # noqa: PLC0415 - help needs none of it
    from schemaquake.harness.model.traits import nemesis_traits  # noqa: PLC0415

    traits = nemesis_traits(nemesis)
    # Of any other a guard could not undo the faults; operations on the topology are undone by nobody.
    can_be_allowed = isinstance(nemesis, Undoable | TopologyNemesis)
    return {
        "needs": " ".join(sorted(traits.needs)) or "-",
        "allowed_by": (traits.allowed_by if can_be_allowed else None) or "-",
        "about": _first_line(nemesis),
    }


def _first_line(found: object) -> str:
    """Return what a plugin says that it is: `about`, or the first line of its module's docstring, or of its class's."""
    if isinstance(about := getattr(found, "about", None), str):
        return about
    module = inspect.getmodule(found if inspect.isclass(found) else type(found))
    text = (module.__doc__ if module else None) or inspect.getdoc(found) or ""
    return text.strip().splitlines()[0] if text.strip() else ""


def _heal(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN|LEDGER", help="Folder of a run; or its ledger.jsonl alone, with --cluster."),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar=FILE, help="File of the deployed cluster.", show_default="the run's copy"),
    ] = None,
    everywhere: Annotated[
        Path | None,
        typer.Option(
            "--everywhere",
            metavar=FILE,
            help="Undo the faults of all runs on the nodes of this cluster file, without a ledger.",
        ),
    ] = None,
) -> None:
    """Undo everything that a run left behind: faults of its ledger, processes, namespaces. May be repeated."""
    from schemaquake.harness.faults.healing import heal, heal_everywhere, heal_ledger  # noqa: PLC0415 - every other command would wait for them
    from schemaquake.harness.faults.ledger import FILE_NAME  # noqa: PLC0415 - as above

    configure_logging()
    if (run is None) == (everywhere is None) or (everywhere is not None and cluster is not None):
        raise PlanError("name a run's folder, or --everywhere with a cluster file")
    if run is None:
        assert everywhere is not None, "one of the two was named"
        done = heal_everywhere(everywhere)
    elif cluster is not None:
        done = heal_ledger(run / FILE_NAME if run.is_dir() else run, cluster)
    else:
        done = heal(run.parent if run.name == FILE_NAME else run)
    console = stderr()
    for sentence in done or ["nothing was left to heal"]:
        console.print(sentence, markup=False)
    raise typer.Exit(ExitCode.VALID)

"""Sections: the headings under which `schemaquake --help` lists the commands, and `schemaquake run --help` its options.

A command names its heading where it is registered (`add_command`; outside the tree `app.command("paint", rich_help_panel=RUN)` does, too):
one of these, one of its own, or none. So may an option: `typer.Option(rich_help_panel=FAULTS)`, in a command that is `sectioned`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from typer import Abort, Typer
from typer.core import TyperCommand, TyperGroup

from schemaquake.harness.cli.examples import examples, read_examples, wrap_example
from schemaquake.harness.cli.interruption import on_interruption

__all__ = [
    "CLUSTER",
    "COMPARE",
    "FAULTS",
    "FURTHER",
    "FURTHER_OPTIONS",
    "JUDGE",
    "MODEL",
    "OUTPUT",
    "PREPARE",
    "PUBLISH",
    "RUN",
    "TIME",
    "WORKLOADS",
    "Command",
    "SectionedCommand",
    "SectionedGroup",
    "add_command",
]

RUN: Final = "Race schema changes"
JUDGE: Final = "Judge and report"
COMPARE: Final = "Compare versions"
MODEL: Final = "Simulations and models"
PUBLISH: Final = "Publish"
PREPARE: Final = "Prepare and look up"
FURTHER: Final = "Further commands"
"""The heading of commands that name none."""

_ORDER: Final = (RUN, JUDGE, COMPARE, MODEL, PUBLISH, PREPARE)

CLUSTER: Final = "System and cluster"
WORKLOADS: Final = "Workloads"
FAULTS: Final = "Faults"
TIME: Final = "Time"
OUTPUT: Final = "Verdict and output"
FURTHER_OPTIONS: Final = "Further options"
"""The heading of options that name none."""

_ORDER_OF_OPTIONS: Final = (CLUSTER, WORKLOADS, FAULTS, TIME, OUTPUT)
_ARGUMENTS: Final = "Arguments"
_OPTIONS: Final = "Options"
_DEFAULT: Final = re.compile(r"\[default: \((.*)\)([;\]])")
"""A default that is described, which typer puts into parentheses."""
_NARROW, _WIDE = 18, 32
"""Letters of the column of names, on a narrow and on a wide terminal."""
_LONGEST: Final = 400
"""Letters of a summary; click would cut it where the line ends."""


def add_command(
    app: Typer,
    command: Callable[..., Any],
    name: str,
    heading: str,
    *lines: str,
    page: str,
    sectioned: bool = False,
    interrupted: str | None = None,
    computes: bool = False,
) -> None:
    """Register a command: its heading in the list of commands, example `lines` as a shell takes them, and its `page` of the documentation.

    `sectioned`: its help lists the options under headings. `interrupted` says what is kept of it at Ctrl-C, and how to go on; one
    that only `computes` has nothing to undo, and ends at once.
    """
    if interrupted is not None:
        on_interruption(name, interrupted, computes=computes)
    app.command(
        name,
        cls=SectionedCommand if sectioned else Command,
        rich_help_panel=heading,
        epilog=examples(*lines, page=page),
    )(command)


class SectionedGroup(TyperGroup):
    """A group whose help lists its commands under headings, by name, with whole summaries."""

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command that was named. Raises Abort on Ctrl-C, of which Typer would make an exit code of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Abort from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in the order of the help."""
        return sorted(super().list_commands(ctx), key=lambda name: (*_rank(self._heading(name), _ORDER, FURTHER), name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each heading."""
        shown = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        for heading, names in groupby(shown, key=self._heading):
            with formatter.section(heading):
                rows = [(name, self.commands[name].get_short_help_str(_LONGEST)) for name in names]
                formatter.write_dl(rows, col_max=_first_column(formatter))

    def _heading(self, name: str) -> str:
        return getattr(self.commands[name], "rich_help_panel", None) or FURTHER


class Command(TyperCommand):
    """A command whose help shows what a value is by its metavar, fits its columns to the terminal, and ends with examples.

    Its epilog is made by `schemaquake.harness.cli.examples.examples`; any other is shown as it is.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the command's name: arguments that may be left out in brackets."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        names = [_name_of(each) if each.required else f"[{_name_of(each)}]" for each in arguments]
        return [*([self.options_metavar] if self.options_metavar else []), *names]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for the arguments and one for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            argument = parameter.param_type_name == "argument"
            name = _name_of(parameter) if argument else record[0]
            heading = _ARGUMENTS if argument else self.heading_of(parameter)
            sections.setdefault(heading, []).append((name, _DEFAULT.sub(r"[default: \1\2", record[1])))
        for heading in sorted(
            sections, key=lambda name: _rank(name, (_ARGUMENTS, *_ORDER_OF_OPTIONS), FURTHER_OPTIONS)
        ):
            with formatter.section(heading):
                formatter.write_dl(sections[heading], col_max=_first_column(formatter))

    def heading_of(self, parameter: Any) -> str:  # noqa: ARG002 - sectioned ones ask it
        """Return the heading of an option."""
        return _OPTIONS

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, and the page that tells more."""
        found = read_examples(self.epilog)
        if found is None:
            super().format_epilog(ctx, formatter)
            return
        lines, page = found
        with formatter.section("Examples"):
            for line in lines:
                for part in wrap_example(line, formatter.width - formatter.current_indent):
                    formatter.write(f"{'':{formatter.current_indent}}{part}\n")
        formatter.write(f"\nMore: {page}\n")


class SectionedCommand(Command):
    """A command whose help lists its options under headings, those of one heading in the order of their declaration."""

    def heading_of(self, parameter: Any) -> str:
        """Return the heading that the option names, or that of all the others."""
        return getattr(parameter, "rich_help_panel", None) or FURTHER_OPTIONS


def _name_of(argument: Any) -> str:
    return str(argument.metavar or argument.name)


def _first_column(formatter: Any) -> int:
    """Return the width of the column of names: a narrow terminal needs the rest for the texts."""
    return max(_NARROW, min(_WIDE, int(formatter.width) // 3))


def _rank(heading: str, order: Sequence[str], last: str) -> tuple[int, str]:
    return (order.index(heading) if heading in order else len(order) + (heading == last), heading)

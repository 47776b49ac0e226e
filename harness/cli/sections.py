"""Sections: the headings under which `schemaquake --help` lists the commands, and `schemaquake run --help` its options.

A command names its heading where it is registered: `app.command("run", rich_help_panel=RUN)`. A command of a package outside the
tree may name one of these, one of its own, or none. So does an option: `typer.Option(rich_help_panel=FAULTS)`, in a command that is
registered with `cls=SectionedCommand`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from typer import Abort
from typer.core import TyperCommand, TyperGroup

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
    "SectionedCommand",
    "SectionedGroup",
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
_LONGEST: Final = 400
"""Letters of a summary; click would cut it where the line ends."""


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
                formatter.write_dl([(name, self.commands[name].get_short_help_str(_LONGEST)) for name in names])

    def _heading(self, name: str) -> str:
        return getattr(self.commands[name], "rich_help_panel", None) or FURTHER


class SectionedCommand(TyperCommand):
    """A command whose help lists its options under headings, those of one heading in the order of their declaration."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for the arguments and one for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_heading_of(parameter), []).append(record)
        for heading in sorted(
            sections, key=lambda name: _rank(name, (_ARGUMENTS, *_ORDER_OF_OPTIONS), FURTHER_OPTIONS)
        ):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])


def _heading_of(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _ARGUMENTS
    return getattr(parameter, "rich_help_panel", None) or FURTHER_OPTIONS


def _rank(heading: str, order: Sequence[str], last: str) -> tuple[int, str]:
    return (order.index(heading) if heading in order else len(order) + (heading == last), heading)

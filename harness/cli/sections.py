"""Sections: the headings under which `schemaquake --help` lists the commands.

A command names its heading where it is registered: `app.command("run", rich_help_panel=RUN)`. A command of a package outside the
tree may name one of these, one of its own, or none.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from typer import Abort
from typer.core import TyperGroup

__all__ = ["COMPARE", "FURTHER", "JUDGE", "MODEL", "PREPARE", "PUBLISH", "RUN", "SectionedGroup"]

RUN: Final = "Race schema changes"
JUDGE: Final = "Judge and report"
COMPARE: Final = "Compare versions"
MODEL: Final = "Simulations and models"
PUBLISH: Final = "Publish"
PREPARE: Final = "Prepare and look up"
FURTHER: Final = "Further commands"
"""The heading of commands that name none."""

_ORDER: Final = (RUN, JUDGE, COMPARE, MODEL, PUBLISH, PREPARE)
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
        return sorted(super().list_commands(ctx), key=lambda name: (*_rank(self._heading(name)), name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each heading."""
        shown = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        for heading, names in groupby(shown, key=self._heading):
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(_LONGEST)) for name in names])

    def _heading(self, name: str) -> str:
        return getattr(self.commands[name], "rich_help_panel", None) or FURTHER


def _rank(heading: str) -> tuple[int, str]:
    return (_ORDER.index(heading) if heading in _ORDER else len(_ORDER) + (heading == FURTHER), heading)

"""Examples: the lines below a command's help that show how it is used, and the page that tells more.

They are kept beside the command (`schemaquake.harness.cli.sections.add_command`), so that a test can read every example and parse it.
`schemaquake.harness.cli.sections.Command` renders them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["examples", "read_examples", "wrap_example"]

_HEAD: Final = "Examples:"
_PAGE: Final = "More: "


def examples(*lines: str, page: str) -> str:
    """Return the epilog of a command: `lines` as a shell takes them, and the path of its page in the project."""
    return "\n".join([_HEAD, *lines, f"{_PAGE}{page}"])


def read_examples(epilog: str | None) -> tuple[Sequence[str], str] | None:
    """Return the lines and the page of an epilog; None for one of another form."""
    head, *lines = (epilog or "").splitlines() or [""]
    if head != _HEAD or not lines or not lines[-1].startswith(_PAGE):
        return None
    return lines[:-1], lines[-1].removeprefix(_PAGE)


def wrap_example(line: str, width: int) -> Sequence[str]:
    """Break an example between its words, with the backslash by which a shell joins the lines again."""
    found, current = [], ""
    for word in line.split(" "):
        longer = f"{current} {word}" if current else word
        if current.strip() and len(longer) > width - len(" \\"):
            found.append(f"{current} \\")
            longer = f"    {word}"
        current = longer
    return [*found, current]

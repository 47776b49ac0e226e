"""Completion: a script for bash, zsh or fish, and the answers that it asks for at each TAB.

The scripts are Typer's. An answer is given by this program, which is then called with `_SCHEMAQUAKE_COMPLETE` and the words that were typed;
only the command among them is loaded, and names of plugins come from the entry points, without an import of any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from schemaquake.harness.cli.sections import PREPARE, add_command
from schemaquake.harness.console import write_line
from schemaquake.harness.registry import load_all, names

__all__ = ["ASKED", "complete_names", "complete_systems", "prepare", "register"]

ASKED: Final = "_SCHEMAQUAKE_COMPLETE"
"""The variable with which a shell asks."""
_PROGRAM: Final = "schemaquake"
_WORDS: Final = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""Variables that hold the words so far: of zsh and fish, and of bash."""
_WIDE: Final = "10000"
"""Columns in which Typer renders a description: fish takes the second line of a wrapped one for a candidate."""
_ZSH_READY: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
"""What zsh needs before `compdef`, where the file that it reads at its start has not called it."""
_BEFORE: Final = "_SCHEMAQUAKE_BEFORE"
"""The variable for the part of a word that bash does not replace."""


class Shell(StrEnum):
    """A shell that has a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def register(app: typer.Typer) -> None:
    """Add `completion`."""
    add_command(
        app,
        _completion,
        "completion",
        PREPARE,
        "schemaquake completion bash > ~/.schemaquake-completion.bash",
        page="docs/tutorial.md",
    )


def _completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Shell in which the script is read.")],
) -> None:
    """Print a script that completes commands, options and names: eval "$(schemaquake completion bash)"."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415 - others would wait

    script = get_completion_script(prog_name=_PROGRAM, complete_var=ASKED, shell=shell.value)
    write_line(script.replace("\ncompdef ", f"\n{_ZSH_READY}\ncompdef "))


def prepare(environment: MutableMapping[str, str]) -> list[str]:
    """Make Typer ready to answer a shell, and return the command that was typed, if it has its end.

    Bash divides words at colons, and replaces only what stands behind: `cassandra:5` comes as three.
    """
    from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    completion_init()
    environment["COLUMNS"] = _WIDE
    if "COMP_WORDS" in environment:
        _without_colon(environment)
    typed = next((environment[name] for name in _WORDS if name in environment), "")
    words = typed.split()
    return words[1:2] if len(words) > 2 or typed[-1:].isspace() else []


def _without_colon(environment: MutableMapping[str, str]) -> None:
    """Leave what stands behind the last colon as the word to complete, and keep what stands before it."""
    words = environment["COMP_WORDS"].split("\n")
    joined: list[str] = []
    for word in words[: int(environment.get("COMP_CWORD", "0")) + 1]:
        if joined and (word == ":" or joined[-1].endswith(":")):
            joined[-1] += word
        else:
            joined.append(word)
    before, colon, joined[-1] = joined[-1].rpartition(":")
    environment.update({"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1), _BEFORE: before + colon})


def complete_names(kind: str, *further: str, many: bool = False) -> Callable[[str], Sequence[str]]:
    """Return a function that completes the registered names of a kind, or several with commas between them."""

    def completed(incomplete: str) -> Sequence[str]:
        before, comma, last = incomplete.rpartition(",") if many else ("", "", incomplete)
        given = set(before.split(","))
        return [
            f"{before}{comma}{name}" for name in (*names(kind), *further) if name.startswith(last) and name not in given
        ]

    return completed


def complete_systems(incomplete: str) -> Sequence[str]:
    """Complete a known system."""
    systems = (
        f"{product}:{version}" for product, family in load_all("systems").items() for version in family.known_versions
    )
    before = os.environ.get(_BEFORE, "")
    return [system.removeprefix(before) for system in systems if system.startswith(before + incomplete)]

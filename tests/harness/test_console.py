"""Console: the lines of a command and of the processes that it starts count seconds from one moment."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from schemaquake.harness.console import changing_line, clock_of_the_command, lines_of_the_command

LINE = "import logging; from schemaquake.harness.console import configure_logging as c; c(); logging.getLogger('x').info('here')"


def seconds_of_a_line(environment: dict[str, str]) -> float:
    printed = subprocess.run(
        [sys.executable, "-c", LINE], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    ).stderr
    found = re.search(r"\[ *([\d.]+) s\] here", printed)
    assert found, printed
    return float(found[1])


def test_a_process_that_is_started_counts_on() -> None:
    clock = clock_of_the_command()
    (name,) = clock
    long_ago = {name: repr(float(clock[name]) - 5000)}
    assert seconds_of_a_line(long_ago) > 5000


def test_a_command_of_its_own_counts_from_its_start() -> None:
    (name,) = clock_of_the_command()
    assert seconds_of_a_line({name: ""}) < 1000


LEVELS = """
import logging, os, subprocess, sys
from schemaquake.harness.console import configure_logging, lines_of_the_command, progress
configure_logging(**{})
with progress("racing", limit_s=1):
    pass
for level in ("debug", "info", "warning", "error"):
    getattr(logging.getLogger("x"), level)("a line of level " + level)
if len(sys.argv) > 1:
    code = sys.argv[1].replace("**" + "{}", "")
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **lines_of_the_command()}, check=True)
"""


def levels_of(**settings: bool) -> tuple[list[str], list[str]]:
    """The levels of the lines that a command prints, and those of a process that it starts."""
    code = LEVELS.replace("**{}", f"**{settings}")
    argv = [sys.executable, "-c", code, LEVELS]
    found = re.findall(
        r"a line of level (\w+)", subprocess.run(argv, capture_output=True, text=True, check=True).stderr
    )
    second = len(found) - found[::-1].index("error") - 1
    ends = found.index("error") + 1
    return found[:ends], found[ends : second + 1]


def test_a_command_prints_steps_and_a_brief_one_what_goes_wrong() -> None:
    assert levels_of() == (["info", "warning", "error"],) * 2
    assert levels_of(verbose=True) == (["debug", "info", "warning", "error"],) * 2
    assert levels_of(brief=True) == (["warning", "error"], ["error"])


def test_progress_of_a_brief_command_is_a_line_each_where_there_is_no_terminal(capsys) -> None:
    with changing_line("simulating") as show:
        show("n1 [of 2]")
        show("n2")
    assert capsys.readouterr().err == "n1 [of 2]\nn2\n"


def test_the_lines_of_a_process_are_those_of_the_command_that_starts_it() -> None:
    assert [name.startswith("_SCHEMAQUAKE") for name in lines_of_the_command()] == [True]


TABLE = """
from rich.table import Table
from schemaquake.harness.console import stderr
table = Table("finding", box=None, header_style="dim")
table.add_row("SQ-5I7VPJD4-and-more-than-fits-into-the-column")
stderr().print(table)
stderr().print("INVALID", style="bold red")
"""


def printed(code: str, **environment: str) -> str:
    """What a process prints to standard error."""
    clean = {name: text for name, text in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, env={**clean, **environment}, capture_output=True, text=True, check=True).stderr


def test_without_colours_and_in_pipes_the_text_is_plain() -> None:
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[" in printed(TABLE, **terminal)
    assert "\x1b" not in printed(TABLE, **terminal, NO_COLOR="1")
    assert "\x1b" not in printed(TABLE)


def test_a_table_on_a_narrow_terminal_loses_no_letter() -> None:
    text = printed(TABLE, COLUMNS="24")
    assert "".join(text.partition("finding")[2].split()) == "SQ-5I7VPJD4-and-more-than-fits-into-the-columnINVALID"

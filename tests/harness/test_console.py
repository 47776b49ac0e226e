"""Console: the lines of a command and of the processes that it starts count seconds from one moment."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from schemaquake.harness.console import clock_of_the_command

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

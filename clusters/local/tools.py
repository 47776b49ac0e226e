"""Tools: programs of the machine that make what the enclosure of a local cluster holds."""

from __future__ import annotations

from subprocess import TimeoutExpired
from typing import Final

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.limited_command import run_within

__all__ = ["run_tool"]

_LIMIT_S: Final = 60.0
"""Each of them asks the kernel for one thing, and takes milliseconds."""


def run_tool(*argv: str, failure: str) -> None:
    """Run a program to its end. Raises ClusterError, which begins with `failure`, if it fails or takes too long."""
    try:
        finished = run_within(argv, limit_s=_LIMIT_S)
    except TimeoutExpired as error:
        raise ClusterError(f"{failure}: `{' '.join(argv)}` did not end within {_LIMIT_S:g} s") from error
    if finished.returncode != 0:
        reason = finished.stderr.strip() or f"exit code {finished.returncode}"
        raise ClusterError(f"{failure}: failed at `{' '.join(argv)}`: {reason}")

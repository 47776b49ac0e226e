"""The command as a user gives it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

OF_CREATE_TABLE = frozenset({"merged-definitions", "changing-table-id", "lost-rows", "bad-primary-key"})
"""What racing CREATE TABLEs leave behind on 5.0, by the bug catalogue; any one of them will do."""

PATIENCE = ("--start-timeout", "400")
"""For runs on real servers: the first start of three takes minutes where tests beside it use the same cores."""


def schemaquake(
    *arguments: object, expected: Collection[int] = (0,), limit_s: float = 900
) -> subprocess.CompletedProcess[str]:
    """What came of `schemaquake ARGUMENTS`; any other exit code than those expected fails the test."""
    finished = subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    assert finished.returncode in expected, finished.stderr[-4000:]
    return finished


def anomalies(document: Mapping[str, Any]) -> set[str]:
    """The types of anomaly in what `--json` printed of a run."""
    return {anomaly["type"] for anomaly in document["anomalies"]}

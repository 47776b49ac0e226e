"""Rejudging: a bundle's records judged again in a process of its own, within limits of memory and time.

`python -m schemaquake.results.bundle.rejudging FOLDER SECONDS` is the child. It writes the verdict, the tables and the summary into
the folder. A history that ends the process, or asks for more than the machine has, ends the child alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from signal import Signals
from typing import Final

__all__ = ["judge_again"]

_PATIENCE: Final = 40
"""The multiple of one checker's limit after which the child is ended."""
_MESSAGE_MOST: Final = 500


def judge_again(folder: Path, *, limit_s: float) -> str | None:
    """Judge the records of a folder again. Returns None, or the reason for which there is no verdict."""
    argv = [sys.executable, "-P", "-m", "schemaquake.results.bundle.rejudging", str(folder), str(limit_s)]
    try:
        child = subprocess.run(
            argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE * max(limit_s, 1)
        )
    except subprocess.TimeoutExpired:
        return f"judging did not end within {_PATIENCE * max(limit_s, 1):.0f} s"
    if child.returncode == 0:
        return None
    ended = Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
    said = child.stderr.decode(errors="replace").strip().splitlines()
    return f"judging ended with {ended}" + (f": {said[-1][:_MESSAGE_MOST]}" if said else "")


def _judge(folder: Path, limit_s: float) -> str:
    """Judge, tabulate and summarise. Returns the reason for a failure, empty if there is none."""
    from schemaquake.harness.errors import SchemaquakeError  # noqa: PLC0415 - the parent needs none of these
    from schemaquake.harness.run.runner import read_outcome  # noqa: PLC0415
    from schemaquake.results.judging.judge import judge  # noqa: PLC0415
    from schemaquake.results.runs.execution import qualified  # noqa: PLC0415
    from schemaquake.results.store.store import Store  # noqa: PLC0415
    from schemaquake.results.summary.summarise import write_summary  # noqa: PLC0415
    from schemaquake.results.tables.pipeline import analyse  # noqa: PLC0415

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    store = Store(folder)
    try:
        outcome = read_outcome(folder)
        began = store.path("history.parquet").exists()
        verdict = (
            store.read_verdict() if not began else qualified(judge(store, engine="local", limit_s=limit_s), outcome)
        )
        store.write_verdict(verdict)
        if began:
            analyse(store, verdict, engine="local")
        summary = write_summary(store, verdict, outcome)
        store.write_verdict(verdict, [finding.to_json() for finding in summary.findings])
    except SchemaquakeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    reason = _judge(Path(sys.argv[1]), float(sys.argv[2]))
    if reason:
        sys.stderr.write(reason.replace("\n", " ") + "\n")
        sys.exit(1)

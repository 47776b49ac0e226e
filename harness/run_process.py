"""Run process: the process that carries out the run of a folder, identified by its pid and start time."""

from __future__ import annotations

from pathlib import Path

import orjson

__all__ = ["process_start_time", "still_running"]


def process_start_time(pid: int) -> str | None:
    """Return a process's start time in clock ticks since boot, which with the pid identifies it; None: no such process.

    A zombie counts as ended: in a container it may never be reaped.
    """
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    state, *others = stat.rsplit(")", 1)[1].split()
    return None if state in "ZX" else others[18]


def still_running(folder: Path) -> int | None:
    """Return the pid of the run's process if it still lives, by pid and start time."""
    try:
        document = orjson.loads((folder / "process.json").read_bytes())
        pid, began = document["pid"], document["start_time"]
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    started = process_start_time(pid) if type(pid) is int else None
    return pid if started is not None and started == began else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

"""Run process: which process carries out the run of a folder, identified by its pid and start time."""

from __future__ import annotations

from pathlib import Path

import orjson

__all__ = ["process_start_time", "still_running"]


def process_start_time(pid: int) -> str | None:
    """When the kernel says that process started (clock ticks since boot): with the pid, its identity. None: no such process.

    One that has ended is gone, even if nobody has taken note of its end: in a container that may be for ever.
    """
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    state, *others = stat.rsplit(")", 1)[1].split()
    return None if state in "ZX" else others[18]


def still_running(folder: Path) -> int | None:
    """The pid of the run's process if it still lives, by pid and start time."""
    try:
        document = orjson.loads((folder / "process.json").read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    pid = int(document["pid"])
    started = process_start_time(pid)
    return pid if started is not None and started == document["start_time"] else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

"""libfaketime: a wall clock of its own for one process.

The offset stands in a file that the library reads again every second, so a running server can be skewed and restored.
`FAKETIME_FORCE_MONOTONIC_FIX=0` is what makes it usable under a JVM: without it every timed wait returns at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Final

from schemaquake.harness.limited_command import run_limited

__all__ = ["PLACES", "environment", "find_library", "read_offset", "write_offset"]

PLACES: Final = (
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)
"""The paths at which distributions install the library, as patterns of a shell."""
_DATE_WITHIN_S: Final = 30.0
"""The limit of one `date`, which takes milliseconds; under a library that does not suit the C library it may spin for good."""


def find_library() -> Path | None:
    """Find the library on this machine; None if it is not installed (Debian: apt-get install faketime)."""
    for pattern in PLACES:
        for found in sorted(glob(pattern)):  # noqa: PTH207 - the pattern is absolute
            return Path(found)
    return None


def environment(library: Path, offset_file: Path) -> Mapping[str, str]:
    """Return the variables with which a process takes its wall clock from `offset_file`."""
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset_file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


def write_offset(offset_file: Path, offset_s: float) -> None:
    """Set the offset; the process follows within a second. Replaced in one step: a half-written file would be a wrong time."""
    temporary = offset_file.with_suffix(".new")
    temporary.write_text(f"{offset_s:+.3f}\n", encoding="ascii")
    temporary.replace(offset_file)


def read_offset(library: Path, offset_file: Path) -> float:
    """Measure how many seconds a process under the library is ahead of true time, on a fresh `date`.

    Raises EnvironmentLacks if `date` hangs under it, CalledProcessError if it fails.
    """
    asked = time.time()
    finished = run_limited(
        ["date", "+%s.%N"],
        limit_s=_DATE_WITHIN_S,
        advice=f"Install libfaketime anew: under {library} processes hang",
        environment={"PATH": "/usr/bin:/bin", **environment(library, offset_file)},
    )
    finished.check_returncode()
    return float(finished.stdout) - (asked + time.time()) / 2

"""Settime: sets the wall clock of the host it runs on, relative to the kernel's time since boot. A program of its own.

    settime.py anchor               prints the clock minus the time since boot, in seconds: true time's anchor
    settime.py set ANCHOR OFFSET    sets the clock to true time plus an offset in seconds
    settime.py offset ANCHOR        prints the clock minus true time, in seconds

Put on hosts whose Python may be as old as 3.6, and removed again; `settime.pl` does the same where there is only Perl.
"""

import sys
import time

# Python knows it by name since 3.7.
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", 7)
_READINGS = 9
_ATTEMPTS = 50
_CLOSE_S = 0.001


def ahead_of_boot() -> float:
    """Read the clock minus the time since boot: the reading in which the least time passed, of several."""
    readings = []
    for _ in range(_READINGS):
        before = time.clock_gettime(_SINCE_BOOT)
        wall = time.clock_gettime(time.CLOCK_REALTIME)
        after = time.clock_gettime(_SINCE_BOOT)
        readings.append((after - before, wall - (before + after) / 2))
    return min(readings)[1]


def main(verb: str, *numbers: str) -> None:
    """Carry out one verb. Raises PermissionError without CAP_SYS_TIME, ValueError for an unknown verb."""
    values = [float(number) for number in numbers]
    if verb == "anchor":
        print(f"{ahead_of_boot():.6f}")  # noqa: T201 - a program prints its output
    elif verb == "offset":
        print(f"{ahead_of_boot() - values[0]:.6f}")  # noqa: T201 - the same
    elif verb == "set":
        # On a busy host this program may be put aside between reading one clock and setting the other.
        for _ in range(_ATTEMPTS):
            time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(_SINCE_BOOT) + sum(values))
            if abs(ahead_of_boot() - sum(values)) < _CLOSE_S:
                break
    else:
        raise ValueError(f"unknown verb {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])

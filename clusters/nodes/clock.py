"""Clocks of nodes: skewed, read back, and restored by the harness or by a guard on the node.

*Host clock*: the host's own, through a small program put on it and removed with the run's folder; the daemons that keep
it right are stopped before and started after. *Faketime clock*: that of one server, by libfaketime and a file with the
offset; for containers and local nodes, which share their host's clock, and for hosts whose owner set that library up.

On nodes that outlive the harness both refuse to skew unless the guard of that very fault stands, before and after: a
command that arrives when its fault has expired changes nothing. `through` makes the clock of one fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed, Undo

__all__ = ["FaketimeClock", "HostClock"]

_NOT_GUARDED: Final = 75
_NOT_THERE: Final = 44
_ANSWERS_WITHIN_S: Final = 60.0
"""The time that daemons are given to stop and to start."""


class HostClock:
    """The wall clock of a whole host, through `transport` as root."""

    _SCRIPT: Final = "host_clock.sh"
    _FILES: Final = (_SCRIPT, "settime.py", "settime.pl")

    def __init__(self, transport: Transport, *, folder: str, fault_id: int | None = None) -> None:
        """`folder` is the run's own on the host, which holds its guards, too. Without a fault it can only be restored."""
        self._transport = transport
        self._folder = folder
        self._fault_id = fault_id

    def through(self, transport: Transport, fault_id: int) -> HostClock:
        """Return the same clock as one fault skews it, through the fault's own transport."""
        return HostClock(transport, folder=self._folder, fault_id=fault_id)

    def skew(self, offset_s: float) -> None:
        """Shift the clock by `offset_s` from true time; 0 restores it and starts its daemons again. Raises ClusterError."""
        self._place()
        if offset_s == 0:
            self._require_success(self._ask("restore", self._folder))
        else:
            self._require_success(self._ask("skew", self._folder, f"{offset_s:.6f}", _mark(self._fault_id)))

    def offset(self) -> float:
        """Measure how many seconds the clock is ahead of true time, by the kernel's time since boot; 0 if it was never skewed."""
        done = self._ask("offset", self._folder)
        return 0.0 if done.exit_code == _NOT_THERE else float(self._require_success(done))

    def undo(self) -> Sequence[Undo]:
        """Put the scripts on the host and return the command by which root restores the clock; harmless if it is not skewed."""
        self._place()
        script = ("sh", f"{self._folder}/{self._SCRIPT}")
        return [Undo((*script, "restore", self._folder), whole=(*script, "right", self._folder))]

    def environment(self) -> Mapping[str, str]:
        """Return no variables: a server takes its time from the host."""
        return {}

    def refusal(self) -> str | None:
        """Return why the clock cannot be skewed, None if it can. Leaves nothing behind."""
        done = self._transport.run(["sh", "-s", "--", "refusal"], stdin=read_script(self._SCRIPT))
        return self._require_success(done).strip() or None

    def _place(self) -> None:
        there = self._transport.run(["test", "-e", f"{self._folder}/{self._FILES[-1]}"])
        if there.exit_code == 0:
            return
        _make_folder(self._transport, self._folder)
        for name in self._FILES:
            self._transport.put(read_script(name), f"{self._folder}/{name}", mode=0o700)

    def _ask(self, *arguments: str) -> Executed:
        script = f"{self._folder}/{self._SCRIPT}"
        asked = ["sh", "-c", f'[ -e "$1" ] || exit {_NOT_THERE}; exec sh "$@"', "sh", script, *arguments]
        return self._transport.run(asked, timeout_s=_ANSWERS_WITHIN_S)

    def _require_success(self, done: Executed) -> str:
        return _require_success(self._transport, done)


class FaketimeClock:
    """The wall clock of one server and of other processes with the same `environment`, through `transport` as root."""

    _WRITE: Final = (
        'echo "$3" > "$2.new" && chmod 644 "$2.new" && mv -f "$2.new" "$2" || { rm -f "$2.new" "$2"; exit 1; }'
    )
    _WRITE_GUARDED: Final = (
        'stands() { [ -e "$1/armed" ] || { '
        'echo "clock: no guard stands in $1: the fault has expired, or was never armed" >&2; return 1; }; }; '
        f'stands "$1/$4" || exit {_NOT_GUARDED}; {_WRITE}; stands "$1/$4" || {{ rm -f "$2"; exit {_NOT_GUARDED}; }}'
    )
    # Between two readings of true time; the library is for the one in the middle alone.
    _OFFSET: Final = (
        "unset LD_PRELOAD; date +%s.%N; "
        "FAKETIME_TIMESTAMP_FILE=$2 LD_PRELOAD=$1 FAKETIME_NO_CACHE=1 date +%s.%N; date +%s.%N"
    )
    _PROBE_S: Final = 3600.0
    _PROBE: Final = f'probe=$(mktemp) && trap "rm -f $probe" EXIT && echo +{_PROBE_S:g} > "$probe" && set -- "$1" "$probe"; {_OFFSET}'
    _FIND: Final = 'for library in "$@"; do [ ! -e "$library" ] || { echo "$library"; exit 0; }; done'

    def __init__(
        self,
        transport: Transport,
        *,
        folder: str,
        library: str | None = None,
        offset_file: str | None = None,
        guarded: bool = True,
        fault_id: int | None = None,
    ) -> None:
        """`folder` is the run's own on the node; `offset_file` lies in it unless the owner's server reads another.

        `library`: None is where the distributions put it. `guarded`: False for servers that end with the harness, so that
        no guard has to stand; else the clock can be skewed for a fault alone.
        """
        self._fault_id = fault_id
        self._transport = transport
        self._folder = folder
        self._library = library
        self._offset_file = f"{folder}/clock_offset" if offset_file is None else offset_file
        self._guarded = guarded

    def through(self, transport: Transport, fault_id: int) -> FaketimeClock:
        """Return the same clock as one fault skews it, through the fault's own transport."""
        return FaketimeClock(
            transport,
            folder=self._folder,
            library=self._library,
            offset_file=self._offset_file,
            guarded=self._guarded,
            fault_id=fault_id,
        )

    def skew(self, offset_s: float) -> None:
        """Shift the clock by `offset_s` from true time, which the server follows within a second; 0 restores it. Raises ClusterError."""
        if offset_s == 0:
            for step in self.undo():
                self._require_success(self._transport.run(step.argv))
            return
        if self._guarded:
            _make_folder(self._transport, self._folder)
        skew = [
            "sh",
            "-c",
            self._WRITE_GUARDED if self._guarded else self._WRITE,
            "sh",
            self._folder,
            self._offset_file,
            f"{offset_s:+.3f}",
            _mark(self._fault_id),
        ]
        self._require_success(self._transport.run(skew))

    def offset(self) -> float:
        """Measure how many seconds a process under the library and the file is ahead of true time. Raises ClusterError."""
        return self._measured(self._OFFSET)

    def _measured(self, script: str) -> float:
        done = self._transport.run(["sh", "-c", script, "sh", self._found(), self._offset_file])
        try:
            before, shown, after = map(float, self._require_success(done).split())
        except ValueError as error:
            raise ClusterError(f"{self._transport.described()}: `date` printed no time: {done.stdout!r}") from error
        return shown - (before + after) / 2

    def undo(self) -> Sequence[Undo]:
        """Return the command that restores the clock by removing the file, which takes no room on a disk that is full."""
        return [Undo(("rm", "-f", self._offset_file), whole=("test", "!", "-e", self._offset_file))]

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which a server follows this clock. Raises ClusterError without the library."""
        return libfaketime.environment(Path(self._found()), Path(self._offset_file))

    def refusal(self) -> str | None:
        """Try the library on a temporary file, and return why the clock cannot be skewed, None if it can."""
        try:
            shown_s = self._measured(self._PROBE)
        except ClusterError as error:
            return str(error)
        if abs(shown_s - self._PROBE_S) < self._PROBE_S / 2:
            return None
        return f"{self._transport.described()}: {self._library} does not change the time that a process there sees"

    def _found(self) -> str:
        if self._library is None:
            # The node's shell expands the patterns.
            script = self._FIND.replace('"$@"', " ".join(libfaketime.PLACES))
            found = self._require_success(self._transport.run(["sh", "-c", script])).strip()
            if not found:
                raise ClusterError(
                    f"{self._transport.described()}: there is no libfaketime (Debian: apt-get install faketime)"
                )
            self._library = found
        return self._library

    def _require_success(self, done: Executed) -> str:
        return _require_success(self._transport, done)


def _mark(fault_id: int | None) -> str:
    """Name the folder of the fault's guard, as guards do; one that is not there for no fault."""
    return "no-fault" if fault_id is None else f"fault-{fault_id}"


def _make_folder(transport: Transport, folder: str) -> None:
    """Make the run's folder, which root may list and a server may pass through."""
    _require_success(transport, transport.run(["sh", "-c", 'mkdir -p "$1" && chmod 711 "$1"', "sh", folder]))


def _require_success(transport: Transport, done: Executed) -> str:
    if done.exit_code != 0:
        answer = done.stderr.strip() or done.stdout.strip() or f"exit code {done.exit_code}"
        raise ClusterError(f"{transport.described()}: {answer}")
    return done.stdout

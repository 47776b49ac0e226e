"""Guards: dead man's switches on the nodes themselves, one for every fault on every node.

A guard (`guard.sh`) stands before its fault is injected. When the fault was healed it is told so and goes. When nobody
tells it anything, because the harness, its machine or its network died, it carries out the fault's undo by itself and
leaves a record. It counts the time since the node's kernel was booted, lives in a session (under systemd, a service) of
its own, and holds its undo in memory: a wall clock that jumps, an SSH daemon that ends and a disk that is full do not
concern it. A reboot ends it, and with it the rules, the frozen process and the stopped time daemon it was there for.

    STATE/RUN/guard.sh         while any guard of the run stands
    STATE/RUN/fault-3/         one fault: its undo, its times, its guard's pid, and in the end the record
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from threading import RLock
from typing import Final, TypeAlias, TypeVar

from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Executed, Fault, Undo, UndoVerb

__all__ = ["Fired", "Guard", "Guards", "Verbs"]

log = logging.getLogger(__name__)

Verbs: TypeAlias = Callable[[UndoVerb], Sequence[Sequence[str]]]
"""The commands behind a verb on one node, as whoever the guard runs as (root)."""

T = TypeVar("T")

_SCRIPT: Final = "guard.sh"
_GONE: Final = "gone"
_RUNNING: Final = "running"
_ANSWERS_WITHIN_S: Final = 120.0
"""A guard that is in the middle of undoing is waited for: each of its commands may take half a minute."""

# What lies there is carried out as root by and by, so nobody else may write there, or have made it.
_PREPARE: Final = """
{ [ -d "$1" ] || mkdir -p -m 755 "$1"; } && { [ -d "$2" ] || mkdir -m 700 "$2"; } || exit 1
for folder in "$1" "$2"; do
  case $(stat -c '%u %a' "$folder") in
    "$(id -u) "*[2367] | "$(id -u) "*[2367]?) echo "$folder may be written by others" >&2; exit 1 ;;
    "$(id -u) "*) ;;
    *) echo "$folder is somebody else's" >&2; exit 1 ;;
  esac
done
[ ! -e "$2/guard.sh" ] || echo placed
"""
# The folder of the run goes with the last guard, and that of all runs with the last run.
_CLEAR: Final = """
for fault in "$2"/fault-*; do
  [ ! -e "$fault" ] || exit 0
done
rm -f "$2/guard.sh"
rmdir "$2" "$1" 2> /dev/null
exit 0
"""
_ASK: Final = '[ -e "$1" ] || exit 0; exec sh "$@"'
_LIST: Final = """
for fault in "$1"/fault-*; do
  [ ! -e "$fault/$2" ] || echo "${fault##*/fault-}"
done
"""


@dataclass(frozen=True, slots=True)
class Fired:
    """What a guard, or whoever healed by it, has done: when (s after arming), and each command with its exit code.

    A null code is of a command that still ran when it was left. `ended` is false while it goes on, or if it broke off.
    """

    after_s: float
    done: tuple[tuple[tuple[str, ...], int | None], ...]
    ended: bool

    def to_json(self) -> JSON:
        """`{"after_s", "done": [{"argv", "exit_code"}]}`."""
        done = [{"argv": list(argv), "exit_code": code} for argv, code in self.done]
        return {"after_s": self.after_s, "done": done} | ({} if self.ended else {"broke_off": True})


class Guard:
    """The guards of one run on one node. Safe to use from several threads of one process."""

    def __init__(self, transport: Transport, *, state: str, run: str, verbs: Verbs) -> None:
        """`transport` acts as root. `state` is the folder of all runs on the node, `run` the name of this one."""
        if not run or "/" in run or run.startswith("."):
            raise ValueError(f"not the name of a run: {run!r}")
        self._transport = transport
        self._state = state
        self._folder = str(PurePosixPath(state) / run)
        self._verbs = verbs
        self._lock = RLock()

    @property
    def folder(self) -> str:
        """Where the run's guards are, on the node; a guard of fault 3 stands if there is a `fault-3/armed` in it."""
        return self._folder

    def arm(self, fault_id: int, undo: Sequence[Undo], *, after_s: float) -> None:
        """Have the node carry out `undo` in `after_s` seconds; returns when the guard stands.

        Raises ClusterError, with the node's own words, if it cannot (then it does not stand, and nothing is left), and
        NodeUnreachable (then nobody knows, until `disarm`).
        """
        text = "".join(f"{line}\n" for line in [*map(_line, self._commands(undo)), "end"])
        with self._lock:
            self._place()
            argv = ["sh", *self._arguments("arm", fault_id), str(round(100 * after_s))]
            done = self._run(*argv, stdin=text.encode())
            if done.exit_code != 0:
                self._clear()
            self._insist(done, "arm", fault_id)

    def disarm(self, fault_id: int) -> Fired | None:
        """End the guard of this fault and all that is left of it; returns what it had done before, null if nothing.

        Idempotent. One that is in the middle of undoing is waited for.
        """
        with self._lock:
            said = self._ask("disarm", fault_id)
            self._clear()
        if said.strip() == _GONE:
            log.warning("a guard had died", extra={"where": self._transport.described(), "fault": fault_id})
            return None
        return _fired(said)

    def fire(self, fault_id: int) -> Fired | None:
        """Carry out the undo now, in the guard's place, and return what was done; null if there is no such guard."""
        return _fired(self._ask("fire", fault_id))

    def fired(self, fault_id: int) -> Fired | None:
        """What the guard has done by itself so far; null if nothing, or if there is none."""
        return _fired(self._ask("record", fault_id))

    def armed(self) -> Sequence[int]:
        """The faults of this run whose guards are set here, whoever set them."""
        return self._listed("armed")

    def known(self) -> Sequence[int]:
        """The same, and those whose guards have fired and were not asked since."""
        return self._listed("undo")

    def _listed(self, mark: str) -> Sequence[int]:
        listed = self._run("sh", "-c", _LIST, "sh", self._folder, mark)
        return sorted(int(number) for number in listed.stdout.split())

    def _commands(self, undo: Sequence[Undo]) -> list[Sequence[str]]:
        commands: list[Sequence[str]] = []
        for step in undo:
            commands += [step.argv] if step.verb is None else self._verbs(step.verb)
        return commands

    def _place(self) -> None:
        prepared = self._run("sh", "-c", _PREPARE, "sh", self._state, self._folder)
        if prepared.exit_code != 0:
            raise ClusterError(f"{self._transport.described()}: no guard can stand: {prepared.stderr.strip()}")
        if not prepared.stdout:
            script = read_script(_SCRIPT)
            try:
                self._transport.put(script, f"{self._folder}/{_SCRIPT}", mode=0o755)
            except NodeUnreachable:
                raise
            except ClusterError:
                self._clear()
                raise

    def _clear(self) -> None:
        self._run("sh", "-c", _CLEAR, "sh", self._state, self._folder)

    def _ask(self, verb: str, fault_id: int) -> str:
        """What guard.sh prints; nothing where it is not, for then there is no guard of this run either."""
        done = self._run("sh", "-c", _ASK, "sh", *self._arguments(verb, fault_id))
        self._insist(done, verb, fault_id)
        return done.stdout

    def _arguments(self, verb: str, fault_id: int) -> list[str]:
        return [f"{self._folder}/{_SCRIPT}", verb, f"{self._folder}/fault-{fault_id}"]

    def _insist(self, done: Executed, verb: str, fault_id: int) -> None:
        if done.exit_code != 0:
            said = done.stderr.strip() or f"exit code {done.exit_code}"
            raise ClusterError(f"{self._transport.described()}: fault {fault_id}: guard.sh {verb}: {said}")

    def _run(self, *argv: str, stdin: bytes | None = None) -> Executed:
        return self._transport.run(argv, timeout_s=_ANSWERS_WITHIN_S, stdin=stdin)


class Guards:
    """The guards of a whole cluster, as `schemaquake.harness.model.protocols.Guarded` wants them; every node is asked at the same time."""

    def __init__(self, guards: Mapping[str, Guard], *, max_fault_s: float) -> None:
        """`guards` by the nodes' names."""
        self._guards = guards
        self.max_fault_s = max_fault_s

    def arm(self, fault: Fault, undo: Mapping[str, Sequence[Undo]]) -> None:
        """Returns when a guard stands on every node of `undo`. Raises ClusterError: some may stand then, until `disarm`."""
        self._each(undo, lambda name, guard: guard.arm(fault.id, undo[name], after_s=self.max_fault_s))

    def disarm(self, fault: Fault) -> None:
        """End every guard of this fault, on whichever node; idempotent. Raises ClusterError."""
        self._each(self._guards, lambda _, guard: guard.disarm(fault.id))

    def expired(self, fault: Fault) -> Mapping[str, JSON]:
        """What guards of this fault have done by themselves, by node. Raises ClusterError."""
        fired = self._each(self._guards, lambda _, guard: guard.fired(fault.id))
        return {name: done.to_json() for name, done in fired.items() if done is not None}

    def end(self, name: str, fault_id: int) -> None:
        """End the guard of one fault on one node. Raises ClusterError."""
        self._guards[name].disarm(fault_id)

    def fire(self, fault_id: int) -> Mapping[str, JSON]:
        """Undo a fault now, on every node where it has a guard; what was done, by node. Raises ClusterError."""
        fired = self._each(self._guards, lambda _, guard: guard.fire(fault_id))
        return {name: done.to_json() for name, done in fired.items() if done is not None}

    def known(self) -> Mapping[str, Sequence[int]]:
        """The faults that have, or had, a guard and were never told to be healed, by node. Raises ClusterError."""
        return {
            name: faults for name, faults in self._each(self._guards, lambda _, guard: guard.known()).items() if faults
        }

    def _each(self, names: Sequence[str] | Mapping[str, object], act: Callable[[str, Guard], T]) -> dict[str, T]:
        """All are tried before the first error is raised."""
        if not names:
            return {}
        with ThreadPoolExecutor(max_workers=len(names)) as pool:
            pending = {name: pool.submit(act, name, self._guards[name]) for name in names}
        failed = {name: raised for name, future in pending.items() if (raised := future.exception()) is not None}
        if failed:
            text = "; ".join(f"{name}: {raised}" for name, raised in failed.items())
            raise ClusterError(text) from next(iter(failed.values()))
        return {name: future.result() for name, future in pending.items()}


def _line(argv: Sequence[str]) -> str:
    """An argument vector as a line that a shell takes apart into exactly it."""
    line = shlex.join(argv)
    if not argv or "\n" in line or "\0" in line:
        raise ClusterError(f"this cannot be kept for a guard, which reads a command a line: {list(argv)!r}")
    return line


def _fired(record: str) -> Fired | None:
    """What `carry_out` of guard.sh wrote; a disk that became full may have cut it off, or it was begun more than once."""
    lines = record.splitlines()
    begun = [number for number, line in enumerate(lines) if line.startswith("after ")]
    if not begun:
        return None
    done = []
    for line in lines[begun[-1] + 1 :]:
        code, _, command = line.partition(" ")
        if command:
            try:
                done.append((tuple(shlex.split(command)), None if code == _RUNNING else int(code)))
            except ValueError:
                break
    return Fired(int(lines[begun[0]].split()[1]) / 100, tuple(done), ended=lines[-1] == "end")

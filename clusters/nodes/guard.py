"""Guards: dead man's switches on the nodes themselves, one for every fault on every node.

A guard (`guard.sh`) stands before its fault is injected, and is disarmed when the fault was healed and the node was seen
whole. If that does not happen, because the harness, its machine or its network died, the guard undoes the fault by
itself, again and again until it has read back that nothing of it is left, and leaves a record. Injections go through it
(`Guard.fenced`): what arrives when its time is over does nothing.

It counts the time since the node's kernel was booted, lives in a session (under systemd, a service) of its own, and
holds its undo in memory: a wall clock that jumps, an SSH daemon that ends and a full disk do not affect it. If it is
killed, systemd starts it again, and where there is none its twin. A reboot ends it, and with it the packet filter's
rules, the frozen process or the stopped time daemon that it was there for.

    STATE/RUN/guard.sh         while any guard of the run stands
    STATE/RUN/fault-3/         one fault: its undo, its times, its guard's and its twin's pid, and at the end the record
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from threading import RLock
from typing import Final, TypeAlias, TypeVar

from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.lease import owner_here
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import ClusterError, HealError, NodeUnreachable
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Executed, Fault, Undo, UndoVerb

__all__ = ["Fired", "Guard", "Guards", "Verbs"]

log = logging.getLogger(__name__)

Verbs: TypeAlias = Callable[[UndoVerb], Sequence[Undo]]
"""From a verb to the commands by which root carries it out on one node, and reads back that it is done."""

T = TypeVar("T")

_SCRIPT: Final = "guard.sh"
_GONE: Final = "gone"
_AGAIN: Final = "again"
_RUNNING: Final = "running"
_LEFT: Final = "left"
_ENDS: Final = frozenset({"end", "whole"})
_NOT_ARMED: Final = 75
_NOT_WHOLE: Final = 76
_ANSWERS_WITHIN_S: Final = 240.0
"""The time to wait for a guard in the middle of its undo, each command of which may take half a minute."""
_KEPT_WITHIN_S: Final = 20.0

# Root runs what lies there later, so only root may write there or own it.
_PREPARE: Final = """
{ [ -d "$1" ] || mkdir -p -m 755 "$1"; } && { [ -d "$2" ] || mkdir -m 700 "$2"; } || exit 1
for folder in "$1" "$2"; do
  case $(stat -c '%u %a' "$folder") in
    "$(id -u) "*[2367] | "$(id -u) "*[2367]?) echo "$folder may be written by others" >&2; exit 1 ;;
    "$(id -u) "*) ;;
    *) echo "$folder belongs to another user" >&2; exit 1 ;;
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
# The script goes with the last guard of the run, and a fault whose guard is gone has none to ask.
_FENCE: Final = f"""
[ -r "$1" ] && exec sh "$@"
echo "guard: nothing was done, because the fault is not guarded: there is no $1" >&2
exit {_NOT_ARMED}
"""
_LIST: Final = """
for fault in "$1"/fault-*; do
  [ ! -e "$fault/$2" ] || echo "${fault##*/fault-}"
done
"""


@dataclass(frozen=True, slots=True)
class Fired:
    """The record of an undo: when it began (s after arming), and each command with its exit code.

    `done` is the latest round of them. The code is None for a command that still ran when the guard went on. `ended` is
    False for an undo that goes on or broke off, `left` is then the command that did not find the node whole.
    """

    after_s: float
    done: tuple[tuple[tuple[str, ...], int | None], ...]
    ended: bool
    rounds: int = 1
    left: tuple[str, ...] = ()

    def to_json(self) -> JSON:
        """Return `{"after_s", "done": [{"argv", "exit_code"}]}`, and `rounds`, `broke_off` and `left` where they say something."""
        done = [{"argv": list(argv), "exit_code": code} for argv, code in self.done]
        more: dict[str, JSON] = {} if self.rounds == 1 else {"rounds": self.rounds}
        if not self.ended:
            more["broke_off"] = True
        if self.left:
            more["left"] = list(self.left)
        return {"after_s": self.after_s, "done": done, **more}


class Guard:
    """The guards of one run on one node. Safe to use from several threads of one process."""

    def __init__(self, transport: Transport, *, state: str, run: str, verbs: Verbs) -> None:
        """`transport` acts as root. `state` is the folder of all runs on the node, `run` the name of this one."""
        if not run or "/" in run or run.startswith("."):
            raise ValueError(f"not the name of a run: {run!r}")
        self._transport = transport
        self._state = state
        self._folder = str(PurePosixPath(state) / run)
        self._run_name = run
        self._verbs = verbs
        self._lock = RLock()

    @property
    def folder(self) -> str:
        """The folder of the run's guards on the node; a guard of fault 3 stands if `fault-3/armed` exists in it."""
        return self._folder

    def arm(self, fault_id: int, undo: Sequence[Undo], *, after_s: float, about: str = "") -> None:
        """Have the node carry out `undo` in `after_s` seconds until it is whole; returns when the guard stands.

        `about` says in the node's system log whose fault it is.

        Raises ClusterError, with the node's own message, if no guard stands and nothing is left, and NodeUnreachable if
        this is not known until `disarm`.
        """
        text = "".join(f"{line}\n" for line in [*self._lines(undo), "end"])
        told = " ".join(f"{about or 'fault'} {fault_id} of run {self._run_name} ({owner_here()})".split())
        with self._lock:
            self._place()
            argv = ["sh", *self._arguments("arm", fault_id), str(round(100 * after_s)), told]
            done = self._run(*argv, stdin=text.encode())
            if done.exit_code != 0:
                self._clear()
            self._require_success(done, "arm", fault_id)

    def disarm(self, fault_id: int, *, unneeded: bool = False) -> Fired | None:
        """Disarm the guard of this fault and remove its files. Returns what it had done before, None if nothing.

        Idempotent. A guard in the middle of its undo is waited for. The node reads back that it is whole; if it is not,
        the guard stays, and HealError says what is left. `unneeded` disarms without looking: for a fault that was never
        injected, or whose remains no guard can undo.
        """
        with self._lock:
            record = self._ask("disarm", fault_id, *(["unneeded"] if unneeded else []))
            self._clear()
        if record.strip() == _GONE:
            log.warning("a guard had died", extra={"where": self._transport.described(), "fault": fault_id})
            return None
        return _fired(record)

    def fire(self, fault_id: int) -> Fired | None:
        """Undo the fault now, in the guard's place, and return what was done; None if there is no such guard."""
        return _fired(self._ask("fire", fault_id))

    def keep(self, fault_id: int) -> bool:
        """Begin the guard of this fault again if all of it is gone. Returns whether it was; False where none is armed.

        Raises ClusterError, NodeUnreachable.
        """
        argv = ["sh", "-c", _ASK, "sh", *self._arguments("keep", fault_id)]
        done = self._transport.run(argv, timeout_s=_KEPT_WITHIN_S)
        self._require_success(done, "keep", fault_id)
        return done.stdout.strip() == _AGAIN

    def fired(self, fault_id: int) -> Fired | None:
        """Report what the guard has done by itself so far; None if nothing, or if there is no guard."""
        return _fired(self._ask("record", fault_id))

    def fenced(self, fault_id: int, argv: Sequence[str]) -> Sequence[str]:
        """Return the command that carries `argv` out only while this fault's guard stands and its time is not over."""
        return ["sh", "-c", _FENCE, "sh", *self._arguments("fenced", fault_id), *argv]

    def require_let_through(self, done: Executed, fault_id: int) -> None:
        """Raise ClusterError if the fence refused: then nothing was done."""
        if done.exit_code == _NOT_ARMED and done.stderr.startswith("guard: "):
            raise ClusterError(f"{self._transport.described()}: fault {fault_id}: {done.stderr.strip()}")

    def armed(self) -> Sequence[int]:
        """List the faults of this run that have an armed guard here, also one that another process armed."""
        return self._listed("armed")

    def known(self) -> Sequence[int]:
        """List those faults and the ones whose guards have fired and were not disarmed since."""
        return self._listed("undo")

    def _listed(self, mark: str) -> Sequence[int]:
        listed = self._run("sh", "-c", _LIST, "sh", self._folder, mark)
        return sorted(int(number) for number in listed.stdout.split())

    def _lines(self, undo: Sequence[Undo]) -> Iterator[str]:
        """Write the undo as guard.sh reads it."""
        for step in undo:
            if step.verb is not None:
                yield from self._lines(self._verbs(step.verb))
            elif step.whole:
                yield f"undo {_line(step.argv)}"
                yield f"whole {_line(step.whole)}"
            else:
                yield f"alone {_line(step.argv)}"

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

    def _ask(self, verb: str, fault_id: int, *more: str) -> str:
        """Return what guard.sh prints; nothing where the script does not exist, because then no guard of this run does.

        The script may be that of an older version, which knows neither `fenced` nor what `more` says.
        """
        done = self._run("sh", "-c", _ASK, "sh", *self._arguments(verb, fault_id), *more)
        self._require_success(done, verb, fault_id)
        return done.stdout

    def _arguments(self, verb: str, fault_id: int) -> list[str]:
        return [f"{self._folder}/{_SCRIPT}", verb, f"{self._folder}/fault-{fault_id}"]

    def _require_success(self, done: Executed, verb: str, fault_id: int) -> None:
        if done.exit_code != 0:
            answer = done.stderr.strip() or f"exit code {done.exit_code}"
            raised = HealError if done.exit_code == _NOT_WHOLE else ClusterError
            raise raised(f"{self._transport.described()}: fault {fault_id}: guard.sh {verb}: {answer}")

    def _run(self, *argv: str, stdin: bytes | None = None) -> Executed:
        return self._transport.run(argv, timeout_s=_ANSWERS_WITHIN_S, stdin=stdin)


class Guards:
    """The guards of a whole cluster, for `schemaquake.harness.model.protocols.Guarded`; all nodes are asked at once."""

    def __init__(self, guards: Mapping[str, Guard], *, max_fault_s: float) -> None:
        """`guards` are by the nodes' names."""
        self._guards = guards
        self.max_fault_s = max_fault_s

    def arm(self, fault: Fault, undo: Mapping[str, Sequence[Undo]]) -> None:
        """Arm a guard on every node of `undo`, and return when all stand. Raises ClusterError; some may stand then, until `disarm`."""
        self._each(
            undo,
            lambda name, guard: guard.arm(
                fault.id, undo[name], after_s=self.max_fault_s, about=f"{fault.nemesis} fault"
            ),
        )

    def disarm(self, fault: Fault, *, unneeded: bool = False) -> None:
        """Disarm every guard of this fault; idempotent. Raises ClusterError, also for a node that is not whole (`Guard.disarm`)."""
        self._each(self._guards, lambda _, guard: guard.disarm(fault.id, unneeded=unneeded))

    def of(self, name: str) -> Guard:
        """Return the guard of this node."""
        return self._guards[name]

    def expired(self, fault: Fault) -> Mapping[str, JSON]:
        """Report what guards of this fault have done by themselves, by node. Raises ClusterError."""
        fired = self._each(self._guards, lambda _, guard: guard.fired(fault.id))
        return {name: done.to_json() for name, done in fired.items() if done is not None}

    def keep(self, name: str, fault_id: int) -> bool:
        """Begin the guard of one fault on one node again if all of it is gone (`Guard.keep`). Raises ClusterError."""
        return self._guards[name].keep(fault_id)

    def end(self, name: str, fault_id: int) -> None:
        """Disarm the guard of one fault on one node. Raises ClusterError."""
        self._guards[name].disarm(fault_id)

    def fire(self, fault_id: int) -> Mapping[str, JSON]:
        """Undo a fault now on every node where it has a guard, and return what was done, by node. Raises ClusterError."""
        fired = self._each(self._guards, lambda _, guard: guard.fire(fault_id))
        return {name: done.to_json() for name, done in fired.items() if done is not None}

    def known(self) -> Mapping[str, Sequence[int]]:
        """List the faults whose guards were never disarmed, by node. Raises ClusterError."""
        return {
            name: faults for name, faults in self._each(self._guards, lambda _, guard: guard.known()).items() if faults
        }

    def _each(self, names: Sequence[str] | Mapping[str, object], act: Callable[[str, Guard], T]) -> dict[str, T]:
        """Call `act` for every guard at the same time; all are tried before errors are raised."""
        return on_every(names, lambda name: act(name, self._guards[name]))


def _line(argv: Sequence[str]) -> str:
    """Quote an argument vector as one line for a shell. Raises ClusterError for one that has a line's end in it."""
    line = shlex.join(argv)
    if not argv or "\n" in line or "\0" in line:
        raise ClusterError(f"a guard reads one command a line, and this is not one line: {list(argv)!r}")
    return line


def _fired(record: str) -> Fired | None:
    """Parse what `carry_out` of guard.sh wrote; a full disk may have cut it off, and it may have been begun more than once."""
    lines = record.splitlines()
    begun = [number for number, line in enumerate(lines) if line.startswith("after ")]
    if not begun:
        return None
    done: list[tuple[tuple[str, ...], int | None]] = []
    left: tuple[str, ...] = ()
    for line in lines[begun[-1] + 1 :]:
        code, _, command = line.partition(" ")
        if command:
            try:
                words = tuple(shlex.split(command))
                if code == _LEFT:
                    left = words
                else:
                    done.append((words, None if code == _RUNNING else int(code)))
            except ValueError:
                break
    first = lines[begun[0]].split()
    ended = lines[-1] in _ENDS
    return Fired(
        int(first[1]) / 100,
        tuple(done),
        ended=ended,
        rounds=int(first[2]) if len(first) > 2 else len(begun),
        left=() if ended else left,
    )

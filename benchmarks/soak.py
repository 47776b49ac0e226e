"""Soak of the guards: `python -m benchmarks.soak --minutes 10` (`make soak`).

Round after round, a harness injects faults on three hosts behind real sshds, and everything goes wrong at random instants: the
harness is killed, sleeps beyond the bound, is cut off, or heals; guards are killed one at a time; a host's disk is full; the lock
of its packet filter is held. After each round every node must be whole within `max_fault_seconds` and the margin (counted
from the end of the lock, where that is later), must stay whole when a sleeping harness wakes, and must be healed from the ledger.

Needs root, openssh-server and iproute2. One line of JSON a round; exit code 1 if any node was not whole in time. A round is
made from its seed alone, but for what the machine makes of it: `--seed` repeats one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "clusters" / "nodes")]

from ssh_cluster import RUN, STATE, build, document_of  # noqa: E402 - the path is set above
from ssh_hosts import SshHosts, why_not  # noqa: E402
from test_dead_harness import Field, field_in, inside, is_guard, kill, processes  # noqa: E402

from schemaquake.harness.faults.healing import heal_open  # noqa: E402
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger  # noqa: E402
from schemaquake.harness.wait import pause_for  # noqa: E402

MARGIN_S = 30.0
"""What a guard may take beyond its time: rounds that wait for a lock, the pauses between them, a server that is slow to start,
a guard that has to be started again; and a busy machine."""
TOGETHER = [
    "partition",
    "packet-loss",
    "kill",
    "stop",
    "pause",
    "jump",
    "strobe",
    "partition+kill",
    "partition+pause+jump",
]
TOGETHER += ["packet-loss+kill+strobe", "long-packets+stop", "rolling-restart"]
FATES = ["killed", "asleep", "cut", "heals"]
HOSTILITIES = ["guards", "disk", "lock"]
APART_S = 4.0
"""The least time between two killed guards of one host: without systemd, a guard and its twin at once are gone."""


@dataclass
class Outcome:
    seed: int
    kinds: str
    fate: str
    backend: str
    hostile: list[str]
    said: str = ""
    killed_guards: int = 0
    late_s: float | None = None
    wrong: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.wrong


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Round:
    """One harness, its faults, and what befalls both."""

    def __init__(self, hosts: SshHosts, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.hosts = hosts
        self.folder = folder
        self.max_fault_s = self.random.choice([10.0, 14.0, 18.0])
        self.outcome = Outcome(
            seed=seed,
            kinds=self.random.choice(TOGETHER),
            fate=self.random.choice(FATES),
            backend=self.random.choice(["legacy", "nft"]),
            hostile=[each for each in HOSTILITIES if self.random.random() < 0.6],
        )
        self.deadline_s = 0.0
        self.lock_ends_s = 0.0

    def run(self) -> Outcome:
        document = document_of(self.hosts, self.folder, max_fault_s=self.max_fault_s)
        with iptables(self.hosts, self.outcome.backend), field_in(self.hosts, document, self.folder) as around:
            self.field: Field = around
            with ExitStack() as troubles:
                with around.harness(self.outcome.kinds) as harness:
                    self.befall(harness, troubles)
                    self.judge()
                    if self.outcome.fate == "asleep":
                        self.wake(harness)
                around.mend()
                if self.random.random() < 0.5:
                    troubles.close()
                self.heal()
        return self.outcome

    # ── what befalls ──

    def befall(self, harness: subprocess.Popen[str], troubles: ExitStack) -> None:
        """Carry out the round's accidents, each at its time, until the harness is gone and the guards' time is over."""
        began = time.monotonic()
        gone_s = self.random.uniform(0.2, self.max_fault_s)
        todo: list[tuple[float, Callable[[], object]]] = [(gone_s, lambda: self.end_harness(harness))]
        victim = self.random.choice(list(self.hosts.hosts.values()))
        if "disk" in self.outcome.hostile:
            todo.append((self.random.uniform(0, self.max_fault_s), lambda: troubles.enter_context(full_disk(victim))))
        if "lock" in self.outcome.hostile:
            held = troubles.enter_context(ExitStack())
            begins = self.random.uniform(0, self.max_fault_s)
            ends = self.max_fault_s + self.random.uniform(0, 10)
            other = self.random.choice(list(self.hosts.hosts.values()))
            todo += [(begins, lambda: held.enter_context(lock(other))), (ends, lambda: self.unlock(held))]
        killed: dict[str, float] = {}
        while True:
            elapsed = time.monotonic() - began
            for each in [each for each in todo if each[0] <= elapsed]:
                todo.remove(each)
                each[1]()
            self.note_deadlines()
            if "guards" in self.outcome.hostile:
                self.kill_a_guard(killed)
            if not todo and boot_s() > self.deadline_s:
                return
            pause_for(0.2)

    def end_harness(self, harness: subprocess.Popen[str]) -> None:
        match self.outcome.fate:
            case "killed":
                kill(harness)
            case "asleep":
                with suppress(ProcessLookupError):
                    os.kill(harness.pid, signal.SIGSTOP)
            case "cut":
                self.field.cut()
                kill(harness)
            case "heals":
                # Whatever it said so far; a healing that a lock or a full disk stops ends it, and the guards go on.
                with suppress(BrokenPipeError):
                    assert harness.stdin is not None
                    harness.stdin.write("heal\n")
                    harness.stdin.flush()
                with suppress(subprocess.TimeoutExpired):
                    harness.wait(self.max_fault_s)
                self.outcome.said = "healed" if harness.poll() == 0 else "died healing"
                kill(harness)

    def wake(self, harness: subprocess.Popen[str]) -> None:
        """Let a sleeping harness go on for a while: what it had armed before it slept, it may not inject; what it arms now, it may."""
        before_s = self.deadline_s
        os.kill(harness.pid, signal.SIGCONT)
        ends = time.monotonic() + self.random.uniform(1, 4)
        while time.monotonic() < ends:
            pause_for(0.2)
            self.note_deadlines()
        if self.deadline_s == before_s:
            self.require_whole("after the harness woke")
        kill(harness)
        while boot_s() < self.deadline_s:
            self.note_deadlines()
            pause_for(0.2)
        self.judge()

    def unlock(self, held: ExitStack) -> None:
        held.close()
        self.lock_ends_s = boot_s()

    def note_deadlines(self) -> None:
        """Remember until when the guards that stand wait."""
        for host in self.hosts.hosts.values():
            for times in inside(host, f"{STATE}/{RUN}").glob("fault-*/times"):
                with suppress(OSError, ValueError, IndexError):
                    self.deadline_s = max(self.deadline_s, int(times.read_text().split()[1]) / 100)

    def kill_a_guard(self, killed: dict[str, float]) -> None:
        if self.random.random() > 0.15:
            return
        host = self.random.choice(list(self.hosts.hosts.values()))
        guards = [pid for pid, _, words in processes(host) if is_guard(words)]
        if time.monotonic() - killed.get(host.name, 0.0) < APART_S or len(guards) < 2:
            return
        killed[host.name] = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(self.random.choice(guards), signal.SIGKILL)
            self.outcome.killed_guards += 1

    # ── what must be so afterwards ──

    def wrong(self) -> list[str]:
        """List what is not whole; the field's own look does not see rules of the older backend."""
        found = list(self.field.wrong())
        for host in self.hosts.hosts.values():
            listed = host.exec("iptables-legacy", "-w", "60", "-S").stdout
            found += [f"{host.name}: {line}" for line in listed.splitlines() if "schemaquake" in line]
        return found

    def judge(self) -> None:
        due = max(self.deadline_s, self.lock_ends_s) or boot_s()  # a harness that never armed anything
        wrong = self.wrong()
        while wrong and boot_s() < due + MARGIN_S:
            pause_for(0.2)
            wrong = self.wrong()
        self.outcome.late_s = max(self.outcome.late_s or 0.0, round(boot_s() - due, 2))
        self.outcome.wrong += [f"{self.outcome.late_s} s late: {text}" for text in wrong]

    def require_whole(self, when: str) -> None:
        self.outcome.wrong += [f"{when}: {text}" for text in self.wrong()]

    def heal(self) -> None:
        ledger = Ledger(self.folder / FILE_NAME)
        try:
            mended = heal_open(build(self.field.document), ledger)
        finally:
            ledger.close()
        self.outcome.wrong += [f"healing: {text}" for text in mended.left]
        self.require_whole("after healing")
        self.outcome.wrong += [
            f"a guard of fault {number} is left on {name}" for name, number in self.field.guards().items()
        ]


@contextmanager
def iptables(hosts: SshHosts, backend: str) -> Iterator[None]:
    """Let the hosts' iptables be of this backend."""
    tools = hosts.folder / "bin"
    tools.mkdir(mode=0o755, exist_ok=True)
    made = []
    for tool in ("iptables", "ip6tables"):
        found = shutil.which(f"{tool}-{backend}", path="/usr/sbin:/sbin")
        if found is not None:
            (tools / tool).symlink_to(found)
            made.append(tools / tool)
    try:
        yield
    finally:
        for link in made:
            link.unlink()


@contextmanager
def full_disk(host: object) -> Iterator[None]:
    filling = inside(host, "/run/filling")
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        filling.unlink(missing_ok=True)


@contextmanager
def lock(host: object) -> Iterator[None]:
    enter = ["nsenter", "--target", str(host.sshd.pid), "--mount"]  # type: ignore[attr-defined]
    hold = ["flock", "/run/xtables.lock", "sh", "-c", "echo held; exec cat"]
    with subprocess.Popen([*enter, *hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()


def soak(minutes: float, seed: int | None, first: int) -> list[Outcome]:
    """Run rounds for that long, or the one of that seed."""
    ends = time.monotonic() + 60 * minutes
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="schemaquake-soak-") as name, SshHosts(Path(name) / "hosts", 3) as hosts:
        while time.monotonic() < ends:
            folder = Path(name) / f"round-{len(outcomes)}"
            folder.mkdir()
            outcomes.append(Round(hosts, folder, first + len(outcomes) if seed is None else seed).run())
            print(json.dumps(asdict(outcomes[-1])), flush=True)
            if seed is not None:
                break
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long rounds are begun")
    parser.add_argument("--seed", type=int, help="the seed of one round, which is repeated")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first round; those of the others follow")
    chosen = parser.parse_args()
    if (lack := why_not()) is not None:
        parser.error(lack)
    outcomes = soak(chosen.minutes, chosen.seed, chosen.first)
    whole = [outcome for outcome in outcomes if outcome.is_whole]
    latest = max((outcome.late_s for outcome in outcomes if outcome.late_s is not None), default=0.0)
    killed = sum(outcome.killed_guards for outcome in outcomes)
    print(
        f"{len(whole)} of {len(outcomes)} rounds whole within max_fault_seconds and {MARGIN_S:g} s; the latest {latest:g} s after its "
        f"time; {killed} guards killed",
        file=sys.stderr,
    )
    raise SystemExit(0 if len(whole) == len(outcomes) else 1)


if __name__ == "__main__":
    main()

"""Guards on this very machine: real processes, short times, and every way in which nobody comes to heal."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import pytest
from here_transport import HereTransport
from places import ROOT, SUPPORT

from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.fence import FencedTransport
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.guard_watch import GuardWatch
from schemaquake.clusters.nodes.lease import owner_here
from schemaquake.clusters.nodes.scripts import read_script
from schemaquake.harness.errors import ClusterError, HealError, NodeUnreachable
from schemaquake.harness.model.protocols import Executed, Fault, Guarded, Undo
from schemaquake.harness.wait import pause_for, until

SHELLS = ["dash", "bash", "busybox"]
HOURS_S = 3600.0
_TOOLS = ["sh", "mv", "cat", "tail", "sleep", "setsid", "mkdir", "rm", "rmdir", "kill", "stat", "id", "chmod", "touch"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, or own what is another's")


@dataclass
class Bench:
    """A node of which the guard thinks that it is far away."""

    transport: HereTransport
    state: Path

    def __post_init__(self):
        self.guard = self.another()

    def another(self, verbs=None):
        """The same guards, as a second machine sees them."""
        return Guard(self.transport, state=str(self.state), run="run-1", verbs=verbs or {}.__getitem__)

    def path(self, name="undone"):
        return self.transport.folder / name

    def undo(self, name="undone"):
        """One line more in a file of this name for every time that it is carried out."""
        return [Undo(("sh", "-c", 'echo x >> "$1"', "sh", str(self.path(name))))]

    def undone(self, name="undone"):
        return len(self.path(name).read_text()) // 2 if self.path(name).exists() else 0

    def await_undone(self, name="undone"):
        until(lambda: self.undone(name), deadline_s=30, what="the undo", every_s=0.01)

    @property
    def processes(self):
        return processes_of(self.transport.folder)

    def pid(self, role="guard", fault=3):
        """The pid of a fault's guard or of its twin, as soon as it has signed."""

        def signed():
            path = self.state / "run-1" / f"fault-{fault}" / role
            words = path.read_text().split() if path.exists() else []
            return int(words[0]) if words and Path(f"/proc/{words[0]}").exists() else None

        return until(signed, deadline_s=30, what=f"a {role}", every_s=0.02)

    def kill_guards(self):
        kill_guards_of(self.transport.folder)

    @property
    def files(self):
        return (
            sorted(str(path.relative_to(self.state)) for path in self.state.rglob("*")) if self.state.exists() else []
        )


def processes_of(folder):
    """Pids of whatever has this folder in its command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode("utf-8", "replace")
            if (
                f"{folder}/" in words
                and ("guard.sh" in words or "twin.sh" in words)
                and int(process.name) != os.getpid()
            ):
                found.append(int(process.name))
    return found


def kill_guards_of(folder):
    """All at once: none has the time to start another again."""
    frozen = set()
    while found := set(processes_of(folder)) - frozen:
        for pid in found:
            stop(pid)
        frozen |= found
    for pid in frozen:
        stop(pid, signal.SIGKILL)
    until(lambda: not processes_of(folder), deadline_s=30, what="their end", every_s=0.02)


@contextmanager
def bench_in(folder, shell="dash"):
    transport = HereTransport(folder / "node")
    speak(transport, shell)
    try:
        yield Bench(transport, folder / "node" / "state")
    finally:
        kill_guards_of(folder)


def speak(transport, shell):
    """Let the node's `sh` be this one; with busybox all its other tools, too."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here (apt-get install {shell})")
    for tool in _TOOLS if shell == "busybox" else ["sh"]:
        (transport.folder / "bin" / tool).symlink_to(found)


@pytest.fixture
def bench(tmp_path):
    with bench_in(tmp_path) as bench:
        yield bench


@pytest.fixture(params=SHELLS)
def any_bench(tmp_path, request):
    with bench_in(tmp_path, request.param) as bench:
        yield bench


# ── nobody comes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_nobody_heals_is_undone_in_time_and_on_record(any_bench):
    bench = any_bench
    began = time.monotonic()
    bench.guard.arm(3, [Undo(("false",)), *bench.undo(), Undo(("no-such-tool", "a b"))], after_s=1.5)
    assert time.monotonic() - began < 30
    assert bench.guard.armed() == [3]
    assert bench.guard.fired(3) is None
    bench.await_undone()
    assert time.monotonic() - began >= 1.5
    until(lambda: bench.guard.fired(3).ended, deadline_s=120, what="the record")
    fired = bench.another().fired(3)
    assert fired.after_s >= 1.5
    assert [(argv[0], code) for argv, code in fired.done] == [("false", 1), ("sh", 0), ("no-such-tool", 127)]
    assert fired.rounds == 3, "nothing can be read back, so what fails is tried a few times"
    assert fired.done[2][0] == ("no-such-tool", "a b")
    assert (bench.guard.armed(), bench.guard.known()) == ([], [3])
    until(lambda: not bench.processes, deadline_s=120, what="the guard's end")
    assert bench.another().disarm(3) == fired
    assert bench.files == []
    assert not bench.state.exists()
    assert bench.undone() == 3


def test_what_is_healed_in_time_is_left_alone(any_bench):
    bench = any_bench
    bench.guard.arm(3, bench.undo(), after_s=1.0)
    assert bench.processes
    assert bench.guard.disarm(3) is None
    # What was killed is listed until the kernel has put it away.
    until(lambda: not bench.processes, deadline_s=120, what="the guard's end")
    assert bench.files == []
    pause_for(1.5)
    assert bench.undone() == 0
    assert bench.guard.disarm(3) is None
    assert bench.guard.fired(3) is None


HARNESS = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from here_transport import HereTransport
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.harness.model.protocols import Undo
guard = Guard(HereTransport(Path({folder!r})), state={state!r}, run="run-1", verbs=None)
guard.arm(3, [Undo(("touch", {undone!r}))], after_s=1.0)
print("armed", flush=True)
time.sleep(600)
"""


def test_a_harness_that_is_killed_with_all_its_session_is_not_missed(bench):
    paths = [str(SUPPORT), str(ROOT)]
    text = HARNESS.format(
        paths=paths, folder=str(bench.transport.folder), state=str(bench.state), undone=str(bench.path())
    )
    harness = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, start_new_session=True)
    with harness:
        assert harness.stdout.readline() == "armed\n"
        os.killpg(harness.pid, signal.SIGKILL)
    assert not bench.path().exists()
    until(bench.path().exists, deadline_s=30, what="the undo")
    assert bench.guard.disarm(3).done[0][1] == 0


@pytest.mark.parametrize("jump_s", [HOURS_S, -HOURS_S])
def test_a_wall_clock_that_jumps_does_not_concern_it(bench, jump_s, monkeypatch):
    library = libfaketime.find_library()
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    offsets = bench.path("offset")
    libfaketime.write_offset(offsets, 0.0)
    for name, value in {**libfaketime.environment(library, offsets), "FAKETIME_NO_CACHE": "1"}.items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    bench.guard.arm(3, bench.undo(), after_s=5)
    libfaketime.write_offset(offsets, jump_s)
    assert abs(libfaketime.read_offset(library, offsets) - jump_s) < 5
    bench.await_undone()
    assert 5 <= time.monotonic() - began < 60
    assert bench.guard.disarm(3).after_s < 60


def test_a_guard_whose_folder_was_swept_away_undoes_all_the_same(bench):
    bench.guard.arm(3, bench.undo(), after_s=1.0)
    shutil.rmtree(bench.state)
    bench.await_undone()


def test_a_guard_that_is_politely_told_to_end_undoes_at_once(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    os.kill(bench.pid(), signal.SIGTERM)
    bench.await_undone()
    assert bench.guard.disarm(3).after_s < 60


@needs_root
@pytest.mark.skipif(shutil.which("setpriv") is None or shutil.which("prlimit") is None, reason="needs util-linux")
@pytest.mark.parametrize("moment", ["waiting", "undoing"])
def test_a_node_that_runs_out_of_processes_gets_its_fault_undone_when_there_are_some_again(bench, monkeypatch, moment):
    """As a user who is not root, for root is not held to its limits; of an own number, for others may run this, too."""
    user = 64077 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    # pytest's own folders are its user's alone.
    for path in takewhile(lambda path: path != Path(gettempdir()), bench.transport.folder.parents):
        path.chmod(path.stat().st_mode | 0o711)
    bench.transport.folder.chmod(0o777)
    run = bench.transport.run
    nobody = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    monkeypatch.setattr(bench.transport, "run", lambda argv, **rest: run([*nobody, *argv], **rest))
    begun, go = str(bench.path("begun")), str(bench.path("go"))
    wait = Undo(("sh", "-c", 'touch "$1"; until [ -e "$2" ]; do sleep 0.1; done', "sh", begun, go))
    bench.guard.arm(3, [wait, *bench.undo()], after_s=3.0 if moment == "waiting" else 0.5)
    bench.pid("guard"), bench.pid("twin")
    if moment == "undoing":
        until(bench.path("begun").exists, deadline_s=60, what="the undo's beginning")
    # Who is frozen starts nobody, so that after a round that finds no more all of them are known.
    frozen = set()
    while found := processes_of_user(user) - frozen:
        for pid in found:
            stop(pid)
            subprocess.run([*nobody, "prlimit", f"--pid={pid}", "--nproc=0:", "--nofile=40:"], check=False)
        frozen |= found
    for pid in frozen:
        stop(pid, signal.SIGCONT)
    bench.path("go").touch()

    def beginning_again():
        """Not for ever the same one: who was woken first takes the other, which still sleeps, for dead."""
        return [pid for pid in processes_of_user(user) if "\0await\0" in read_or_nothing(Path(f"/proc/{pid}/cmdline"))]

    until(beginning_again, deadline_s=60, what="a guard that begins again")
    deadline_cs = int((bench.state / "run-1" / "fault-3" / "times").read_text().split()[1])
    until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > deadline_cs / 100 + 1, deadline_s=60, what="its time")
    assert bench.undone() == 0
    # It begins again and again, some hundred times a second, and nothing of it may grow.

    def sizes():
        return [len(read_or_nothing(Path(f"/proc/{pid}/environ"))) for pid in beginning_again()]

    until(lambda: any(sizes()), deadline_s=60, what="an environment")
    assert max(sizes(), default=0) < 20_000

    def released():
        for pid in processes_of_user(user):
            subprocess.run(
                [*nobody, "prlimit", f"--pid={pid}", "--nproc=4000:"], check=False, stderr=subprocess.DEVNULL
            )
        return bench.undone()

    until(released, deadline_s=60, what="the undo")


def processes_of_user(user):
    return {
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if (status := read_or_nothing(process / "status")) and f"\nUid:\t{user}\t" in status
    }


def read_or_nothing(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def stop(pid, number=signal.SIGSTOP):
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def test_a_command_that_hangs_does_not_keep_the_next_from_its_turn(bench, monkeypatch):
    hasty = read_script("guard.sh").decode()
    assert "COMMAND_ENDS_WITHIN=3000 " in hasty
    hasty = hasty.replace("COMMAND_ENDS_WITHIN=3000 ", "COMMAND_ENDS_WITHIN=100 ")
    put = bench.transport.put
    monkeypatch.setattr(bench.transport, "put", lambda content, target, **mode: put(hasty.encode(), target, **mode))
    bench.guard.arm(3, [Undo(("sleep", "20")), *bench.undo()], after_s=1.0)
    bench.await_undone()
    assert [code for _, code in bench.guard.disarm(3).done] == [None, 0]


# ── what is carried out is what was given ────────────────────────────────────────────────────────────────────────────

STRANGE = [
    "",
    " ",
    "a b",
    "$HOME",
    "`id`",
    "$(id)",
    "it's",
    '"',
    "\\",
    "*",
    "-n",
    "--",
    "&",
    ";",
    "|",
    "#",
    "ä→ß",
    "end",
    "\t",
]


def test_no_shell_takes_a_word_of_an_undo_for_anything_but_itself(any_bench):
    bench = any_bench
    script = "import json, sys; print(json.dumps(sys.argv[2:]), file=open(sys.argv[1], 'a'))"
    argv = (sys.executable, "-ISc", script, str(bench.path()), *STRANGE)
    bench.guard.arm(3, [Undo(argv), Undo(argv)], after_s=1.0)
    until(lambda: (fired := bench.guard.fired(3)) and fired.ended, deadline_s=60, what="the undo")
    assert [json.loads(line) for line in bench.path().read_text().splitlines()] == [STRANGE, STRANGE]
    assert bench.guard.disarm(3).done == ((argv, 0), (argv, 0))


def test_a_verb_is_what_the_node_makes_of_it(bench):
    commands = {"start": [["touch", str(bench.path("started"))], ["true"]], "resume": []}
    guard = bench.another(verbs=lambda verb: [Undo(tuple(argv)) for argv in commands[verb]])
    guard.arm(3, [Undo(verb="resume"), Undo(verb="start")], after_s=1.0)
    until(lambda: (fired := guard.fired(3)) and fired.ended, deadline_s=30, what="the undo")
    assert bench.path("started").exists()
    assert [argv[0] for argv, _ in guard.disarm(3).done] == ["touch", "true"]


@pytest.mark.parametrize("argv", [("echo", "a\nb"), ("echo", "a\0b")], ids=["newline", "nul"])
def test_what_no_line_can_hold_is_refused_before_anything(bench, argv):
    with pytest.raises(ClusterError, match="a guard reads one command a line"):
        bench.guard.arm(3, [Undo(argv)], after_s=60)
    assert bench.transport.asked == []


def test_children_of_a_guard_inherit_nothing_strange(bench):
    """A server that it starts is one that was started as usual: no signal ignored, no library of the harness'."""
    wanted = "grep -E '^(SigIgn|SigBlk)' /proc/self/status > {0}; umask >> {0}; env | grep -c LD_PRELOAD >> {0}"
    bench.guard.arm(3, [Undo(("sh", "-c", wanted.format(bench.path())))], after_s=1.0)
    until(lambda: (fired := bench.guard.fired(3)) and fired.ended, deadline_s=30, what="the undo")
    ignored, blocked, mask, preloads = bench.path().read_text().split("\n")[:4]
    # What already ends nobody here, as SIGHUP under nohup, ends nobody there.
    own = sum(1 << number - 1 for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN)
    bits = (int(blocked.split()[1], 16) | int(ignored.split()[1], 16)) & ~own
    assert not bits & (1 << signal.SIGTERM - 1 | 1 << signal.SIGHUP - 1 | 1 << signal.SIGCHLD - 1)
    current = os.umask(0)
    os.umask(current)
    assert int(mask, 8) == current
    assert preloads == "0"


# ── several ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_faults_at_the_same_time_have_a_guard_each(bench):
    bench.guard.arm(3, bench.undo("three"), after_s=8.0)
    bench.guard.arm(4, bench.undo("four"), after_s=8.0)
    assert bench.guard.armed() == [3, 4]
    bench.guard.disarm(3)
    assert bench.guard.armed() == [4]
    assert (bench.state / "run-1" / "guard.sh").stat().st_mode & 0o777 == 0o755
    bench.await_undone("four")
    assert bench.undone("three") == 0
    bench.guard.disarm(4)
    assert bench.files == []


def test_runs_on_the_same_node_know_nothing_of_each_other(bench):
    other = Guard(bench.transport, state=str(bench.state), run="run-2", verbs=None)
    bench.guard.arm(3, bench.undo("ours"), after_s=600)
    other.arm(3, bench.undo("theirs"), after_s=600)
    other.disarm(3)
    assert (bench.guard.armed(), other.armed()) == ([3], [])
    assert [name for name in bench.files if name.startswith("run-2")] == []


def test_a_fault_is_armed_once_and_its_first_guard_stands(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    with pytest.raises(ClusterError, match=r"here node: fault 3: guard.sh arm: .*File exists"):
        bench.another().arm(3, bench.undo("again"), after_s=0.1)
    assert {bench.pid(), bench.pid("twin")} <= set(bench.processes)
    assert bench.guard.armed() == [3]


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden"])
def test_a_run_is_named_by_one_word(bench, name):
    with pytest.raises(ValueError, match="not the name of a run"):
        Guard(bench.transport, state="/run/x", run=name, verbs=None)


# ── healing at once, and the race for who undoes ─────────────────────────────────────────────────────────────────────


def test_healing_at_once_is_the_guard_s_own_undo_and_happens_once(any_bench):
    bench = any_bench
    bench.guard.arm(3, bench.undo(), after_s=1.5)
    fired = bench.another().fire(3)
    assert bench.undone() == 1
    assert fired.ended
    assert [code for _, code in fired.done] == [0]
    pause_for(2.0)
    assert bench.undone() == 1
    assert bench.another().fire(3) == fired
    assert bench.undone() == 1
    assert bench.guard.disarm(3) == fired
    assert bench.guard.fire(3) is None
    assert bench.files == []


def test_healing_at_once_needs_no_guard_that_lives(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    bench.kill_guards()
    assert bench.another().fire(3).ended
    assert bench.undone() == 1


def test_who_disarms_while_the_guard_undoes_waits_until_it_is_done(bench):
    slow = Undo(
        ("sh", "-c", 'touch "$1"; sleep 1; touch "$2"', "sh", str(bench.path("begun")), str(bench.path("done")))
    )
    bench.guard.arm(3, [slow], after_s=1.0)
    until(bench.path("begun").exists, deadline_s=30, what="the undo's beginning")
    fired = bench.guard.disarm(3)
    assert bench.path("done").exists()
    assert fired.ended
    assert bench.files == []


def test_either_the_guard_undoes_or_it_is_disarmed_whoever_is_first(bench):
    outcomes = set()
    for number in range(12):
        name = f"undone-{number}"
        bench.guard.arm(number, bench.undo(name), after_s=1.0)
        pause_for(0.09 * number)
        fired = bench.guard.disarm(number)
        was_undone = bench.undone(name)
        pause_for(0.1)
        assert was_undone == bench.undone(name) == (1 if fired else 0)
        until(lambda: not bench.processes, deadline_s=120, what="the guard's end")
        outcomes.add(fired is None)
    assert bench.files == []
    assert outcomes <= {True, False}


def test_a_guard_that_died_is_told_when_it_is_disarmed(bench, caplog):
    bench.guard.arm(3, bench.undo(), after_s=600)
    bench.kill_guards()
    with caplog.at_level(logging.WARNING):
        assert bench.guard.disarm(3) is None
    assert [record.message for record in caplog.records] == ["a guard had died"]
    assert bench.files == []


# ── again and again ──────────────────────────────────────────────────────────────────────────────────────────────────


def at_the(times, path):
    """An undo that shows only when it was carried out that many times."""
    count = f'[ "$(cat {path} 2> /dev/null | wc -l)" -ge {times} ]'
    return Undo(("sh", "-c", f"echo x >> {path}; exit 1"), whole=("sh", "-c", count))


def test_what_does_not_show_is_undone_again_until_it_does(any_bench):
    bench = any_bench
    bench.guard.arm(3, [at_the(4, bench.path()), Undo(("true",), whole=("true",))], after_s=0.5)
    until(lambda: (fired := bench.guard.fired(3)) and fired.ended, deadline_s=60, what="a whole node")
    fired = bench.guard.fired(3)
    assert (bench.undone(), fired.rounds, fired.left) == (4, 4, ())
    assert fired.to_json()["rounds"] == 4
    until(lambda: not bench.processes, deadline_s=30, what="the guards' end")
    assert bench.guard.disarm(3) == fired


def test_until_then_the_guard_says_what_is_left_and_cannot_be_disarmed(bench):
    mark = bench.path("mended")
    whole = ("test", "-e", str(mark))
    bench.guard.arm(3, [Undo(("true",), whole=whole)], after_s=600)
    with pytest.raises(HealError, match="the node is not whole"):
        bench.guard.disarm(3)
    assert bench.guard.armed() == [3]
    os.kill(bench.pid(), signal.SIGTERM)
    until(lambda: (fired := bench.guard.fired(3)) and fired.left, deadline_s=60, what="a first round")
    assert bench.guard.fired(3).left == whole
    assert bench.guard.fired(3).to_json()["broke_off"]
    mark.touch()
    until(lambda: bench.guard.fired(3).ended, deadline_s=60, what="a whole node")
    assert bench.guard.disarm(3).ended
    assert bench.files == []


def test_a_guard_that_nobody_needs_goes_without_looking(bench):
    bench.guard.arm(3, [Undo(("true",), whole=("false",))], after_s=600)
    assert bench.guard.disarm(3, unneeded=True) is None
    assert (bench.files, bench.processes) == ([], [])


def test_a_guard_that_is_killed_is_started_again_by_its_twin_and_the_other_way_round(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    for role in ("guard", "twin", "guard", "twin"):
        bench.pid("guard"), bench.pid("twin")
        killed = bench.pid(role)
        os.kill(killed, signal.SIGKILL)
        until(lambda role=role, killed=killed: bench.pid(role) != killed, deadline_s=30, what="another")
    os.kill(bench.pid("twin"), signal.SIGTERM)
    bench.await_undone()
    assert bench.guard.disarm(3).ended
    assert (bench.files, bench.processes) == ([], [])


def test_a_guard_that_is_killed_together_with_its_twin_is_begun_again_by_the_harness_that_looks(bench):
    bench.guard.arm(3, bench.undo(), after_s=HOURS_S)
    bench.pid(), bench.pid("twin")
    assert not bench.guard.keep(3), "both live"
    bench.kill_guards()
    assert bench.guard.keep(3)
    assert not bench.undone()
    bench.pid()
    assert bench.guard.fire(3).ended
    assert bench.undone() == 1
    assert not bench.guard.keep(3), "it has done what it was there for"
    bench.guard.disarm(3)
    assert not bench.guard.keep(3)
    assert bench.processes == []


def test_a_guard_whose_time_came_while_it_was_gone_undoes_as_soon_as_it_is_back(bench):
    bench.guard.arm(3, bench.undo(), after_s=6)
    bench.kill_guards()
    pause_for(6.2)
    assert not bench.undone()
    assert bench.guard.keep(3)
    bench.await_undone()
    bench.guard.disarm(3)


def test_a_watch_looks_while_a_fault_is_on_and_ends_with_the_last(bench, caplog):
    others = set(threading.enumerate())
    watch = GuardWatch(Guards({"n1": bench.guard}, max_fault_s=HOURS_S), every_s=0.1)
    bench.guard.arm(3, bench.undo(), after_s=HOURS_S)
    bench.guard.arm(4, bench.undo(), after_s=HOURS_S)
    for number in (3, 4):
        watch.begin(number, ["n1"])
    bench.kill_guards()
    until(lambda: len([line for line in caplog.messages if "begun again" in line]) == 2, deadline_s=60, what="guards")
    for number in (3, 4):
        bench.pid(fault=number)
        watch.end(number)
        bench.guard.disarm(number)
    watch.end(4)
    watch.begin(5, ["n1"])
    watch.close()
    watch.close()
    await_thread_s_end("guard watch", others)
    assert bench.undone() == 0


def test_a_watch_that_nobody_holds_any_more_ends(bench):
    others = set(threading.enumerate())
    watch = GuardWatch(Guards({"n1": bench.guard}, max_fault_s=HOURS_S), every_s=0.1)
    watch.begin(3, ["n1"])
    assert "guard watch" in [each.name for each in set(threading.enumerate()) - others]
    del watch
    await_thread_s_end("guard watch", others)


def await_thread_s_end(name, others):
    def ended():
        gc.collect()
        return name not in [each.name for each in set(threading.enumerate()) - others]

    until(ended, deadline_s=60, what="its end")


def test_a_guard_that_is_killed_in_the_middle_of_its_undo_is_stood_in_for(bench):
    begun = bench.path("begun")
    slow = Undo(("sh", "-c", 'echo x >> "$1"; sleep 5', "sh", str(begun)), whole=("true",))
    bench.guard.arm(3, [slow, *bench.undo()], after_s=0.5)
    undoing = bench.state / "run-1" / "fault-3" / "undoing"
    until(begun.exists, deadline_s=30, what="the undo's beginning")
    os.kill(int(undoing.read_text().split()[0]), signal.SIGKILL)
    bench.await_undone()
    assert begun.read_text().startswith("x\nx\n")  # on a busy machine it may take a round more
    until(lambda: bench.guard.fired(3).ended, deadline_s=30, what="a whole node")


def test_guards_that_are_ended_by_their_name_are_not_all_ended(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    bench.pid("guard"), bench.pid("twin")
    named = [pid for pid in bench.processes if b"guard.sh" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in named:
        os.kill(pid, signal.SIGKILL)
    until(lambda: bench.pid() not in named, deadline_s=30, what="another guard")
    bench.guard.disarm(3)
    assert (bench.files, bench.processes) == ([], [])


def test_a_guard_that_is_frozen_in_the_middle_of_its_undo_is_stood_in_for(bench):
    begun = bench.path("begun")
    slow = Undo(("sh", "-c", 'echo x >> "$1"; sleep 2', "sh", str(begun)), whole=("true",))
    bench.guard.arm(3, [slow, *bench.undo()], after_s=0.5)
    until(begun.exists, deadline_s=30, what="the undo's beginning")
    frozen = int((bench.state / "run-1" / "fault-3" / "undoing").read_text().split()[0])
    stop(frozen)
    bench.await_undone()
    until(lambda: bench.guard.fired(3).ended, deadline_s=30, what="a whole node")
    until(lambda: frozen not in bench.processes, deadline_s=30, what="its end")
    bench.guard.disarm(3)


def test_a_guard_whose_disk_is_full_is_started_again_all_the_same(bench):
    with small_disk(bench.state, free_pages=16):
        bench.guard.arm(3, bench.undo(), after_s=600)
        bench.pid("guard"), bench.pid("twin")
        fill(bench.state)
        killed = bench.pid()
        os.kill(killed, signal.SIGKILL)
        until(lambda: bench.pid() != killed, deadline_s=30, what="another guard")
        os.kill(bench.pid(), signal.SIGTERM)
        bench.await_undone()
        until(lambda: bench.guard.fired(3).ended, deadline_s=30, what="a whole node")
        bench.guard.disarm(3)


# ── the fence ────────────────────────────────────────────────────────────────────────────────────────────────────────


def through_the_fence(bench, *argv, fault=3):
    return FencedTransport(bench.transport, bench.guard, fault).run(argv)


def test_what_is_injected_while_the_guard_stands_is_let_through(any_bench):
    bench = any_bench
    bench.guard.arm(3, bench.undo(), after_s=600)
    done = through_the_fence(bench, "sh", "-c", 'echo "$1"; echo error >&2; exit 7', "sh", "a b $x")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "a b $x\n", "error\n")
    bench.guard.disarm(3)


def test_without_its_own_guard_nothing_is_injected(any_bench):
    bench = any_bench
    injected = bench.path("injected")
    with pytest.raises(ClusterError, match="nothing was done, because the fault is not guarded: there is no"):
        through_the_fence(bench, "touch", str(injected))
    bench.guard.arm(4, bench.undo("other"), after_s=600)
    with pytest.raises(ClusterError, match="it is not armed here"):
        through_the_fence(bench, "touch", str(injected))
    bench.guard.arm(3, bench.undo(), after_s=600)
    bench.guard.fire(3)
    with pytest.raises(ClusterError, match="its guard has fired"):
        through_the_fence(bench, "touch", str(injected))
    assert not injected.exists()
    bench.guard.disarm(4)


def test_what_comes_when_its_time_is_over_does_nothing_though_the_guard_is_late(bench):
    bench.guard.arm(3, bench.undo(), after_s=6)
    for pid in (bench.pid(), bench.pid("twin")):
        os.kill(pid, signal.SIGSTOP)
    pause_for(6.2)
    with pytest.raises(ClusterError, match="its time is over"):
        through_the_fence(bench, "touch", str(bench.path("injected")))
    assert not bench.path("injected").exists()


def test_nothing_is_injected_when_the_guards_are_gone(bench):
    bench.guard.arm(3, bench.undo(), after_s=600)
    bench.kill_guards()
    with pytest.raises(ClusterError, match="its guard is gone"):
        through_the_fence(bench, "true")


def test_an_injection_in_its_middle_when_the_guard_fires_is_ended_before_anything_is_undone(bench):
    """What it would still do would come after the undo, and nobody would undo that."""
    late, begun = bench.path("late"), bench.path("begun")
    bench.guard.arm(3, [Undo(("rm", "-f", str(late)), whole=("test", "!", "-e", str(late)))], after_s=600)
    inject = ["sh", "-c", 'touch "$1"; sleep 6; touch "$2"', "sh", str(begun), str(late)]
    with ThreadPoolExecutor(1) as pool:
        injecting = pool.submit(through_the_fence, bench, *inject)
        until(begun.exists, deadline_s=30, what="the injection")
        assert bench.another().fire(3).ended
        assert injecting.result().exit_code == -signal.SIGKILL
    pause_for(5)
    assert not late.exists()
    bench.guard.disarm(3)


@needs_root
def test_on_a_full_disk_nothing_is_injected(bench):
    with small_disk(bench.state, free_pages=16):
        bench.guard.arm(3, bench.undo(), after_s=600)
        bench.pid("guard"), bench.pid("twin")
        fill(bench.state)
        assert through_the_fence(bench, "touch", str(bench.path("injected"))).exit_code != 0
        assert not bench.path("injected").exists()
        bench.guard.disarm(3)


# ── what the owner sees, and what older versions left ────────────────────────────────────────────────────────────────


def test_the_node_s_own_log_says_what_was_armed_injected_and_undone(bench):
    log = bench.path("syslog")
    bench.transport.tool("logger", f'echo "$*" >> {log}')
    bench.guard.arm(3, bench.undo(), after_s=600, about="partition")
    for _ in range(2):
        through_the_fence(bench, "true")
    bench.guard.fire(3)
    bench.guard.disarm(3)

    def lines():
        return [line.removeprefix("-t schemaquake -- ") for line in log.read_text().splitlines()]

    until(lambda: len(lines()) == 5, deadline_s=30, what="five lines")
    assert sorted(lines()) == sorted(
        f"{what}: partition 3 of run run-1 ({owner_here()})"
        for what in (
            "fault armed, undone by itself in 600 s",
            "injecting",
            "undoing",
            "node whole after 1 rounds",
            "fault healed and disarmed",
        )
    )


def armed_by_0_1(bench, undo, *, after_s):
    """As version 0.1 left it: its script, and an undo of one command a line."""
    run = bench.state / "run-1"
    run.mkdir(parents=True, mode=0o700)
    bench.state.chmod(0o755)
    (run / "guard.sh").write_bytes((ROOT / "tests" / "recorded" / "guards" / "guard-0.1.sh").read_bytes())
    lines = "".join(f"{shlex.join(argv)}\n" for argv in undo) + "end\n"
    argv = ["sh", str(run / "guard.sh"), "arm", str(run / "fault-3"), str(100 * after_s)]
    assert bench.transport.run(argv, stdin=lines.encode()).exit_code == 0


def test_a_guard_of_an_older_version_is_disarmed_and_its_files_go(bench):
    armed_by_0_1(bench, [step.argv for step in bench.undo()], after_s=600)
    assert bench.guard.known() == bench.guard.armed() == [3]
    assert bench.guard.disarm(3) is None
    assert (bench.undone(), bench.files) == (0, [])
    until(lambda: not bench.processes, deadline_s=120, what="the guard's end")


@pytest.mark.parametrize("unneeded", [False, True])
def test_a_guard_of_an_older_version_is_fired_and_says_what_it_did(bench, unneeded):
    armed_by_0_1(bench, [step.argv for step in bench.undo()], after_s=600)
    fired = bench.guard.fire(3)
    assert (fired.ended, fired.rounds, bench.undone()) == (True, 1, 1)
    assert bench.guard.disarm(3, unneeded=unneeded) == fired
    assert bench.files == []


# ── where no guard can stand ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_state_folder_that_cannot_be_made_is_told_in_the_node_s_words(bench):
    bench.state.write_text("a file")
    with pytest.raises(
        ClusterError, match=r"here node: no guard can stand: .*(Not a directory|File exists|belongs to another)"
    ):
        bench.guard.arm(3, bench.undo(), after_s=60)
    assert bench.state.read_text() == "a file"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_folder_in_which_others_may_write_is_refused(bench, mode):
    bench.state.mkdir()
    bench.state.chmod(mode)
    with pytest.raises(ClusterError, match=r"node/state may be written by others"):
        bench.guard.arm(3, bench.undo(), after_s=60)
    assert not bench.processes


@needs_root
def test_a_folder_of_somebody_else_s_is_refused(bench):
    (bench.state / "run-1").mkdir(parents=True, mode=0o700)
    os.chown(bench.state / "run-1", 12345, 12345)
    with pytest.raises(ClusterError, match=r"state/run-1 belongs to another user"):
        bench.guard.arm(3, bench.undo(), after_s=60)


@contextmanager
def small_disk(folder, *, free_pages):
    """A file system at `folder` on which, beside a filling, that many pages of 4 KiB are free."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "none", str(folder)], check=True)
    try:
        fill(folder, free_pages=free_pages)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder, *, free_pages=0):
    filling = folder / "filling"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize - 4096 * free_pages
    with filling.open("ab", buffering=0) as file:
        assert file.write(bytes(free)) == free


@needs_root
@pytest.mark.parametrize("free_pages", [0, 1, 2, 3, 4])
def test_on_a_full_disk_it_stands_or_says_that_it_does_not(bench, free_pages):
    """guard.sh takes two pages, the undo, its times and its pid one each: five are enough, fewer are not."""
    with small_disk(bench.state, free_pages=free_pages):
        with pytest.raises(ClusterError, match=r"No space left on device|not be written|did not come up"):
            bench.guard.arm(3, bench.undo(), after_s=0.1)
        assert bench.files == ["filling"]
        assert not bench.processes


@needs_root
def test_a_disk_that_becomes_full_later_keeps_no_fault_in_place(bench):
    with small_disk(bench.state, free_pages=16):
        bench.guard.arm(3, bench.undo(), after_s=1.0)
        fill(bench.state)
        bench.await_undone()
        until(lambda: not bench.processes, deadline_s=120, what="the guard's end")
        fired = bench.guard.fired(3)
        assert fired.after_s == 1.0
        assert fired.to_json() == {"after_s": 1.0, "done": []}
        bench.guard.disarm(3)
        assert bench.files == ["filling"]


def test_an_undo_that_was_cut_off_on_its_way_is_refused(bench, monkeypatch):
    run = bench.transport.run
    monkeypatch.setattr(
        bench.transport,
        "run",
        lambda argv, *, stdin=None, **rest: run(argv, stdin=stdin[:-4] if "arm" in argv else stdin, **rest),
    )
    with pytest.raises(ClusterError, match="the undo is not whole"):
        bench.guard.arm(3, bench.undo(), after_s=0.1)
    assert bench.undone() == 0


def test_a_guard_that_cannot_come_up_is_no_guard(bench):
    bench.transport.tool("setsid", "exit 1")
    began = time.monotonic()
    with pytest.raises(ClusterError, match="it did not come up"):
        bench.guard.arm(3, bench.undo(), after_s=0.1)
    assert time.monotonic() - began < 60
    assert bench.files == []


@needs_root
def test_under_systemd_it_is_a_service_and_what_it_starts_outlives_it(bench, monkeypatch):
    """In a mount namespace that looks as if systemd had booted it; what plays systemd-run takes the same arguments."""
    booted = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"',
        "sh",
    ]
    run = bench.transport.run
    monkeypatch.setattr(bench.transport, "run", lambda argv, **rest: run([*booted, *argv], **rest))
    bench.transport.tool(
        "systemd-run",
        f'echo "$@" >> {bench.path("asked")}; while [ "$1" != -- ]; do shift; done; shift; setsid "$@" &',
    )
    bench.guard.arm(3, bench.undo(), after_s=1.0)
    bench.await_undone()
    asked = bench.path("asked").read_text()
    words = asked[: asked.index(" -- ")].split()
    assert {"--property=KillMode=process", "--property=Restart=on-failure", "--collect"} <= set(words)
    assert asked.rstrip().endswith(f"{bench.state}/run-1/guard.sh {bench.state}/run-1/fault-3")
    assert not (bench.state / "run-1" / "fault-3" / "twin").exists(), "systemd starts it again"
    bench.transport.tool("systemd-run", "exit 1")
    bench.guard.arm(4, bench.undo("again"), after_s=1.0)
    bench.await_undone("again")


# ── all nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def three(tmp_path):
    with bench_in(tmp_path / "n1") as n1, bench_in(tmp_path / "n2") as n2, bench_in(tmp_path / "n3") as n3:
        yield {"n1": n1, "n2": n2, "n3": n3}


def fault(number=7):
    return Fault(id=number, nemesis="kill", begins_s=0, ends_s=5, nodes=("n1", "n2"))


def guards_of(three, *, max_fault_s=600.0):
    return Guards({name: bench.guard for name, bench in three.items()}, max_fault_s=max_fault_s)


def test_every_node_of_an_undo_is_armed_and_disarmed_and_no_other(three):
    guards = guards_of(three)
    assert isinstance(guards, Guarded)
    guards.arm(fault(), {name: three[name].undo() for name in ("n1", "n2")})
    assert [bool(bench.processes) for bench in three.values()] == [True, True, False]
    assert guards.known() == {"n1": [7], "n2": [7]}
    assert guards.expired(fault()) == {}
    guards.disarm(fault())
    assert [bench.processes + bench.files for bench in three.values()] == [[], [], []]
    guards.disarm(fault())


def test_what_expired_is_told_by_node(three):
    guards = guards_of(three, max_fault_s=0.3)
    guards.arm(fault(), {"n2": three["n2"].undo()})
    three["n2"].await_undone()
    until(lambda: "broke_off" not in guards.expired(fault())["n2"], deadline_s=120, what="the record")
    ((name, expired),) = guards.expired(fault()).items()
    assert (name, [step["exit_code"] for step in expired["done"]]) == ("n2", [0])
    assert expired["after_s"] >= 0.3
    json.dumps(expired)


def test_a_node_that_cannot_be_reached_is_named_and_the_others_can_be_disarmed(three):
    guards = guards_of(three)
    three["n2"].transport.cut = True
    with pytest.raises(ClusterError, match=r"^n2: here node: cut off$") as raised:
        guards.arm(fault(), {name: bench.undo() for name, bench in three.items()})
    assert isinstance(raised.value.__cause__, NodeUnreachable)
    assert [bool(bench.processes) for bench in three.values()] == [True, False, True]
    with pytest.raises(ClusterError, match="n2: here node: cut off"):
        guards.disarm(fault())
    assert [bench.processes for bench in three.values()] == [[], [], []]
    three["n2"].transport.cut = False
    guards.disarm(fault())


def test_healing_from_another_machine_undoes_what_every_guard_was_there_for(three):
    guards_of(three).arm(fault(), {name: bench.undo() for name, bench in three.items()})
    done = guards_of(three).fire(7)
    assert set(done) == {"n1", "n2", "n3"}
    assert [bench.undone() for bench in three.values()] == [1, 1, 1]


def test_an_answer_that_is_not_a_record_is_not_taken_for_one(bench, monkeypatch):
    monkeypatch.setattr(bench.transport, "run", lambda argv, **_: Executed(0, "after 12\n0 touch 'x", ""))
    fired = bench.guard.fired(3)
    assert (fired.after_s, fired.done, fired.ended) == (0.12, (), False)


def test_an_undo_that_was_begun_again_is_told_from_its_first_beginning_and_by_its_last_round(bench, monkeypatch):
    record = "after 100\n0 true\nafter 350\n0 true\n1 false\nend\n"
    monkeypatch.setattr(bench.transport, "run", lambda argv, **_: Executed(0, record, ""))
    fired = bench.guard.fired(3)
    assert (fired.after_s, fired.done, fired.ended) == (1.0, ((("true",), 0), (("false",), 1)), True)

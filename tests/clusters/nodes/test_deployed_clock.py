"""Clocks of deployed nodes. The host clock that is moved here is a played one; this machine's is moved by 20 ms, once."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from here_transport import HereTransport
from places import ROOT
from test_guard import Bench, bench_in, kill_guards_of

from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Undo
from schemaquake.harness.wait import pause_for, until

HERE = ROOT / "clusters" / "nodes"
CLOCK = [Undo(verb="clock")]

# Wall time that is time since boot plus what a file says. Setting it writes the file, and a line of what was set.
PLAYED_PYTHON = """
import runpy, sys, time
from pathlib import Path
ahead, sets, interrupt = (Path({folder!r}) / name for name in ("ahead", "sets", "interrupt"))
real = time.clock_gettime
def gettime(clock):
    return real(time.CLOCK_BOOTTIME) + float(ahead.read_text()) if clock == time.CLOCK_REALTIME else real(clock)
def settime(clock, value):
    assert clock == time.CLOCK_REALTIME
    if interrupt.exists():
        fault = Path(interrupt.read_text())
        interrupt.unlink()
        (fault / "armed").rename(fault / "fired")
    ahead.write_text(repr(value - real(time.CLOCK_BOOTTIME)))
    with sets.open("a") as file:
        print(round(value - real(time.CLOCK_BOOTTIME) - {true}, 2), file=file)
time.clock_gettime, time.clock_settime = gettime, settime
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PLAYED_PERL = r"""
package Played;
BEGIN {
    *CORE::GLOBAL::syscall = sub {
        my ($call, $clock) = @_;
        my $real = sub { my $t = pack 'l!l!', 0, 0; CORE::syscall(228, $_[0], $t); my ($s, $n) = unpack 'l!l!', $t; $s + $n / 1e9 };
        my $slurp = sub { open my $f, '<', shift or return; local $/; <$f> };
        if ($call == 228) {
            my $now = $clock == 0 ? $real->(7) + $slurp->("{folder}/ahead") : $real->($clock);
            my $seconds = int $now;
            $_[2] = pack 'l!l!', $seconds, int(($now - $seconds) * 1e9);
        } else {
            my ($seconds, $nanoseconds) = unpack 'l!l!', $_[2];
            my $ahead = $seconds + $nanoseconds / 1e9 - $real->(7);
            if (my $fault = $slurp->("{folder}/interrupt")) {
                unlink "{folder}/interrupt";
                rename "$fault/armed", "$fault/fired";
            }
            open my $f, '>', "{folder}/ahead"; printf $f "%.6f", $ahead; close $f;
            open $f, '>>', "{folder}/sets"; printf $f "%.2f\n", $ahead - {true}; close $f;
        }
        return 0;
    };
}
1;
"""

# Services lie in a folder: one that runs has a file of its name. `asked` tells of every start and stop.
SYSTEMCTL = """
unit=${{3:-$2}} unit=${{unit%.service}}
case $1 in
  is-active) [ -e {folder}/running/$unit ] ;;
  stop) echo "stop $unit" >> {folder}/asked; [ -e {folder}/stubborn ] || rm -f {folder}/running/$unit ;;
  start) echo "start $unit" >> {folder}/asked; [ ! -e {folder}/broken ] && touch {folder}/running/$unit ;;
esac
"""
TRUE_S = 1_700_000_000.0


class Altered(HereTransport):
    """What is put on this node has words of its own instead of the machine's."""

    def __init__(self, folder, words):
        super().__init__(folder)
        self.words = words

    def put(self, content, target, *, mode=0o644):
        super().put(self._altered(content), target, mode=mode)

    def run(self, argv, *, timeout_s=30, stdin=None):
        return super().run(argv, timeout_s=timeout_s, stdin=stdin and self._altered(stdin))

    def _altered(self, content):
        for old, new in self.words.items():
            content = content.replace(old.encode(), new.encode())
        return content


@dataclass
class Host:
    transport: Altered
    clock: HostClock = field(init=False)
    guard: Guard = field(init=False)

    def __post_init__(self):
        self.run = self.folder / "state" / "run-1"
        self.clock = HostClock(self.transport, folder=str(self.run), fault_id=3)
        self.guard = Guard(
            self.transport, state=str(self.run.parent), run="run-1", verbs={"clock": self.clock.undo}.__getitem__
        )
        self.guard._verbs = lambda verb: self.clock.undo()

    @property
    def folder(self):
        return self.transport.folder

    def again(self):
        """The same host, as a second machine sees it."""
        return HostClock(self.transport, folder=str(self.run), fault_id=3)

    @property
    def skew(self):
        """What the played clock is ahead of true time, as exactly as a busy machine sets it."""
        return pytest.approx(float((self.folder / "ahead").read_text()) - TRUE_S, abs=1.5)

    def lines(self, name):
        path = self.folder / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    @property
    def sets(self):
        """To what the clock was set, from true time, in tens of seconds: attempts differ by as much as a busy machine delays them."""
        return [offset for offset, _ in itertools.groupby(round(float(line), -1) for line in self.lines("sets"))]

    def serve(self, *units):
        for unit in units:
            (self.folder / "running" / unit).touch()

    @property
    def serving(self):
        return sorted(path.name for path in (self.folder / "running").iterdir())


@contextmanager
def host_in(folder, program):
    words = {"/run/systemd/system": f"{folder}/node/running"}
    if program == "perl":
        words["command -v python3"] = "command -v no-python3"
    transport = Altered(folder / "node", words)
    (transport.folder / "running").mkdir()
    (transport.folder / "ahead").write_text(repr(TRUE_S))
    known = {"folder": str(transport.folder), "true": TRUE_S}
    transport.tool("systemctl", SYSTEMCTL.format(**known))
    if program == "python3":
        played = transport.folder / "played.py"
        played.write_text(PLAYED_PYTHON.format(**known))
        transport.tool("python3", f'exec {sys.executable} -I {played} "$@"')
    else:
        perl = shutil.which("perl")
        if perl is None or os.uname().machine != "x86_64":
            pytest.skip("a Perl whose clock is played needs perl, and is written for x86_64")
        text = PLAYED_PERL
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", str(value))
        (transport.folder / "Played.pm").write_text(text)
        transport.tool("perl", f'exec {perl} -I{transport.folder} -MPlayed "$@"')
    with bench_in(folder / "guards"):
        yield Host(transport)
    kill_guards_of(folder)


@pytest.fixture(params=["python3", "perl"])
def any_host(tmp_path, request):
    with host_in(tmp_path, request.param) as host:
        yield host
        for fault_id in host.guard.known():
            host.guard.disarm(fault_id)


@pytest.fixture
def host(tmp_path):
    with host_in(tmp_path, "python3") as host:
        yield host
        for fault_id in host.guard.known():
            host.guard.disarm(fault_id)


# ── the host's clock ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_host_jumps_and_comes_back_and_its_daemons_with_it(any_host):
    host = any_host
    host.serve("chrony", "sshd")
    assert host.clock.offset() == 0
    host.guard.arm(3, CLOCK, after_s=600)
    assert host.lines("asked") == []
    host.clock.skew(-40)
    assert host.skew == -40
    assert host.again().offset() == pytest.approx(-40, abs=0.5)
    assert host.serving == ["sshd"]
    host.again().skew(0)
    assert host.skew == 0
    assert host.clock.offset() == pytest.approx(0, abs=0.5)
    assert host.lines("asked") == ["stop chrony", "start chrony"]
    assert host.sets == [-40, 0]


def test_a_strobe_stops_the_daemons_once_and_starts_them_once(host):
    host.serve("systemd-timesyncd")
    host.guard.arm(3, CLOCK, after_s=600)
    for offset_s in (60, 0.001, 60, 0.001, 60, 0):
        host.clock.skew(offset_s)
    assert host.sets == [60, 0, 60, 0, 60, 0]
    assert host.lines("asked") == ["stop systemd-timesyncd", "start systemd-timesyncd"]


def test_the_next_skew_begins_from_what_the_daemons_made_of_the_time(host):
    host.guard.arm(3, CLOCK, after_s=600)
    host.clock.skew(60)
    host.clock.skew(0)
    (host.folder / "ahead").write_text(repr(TRUE_S + 2))
    assert host.clock.offset() == pytest.approx(2, abs=0.5)
    host.clock.skew(30)
    assert host.skew == 32
    host.clock.skew(0)
    assert host.skew == 2


def test_a_clock_is_not_moved_where_no_guard_stands(any_host):
    host = any_host
    host.serve("chrony")
    with pytest.raises(
        ClusterError, match=r"here node: clock: no guard stands in .*run-1/fault-3: the fault has expired"
    ):
        host.clock.skew(60)
    assert (host.skew, host.sets, host.lines("asked")) == (0, [], [])


def test_a_skew_that_nobody_heals_expires_and_a_harness_that_goes_on_is_refused(any_host):
    host = any_host
    host.serve("ntpd", "chronyd")
    host.guard.arm(3, CLOCK, after_s=10.0)
    host.clock.skew(60)
    until(lambda: (fired := host.guard.fired(3)) and fired.ended, deadline_s=60, what="the guard", every_s=0.1)
    assert [code for _, code in host.guard.fired(3).done] == [0]
    assert host.skew == 0
    assert host.serving == ["chronyd", "ntpd"]
    with pytest.raises(ClusterError, match="no guard stands"):
        host.clock.skew(60)
    assert host.skew == 0
    host.clock.skew(0)
    assert host.lines("asked") == ["stop chronyd", "stop ntpd", "start chronyd", "start ntpd"]


def test_a_skew_that_meets_the_guard_s_firing_takes_itself_back(any_host):
    host = any_host
    host.serve("chrony")
    host.guard.arm(3, CLOCK, after_s=600)
    (host.folder / "interrupt").write_text(str(host.run / "fault-3"))
    with pytest.raises(ClusterError, match="no guard stands"):
        host.clock.skew(60)
    assert host.sets == [60, 0]
    assert host.skew == 0
    assert host.serving == ["chrony"]


def test_restoring_what_is_not_skewed_touches_nothing(host):
    host.serve("chrony")
    (step,) = host.clock.undo()
    for _ in range(2):
        assert host.transport.run(step.argv).exit_code == 0
        assert host.transport.run(step.whole).exit_code == 0
        host.clock.skew(0)
    assert (host.sets, host.lines("asked")) == ([], [])
    assert host.clock.environment() == {}


def test_a_daemon_that_would_set_it_right_at_once_is_told_and_nothing_is_moved(host):
    host.serve("chrony")
    (host.folder / "stubborn").touch()
    host.guard.arm(3, CLOCK, after_s=600)
    with pytest.raises(ClusterError, match="it would be set right again at any moment by chrony"):
        host.clock.skew(60)
    assert host.skew == 0
    assert host.serving == ["chrony"]


def test_a_daemon_that_does_not_start_again_is_told_until_it_does(host):
    host.serve("chrony")
    host.guard.arm(3, CLOCK, after_s=600)
    host.clock.skew(60)
    (host.folder / "broken").touch()
    with pytest.raises(ClusterError, match="chrony could not be started again"):
        host.clock.skew(0)
    assert host.skew == 0
    (host.folder / "broken").unlink()
    host.again().skew(0)
    assert host.serving == ["chrony"]


def test_a_guard_starts_a_daemon_again_until_it_runs(host):
    host.serve("chrony")
    host.guard.arm(3, CLOCK, after_s=600)
    host.clock.skew(60)
    (host.folder / "broken").touch()
    os.kill(int((host.run / "fault-3" / "guard").read_text().split()[0]), signal.SIGTERM)
    until(lambda: (fired := host.guard.fired(3)) and fired.left, deadline_s=60, what="a first round")
    assert (host.skew, host.serving) == (0, [])
    (host.folder / "broken").unlink()
    until(lambda: host.guard.fired(3).ended, deadline_s=60, what="a whole host")
    assert host.serving == ["chrony"]


def test_a_reboot_takes_the_anchor_s_worth_and_the_skew_with_it(host):
    host.serve("chrony")
    host.guard.arm(3, CLOCK, after_s=600)
    host.clock.skew(60)
    anchor = host.run / "clock" / "anchor"
    anchor.write_text(f"another-boot {anchor.read_text().split()[1]}\n")
    (host.folder / "ahead").write_text(repr(TRUE_S))
    assert host.clock.offset() == 0
    host.clock.skew(0)
    assert host.sets == [60]
    assert host.serving == ["chrony"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_on_a_full_disk_no_clock_is_moved(host):
    host.serve("chrony")
    host.guard.arm(3, CLOCK, after_s=600)
    (host.run / "clock").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(host.run / "clock")], check=True)
    try:
        (host.run / "clock" / "filling").write_bytes(bytes(4096))
        with pytest.raises(ClusterError, match=r"(?i)no space|i/o error"):
            host.clock.skew(60)
        assert (host.skew, host.serving) == (0, ["chrony"])
    finally:
        subprocess.run(["umount", str(host.run / "clock")], check=True)


# ── where it cannot be ───────────────────────────────────────────────────────────────────────────────────────────────


class Without(Altered):
    """Carries everything out in front of which these words stand."""

    def __init__(self, folder, words, *before):
        super().__init__(folder, words)
        self.before = before

    def run(self, argv, **rest):
        return super().run([*self.before, *argv], **rest)


def refusal(folder, words=None, *before):
    transport = Without(folder, {"/run/systemd/system": f"{folder}/none", **(words or {})}, *before)
    told = HostClock(transport, folder=str(folder / "state")).refusal()
    assert sorted(path.name for path in folder.iterdir()) == ["bin"]
    return told


def test_a_host_without_a_program_to_set_it_with_is_told(tmp_path):
    words = {"command -v python3": "command -v no-python3", "command -v perl": "command -v no-perl"}
    assert refusal(tmp_path / "node", words) == "there is neither python3 nor perl to set the clock with"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_who_may_not_set_it_is_told(tmp_path):
    before = ["setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time"]
    assert refusal(tmp_path / "node", None, *before) == "the clock may not be set here (CAP_SYS_TIME is missing)"


def test_who_may_is_not_refused(tmp_path):
    if not may_set_the_clock():
        pytest.skip("needs CAP_SYS_TIME")
    assert refusal(tmp_path / "node") is None


def test_a_keeper_of_the_time_that_is_no_service_is_told(tmp_path):
    if not may_set_the_clock():
        pytest.skip("needs CAP_SYS_TIME")
    (tmp_path / "phc2sys").symlink_to(shutil.which("sleep"))
    with subprocess.Popen([str(tmp_path / "phc2sys"), "60"]) as keeper:
        try:
            told = refusal(tmp_path / "node")
        finally:
            keeper.kill()
    assert told == "phc2sys sets the clock, and is no service that could be stopped"


def may_set_the_clock():
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1]
    return bool(int(effective, 16) >> 25 & 1)


# ── the programs themselves ──────────────────────────────────────────────────────────────────────────────────────────

PROGRAMS = [[sys.executable, "-I", str(HERE / "settime.py")], ["perl", str(HERE / "settime.pl")]]


def told(program, *arguments):
    if shutil.which(program[0]) is None:
        pytest.skip(f"there is no {program[0]} here")
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout or 0)


@pytest.mark.parametrize("program", PROGRAMS, ids=["python3", "perl"])
def test_true_time_is_anchored_in_time_since_boot(program):
    anchor = told(program, "anchor")
    expected = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert anchor == pytest.approx(expected, abs=0.01)
    assert told(program, "offset", str(anchor)) == pytest.approx(0, abs=0.01)
    assert told(program, "offset", str(anchor - 5)) == pytest.approx(5, abs=0.01)


@pytest.mark.parametrize("program", PROGRAMS, ids=["python3", "perl"])
def test_an_unknown_verb_sets_nothing(program):
    if shutil.which(program[0]) is None:
        pytest.skip(f"there is no {program[0]} here")
    assert subprocess.run([*program, "move"], capture_output=True, check=False).returncode != 0


@pytest.mark.cluster
@pytest.mark.parametrize("program", PROGRAMS, ids=["python3", "perl"])
def test_the_machine_s_own_clock_is_moved_by_twenty_milliseconds_and_back(program):
    if not may_set_the_clock():
        pytest.skip("needs CAP_SYS_TIME")
    anchor = told(program, "anchor")
    try:
        told(program, "set", str(anchor), "0.020")
        moved = told(program, "offset", str(anchor))
    finally:
        told(program, "set", str(anchor), "0")
    assert moved == pytest.approx(0.020, abs=0.002)
    assert told(program, "offset", str(anchor)) == pytest.approx(0, abs=0.002)


# ── libfaketime ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Faked(Bench):
    def __post_init__(self):
        self.run = self.state / "run-1"
        self.clock = FaketimeClock(self.transport, folder=str(self.run), fault_id=3)
        self.guard = self.another(verbs=lambda verb: self.clock.undo())


@pytest.fixture
def faked(tmp_path):
    if libfaketime.find_library() is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    with bench_in(tmp_path) as bench:
        yield Faked(bench.transport, bench.state)


def seen_by_a_server(clock):
    """By how much a process that lives on with the clock's environment is ahead, asked again and again."""
    program = "import sys, time\nfor _ in sys.stdin: print(time.clock_gettime(time.CLOCK_REALTIME), flush=True)"
    environment = {**os.environ, **clock.environment()}
    argv = [sys.executable, "-ISc", program]
    return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ahead(server):
    server.stdin.write("now\n")
    server.stdin.flush()
    return float(server.stdout.readline()) - time.time()


def test_a_server_under_the_library_follows_and_comes_back(faked):
    assert faked.clock.refusal() is None
    assert abs(faked.clock.offset()) < 1
    with seen_by_a_server(faked.clock) as server:
        try:
            assert abs(ahead(server)) < 1
            faked.guard.arm(3, CLOCK, after_s=600)
            faked.clock.skew(-90)
            assert faked.clock.offset() == pytest.approx(-90, abs=1)
            until(lambda: ahead(server) == pytest.approx(-90, abs=1), deadline_s=120, what="the skew")
            faked.clock.skew(0)
            assert abs(faked.clock.offset()) < 1
            until(lambda: abs(ahead(server)) < 1, deadline_s=120, what="true time")
        finally:
            server.kill()
    faked.guard.disarm(3)
    assert [name for name in faked.files if "clock" in name] == []


def test_a_server_of_another_user_may_read_the_offset_and_nothing_else(faked):
    faked.guard.arm(3, CLOCK, after_s=600)
    faked.clock.skew(5)
    assert faked.run.stat().st_mode & 0o777 == 0o711
    assert (faked.run / "clock_offset").stat().st_mode & 0o777 == 0o644
    assert (faked.run / "fault-3").stat().st_mode & 0o777 == 0o700
    faked.clock.skew(0)
    faked.guard.disarm(3)


def test_no_server_s_clock_is_moved_where_no_guard_stands(faked):
    with pytest.raises(ClusterError, match="no guard stands"):
        faked.clock.skew(60)
    assert abs(faked.clock.offset()) < 1


def test_a_server_s_skew_expires_and_a_strobe_that_goes_on_is_refused(faked):
    faked.guard.arm(3, CLOCK, after_s=8.0)
    faked.clock.skew(60)

    def refused():
        try:
            faked.clock.skew(60)
        except ClusterError as error:
            return str(error)
        return None

    assert "the fault has expired" in until(refused, deadline_s=30, what="the guard", every_s=0.05)
    until(lambda: faked.guard.fired(3).ended, deadline_s=120, what="the record")
    pause_for(0.2)
    assert abs(faked.clock.offset()) < 1
    assert [code for _, code in faked.guard.disarm(3).done] == [0]


def test_a_node_without_the_library_is_told(tmp_path, monkeypatch):
    transport = Altered(tmp_path / "node", {})
    clock = FaketimeClock(transport, folder="/run/x", library="/nowhere/libfaketime.so.1")
    assert "/nowhere/libfaketime.so.1 does not change the time that a process there sees" in clock.refusal()
    monkeypatch.setattr(libfaketime, "PLACES", ("/nowhere/*/libfaketime.so.1",))
    found = FaketimeClock(transport, folder="/run/x")
    assert "there is no libfaketime (Debian: apt-get install faketime)" in found.refusal()


def test_an_owner_s_own_file_is_what_is_written(faked, tmp_path):
    own = tmp_path / "own_offset"
    clock = FaketimeClock(faked.transport, folder=str(faked.run), offset_file=str(own), fault_id=3)
    assert clock.environment()["FAKETIME_TIMESTAMP_FILE"] == str(own)
    faked.guard.arm(3, clock.undo(), after_s=600)
    clock.skew(7.25)
    assert own.read_text() == "+7.250\n"
    faked.guard.fire(3)
    assert not own.exists()
    faked.guard.disarm(3)

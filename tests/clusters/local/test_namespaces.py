"""The enclosure: a private network for every run, of which nothing is left when its last process is gone.

Real namespaces, without Java; as root, and as an ordinary user where the kernel allows it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from ordinary_user import NoUser, user

from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.namespaces import address_of, enclosure, in_namespace
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.wait import until

# Lays a network of two nodes, says what stands there, and stays until its standard input ends.
LAY_AND_STAY = """
import json, subprocess, sys
from schemaquake.clusters.local import namespaces
namespaces.open_enclosure()
namespaces.lay_network(["n1", "n2"])
heard = {
    name: subprocess.run([*namespaces.in_namespace(name), "ip", "-o", "-4", "addr", "show", "dev", "eth0"],
                         capture_output=True, text=True, check=True).stdout.split()[3]
    for name in ("n1", "n2")
}
# A node is a process of its own, in its namespace: this one answers on the node's address.
serve = "import socket; s = socket.create_server(('0.0.0.0', 9042))\\nwhile True: s.accept()[0].sendall(b'n1 here')"
node = subprocess.Popen([*namespaces.in_namespace("n1"), sys.executable, "-c", serve], start_new_session=True)
reach = ("import socket, time; end = time.monotonic() + 20\\n"
         "while True:\\n"
         "    try: print(socket.create_connection(('" + namespaces.address_of(1) + "', 9042), 5).recv(9).decode()); break\\n"
         "    except OSError:\\n"
         "        assert time.monotonic() < end\\n"
         "        time.sleep(0.05)\\n")
namespaces.change_address("n2", namespaces.address_of(2), "10.77.0.122")
heard["n2 speaks from"] = subprocess.run(
    [*namespaces.in_namespace("n2"), "ip", "-o", "route", "get", namespaces.address_of(1)],
    capture_output=True, text=True, check=True).stdout.split("src ")[1].split()[0]
kept = subprocess.run([*namespaces.in_namespace("n2"), "ip", "-o", "-4", "addr", "show", "dev", "eth0"],
                      capture_output=True, text=True, check=True).stdout
heard["n2 keeps"] = namespaces.address_of(2) + "/32" in kept
for place, prefix in (("n2", namespaces.in_namespace("n2")), ("harness", [])):
    heard["from " + place] = subprocess.run([*prefix, sys.executable, "-c", reach], capture_output=True, text=True,
                                            check=True).stdout.strip()
print(json.dumps(heard), flush=True)
sys.stdin.read()
"""

# The enclosure is started by a process of its own, as the runner does: that one can be killed.
PARENT = """
import subprocess, sys
from schemaquake.clusters.local.namespaces import enclosure
sys.exit(subprocess.run([*enclosure(), sys.executable, "-c", sys.argv[1], sys.argv[2]]).returncode)
"""

EXPECTED = '{"n1": "10.77.0.1/24", "n2": "10.77.0.2/24", "n2 speaks from": "10.77.0.122", "n2 keeps": true, "from n2": "n1 here", "from harness": "n1 here"}\n'


@pytest.fixture(params=["root", "ordinary user"])
def who(request):
    try:
        return user(request.param)
    except NoUser as reason:
        pytest.skip(str(reason))


class Enclosed:
    """A process that lives in an enclosure of its own, with a mark by which everything it started can be found."""

    def __init__(self, who):
        self.mark = f"enclosure-test-{os.getpid()}-{uuid.uuid4().hex}"
        self.process = subprocess.Popen(
            [*who.prefix, who.python, "-c", PARENT, LAY_AND_STAY, self.mark],
            cwd="/",
            # Inherited by every process below, in whatever namespace it is.
            env={**who.environment, "ENCLOSURE_TEST": self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def heard(self):
        return self.process.stdout.readline()

    def alive(self):
        """The pids of everything that bears the mark."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"ENCLOSURE_TEST={self.mark}".encode() in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
            except OSError:
                continue
        return found

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def give_up(self):
        """Leave nothing behind, whatever the test came to."""
        self.process.kill()
        self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def enclosed(who):
    """Make enclosures that end with the test."""
    made = []

    def make():
        made.append(Enclosed(who))
        return made[-1]

    yield make
    for each in made:
        each.give_up()


def _ours_outside():
    """Bridges, veths and namespaces of the names laid inside that this machine itself can see.

    Only those: on a busy machine others come and go meanwhile.
    """
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    named = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    seen = [line.split(":")[1].strip().partition("@")[0] for line in links.splitlines()]
    return sorted({"sq0", "vn1", "vn2"}.intersection(seen) | {"n1", "n2"}.intersection(named.split()))


def _nothing_lives(enclosed):
    until(lambda: not enclosed.alive(), deadline_s=120, what=f"the end of {enclosed.mark}")


def test_nodes_hear_each_other_and_the_harness_hears_them(enclosed):
    before = _ours_outside()
    inside = enclosed()
    assert inside.heard() == EXPECTED
    assert _ours_outside() == before, "outside nothing was touched"
    assert inside.end() == 0
    _nothing_lives(inside)


def test_two_at_once_do_not_collide(enclosed):
    first, second = enclosed(), enclosed()
    assert (first.heard(), second.heard()) == (EXPECTED, EXPECTED)
    assert first.end() == 0
    assert len(second.alive()) >= 3, "the other one stands: parent, harness and node"
    assert second.end() == 0
    _nothing_lives(first)
    _nothing_lives(second)


def test_nothing_is_left_when_the_command_is_killed(enclosed):
    before = _ours_outside()
    killed = enclosed()
    assert killed.heard() == EXPECTED
    assert len(killed.alive()) >= 3
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait(60)
    _nothing_lives(killed)
    assert _ours_outside() == before


def test_nothing_is_left_when_the_harness_inside_is_killed(enclosed):
    """A node is in a session of its own: only the enclosure's end reaches it."""
    outer = enclosed()
    assert outer.heard() == EXPECTED
    # The harness inside is the one that has the script as its own argument, and not as its child's.
    inside = [
        pid
        for pid in outer.alive()
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2:3] == [LAY_AND_STAY.encode()]
    ]
    assert len(inside) == 1
    os.kill(inside[0], signal.SIGKILL)
    _nothing_lives(outer)
    outer.end()


def test_a_command_sees_the_network_of_its_node():
    assert in_namespace("n7") == ["nsenter", "--net=/run/netns/n7"]
    assert [address_of(number) for number in (1, 250)] == ["10.77.0.1", "10.77.0.250"]


@pytest.mark.parametrize("tool", ["unshare", "setpriv", "ip", "nsenter"])
def test_a_missing_tool_is_named_with_its_package(monkeypatch, tool):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"/usr/bin/{name}")
    package = "iproute2" if tool == "ip" else "util-linux"
    with pytest.raises(EnvironmentLacks, match=rf'needs "{tool}": install it \(Debian: apt-get install {package}\)'):
        enclosure()


def test_a_kernel_that_forbids_it_is_quoted(monkeypatch):
    def forbidden(argv, **_):
        return subprocess.CompletedProcess(argv, 1, "", "unshare: unshare failed: Operation not permitted\n")

    monkeypatch.setattr(namespaces, "run_within", forbidden)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(EnvironmentLacks) as refused:
        enclosure()
    message = str(refused.value)
    assert message.startswith("the local cluster cannot make network namespaces here")
    assert message.count("Operation not permitted") == 2, "with a process namespace and without"
    assert "Run as root, or allow user namespaces" in message


def test_an_attempt_that_hangs_is_told_with_what_it_ran(monkeypatch, tmp_path):
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\nexec sleep 600\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(namespaces, "_PROBED_WITHIN_S", 0.5)
    with pytest.raises(EnvironmentLacks, match=r"unshare .*`mount -t tmpfs .*` did not end within 0\.5 s"):
        enclosure()


def test_without_a_process_namespace_the_rest_still_stands(monkeypatch):
    def no_pid_namespace(argv, **_):
        refused = "--pid" in argv
        return subprocess.CompletedProcess(argv, int(refused), "", "unshare: mount /proc failed" if refused else "")

    monkeypatch.setattr(namespaces, "run_within", no_pid_namespace)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    prefix = enclosure()
    assert "--pid" not in prefix
    assert {"--net", "--mount", "--kill-child=SIGKILL"} <= set(prefix)
    assert prefix[:3] == ["setpriv", "--pdeathsig", "KILL"]

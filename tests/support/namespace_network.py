"""A real network for tests: nodes in namespaces of their own on one bridge, each echoing on ports 7000 and 9042.

The bridge has a namespace too, so nothing is added to the machine's own network. Needs root and iproute2.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import dataclass, field

from schemaquake.harness.model.protocols import Executed
from schemaquake.harness.wait import until

PORTS = (7000, 9042)
_NUMBERS = itertools.count()

_ECHO = """
import socket, sys, threading
def echo(connection):
    with connection:
        while data := connection.recv(4096):
            connection.sendall(data)
def serve(listener):
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
listeners = [socket.create_server(("", int(port)), backlog=64) for port in sys.argv[1:]]
for listener in listeners:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""

# Prints how many of `tries` connections brought an echo within `limit_s`.
_KNOCK = """
import socket, sys
address, port, tries, limit_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
echoed = 0
for _ in range(tries):
    try:
        with socket.create_connection((address, port), timeout=limit_s) as connection:
            connection.sendall(b"schema")
            echoed += connection.recv(6) == b"schema"
    except OSError:
        pass
print(echoed)
"""

# Echoes a line for every line it is given, over one connection that stays open.
_TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection, connection.makefile("rw") as stream:
    for line in sys.stdin:
        stream.write(line)
        stream.flush()
        print(stream.readline(), end="", flush=True)
"""


def why_not() -> str | None:
    """Why this machine cannot make network namespaces, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "type", "bridge"], capture_output=True, text=True, check=False
    )
    return None if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.strip()}"


@dataclass
class NamespaceNode:
    """The part of a node that packet faults use. `lacks` names commands that are not installed on it."""

    name: str
    address: str
    namespace: str
    lacks: set[str] = field(default_factory=set)

    def exec(self, argv, *, timeout_s=30, stdin=None):
        if argv[0] in self.lacks:
            return Executed(127, "", f"{argv[0]}: No such file or directory")
        done = subprocess.run(
            ["ip", "netns", "exec", self.namespace, *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Executed(done.returncode, done.stdout, done.stderr)

    def echoes_from(self, other, port, *, tries=1, limit_s=0.4):
        """How many of `tries` connections to another node's port bring an echo."""
        done = self.exec([sys.executable, "-ISc", _KNOCK, other.address, str(port), str(tries), str(limit_s)])
        assert done.exit_code == 0, done.stderr
        return int(done.stdout)

    def hears(self, other, port):
        return self.echoes_from(other, port) == 1

    def talk_to(self, other, port):
        """A process with one open connection; it prints each line it is given when it has come back."""
        argv = ["ip", "netns", "exec", self.namespace, sys.executable, "-ISc", _TALK, other.address, str(port)]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class NamespaceNetwork:
    """N nodes and a client beside them, as a cluster; a context manager that leaves nothing behind."""

    def __init__(self, count, *, version=4):
        stem = f"sq{os.getpid()}x{next(_NUMBERS)}"
        self._switch = f"{stem}s"
        prefix, self._length = ("10.99.0.", 24) if version == 4 else ("fd99::", 64)
        everyone = [NamespaceNode(f"n{i}", f"{prefix}{i}", f"{stem}n{i}") for i in range(1, count + 2)]
        *self.nodes, self.client = everyone
        self.client.name = "client"
        self._namespaces = [self._switch, *(node.namespace for node in everyone)]
        self._echoes = []

    def missing(self, means):
        return None

    def __enter__(self):
        try:
            self._lay()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self):
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "sq0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "sq0", "up")
        for number, node in enumerate([*self.nodes, self.client]):
            _ip("netns", "add", node.namespace)
            port = f"port{number}"
            _ip(
                "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", node.namespace
            )
            _ip("-n", self._switch, "link", "set", port, "master", "sq0", "up")
            nodad = ["nodad"] if ":" in node.address else []
            _ip("-n", node.namespace, "addr", "add", f"{node.address}/{self._length}", "dev", "eth0", *nodad)
            _ip("-n", node.namespace, "link", "set", "eth0", "up")
            _ip("-n", node.namespace, "link", "set", "lo", "up")
        for node in self.nodes:
            listen = (
                _ECHO
                if "." in node.address
                else _ECHO.replace('("", int', '("::", int').replace("backlog=64", "backlog=64, family=socket.AF_INET6")
            )
            argv = ["ip", "netns", "exec", node.namespace, sys.executable, "-ISc", listen, *map(str, PORTS)]
            self._echoes.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        for echo in self._echoes:
            assert echo.stdout.readline() == "ready\n"
        first, last = self.nodes[0], self.nodes[-1]
        until(lambda: first.hears(last, 7000), deadline_s=120, what="a network that forwards")

    def __exit__(self, *_):
        for echo in self._echoes:
            echo.kill()
            echo.wait()
            echo.stdout.close()
        for namespace in self._namespaces:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"

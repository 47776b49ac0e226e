"""Nodes whose server is a real child process, for nemeses that signal it. What it does is read from /proc."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.wait import until

# Serves when the file `serving` is there. Dies while starting if its folder says `broken`, hangs if it says `slow`.
_SERVER = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
def end(*_):
    (folder / "ended").write_text("cleanly")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
(folder / "serving").unlink(missing_ok=True)
if (folder / "broken").exists():
    (folder / "log").write_text("ERROR " + (folder / "broken").read_text())
    sys.exit(3)
if (folder / "slow").exists():
    signal.pause()
time.sleep(0.1)
(folder / "serving").write_text(str(os.getpid()))
while True:
    signal.pause()
"""


class ProcessNode:
    """A server, started as soon as it is made."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.address = "127.0.0.1"
        self.folder = folder
        folder.mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.start()
        assert self.await_serving(deadline_s=20).served

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        if self.state() != "stopped":
            return
        self.starts += 1
        (self.folder / "serving").unlink(missing_ok=True)
        (self.folder / "ended").unlink(missing_ok=True)
        self.process = subprocess.Popen([sys.executable, "-ISc", _SERVER, str(self.folder)])

    def await_serving(self, *, deadline_s):
        began = time.monotonic()
        serving = self.folder / "serving"

        def decided():
            return self.state() == "stopped" or (serving.exists() and serving.read_text() == str(self.pid))

        try:
            until(decided, deadline_s=deadline_s, what="serving", every_s=0.01)
        except TimeoutError:
            return Boot(node=self.name, served=False, seconds=time.monotonic() - began)
        if self.state() != "stopped":
            return Boot(node=self.name, served=True, seconds=time.monotonic() - began)
        error = (self.folder / "log").read_text() if (self.folder / "log").exists() else None
        return Boot(
            node=self.name,
            served=False,
            seconds=time.monotonic() - began,
            exit_code=self.process.poll(),
            first_error=error,
        )

    def stop(self, *, deadline_s=30):
        self.process.terminate()
        try:
            self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        if self.process is None or self.process.poll() is not None:
            return "stopped"
        letter = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return "paused" if letter == "T" else "running"

    @property
    def ended_cleanly(self):
        return (self.folder / "ended").exists()


class ProcessCluster:
    """Three servers; a context manager that ends them."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [ProcessNode(f"n{number}", folder / f"n{number}") for number in (1, 2, 3)]

    def missing(self, means):
        return None if means == "signals" else f"no {means} here"

    def states(self):
        return {node.name: node.state() for node in self.nodes}

    def pids(self):
        return {node.name: node.pid for node in self.nodes}

    def end(self):
        for node in self.nodes:
            node.kill()

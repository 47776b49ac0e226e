"""Runs of real clusters as a test sees them from outside: a process that can be sent signals, and what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from schemaquake.harness.wait import until

SYSTEM = "cassandra:5.0.9"

EXECUTE = """
import sys
from pathlib import Path
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.runner import execute
folder = Path(sys.argv[1])
outcome = execute(Plan.read(folder), folder)
print(outcome.completed, outcome.error)
"""


def living(folder):
    """The pids of every process that was started for the run in this folder, wherever it is, by its command line."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in command.read_bytes() and int(command.parent.name) != os.getpid():
                found.append(int(command.parent.name))
    return found


class Runner:
    """`execute` in a process of its own, as `schemaquake run` is."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXECUTE, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until_beating(self):
        """Wait until rows are written."""
        journal = self.folder / "journals" / "events-0000.jsonl"

        def beating():
            assert self.process.poll() is None, self.process.communicate()[1][-3000:]
            return journal.exists() and journal.read_bytes().count(b'"type":"ok","f":"insert"') >= 5

        until(beating, deadline_s=500, what="rows in the main phase", every_s=0.2)

    def said(self, limit_s=300):
        out, _ = self.process.communicate(timeout=limit_s)
        return out.strip()

    def end(self):
        """Whatever a test that failed left behind."""
        self.process.kill()
        self.process.communicate()
        for pid in living(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

"""A transport to this very machine: what is asked of a node is carried out in a temporary folder, as an ordinary user.

The folder's `bin` is first on the path, so that a test can stand in for a tool of the node's by a script.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from schemaquake.clusters.ssh.file_commands import get_by_commands, put_by_commands
from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.protocols import Executed


class HereTransport:
    """`cut` makes the node unreachable: nothing is carried out any more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        self.asked: list[list[str]] = []
        self.cut = False
        self.closed = False

    def run(self, argv, *, timeout_s=30, stdin=None):
        assert not isinstance(argv, str)
        self.asked.append(list(argv))
        if self.cut:
            raise NodeUnreachable(f"{self.described()}: cut off")
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                argv,
                input=stdin or b"",
                capture_output=True,
                timeout=timeout_s,
                check=False,
                cwd=self.folder,
                env=environment,
            )
        except FileNotFoundError as error:
            return Executed(127, "", f"sh: 1: {error.filename}: not found")
        except subprocess.TimeoutExpired as error:
            raise NodeUnreachable(f"{self.described()}: `{argv[0]}` did not end within {timeout_s:g} s") from error
        return Executed(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def put(self, content, target, *, mode=0o644):
        put_by_commands(self.run, content, target, mode=mode, where=self.described)

    def get(self, source):
        return get_by_commands(self.run, source, where=self.described)

    def close(self):
        self.closed = True

    def described(self):
        return f"here {self.folder.name}"

    def tool(self, name: str, script: str) -> None:
        """Let a command of this name be this script on the node."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

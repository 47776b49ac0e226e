"""Nodes whose servers start and end at once, and whose files and commands are real."""

from __future__ import annotations

import subprocess

from changing_cluster import ChangingCluster, ChangingNode

from schemaquake.harness.model.files import ServerFiles
from schemaquake.harness.model.protocols import Executed


class FileNode(ChangingNode):
    def __init__(self, name):
        super().__init__(name)
        self.commands = []

    def resume(self):
        pass

    def exec(self, argv, *, timeout_s=30, stdin=None):
        self.commands.append(list(argv))
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout_s)
        return Executed(done.returncode, done.stdout, done.stderr)


class FileCluster(ChangingCluster):
    """`folder/NAME` has each node's `data` and `commitlog`, and `volume` if they have file systems of their own."""

    def __init__(self, folder, names=("n1", "n2", "n3"), *, volumes=False):
        super().__init__(names)
        self.folder, self.volumes = folder, volumes
        self.nodes = [FileNode(name) for name in names]
        self.by_name = {node.name: node for node in self.nodes}
        for name in names:
            for part in ("data", "commitlog", "volume"):
                (folder / name / part).mkdir(parents=True)

    def missing(self, _means):
        return None

    def server_files(self, node):
        place = self.folder / node
        return ServerFiles(
            folder=str(place),
            data=(str(place / "data"),),
            commit_log=str(place / "commitlog"),
            volume=str(place / "volume") if self.volumes else None,
        )

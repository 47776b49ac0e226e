"""Archiving: inside an enclosure, boot one node that writes its loaded classes into an archive when it ends.

Run by `schemaquake.clusters.local.startup_archive` as a process of its own, with the request as JSON on standard input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.systems.system import parse_system, recipe_for

_STOP_LIMIT_S: Final = 90  # dumping an archive takes some seconds


def main() -> None:
    """Boot the node and stop it cleanly, which leaves the archive at `request["archive"]`."""
    request = json.load(sys.stdin)
    system = parse_system(request["system"])
    installed = InstalledVersion(
        system=system,
        recipe=recipe_for(system),
        java=Path(request["java"]),
        class_path=[Path(jar) for jar in request["class_path"]],
    )
    cluster = LocalCluster(
        installed,
        folder=Path(request["folder"]),
        names=["n1"],
        start_timeout_s=120,
        setup=ServerSetup(java_options=[f"-XX:ArchiveClassesAtExit={request['archive']}"]),
    )
    try:
        cluster.start()
        cluster.nodes[0].stop(deadline_s=_STOP_LIMIT_S)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()

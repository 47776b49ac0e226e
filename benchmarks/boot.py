"""Time until three nodes serve: `python -m benchmarks.boot [--system S]... [--repeat N]`.

From the first `exec` of a server to the last of three nodes that answers CQL; without and with the startup archive,
which the local cluster makes once for each version and Java. 6.0 is also widened to three metadata members after that,
which is not counted. Figures are of the fastest of N boots, each with empty data directories.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure, machine, print_table
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.model.plan import Plan

SYSTEMS = ("cassandra:5.0.9", "cassandra:6.0-alpha2")
NODES = ("n1", "n2", "n3")


def seconds_to_serve(system: str, *, archive: bool) -> float:
    """One boot of three nodes in an enclosure of its own. Raises EnvironmentLacks if this machine cannot."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        LocalProvider().prepare(Plan(system=system, workloads=("none",), nodes=len(NODES)), Path(name))
        ran = subprocess.run(
            [*namespaces.enclosure(), sys.executable, "-m", "benchmarks.boot", "--inside", name, system, str(archive)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise SystemExit(f"{system} did not boot:\n{ran.stderr[-2000:]}")
        return float(ran.stdout)


def boot_inside(folder: Path, system: str, *, archive: bool) -> float:
    """The same, inside the enclosure."""
    document = json.loads((folder / "local.json").read_text(encoding="utf-8"))
    parsed = parse_system(system)
    installed = InstalledVersion(
        system=parsed,
        recipe=recipe_for(parsed),
        java=Path(document["java"]),
        class_path=[Path(jar) for jar in document["class_path"]],
    )
    cluster = LocalCluster(
        installed,
        folder=folder,
        names=NODES,
        start_timeout_s=120,
        setup=ServerSetup(java_options=None if archive else []),
    )
    try:
        boots = {boot.node: boot.seconds for boot in cluster.start()}
    finally:
        cluster.stop()
    started = {node.name: node.started_at for node in cluster.nodes}  # a boot counts from its own exec
    return max(started[name] + seconds for name, seconds in boots.items()) - min(started.values())


def figures(systems: Sequence[str] = SYSTEMS, *, repeat: int = 1) -> Iterator[Figure]:
    for system in systems:
        for archive in (False, True):
            fastest = min(seconds_to_serve(system, archive=archive) for _ in range(repeat))
            what = f"{system}, {'with' if archive else 'without'} a startup archive"
            yield Figure("boot", f"3 nodes serve CQL: {what}", fastest, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", action="append")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        folder, system, archive = options.inside
        print(boot_inside(Path(folder), system, archive=archive == "True"))
        return
    facts = machine()
    print_table(figures(options.system or SYSTEMS, repeat=options.repeat), facts)


if __name__ == "__main__":
    main()

"""File corruption: a bit of a data file or of the commit log flips while the server is down, as on a disk that forgets.

The record of what was flipped is written and synced before, into the node's folder: healing needs nothing else, and
`schemaquake heal`, or the guard of a container, finds it if the harness is gone. Jepsen's nemesis of this name flips bits, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from schemaquake.harness.errors import ClusterError, HealError, PlanError
from schemaquake.harness.model.files import ServerFiles, ShowsFiles
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import names, option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node, Undo
from schemaquake.harness.model.topology import ChangesTopology
from schemaquake.nemeses.process.serving import SERVING_LIMIT_S, bring_back, starting
from schemaquake.nemeses.schedule.commands import must
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["RECORD", "FileCorruption"]

RECORD: Final = "damage-"
"""How the names of records begin: `damage-3` has `OFFSET BEFORE AFTER PATH` of fault 3, bytes as numbers."""

_KINDS: Final = ("sstable", "commitlog")
_FLUSH_LIMIT_S: Final = 60.0
_FAULT_S: Final = (15.0, 25.0)
"""A start takes most of it: only then does the server read what was damaged."""

# Data files of keyspaces of users, snapshots and backups left out, one a line.
_SSTABLES: Final = """
for folder in "$@"; do
  find "$folder" -name "*Data.db" -size +0 -not -path "*/system*" -not -path "*/snapshots/*" -not -path "*/backups/*"
done | sort
"""
# Segments, the last one at the end, and the offset of one of the bytes of a segment that are not 0; none of one with a header alone.
_SEGMENTS: Final = 'find "$1" -maxdepth 1 -name "*.log" -size +0 | sort'
_WRITTEN: Final = """
cmp -l "$1" /dev/zero 2> /dev/null | awk -v fraction="$2" '{ at[NR] = $1 - 1 } END { if (NR > 200) print at[int(fraction * NR) + 1] }'
"""
_FLIP: Final = """
set -e
file=$1 offset=$2 bit=$3 record=$4
before=$(od -An -tu1 -j "$offset" -N1 "$file" | tr -d ' ')
after=$((before ^ (1 << bit)))
echo "$offset $before $after $file" > "$record"
sync "$record"
printf "\\\\$(printf %03o "$after")" | dd of="$file" bs=1 seek="$offset" conv=notrunc,fsync status=none
echo "$before $after"
"""
_RESTORE: Final = """
[ -r "$1" ] || { echo none; exit 0; }
read -r offset before after file < "$1"
if [ ! -f "$file" ]; then echo gone
elif [ "$(od -An -tu1 -j "$offset" -N1 "$file" | tr -d ' ')" = "$after" ]; then
  printf "\\\\$(printf %03o "$before")" | dd of="$file" bs=1 seek="$offset" conv=notrunc,fsync status=none && echo restored
else echo rewritten
fi && rm -f "$1"
"""


@dataclass(frozen=True, kw_only=True)
class FileCorruption:
    """`--nemesis file-corruption`; `-O file-corruption.kinds=commitlog`."""

    name = "file-corruption"
    needs = frozenset({"signals", "files"})
    disturbs = "process"
    options = TargetOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")
    kinds: tuple[str, ...] = option(
        _KINDS, f"what is damaged, one drawn for each fault: {', '.join(_KINDS)}", parse=names
    )
    serving_limit_s: float = option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan faults of 15 to 25 s, each with a file, a byte and a bit to be drawn. Raises PlanError."""
        plan = configured(self, context)
        if not plan.kinds or not set(plan.kinds) <= set(_KINDS):
            raise PlanError(f"-O {self.name}.kinds={','.join(plan.kinds)}: known are {', '.join(_KINDS)}")
        faults = targeted(
            self.name, context, random, targets=plan.targets, fault_s=_FAULT_S, serving_limit_s=plan.serving_limit_s
        )
        return [replace(fault, parameters={**fault.parameters, **_draw(plan.kinds, random)}) for fault in faults]

    def missing(self, cluster: Cluster) -> str | None:
        """Say why files of this cluster may not be damaged."""
        return None if isinstance(cluster, ShowsFiles) else "the files of this cluster are not the run's own"

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Return the commands that flip the bit back, whether or not the server runs, and start the server."""
        assert isinstance(cluster, ShowsFiles)
        records = {name: _record(cluster.server_files(name), fault) for name in fault.nodes}
        restoring = {name: Undo(("sh", "-c", _RESTORE, "sh", record)) for name, record in records.items()}
        return {name: [restoring[name], *verbs] for name, verbs in starting(fault).items()}

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Kill each server, flip a bit, and start it again: `{"observed", "nodes": {name: {"file", "offset", "before", "after"}}}`.

        Whether it serves then is the server's affair. Raises ClusterError if a node has no file to be damaged.
        """
        assert isinstance(cluster, ShowsFiles)
        files = {name: cluster.server_files(name) for name in fault.nodes}

        def damage(node: Node) -> JSON:
            # A flush empties the commit log.
            is_flushed = fault.parameters["kind"] == "sstable"
            if is_flushed and isinstance(cluster, ChangesTopology) and cluster.cannot("flush") is None:
                cluster.ask("flush", on=node.name, limit_s=_FLUSH_LIMIT_S)
            node.kill()
            done = _flip(node, files[node.name], fault)
            node.start()
            return done

        return {"observed": True, "nodes": on_every(named(cluster, fault.nodes), damage, task="damaging files")}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Kill each server, flip the bit back where the file is still there, start and wait. Raises HealError."""
        assert isinstance(cluster, ShowsFiles)
        files = {name: cluster.server_files(name) for name in fault.nodes}

        def restore(node: Node) -> JSON:
            node.kill()
            record = _record(files[node.name], fault)
            return must(node, "sh", "-c", _RESTORE, "sh", record).strip()

        nodes = named(cluster, fault.nodes)
        restored = on_every(nodes, restore, task="restoring files", error=HealError)
        limit_s = float(fault.parameters.get("serving_limit_s", self.serving_limit_s))
        back = bring_back(nodes, deadline_s=limit_s, task="bringing servers back")
        return {**back, "restored": restored}


def _draw(kinds: Sequence[str], random: Random) -> Mapping[str, JSON]:
    return {
        "kind": random.choice(kinds),
        "file": round(random.random(), 9),
        "byte": round(random.random(), 9),
        "bit": random.randrange(8),
    }


def _record(files: ServerFiles, fault: Fault) -> str:
    return f"{files.folder}/{RECORD}{fault.id}"


def _flip(node: Node, files: ServerFiles, fault: Fault) -> JSON:
    """Flip a bit in a file of the planned kind, or of the other where there is none. Raises ClusterError."""
    planned = str(fault.parameters["kind"])
    for kind in (planned, *(other for other in _KINDS if other != planned)):
        found = _choose(node, files, kind, fault)
        if found is not None:
            path, offset = found
            bit, record = str(fault.parameters["bit"]), _record(files, fault)
            before, after = must(node, "sh", "-c", _FLIP, "sh", path, str(offset), bit, record).split()
            return {"kind": kind, "file": path, "offset": offset, "before": int(before), "after": int(after)}
    raise ClusterError(f"node {node.name} has no file to be damaged")


def _choose(node: Node, files: ServerFiles, kind: str, fault: Fault) -> tuple[str, int] | None:
    """Choose a file and the offset of one of its bytes; None if there is no file of that kind."""
    fraction = float(fault.parameters["byte"])
    if kind == "sstable":
        found = must(node, "sh", "-c", _SSTABLES, "sh", *files.data).splitlines()
        if not found:
            return None
        path = found[int(float(fault.parameters["file"]) * len(found))]
        return path, int(fraction * int(must(node, "stat", "-c", "%s", path)))
    for path in reversed(must(node, "sh", "-c", _SEGMENTS, "sh", files.commit_log).splitlines()):
        offset = must(node, "sh", "-c", _WRITTEN, "sh", path, str(fraction)).strip()
        if offset:
            return path, int(offset)
    return None

"""Reloading: a table is dropped, created anew, which gives it another id, and its rows are taken up from a snapshot of the old one.

Operators do so to move a table, to undo a DROP, or to restore a backup. A snapshot is taken on every node and copied to a folder of the
harness; the table is dropped and created as a client does it, and may lose or gain a column; then every node takes up its own copy: put into
the new table's folder (`refresh`), given as a folder (`import`), or streamed to all replicas by `sstableloader` (`load`).

The table is that of the workload `reloaded-rows`: no other workload expects its table to be dropped. A snapshot holds all that was
acknowledged before it was asked for, and every node's is loaded, so a row has as many copies as it had. Rows written between the snapshot
and the DROP may be lost, and what was deleted in that time may be back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random
from typing import Final

from schemaquake.harness.ddl.reloaded_table import RELOADED_ROWS, TABLE, WANING, create_reloaded, reloaded_keyspace
from schemaquake.harness.ddl.schema_changes import add_column, drop_column, drop_table
from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.files import ShowsFiles
from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.topology import Attempt, Requests, TopologyVerb
from schemaquake.harness.wait import pause_for, until
from schemaquake.nemeses.schedule.commands import must
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import all_up, changing, lacks, refused, serving_members, some_other
from schemaquake.nemeses.topology.planning import ANY, nobody_changes, planned
from schemaquake.nemeses.topology.requests import ask_as_client, refuse_unrecorded

__all__ = ["ReloadTable"]

_WAYS: Final[dict[str, TopologyVerb]] = {"refresh": "refresh", "import": "import", "load": "load"}
_CHANGES: Final = ("same", "add", "drop")
_SNAPSHOT: Final = "schemaquake-reload"
_TRIES: Final = 3
_APPEARS_LIMIT_S: Final = 30.0
_SETTLES_S: Final = 2.0
"""The time in which a change of the schema reaches every node, before the next one is made."""

# The path of a table's folder is KEYSPACE/TABLE-ID; the copy's is KEYSPACE/TABLE, as sstableloader wants it. `import` has the server
# itself take the files out of it, so the copy belongs to the server's user, and lies on the same disk as the data.
_COPY: Final = """
name=$1 keyspace=$2 table=$3 to=$4
shift 4
mkdir -p "$to/$keyspace/$table" && chown -R "$(stat -c %u:%g "$1")" "$to" || exit 1
for folder in "$@"; do
  for snapshot in "$folder/$keyspace/$table"-*/snapshots/"$name"; do
    for file in "$snapshot"/*; do
      case ${file##*/} in *.json|*.cql) continue ;; esac
      [ -f "$file" ] && { cp -p "$file" "$to/$keyspace/$table/" || exit 1; }
    done
  done
done
ls "$to/$keyspace/$table"
"""
_LIST: Final = """
keyspace=$1 table=$2
shift 2
for folder in "$@"; do
  for found in "$folder/$keyspace/$table"-*; do [ -d "$found" ] && echo "$found"; done
done
true
"""
# Numbered files get numbers that the new table has not reached; the server gives them others when it takes them up.
_PUT: Final = """
from=$1 to=$2
for file in "$from"/*; do
  [ -f "$file" ] || continue
  target=$to/$(basename "$file" | sed -E 's/^([a-z]+)-([0-9]+)-/\\1-9000\\2-/')
  cp -p "$file" "$target" || exit 1
  echo "$target"
done
"""


@dataclass(frozen=True, kw_only=True)
class ReloadTable:
    """`--workload reloaded-rows --nemesis reload-table`; `-O reload-table.way=import -O reload-table.change=drop`."""

    name = "reload-table"
    needs = frozenset({"topology"})
    keeps_members = True
    options = standard.TopologyOptions()

    way: str = option(ANY, f"how files are taken up: {', '.join(_WAYS)}; `any`: the seed draws `refresh` or `import`")
    change: str = option(
        ANY, "what the new table is: `same`, or with a column more (`add`) or less (`drop`); `any`: the seed draws"
    )
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one reload. Raises PlanError without the workload whose table it is."""
        plan = configured(self, context)
        if RELOADED_ROWS not in context.workloads:
            raise PlanError(
                f"nemesis {self.name} drops a table that only its own workload expects: add --workload {RELOADED_ROWS}"
            )
        way, change = random.choice(("refresh", "import")), random.choice(_CHANGES)
        for name, value, known in (("way", plan.way, _WAYS), ("change", plan.change, _CHANGES)):
            if value not in {ANY, *known}:
                raise PlanError(f"-O {self.name}.{name}={value}: {', '.join((ANY, *known))}")
        return planned(
            self.name,
            context,
            random,
            nodes=(),
            begins_s=plan.begins_s,
            way=way if plan.way == ANY else plan.way,
            change=change if plan.change == ANY else plan.change,
            limit_s=plan.limit_s,
            reloads=True,
            dated=True,
            keyspace=reloaded_keyspace(context),
            table=TABLE,
            create=create_reloaded(context).value,
        )

    becomes = nobody_changes

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why no table can be reloaded here."""
        if not isinstance(cluster, ShowsFiles):
            return "the files of this cluster are not the run's own"
        return cluster.missing("files") or lacks(cluster, "snapshot", "refresh")

    operate = refuse_unrecorded

    def operate_as_client(self, cluster: Cluster, operation: Fault, requests: Requests) -> Completion:
        """Take a snapshot on every node, exchange the table, and have every node take up its copy."""
        began, way = time.monotonic(), _WAYS[str(operation.parameters["way"])]
        if not all_up(cluster):
            return refused("a node is down, and its part of the snapshot would be missing")
        # Every node is asked for its tools now: after the DROP it would be too late.
        if (reason := lacks(cluster, "snapshot", way)) is not None:
            return refused(reason)
        reload = _Reload(cluster, operation, requests, began=began)
        try:
            outcome = reload.carry_out(way)
        finally:
            reload.remove_copies()
        attempts = reload.attempts
        value = {
            "attempts": [attempt.to_json() for attempt in attempts],
            "snapshots": reload.snapshots,
            "seconds": round(sum(attempt.seconds for attempt in attempts), 3),
        }
        last = next((attempt for attempt in attempts if attempt.outcome != "ok"), attempts[-1])
        error = None if outcome == "ok" else f"Failed: {last.answer or last.command}"
        return Completion(type=outcome, value=value, error=error)


class _Reload:
    """One reload, and the attempts that it is made of."""

    def __init__(self, cluster: Cluster, operation: Fault, requests: Requests, *, began: float) -> None:
        assert isinstance(cluster, ShowsFiles)
        self._began = began
        self.snapshots: dict[str, JSON] = {}
        """When each node's snapshot was asked for, in seconds from the operation's begin, rounded down: it began no earlier."""
        parameters = operation.parameters
        self.cluster = cluster
        self.files = cluster
        self.requests = requests
        self.keyspace, self.table = str(parameters["keyspace"]), str(parameters["table"])
        self.create = Invoke("create-table", f"{self.keyspace}.{self.table}", parameters["create"])
        self.change = str(parameters["change"])
        self.limit_s = float(parameters["limit_s"])
        self.nodes: Sequence[Node] = named(cluster, serving_members(cluster))
        self.attempts: list[Attempt] = []
        self._copies = {
            node.name: str(PurePosixPath(cluster.server_files(node.name).data[0]).parent / _SNAPSHOT)
            for node in self.nodes
        }

    def carry_out(self, way: TopologyVerb) -> ChangeOutcome:
        """Return the outcome: a `fail` as long as the table was certainly not dropped."""
        for node in self.nodes:
            self.snapshots[node.name] = math.floor((time.monotonic() - self._began) * 1000) / 1000
            if not self._ask("snapshot", node, f"{_SNAPSHOT} -- {self.keyspace}"):
                return "fail"
            self._copy(node)
        before = {node.name: self._folders(node) for node in self.nodes}
        if not self._request(drop_table(self.keyspace, self.table)):
            return "fail" if self.attempts[-1].outcome == "fail" else "info"
        pause_for(_SETTLES_S)
        if not self._create_again():
            return "info"
        loaded = [self._take_up(way, node, before[node.name]) for node in self.nodes]
        return "ok" if all(loaded) else "info"

    def remove_copies(self) -> None:
        """Remove the copies of the snapshots; a node that cannot be asked keeps its own, which goes with the run's folder."""
        for node in self.nodes:
            with suppress(ClusterError):
                must(node, "rm", "-rf", self._copies[node.name])

    def _create_again(self) -> bool:
        changes = [self.create]
        if self.change == "add":
            changes.append(add_column(self.keyspace, self.table, "x", "int"))
        elif self.change == "drop":
            changes.append(drop_column(self.keyspace, self.table, WANING))
        return all(self._request(change) for change in changes)

    def _take_up(self, way: TopologyVerb, node: Node, before: frozenset[str]) -> bool:
        """Have a node take up its copy. There is nothing to take up where the table had no rows."""
        name, copy = f"{self.keyspace} {self.table}", f"{self._copies[node.name]}/{self.keyspace}/{self.table}"
        if not must(node, "ls", copy).split():
            return True
        if way != "refresh":
            return self._ask(way, node, f"{name} {copy}" if way == "import" else f"{node.address} {copy}")
        folder = self._await_folder(node, before)
        put: Sequence[str] = ()
        try:
            put = must(node, "sh", "-c", _PUT, "sh", copy, folder).split()
            return self._ask(way, node, name)
        finally:
            if put:
                must(node, "rm", "-f", *put)

    def _await_folder(self, node: Node, before: frozenset[str]) -> str:
        """Wait until the node has made the folder of the new table, and return it. Raises TimeoutError."""
        what = f"the folder of the new table {self.table} on {node.name}"
        until(lambda: bool(self._folders(node) - before), deadline_s=_APPEARS_LIMIT_S, what=what, every_s=0.5)
        return min(self._folders(node) - before)

    def _folders(self, node: Node) -> frozenset[str]:
        data = self.files.server_files(node.name).data
        return frozenset(must(node, "sh", "-c", _LIST, "sh", self.keyspace, self.table, *data).split())

    def _copy(self, node: Node) -> None:
        data = self.files.server_files(node.name).data
        must(node, "sh", "-c", _COPY, "sh", _SNAPSHOT, self.keyspace, self.table, self._copies[node.name], *data)

    def _ask(self, verb: TopologyVerb, node: Node, argument: str) -> bool:
        self.attempts.append(changing(self.cluster).ask(verb, on=node.name, argument=argument, limit_s=self.limit_s))
        return self.attempts[-1].outcome == "ok"

    def _request(self, change: Invoke) -> bool:
        """Ask for a schema change, and again while its outcome is unknown."""
        for _ in range(_TRIES):
            coordinator = some_other(self.cluster)
            self.attempts.append(ask_as_client(self.requests, coordinator, change, command=f"{change.f} {change.key}"))
            if self.attempts[-1].outcome != "info":
                break
            pause_for(_SETTLES_S)
        return self.attempts[-1].outcome == "ok"

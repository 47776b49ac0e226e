"""Snapshots put back: a snapshot of all tables is taken, the schema changes meanwhile, and its files are taken up again.

Files go back into the folder that they came from, whose name has the table's id: `nodetool refresh` takes up what lies in the folder
of the table that there is now, so that a table which was dropped and made anew gets no rows of the other one. Rows that
are put back have the write times that they had, and change nothing that clients may see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from schemaquake.harness.model.files import ShowsFiles
from schemaquake.harness.model.protocols import Cluster, Fault, Node
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.wait import pause_for
from schemaquake.nemeses.schedule.commands import must
from schemaquake.nemeses.topology.attempts import changing

__all__ = ["restore_snapshot"]

_GONE: Final = ("Unknown keyspace", "Unknown table", "doesn't exist", "does not exist")
# Tables of users alone, and only those that have data files now: of a dropped one the folder is left, with snapshots in it.
# One line for each file that was copied; what is there already is left alone.
_COPY: Final = """
name=$1
shift
for folder in "$@"; do
  find "$folder" -type d -path "*/snapshots/$name" -not -path "*/system*"
done | while read -r snapshot; do
  table=${snapshot%/snapshots/*}
  ls "$table"/*Data.db > /dev/null 2>&1 || continue
  for file in "$snapshot"/*; do
    to=$table/${file##*/}
    [ -f "$file" ] && [ ! -e "$to" ] && case ${file##*/} in *.json|*.cql) false ;; esac && cp -p "$file" "$to" && echo "$to"
  done
done
true
"""


def restore_snapshot(cluster: Cluster, operation: Fault, node: Node) -> list[Attempt]:
    """Take a snapshot, wait, put its files back and have them taken up, table by table; return all attempts.

    What a server did not take up, as its table is gone, is removed again.
    """
    assert isinstance(cluster, ShowsFiles)
    change, name = changing(cluster), str(operation.parameters["argument"])
    limit_s = float(operation.parameters["limit_s"])
    taken = change.ask("snapshot", on=node.name, argument=name, limit_s=limit_s)
    if taken.outcome != "ok":
        return [taken]
    pause_for(float(operation.parameters["hold_s"]))
    copied: Sequence[str] = ()
    refreshed: list[Attempt] = []
    try:
        copied = must(node, "sh", "-c", _COPY, "sh", name, *cluster.server_files(node.name).data).splitlines()
        refreshed += [change.ask("refresh", on=node.name, argument=table, limit_s=limit_s) for table in _tables(copied)]
    finally:
        if copied:
            must(node, "rm", "-f", *copied)
    return [taken, *(attempt for attempt in refreshed if not _found_no_table(attempt))]


def _tables(files: Sequence[str]) -> Mapping[str, None]:
    """List the tables of these files, each once, as `KEYSPACE TABLE`: a folder is `KEYSPACE/TABLE-ID/FILE`."""
    places = [PurePosixPath(file).parts[-3:-1] for file in files]
    return dict.fromkeys(f"{keyspace} {folder.rpartition('-')[0]}" for keyspace, folder in places)


def _found_no_table(attempt: Attempt) -> bool:
    """Return whether an attempt failed because its table was dropped meanwhile, which is no failure of the server's."""
    return attempt.outcome != "ok" and any(words in attempt.answer for words in _GONE)

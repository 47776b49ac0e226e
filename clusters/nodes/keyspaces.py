"""Keyspaces that a run made on a deployed cluster: finding them, and dropping them at the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import orjson
import pyarrow as pa

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.history.journal import EVENT_JOURNALS
from schemaquake.harness.history.running_checksum import damaged_lines, has_checksums
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.protocols import Client
from schemaquake.harness.model.steps import Invoke

__all__ = ["drop", "made_by", "under"]


def made_by(folder: Path) -> frozenset[str]:
    """Find the keyspaces that the run of this folder asked to create, whatever was answered.

    A damaged line names none: it might name somebody else's.
    """
    made = set()
    for journal in (folder / "journals").glob(EVENT_JOURNALS):
        text = journal.read_bytes()
        checked = has_checksums(pa.py_buffer(text))
        for _, line, is_whole in damaged_lines(text):  # the last may be torn; its request was never sent
            if b"create-keyspace" in line and (is_whole or not checked):
                with suppress(ValueError, KeyError, TypeError):
                    event = orjson.loads(line)
                    if event["f"] == "create-keyspace" and event["type"] == "invoke":
                        made.add(str(orjson.loads(event["value"])["keyspace"]))
    return frozenset(made)


def under(prefix: str, observed: Iterable[Observation]) -> frozenset[str]:
    """Find the keyspaces of a reading that are named `<prefix>_…`, also those of which only a part was left."""
    return frozenset(o.keyspace for o in observed if o.keyspace is not None and o.keyspace.startswith(f"{prefix}_"))


def drop(keyspaces: Collection[str], client: Client) -> None:
    """Drop these keyspaces one after another. Raises ClusterError naming those that the server did not confirm, and why."""
    refusals = []
    for keyspace in sorted(keyspaces):
        done = client.invoke(Invoke("drop-keyspace", value={"keyspace": keyspace, "if_exists": True}))
        if done.type != "ok":
            refusals.append(f"{keyspace} ({done.error})")
    if refusals:
        raise ClusterError(f"keyspaces of this run could not be dropped: {', '.join(refusals)}. Drop them by hand")

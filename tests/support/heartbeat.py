"""Heartbeat: a workload for the tests of clusters: rows are written all the time, and read back at the end."""

from __future__ import annotations

from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table
from schemaquake.harness.model.protocols import Worker
from schemaquake.harness.model.steps import Meet, Wait

KEYSPACE = "sq_heartbeat"


class Heartbeat:
    name = "heartbeat"
    requires = frozenset({"tables"})
    endless = True

    def crew(self, context):
        return [Worker(index, node) for index, node in enumerate(context.nodes)]

    def steps(self, phase, worker, context, *, phase_label):
        match phase:
            case "setup":
                if worker.index == 0:
                    yield create_keyspace(KEYSPACE, replication_factor=context.replication_factor)
                    yield create_table(
                        KEYSPACE, "beats", columns=[("k", "int", "partition_key"), ("v", "text", "regular")]
                    )
            case "main":
                yield Meet("begin")
                beat = worker.index
                while True:
                    row = {"k": beat, "v": worker.node}
                    yield insert(KEYSPACE, "beats", row, consistency="ONE", phase="racing")
                    yield Wait(0.05)
                    beat += len(context.nodes)
            case "final":
                yield read_rows(KEYSPACE, "beats", consistency="ALL", phase=phase_label)

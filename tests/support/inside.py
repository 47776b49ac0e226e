"""What a test wants to know of a running cluster, told from inside its enclosure.

Run as `python inside.py SCENARIO FOLDER`; the folder holds a plan that the provider has prepared. The cluster is
started, the scenario carried out and its findings printed as one JSON document; then the cluster is stopped.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.wait import until

BEATS = [("k", "int", "partition_key"), ("v", "text", "regular")]


def main():
    scenario, folder = SCENARIOS[sys.argv[1]], Path(sys.argv[2])
    cluster = LocalProvider().create(Plan.read(folder), folder)
    try:
        boots = cluster.start()
        told = {"boots": [[boot.node, boot.served, boot.exit_code] for boot in boots], **scenario(cluster)}
    finally:
        cluster.stop()
    told["states after the teardown"] = [node.state() for node in cluster.nodes]
    sys.stdout.write(json.dumps(told))


def client(cluster, node):
    return cluster.connector().connect(node, request_timeout_s=10)


def one_node(cluster):
    """It serves, keeps a row, and says what schema it has."""
    session = client(cluster, "n1")
    told = {"made": made(session, replication_factor=1), "reads": reads(session)}
    observed = session.observe(phase="settled", sample=1, complete=True)
    told["observed"] = sorted({(o.kind, o.keyspace or "", o.name or "") for o in observed})
    told["directories"] = [list(found[:2]) for found in cluster.nodes[0].data_directories()]
    session.close()
    return told


def life(cluster):
    """Three nodes are written to, paused and resumed, skewed, killed and started again, and read back each time."""
    nodes = {node.name: node for node in cluster.nodes}
    sessions = {name: client(cluster, name) for name in nodes}
    told = {"made": made(sessions["n1"], replication_factor=3)}
    agreed = [observe(sessions, complete=True)]
    until(lambda: agreed_on_one(sessions, agreed), deadline_s=180, what="schema agreement", every_s=0.2)
    told["tables"] = {name: table for name, (_, table) in agreed[-1].items()}
    told["read through n2"] = reads(sessions["n2"])

    nodes["n2"].pause()
    told["paused"] = [until(lambda: nodes["n2"].state() == "paused" and "paused", deadline_s=120, what="the pause")]
    told["paused"].append(answers_cql(nodes["n2"].address, 9042, timeout_s=0.5))
    nodes["n2"].resume()
    until(lambda: answers_cql(nodes["n2"].address, 9042), deadline_s=120, what="an answer of n2", every_s=0.1)
    told["resumed"] = [nodes["n2"].state(), nodes["n2"].await_serving(deadline_s=20).served]

    nodes["n1"].skew_clock(3600)
    told["skew read back"] = round(nodes["n1"].clock_offset())
    ahead = until(
        lambda: (seen := server_clock(sessions["n1"]) - time.time()) > 3000 and seen, deadline_s=10, what="the skew"
    )
    told["server clocks ahead"] = {"n1": round(ahead), "n3": round(server_clock(sessions["n3"]) - time.time())}
    nodes["n1"].skew_clock(0)

    nodes["n3"].kill()
    told["killed"] = [nodes["n3"].state(), answers_cql(nodes["n3"].address, 9042)]
    nodes["n3"].start()
    boot = nodes["n3"].await_serving(deadline_s=90)
    told["started again"] = [boot.served, boot.exit_code, nodes["n3"].state()]
    sessions["n3"].close()
    sessions["n3"] = client(cluster, "n3")
    told["read through n3"] = until(lambda: reads(sessions["n3"]), deadline_s=40, what="a read through n3", every_s=0.5)
    told["directories"] = {name: [list(found[:2]) for found in node.data_directories()] for name, node in nodes.items()}
    told["logs"] = {
        name: sorted(path.name for path in Path(node.folder.path).glob("*.log")) for name, node in nodes.items()
    }
    for session in sessions.values():
        session.close()
    return told


def return_of_the_dead(cluster):
    """Of any line: a row written through n1 is read through n3 after n3, then every node, was killed and started again."""
    nodes = {node.name: node for node in cluster.nodes}
    sessions = {name: client(cluster, name) for name in nodes}
    told = {"made": [], "whole": []}
    for operation in (create_keyspace("sq", replication_factor=3), create_table("sq", "beats", columns=BEATS)):
        told["made"].append(sessions["n1"].invoke(operation).type)
        # Up to 1.0 the next change is refused until all have this one.
        until(lambda: versions(sessions) == 1, deadline_s=180, what="schema agreement", every_s=0.2)
    told["made"].append(sessions["n1"].invoke(insert("sq", "beats", {"k": 1, "v": "one"}, consistency="ALL")).type)
    for victims in (["n3"], list(nodes)):
        for name in victims:
            sessions.pop(name).close()
            nodes[name].kill()
        for name in victims:
            nodes[name].start()
        served = [nodes[name].await_serving(deadline_s=60).served for name in victims]
        missing = cluster.await_whole(list(nodes), deadline_s=120)
        told["whole"].append([all(served), missing])
        sessions |= {name: client(cluster, name) for name in victims}
    told["read through n3"] = until(
        lambda: reads(sessions["n3"]), deadline_s=120, what="a read through n3", every_s=0.5
    )
    told["directories"] = [list(found) for found in nodes["n3"].data_directories()]
    told["logs"] = sorted(path.name for path in Path(nodes["n3"].folder.path).glob("*.log"))
    told["nodetool"] = nodes["n2"].nodetool("ring").stdout
    for session in sessions.values():
        session.close()
    return told


def versions(sessions):
    """How many schema versions there are, of those that could be read."""
    return len({s.observe(phase="settled", sample=1, complete=True)[0].id for s in sessions.values()} - {None})


def made(session, *, replication_factor):
    return [
        session.invoke(operation).type
        for operation in (
            create_keyspace("sq", replication_factor=replication_factor),
            create_table("sq", "beats", columns=BEATS),
            insert("sq", "beats", {"k": 1, "v": "one"}, consistency="ONE"),
        )
    ]


def reads(session):
    """The rows, null if they could not be had."""
    done = session.invoke(read_rows("sq", "beats", consistency="ALL", phase="settled"))
    return done.value["rows"] if done.type == "ok" else None


def observe(sessions, *, complete):
    """node → (schema version, has the table)."""
    seen = {}
    for name, session in sessions.items():
        observed = session.observe(phase="settled", sample=1, complete=complete)
        seen[name] = (observed[0].id, any(o.kind == "table" and o.name == "beats" for o in observed))
    return seen


def agreed_on_one(sessions, seen):
    seen.append(observe(sessions, complete=True))
    return len({version for version, _ in seen[-1].values()}) == 1 and all(table for _, table in seen[-1].values())


def server_clock(session):
    """The node's own wall clock, s since the epoch."""
    (row,) = session._rows("SELECT toUnixTimestamp(now()) AS now FROM system.local")
    return row["now"] / 1000


SCENARIOS = {"one-node": one_node, "life": life, "return-of-the-dead": return_of_the_dead}


if __name__ == "__main__":
    main()

"""Histories of bulk writes and checks, one call an operation, with the ring of `ring_accounts` around them."""

from __future__ import annotations

import orjson
from histories import judged
from ring_accounts import account, noted

from schemaquake.checkers.topology.replica_sets import ReplicaSets
from schemaquake.harness.descriptors.functions import pd

SEED = 7
CREATED = [
    '@1 p0 n1 invoke create-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 3}}',
    "@2 p0 n1 ok",
]
TOKENS = {
    "n1": ["-9000000000000000000"],
    "n2": ["-4000000000000000000"],
    "n3": ["1000000000000000000"],
    "n4": ["6000000000000000000"],
}


def text(value):
    return orjson.dumps(value).decode()


def write(lts, *, ms, ends_ms=None, first=0, count=10, partition=0, level="QUORUM", outcome="ok", f="write-rows"):
    """One write; `lts` is its number, too, and its process."""
    value = {"partition": partition, "pd": str(pd(SEED, partition)), "lts": lts, "consistency": level}
    value |= {} if f == "delete-partition" else {"first": first, "count": count}
    end = f"@{ms + 1 if ends_ms is None else ends_ms} p{lts} n1 {outcome}"
    return [f"@{ms} p{lts} n1 invoke {f} k.d {text(value)}", end]


def delete(lts, **how):
    return write(lts, f="delete-rows", **how)


def check(runs, *, ms, ends_ms=None, node="n2", level="QUORUM", process=50, strange=None, first=0):
    """One check of the partitions from `first` on; `runs` is one list, of one partition, or a list for each."""
    runs = runs if runs and isinstance(runs[0], list) else [runs]
    value = {"first": first, "count": len(runs), "consistency": level}
    found = {"rows": sum(sum(run[1::3]) for run in runs), "runs": runs, **({"strange": strange} if strange else {})}
    end = f"@{ms + 1 if ends_ms is None else ends_ms} p{process} {node} ok {text(found)}"
    return [f"@{ms} p{process} {node} invoke check-rows k.d {text(value)}", end]


def probes(held, *, ms=1000, phase="settled"):
    """Checks at ONE through every node in a final phase; `held` is a node's runs, of one partition."""
    lines = [f'@{ms - 1} -- info phase {{"phase": "final-{phase}", "state": "begins"}}']
    for number, (node, runs) in enumerate(held.items()):
        lines += check(runs, ms=ms + 2 * number, node=node, level="ONE", process=60 + number)
    return lines


def says(nodes, *, phase="settled,restarted", factor=3, **more):
    """What each of these nodes says of the ring, and of the keyspace."""
    members = {name: {"address": f"10.0.0.{name[1:]}", "host_id": name, "tokens": TOKENS[name], "dc": "dc1", "rack": "r1"} for name in nodes}  # fmt: skip
    accounts = [account(node, nodes, phase=phase, **members, **more) for node in nodes]
    replication = {"class": "SimpleStrategy", "replication_factor": factor}
    return [*accounts, f"{phase} {','.join(nodes)} keyspace k {text({'replication': replication})}"]


START = noted("boot", {"n1": "normal", "n2": "normal", "n3": "normal", "n4": "absent"})


def operation(f, becomes, outcome="ok", *, number=0, ms=100, ends_ms=200, loses_disk=False):
    value = {"operation": number, "nodes": list(becomes), "parameters": {}, "becomes": becomes}
    value["parameters"] = {"loses_disk": True} if loses_disk else {}
    return [f"@{ms} -- invoke {f} {text(value)}", f"@{ends_ms} -- {outcome} {f} {text({**value, 'effect': {}})}"]


def altered(factor, *, ms=100, outcome="ok", process=99, node="n1"):
    """One ALTER KEYSPACE."""
    value = {"replication": {"class": "SimpleStrategy", "replication_factor": factor}}
    return [f"@{ms} p{process} {node} invoke alter-keyspace k {text(value)}", f"@{ms + 1} p{process} {node} {outcome}"]


def rf_change(
    factor,
    *,
    ms,
    repaired="n1,n2,n3",
    failed="",
    shown_by="n1,n2,n3",
    outcome="ok",
    alters="ok",
    number=9,
    ends_ms=None,
):
    """One operation `rf-change` with its ALTER through n1, and its repairs."""
    value = {"operation": number, "nodes": [], "parameters": {"keyspace": "any", "repair": True}, "becomes": {}}
    attempts = [{"outcome": alters, "command": f"ALTER KEYSPACE k, replication factor {factor}", "node": "n1"}]
    for result, nodes in (("ok", repaired), ("info", failed)):
        attempts += [{"outcome": result, "command": "repair k", "node": node} for node in nodes.split(",") if node]
    effect = {"attempts": attempts, "keyspace": "k", "to": factor, "shown_by": [n for n in shown_by.split(",") if n]}
    end = f"@{ms + 20 if ends_ms is None else ends_ms} -- {outcome} rf-change {text({**value, 'effect': effect})}"
    return [
        f"@{ms} -- invoke rf-change {text(value)}",
        *altered(factor, ms=ms + 1, outcome=alters, process=1000 + number),
        end,
    ]


WIDER = noted("boot", {f"n{number}": "normal" for number in range(1, 6)})
"""Five nodes, so that a factor of five has a replica on each."""


def verdict(*parts, nodes=("n1", "n2", "n3"), factor=3, seen=(), start=START):
    """Judge them; `factor` is what all nodes show in the end, `seen` further observations."""
    lines = [start, *CREATED, *(line for part in parts for line in part)]
    return ReplicaSets().check(judged(lines, [*seen, *says(nodes, factor=factor)]), limit_s=5)


def found(*parts, **how):
    result = verdict(*parts, **how)
    return sorted((one.type, one.evidence["rows"]) for one in result.anomalies)

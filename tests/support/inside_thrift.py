"""What a test wants to know of three nodes that speak Thrift, told from inside their enclosure (see inside.py)."""

from __future__ import annotations

import threading

import inside

from schemaquake.harness.ddl import rows
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.wait import until

PLAIN = [("k", "int", "partition_key"), ("v", "text", "regular")]
ROUNDS_MAX = 80
SETTLE_S = 8


def everyday(cluster):
    """Every change and row operation that the interface knows, through n1, and what each node then says."""
    sessions = {node.name: inside.client(cluster, node.name) for node in cluster.nodes}
    one = sessions["n1"]
    changes = [
        ddl.create_keyspace("sq", replication_factor=2),
        ddl.alter_keyspace("sq", replication_factor=3),
        ddl.create_table("sq", "t", columns=PLAIN, options={"comment": "first"}),
        ddl.create_table("sq", "gone", columns=PLAIN),
        ddl.add_column("sq", "t", "c", "int"),
        ddl.add_column("sq", "t", "d", "int"),
        ddl.drop_column("sq", "t", "d"),
        ddl.alter_options("sq", "t", {"gc_grace_seconds": 3600, "read_repair_chance": 0.5}),
        ddl.create_index("sq", "i", table="t", column="v"),
        ddl.create_index("sq", "j", table="t", column="c"),
        ddl.drop_index("sq", "j"),
        ddl.drop_table("sq", "gone"),
        ddl.create_keyspace("sq", replication_factor=3, if_not_exists=True),
        ddl.create_table("sq", "t", columns=PLAIN),
    ]
    told = {"changes": []}
    for change in changes:
        done = one.invoke(change)
        told["changes"].append([change.f, done.type, done.error])
        until(lambda: agree(sessions), deadline_s=120, what="agreement", every_s=0.1)
    told["rows"] = rows_of(sessions)
    told["observed"] = {name: objects(session) for name, session in sessions.items()}
    for session in sessions.values():
        session.close()
    return told


def rows_of(sessions):
    """Rows through one coordinator, read through the others."""
    told = {}
    for name, row in {"n1": {"k": 1, "v": "one", "c": 5}, "n2": {"k": -7, "v": "ä"}, "n3": {"k": 3, "w": 9}}.items():
        told[name] = sessions[name].invoke(rows.insert("sq", "t", row, consistency="ALL")).type
    removed = rows.delete_row("sq", "t", {"k": 3}, consistency="ALL")
    told["removed"] = sessions["n1"].invoke(removed).type
    for name, where in (("n2", None), ("n3", {"k": 1})):
        read = rows.read_rows("sq", "t", consistency="QUORUM", phase="settled", columns=["k", "v", "c"], where=where)
        told[f"read through {name}"] = sessions[name].invoke(read).value["rows"]
    wrong = rows.insert("sq", "nowhere", {"k": 1, "v": "x"}, consistency="ONE")
    told["nowhere"] = [sessions["n1"].invoke(wrong).type, sessions["n1"].invoke(wrong).error]
    return told


def agree(sessions):
    seen = [session.observe(phase="running", sample=1, complete=True)[0].id for session in sessions.values()]
    return None not in seen and len(set(seen)) == 1


def objects(session):
    return {
        f"{o.kind} {o.keyspace}.{o.name}": [o.id, o.definition]
        for o in session.observe(phase="settled", sample=1, complete=True)
    }


def disagreement(cluster):
    """Two coordinators alter two tables at once until one refuses for disagreement: was its change applied anywhere?"""
    sessions = {node.name: inside.client(cluster, node.name) for node in cluster.nodes}
    base = [ddl.create_keyspace("sq", replication_factor=3)]
    base += [ddl.create_table("sq", name, columns=PLAIN) for name in ("t1", "t2")]
    for change in base:
        assert sessions["n1"].invoke(change).type == "ok"
        until(lambda: agree(sessions), deadline_s=120, what="agreement", every_s=0.1)
    for number in range(ROUNDS_MAX):
        told = one_round(sessions, number)
        for table, done in told.items():
            if done.error is not None and "agree" in done.error.casefold():
                return {"error": done.error, "type": done.type, "comments": comments(sessions, table), "round": number}
        if not can_agree(sessions):
            continue  # forked for good, as up to 1.0 it does: the next change of all is refused
    return {"error": None}


def one_round(sessions, number):
    told = {}
    barrier = threading.Barrier(2)

    def alter(node, table):
        barrier.wait()
        told[table] = sessions[node].invoke(ddl.alter_options("sq", table, {"comment": f"round {number}"}))

    threads = [threading.Thread(target=alter, args=pair) for pair in (("n1", "t1"), ("n2", "t2"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def can_agree(sessions):
    try:
        until(lambda: agree(sessions), deadline_s=SETTLE_S, what="agreement", every_s=0.1)
    except TimeoutError:
        return False
    return True


def comments(sessions, table):
    """The comment of that table on every node, in the end."""
    can_agree(sessions)
    return {
        name: o.definition["options"].get("comment")
        for name, session in sessions.items()
        for o in session.observe(phase="settled", sample=1, complete=True)
        if (o.kind, o.name) == ("table", table)
    }


inside.SCENARIOS.update({"everyday": everyday, "disagreement": disagreement})

if __name__ == "__main__":
    inside.main()

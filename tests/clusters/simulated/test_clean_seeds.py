"""Seeds of designs without a flaw that were accused or not decided once, each with what was mended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemaquake.harness.model.plan import Plan
from schemaquake.results.swarm.one_seed import row_of

_SERVED_BEHIND = Plan(
    system="simulated:scylladb-6.2", workloads=("drop-recreate",), nemeses=("kill", "clock"), seed=89,
    cluster="simulated", nodes=5, time_limit_s=8.0, rate=4.0, replication_factor=1, restart="none",
    options={"mode": "barrier", "races": "1", "bugs": "none"},
)  # fmt: skip
"""A node that was started again served before it had carried out a DROP and a CREATE, and rows went into the dropped table."""
_REPLACED_WHILE_FROZEN = Plan(
    system="simulated:cassandra-5.0", workloads=("alter-options", "quorum"), nemeses=("replace", "pause", "stop"), seed=1333,
    cluster="simulated", nodes=4, spares=1, time_limit_s=12.0, rate=4.0,
    options={"races": "1", "replace.limit-s": "40", "bugs": "none"},
)  # fmt: skip
"""A pause was taken for one without effect, because its node was replaced before the pause ended."""
_LEAVES_AFTER_A_RESTART = Plan(
    system="simulated:scylladb-6.2", workloads=("create-table", "drop-table-view", "quorum"), nemeses=("decommission", "stop"),
    seed=28, cluster="simulated", nodes=4, time_limit_s=12.0, rate=4.0, restart="none",
    options={"races": "1", "decommission.limit-s": "40", "slow": "n2-n1:800,n3-n1:800,n4-n1:800", "bugs": "none"},
)  # fmt: skip
"""A restart was taken for the end of a decommission that the topology coordinator went on with."""
_LEFT_BY_A_DEAD_LEADER = Plan(
    system="simulated:scylladb-6.2", workloads=("alter-options", "drop-keyspace", "quorum"),
    nemeses=("decommission", "kill", "restart", "stop"), seed=126, cluster="simulated", nodes=4, time_limit_s=20.0, rate=8.0,
    replication_factor=2,
    options={
        "races": "1", "decommission.limit-s": "40", "bugs": "none",
        "slow": "n1-n3:200,n1-n4:200,n2-n1:200,n2-n4:200,n3-n2:200,n3-n4:200,n4-n2:200",
    },
)  # fmt: skip
"""A leader died when a node had left the ring and was in the group still: no other one dismissed it."""
_KILLED_IN_A_HEARTBEAT = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn",), seed=765, cluster="simulated", time_limit_s=20.0, rate=8.0,
    options={
        "log": "paxos", "bugs": "none", "fault.seconds": "8", "fault.within": "16", "pause.at": "6.0/paxos/a2@2",
        "kill.at": "6.0/follow/l6@18:n2,6.0/paxos/a2@26",
    },
)  # fmt: skip
"""A heartbeat took another node for dead, by which a request to it was given up, and its own server was killed at the next step."""
_STARTED_AFTER_AN_ABORT = Plan(
    system="simulated:scylladb-6.2", workloads=("quorum",), nemeses=("bootstrap",), seed=1814, cluster="simulated", nodes=4,
    spares=1, time_limit_s=20.0, rate=40.0, replication_factor=2,
    options={
        "bootstrap.limit-s": "40", "bugs": "none", "fault.seconds": "8", "fault.within": "16", "keys": "6",
        "kill.at": "group0/topology/o5@3,group0/stream/s1@1",
    },
)  # fmt: skip
"""A node whose join was aborted by a kill was started again by an earlier fault that undid itself, and joined after all."""
_LED_BY_ONE_THAT_LEFT = Plan(
    system="simulated:scylladb-6.2", workloads=("quorum",), nemeses=("decommission",), seed=3274, cluster="simulated", nodes=4,
    time_limit_s=20.0, rate=80.0, replication_factor=1,
    options={
        "decommission.limit-s": "40", "bugs": "none", "fault.seconds": "4", "fault.within": "20", "keys": "6",
        "kill.at": "group0/topology/o6@1:n1", "pause.at": "group0/topology/o3@1:n1",
    },
)  # fmt: skip
"""A leader that had left the group was taken for alive by the others, which elected none; a node that came back stayed behind."""
_KILLED_BEFORE_THE_MARKER = Plan(
    system="simulated:cassandra-0.7", workloads=("drop-alter",), seed=4623, cluster="simulated", time_limit_s=5.0, rate=8.0,
    replication_factor=3, restart="together",
    options={
        "mode": "barrier", "races": "1", "bugs": "none", "fault.within": "5", "kill.at": "0.7/apply/a4@2:n3", "order": "turns",
        "invariants": "checked",
    },
)  # fmt: skip
"""A node that was killed before it wrote the marker of a migration took it for applied when it came again, and dropped all that followed."""

_WRITTEN_BEHIND_A_DROP = Plan(
    system="simulated:cassandra-0.7", workloads=("drop-alter", "drop-recreate"), seed=5816, cluster="simulated", nodes=5,
    time_limit_s=12.0, rate=4.0, restart="none",
    options={
        "mode": "barrier", "races": "1", "bugs": "none", "invariants": "checked", "order": "turns",
        "slow": "n1-n2:400,n1-n5:400,n2-n3:400,n2-n4:400,n3-n1:400,n4-n5:400,n5-n2:400",
    },
)  # fmt: skip
"""A node behind slow links had not heard of a DROP that was acknowledged, and took a row of the table, which went with it."""
_PUSHED_WITHOUT_A_MARKER = Plan(
    system="simulated:cassandra-0.7", workloads=("create-table",), nemeses=("partition", "pause", "packet-loss"), seed=6376,
    cluster="simulated", nodes=4, time_limit_s=20.0, rate=4.0, replication_factor=1, restart="together",
    options={
        "mode": "partition", "races": "2", "bugs": "none", "fault.within": "20", "order": "turns", "invariants": "checked",
        "kill.at": "0.7/apply/a3@9,0.7/apply/a4@10,0.7/apply/a3@10,0.7/apply/a4@8",
        "slow": "n1-n3:200,n2-n3:200,n3-n2:200,n4-n2:200",
    },
)  # fmt: skip
"""A node that was killed before it wrote the marker of its own migration made another one, and pushed both; the others took the first."""
_REFUSED_FOR_A_MOMENT = Plan(
    system="simulated:cassandra-0.7", workloads=("schema-churn",), seed=5899, cluster="simulated", time_limit_s=20.0, rate=4.0,
    replication_factor=3,
    options={"bugs": "none", "invariants": "checked", "order": "turns", "slow": "n1-n2:200,n3-n2:200"},
)  # fmt: skip
"""A change was refused because the nodes did not agree yet, which 0.7 says in other words than 0.8."""
_QUEUED_BEHIND_A_JOIN = Plan(
    system="simulated:scylladb-6.2", workloads=("quorum",), nemeses=("bootstrap", "decommission"), seed=207, cluster="simulated",
    nodes=4, spares=1, time_limit_s=20.0, rate=10.0, replication_factor=3,
    options={
        "keys": "6", "fault.seconds": "4", "fault.within": "20", "kill.at": "group0/stream/s1@1,group0/topology/o2@1",
        "pause.at": "group0/topology/o6@1", "bootstrap.limit-s": "40", "decommission.limit-s": "40", "overlap": "true",
        "bootstrap.begins-s": "4", "decommission.begins-s": "6.1", "bootstrap.after-failure": "resume",
        "invariants": "checked", "bugs": "none",
    },
)  # fmt: skip
"""A node that had lost its disk was asked for ever for what followed on its old log, and a leave that was asked for again queued twice."""
_READ_ELSEWHERE = Plan(
    system="simulated:cassandra-5.0", workloads=("schema-churn", "set"), nemeses=("move", "restart", "partition"), seed=382,
    cluster="simulated", nodes=6, data_centers=2, time_limit_s=12.0, rate=8.0, replication_factor=2,
    options={
        "move.limit-s": "40", "consistency": "LOCAL_QUORUM", "partition.targets": "data-center", "order": "turns",
        "kill.at": "ring/change/c4@8,ring/change/c4@7,ring/change/c2@12:n2,ring/change/c4@2", "fault.within": "12",
        "slow": "dc1-dc2:20,dc2-dc1:20", "invariants": "checked", "bugs": "none",
    },
)  # fmt: skip
"""The last read of a set asked a data centre that had been cut off when the element was added in the other one, whose reads show it."""

_KILLED_WITHOUT_A_NOTE = Plan(
    system="simulated:scylladb-6.2", workloads=("schema-churn",), seed=20015, cluster="simulated", nodes=5, time_limit_s=20.0,
    rate=8.0, restart="together",
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "relay": "true",
        "cut.at": "group0/change/g1@93,raft/election/v3@91,raft/election/v3@20,raft/election/v3@33,group0/change/g1@2:n2",
        "kill.at": "raft/election/v3@35,group0/change/g1@154,group0/change/g1@40,group0/change/g5@27:n2",
    },
)  # fmt: skip
"""A server that was killed at a step refused rows for want of replicas as soon as it was there again: no node counted as not whole."""
_COLUMNS_THAT_NOTHING_DECLARED = Plan(
    system="simulated:cassandra-1.1", workloads=("schema-churn",), nemeses=("pause", "packet-loss", "restart", "stop"), seed=20091,
    cluster="simulated", nodes=5, time_limit_s=20.0, rate=8.0,
    options={"bugs": "none", "fault.within": "20", "invariants": "checked", "kill.at": "1.1/boot/b3@8"},
)  # fmt: skip
"""An ADD never reached its server, and rows named the column: Thrift takes that, and readings of simulated 1.1 did not say that they are Thrift's."""

_COMMITTED_BY_ANOTHER = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn",), nemeses=("partition",), seed=21212, cluster="simulated",
    nodes=5, time_limit_s=20.0, rate=8.0,
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "log": "paxos", "snapshots": "often",
        "cut.at": "6.0/paxos/p2@2,6.0/commit/k3@7,6.0/paxos/p2@35,6.0/paxos/p2@28:n5",
        "kill.at": "6.0/paxos/p2@38,6.0/paxos/p2@37",
    },
)  # fmt: skip
"""A member refused a CREATE INDEX that another had committed for it: a snapshot had been taken, and its own entry was forgotten with it."""
_PROMISED_TOO_LATE = Plan(
    system="simulated:cassandra-6.0", workloads=("drop-alter", "add-columns", "quorum"), nemeses=("partition", "restart"),
    seed=21871, cluster="simulated", nodes=5, time_limit_s=20.0, rate=4.0, replication_factor=5, restart="none",
    options={
        "mode": "barrier", "races": "1", "bugs": "none", "log": "paxos", "invariants": "checked",
        "slow": "n1-n3:60,n1-n5:60,n2-n3:60,n2-n4:60,n3-n4:60,n5-n3:60",
    },
)  # fmt: skip
"""A third promise, which told of an accepted entry, came when two had been counted: the observer took it for one that was passed over."""

_STOPPED_AS_IT_WENT_ON = Plan(
    system="simulated:scylladb-6.2", workloads=("create-table", "quorum"), nemeses=("partition", "clock", "packet-loss", "stop"),
    seed=22359, cluster="simulated", nodes=6, data_centers=2, time_limit_s=20.0, rate=8.0, replication_factor=3,
    options={
        "mode": "partition", "races": "1", "bugs": "none", "consistency": "QUORUM", "fault.within": "20", "invariants": "checked",
        "partition.targets": "data-center", "snapshots": "often",
        "pause.at": "group0/apply/g7b@5,group0/apply/g7b@3:n3,raft/vote/w1@4,raft/vote/w1@13",
    },
)  # fmt: skip
"""A paused server went on, and was stopped before what had waited for it happened: its tick found no server."""
_LED_TOO_LATE = Plan(
    system="simulated:scylladb-6.2", workloads=("schema-churn",), nemeses=("partition",), seed=22497, cluster="simulated",
    time_limit_s=20.0, rate=16.0, restart="none",
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "relay": "true", "snapshots": "often",
        "cut.at": "raft/election/v3@5,raft/election/v3@40,raft/election/v3@41,raft/replicate/r2@34",
        "pause.at": "raft/election/v3@2,raft/election/v3@7,raft/replicate/r2@33,raft/replicate/r2@37",
    },
)  # fmt: skip
"""One that was elected was frozen before it led, and came behind what a leader of a later term had committed: the observer accused it."""

_HEARD_IN_BETWEEN = Plan(
    system="simulated:scylladb-6.2", workloads=("schema-churn",), seed=23654, cluster="simulated", time_limit_s=20.0, rate=16.0,
    concurrency=9,
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "slow": "n2-n1:400,n2-n3:400,n3-n2:400",
        "cut.at": "raft/replicate/f1@21:n3-n2,raft/replicate/f2@36,raft/replicate/f1@71",
    },
)  # fmt: skip
"""A follower heard of a later term while it looked at a message of its leader without entries, and confirmed that in the later term."""
_KNOWN_BY_AN_EARLIER_ATTEMPT = Plan(
    system="simulated:scylladb-6.2", workloads=("reloaded-rows",), nemeses=("replace",), seed=386, cluster="simulated", nodes=4,
    time_limit_s=20.0, rate=10.0, spares=1,
    options={
        "bugs": "none", "fault.seconds": "2", "fault.within": "22", "invariants": "checked", "kill.at": "group0/stream/s2@1",
        "replace.address": "same", "replace.limit-s": "40", "slow": "n2-n1:200,n2-n3:200,n3-n1:200,n5-n1:200",
    },
)  # fmt: skip
"""A node that takes its own place was killed and began anew under a third id, and the change that went on was the second one's."""
_WITHOUT_A_VOICE = Plan(
    system="simulated:scylladb-6.2", workloads=("reloaded-rows",), nemeses=("replace",), seed=4692, cluster="simulated", nodes=4,
    time_limit_s=20.0, rate=40.0, spares=1,
    options={
        "bugs": "none", "fault.seconds": "1", "fault.within": "23", "invariants": "checked", "append": "single", "snapshots": "often",
        "cut.at": "group0/topology/o3@1:n3-n2", "kill.at": "group0/topology/o2@1:n3", "replace.address": "same",
        "replace.limit-s": "40",
    },
)  # fmt: skip
"""A member without a vote was started again, and asked for no leader: it never heard what was committed."""
_NAME_OF_A_TABLE = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn",), seed=25456, cluster="simulated", time_limit_s=20.0, rate=16.0,
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "snapshots": "often",
        "cut.at": "6.0/paxos/p3@3,6.0/paxos/p3@5",
        "pause.at": "6.0/commit/k6@8,6.0/commit/k6@11,6.0/paxos/p2@7,6.0/paxos/p2@9,6.0/paxos/p3@6",
    },
)  # fmt: skip
"""CREATE MATERIALIZED VIEW IF NOT EXISTS found a table of that name, and its coordinator, which was behind, took that for its own."""
_CARRIED_OUT_AGAIN = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn",), seed=30689, cluster="simulated", time_limit_s=20.0, rate=16.0,
    concurrency=9,
    options={
        "bugs": "none", "fault.seconds": "1", "fault.within": "23", "invariants": "checked", "snapshots": "often",
        "kill.at": "6.0/follow/l7@3:n1,6.0/follow/l7@115,6.0/follow/l8@153,6.0/paxos/p2@5,6.0/follow/l7@6,6.0/follow/l7@4",
        "slow": "n3-n1:400,n1-n3:400",
    },
)  # fmt: skip
"""A change that was carried out again made an equal definition, which counted as another one."""
_CUT_OFF_WITHOUT_A_NOTE = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn",), nemeses=("partition",), seed=40009, cluster="simulated",
    time_limit_s=20.0, rate=8.0, concurrency=9, restart="none",
    options={
        "bugs": "none", "fault.seconds": "8", "fault.within": "16", "invariants": "checked", "log": "paxos",
        "cut.at": "6.0/follow/l3@103,6.0/follow/l1@7", "kill.at": "6.0/follow/l1@7:n2", "slow": "n1-n3:60,n2-n3:60",
    },
)  # fmt: skip
"""A coordinator was cut off: at first its requests timed out, then it refused them for want of replicas."""
_FOUND_ANOTHERS_FILES = Plan(
    system="simulated:cassandra-0.7", workloads=("schema-churn",), nemeses=("partition", "packet-loss", "rolling-restart"),
    seed=31992, cluster="simulated", time_limit_s=12.0, rate=8.0, replication_factor=1, restart="none",
    options={"bugs": "none", "fault.within": "12", "invariants": "checked", "pause.at": "0.7/change/c2@13:n3"},
)  # fmt: skip
"""All tables were dropped and the nodes started again: a new table got the id of another one, and wrote into that one's files."""
_REFUSED_AND_STILL_A_MEMBER = Plan(
    system="simulated:scylladb-6.2", workloads=("set",), nemeses=("replace", "partition", "clock", "rolling-restart"), seed=80839,
    cluster="simulated", nodes=7, spares=1, time_limit_s=12.0, rate=8.0, restart="none",
    options={
        "bugs": "none", "fault.within": "12", "invariants": "checked", "snapshots": "often", "replace.limit-s": "40",
        "pause.at": "raft/vote/w1@11,raft/election/v3@7:n3",
        "slow": "n1-n4:400,n2-n4:400,n2-n6:400,n3-n2:400,n3-n5:400,n3-n7:400,n4-n3:400,n6-n2:400,n7-n2:400,n7-n5:400,n8-n1:400,"
        "n8-n3:400,n8-n4:400",
    },
)  # fmt: skip
"""A node was to take the place of one that was alive again: its request was refused, and it stayed in the group."""

_SEEN_WITHOUT_A_SERVER = Plan(
    system="simulated:scylladb-6.2", workloads=("schema-churn",), seed=23471, cluster="simulated", time_limit_s=20.0, rate=8.0,
    concurrency=9, restart="none",
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked", "relay": "true",
        "kill.at": "group0/apply/g7b@10,group0/apply/g7b@59,group0/apply/g7b@3,raft/replicate/r2@2,group0/apply/g7b@119,"
        "group0/apply/g7b@15,group0/apply/g7b@21,group0/apply/g7b@7,group0/apply/g7b@18",
    },
)  # fmt: skip
"""Servers were killed at steps and refused rows as soon as they were there again: no client had asked them meanwhile, but the observer had."""
_SEEN_ONCE_WITHOUT_A_SERVER = Plan(
    system="simulated:scylladb-6.2", workloads=("schema-churn",), seed=26489, cluster="simulated", nodes=5, time_limit_s=20.0,
    rate=8.0, restart="none",
    options={
        "bugs": "none", "fault.seconds": "4", "fault.within": "20", "invariants": "checked",
        "cut.at": "group0/apply/g7a@3:n3-n5,group0/apply/g7a@147",
        "kill.at": "raft/replicate/f1@5,group0/apply/g7a@127,raft/replicate/f1@24:n2,group0/apply/g7a@2,group0/apply/g7a@7,"
        "group0/apply/g7a@92:n4,group0/apply/g7a@73:n4",
    },
)  # fmt: skip
"""The same of one server."""
_REPAIRED_ONE_BY_ONE = Plan(
    system="simulated:cassandra-6.0", workloads=("reloaded-rows",), nemeses=("removenode",), seed=23434, cluster="simulated",
    nodes=4, time_limit_s=20.0, rate=80.0, restart="none",
    options={
        "bugs": "none", "fault.seconds": "2", "fault.within": "22", "invariants": "checked", "cut.at": "6.0/sequence/q6@4:n3",
        "kill.at": "6.0/stream/s1@1", "removenode.limit-s": "40", "slow": "n2-n1:200,n3-n1:200,n4-n1:200",
    },
)  # fmt: skip
"""A read of a whole table through a node behind slow links repaired one row after the other, and no client waits for so long."""
_REPAIRED_ONE_BY_ONE_EARLIER = Plan(
    system="simulated:cassandra-3.11", workloads=("reloaded-rows",), nemeses=("kill",), seed=23476, cluster="simulated", nodes=5,
    time_limit_s=20.0, rate=40.0, concurrency=15, replication_factor=3, restart="together",
    options={"bugs": "none", "invariants": "checked", "slow": "n1-n2:200,n2-n1:200"},
)  # fmt: skip
"""The same on 3.11."""

_CREATED_AND_DROPPED = Plan(
    system="simulated:cassandra-3.11",
    workloads=("schema-churn", "set"),
    nemeses=("stop",),
    seed=29132,
    cluster="simulated",
    nodes=6,
    data_centers=2,
    racks=2,
    time_limit_s=12.0,
    rate=8.0,
    replication_factor=3,
    restart="none",
    options={
        "bugs": "none",
        "consistency": "LOCAL_QUORUM",
        "invariants": "checked",
        "order": "turns",
        "slow": "dc1-dc2:200",
    },
)
"""An aggregate was created and dropped before another data centre heard of either, which left the version as it was: no turn was due yet."""

_REFUSED_BY_ANOTHER_MEMBER = Plan(
    system="simulated:cassandra-6.0", workloads=("schema-churn", "set"), nemeses=("bootstrap", "move", "rolling-restart", "stop"),
    seed=200578, cluster="simulated", nodes=4, spares=1, racks=2, time_limit_s=12.0, rate=8.0, replication_factor=4,
    options={
        "bootstrap.limit-s": "40", "move.limit-s": "40", "overlap": "true", "slow": "n1-n4:400,n2-n4:400,n3-n4:400,n5-n4:400",
        "invariants": "checked", "bugs": "none",
    },
)  # fmt: skip
"""A member did not answer in time, another one refused the aggregate, and the first had it committed when its function was there again."""


@pytest.mark.parametrize(
    "plan",
    [
        _REFUSED_BY_ANOTHER_MEMBER,
        _SERVED_BEHIND,
        _REPLACED_WHILE_FROZEN,
        _LEAVES_AFTER_A_RESTART,
        _LEFT_BY_A_DEAD_LEADER,
        _KILLED_IN_A_HEARTBEAT,
        _STARTED_AFTER_AN_ABORT,
        _LED_BY_ONE_THAT_LEFT,
        _KILLED_BEFORE_THE_MARKER,
        _WRITTEN_BEHIND_A_DROP,
        _PUSHED_WITHOUT_A_MARKER,
        _REFUSED_FOR_A_MOMENT,
        _QUEUED_BEHIND_A_JOIN,
        _READ_ELSEWHERE,
        _KILLED_WITHOUT_A_NOTE,
        _COLUMNS_THAT_NOTHING_DECLARED,
        _COMMITTED_BY_ANOTHER,
        _PROMISED_TOO_LATE,
        _STOPPED_AS_IT_WENT_ON,
        _LED_TOO_LATE,
        _HEARD_IN_BETWEEN,
        _KNOWN_BY_AN_EARLIER_ATTEMPT,
        _WITHOUT_A_VOICE,
        _NAME_OF_A_TABLE,
        _CARRIED_OUT_AGAIN,
        _SEEN_WITHOUT_A_SERVER,
        _SEEN_ONCE_WITHOUT_A_SERVER,
        _REPAIRED_ONE_BY_ONE,
        _REPAIRED_ONE_BY_ONE_EARLIER,
        _CREATED_AND_DROPPED,
        _CUT_OFF_WITHOUT_A_NOTE,
        _FOUND_ANOTHERS_FILES,
        _REFUSED_AND_STILL_A_MEMBER,
    ],
    ids=lambda plan: str(plan.seed),
)
def test_a_design_without_a_flaw_is_silent(plan):
    row = row_of(plan)
    assert (row["outcome"], row["anomalies"], row["doubt"]) == ("valid", [], None)


def test_rows_that_no_order_keeps_from_a_dropped_family_are_lost():
    options = {**_WRITTEN_BEHIND_A_DROP.options, "bugs": "none,+unordered-rows"}
    assert row_of(replace(_WRITTEN_BEHIND_A_DROP, options=options))["anomalies"] == ["lost-rows"]

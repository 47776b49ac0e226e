"""Every workload that reads and writes, under every nemesis, beside schema changes of other keyspaces, on real servers.

What consensus decides holds under all of them. Plain writes carry their coordinator's time, so a skewed clock may hide
an acknowledged one behind an older one (last-write-wins); then that, and nothing else, may be told of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command import schemaquake

pytestmark = pytest.mark.cluster

NEMESES: Final = ("partition", "packet-loss", "kill", "stop", "pause", "restart", "rolling-restart", "clock")
BRINGING_BACK: Final = ("kill", "stop", "restart", "rolling-restart")
BY_CONSENSUS: Final = ("register", "cas-register", "append")
BY_WHAT_IS_THERE: Final = ("set", "counter", "batch")
BY_TIMESTAMPS: Final = ("rw-register", "quorum")
TOGETHER: Final = (*BY_CONSENSUS, *BY_WHAT_IS_THERE, *BY_TIMESTAMPS, "schema-churn")
JUDGES: Final = ("linearizable", "late-writes", "list-append", "set-full", "counter", "batch-atomicity")
JUDGES_OF_TIMESTAMPS: Final = ("rw-register", "quorum")


def judged(tmp_path: Path, nemesis: str, *run: object) -> dict[str, Any]:
    """What `--json` printed of one run under one nemesis, whose faults were seen to have an effect."""
    done = schemaquake(
        *("run", *run, "--nemesis", nemesis, "--time-limit", 60, "--runs", tmp_path, "--json"), expected=(0, 1, 2)
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert told(document, "faults") == {}
    return document


def answered(document: Mapping[str, Any], keyspace: str) -> int:
    """How many operations on a data workload's keyspace were acknowledged."""
    history = pq.read_table(Path(document["run"]) / "history.parquet", columns=["type", "key"])
    mine = pc.match_substring_regex(history["key"].cast("string"), f"^{keyspace}(\\.|$)")
    return pc.sum(pc.and_(mine, pc.equal(history["type"].cast("string"), "ok"))).as_py() or 0


def told(document: Mapping[str, Any], *checkers: str) -> dict[str, Any]:
    """What these checkers say that is not `true`, in short."""
    return {
        name: (part["valid"], part.get("reason"), [anomaly["explanation"] for anomaly in part["anomalies"][:3]])
        for name in checkers
        if (part := part_of(document, name))["valid"] is not True and not nothing_to_judge(part)
    }


def part_of(document: Mapping[str, Any], checker: str) -> dict[str, Any]:
    """The verdict of one checker."""
    return next(part for part in document["parts"] if part["checker"] == checker)


def nothing_to_judge(part: Mapping[str, Any]) -> bool:
    return part["checker"] == "late-writes" and all(
        one["kind"] == "nothing-to-judge" for one in part.get("doubts", [{"kind": "none"}])
    )


@pytest.mark.long
@pytest.mark.parametrize("nemesis", NEMESES)
def test_what_data_workloads_promise_holds_beside_schema_changes(tmp_path: Path, nemesis: str) -> None:
    document = judged(tmp_path, nemesis, "--system", "cassandra:5.0.9", "--workload", ",".join(TOGETHER), "--rate", 15)
    for workload in TOGETHER[:-1]:
        assert answered(document, f"sq_{workload.replace('-', '_')}") > 100, workload
    assert told(document, *JUDGES) == {}
    if nemesis == "clock":
        found = {anomaly["type"] for anomaly in part_of(document, "quorum")["anomalies"]}
        assert found <= {"shadowed-write"}, told(document, "quorum")
    else:
        assert told(document, *JUDGES_OF_TIMESTAMPS) == {}


@pytest.mark.long
@pytest.mark.parametrize("nemesis", NEMESES)
def test_transactions_of_accord_are_judged_strictly(tmp_path: Path, nemesis: str) -> None:
    """Whatever it says of them (docs/findings.md), the verdict is one: decided, and told with its operations."""
    # A node that starts again may wait a minute and a half for the transactions that it missed.
    patience = ("-O", f"{nemesis}.serving_limit_s=300") if nemesis in BRINGING_BACK else ()
    run = ("--system", "cassandra:6.0-alpha2", "--workload", "append-accord", "--start-timeout", 300, *patience)
    document = judged(tmp_path, nemesis, *run)
    assert answered(document, "sq_append_accord") > 100
    verdict = part_of(document, "list-append")
    assert verdict["valid"] in (True, False), verdict
    assert all(anomaly["ops"] and anomaly["explanation"] for anomaly in verdict["anomalies"])


@pytest.mark.long
def test_a_set_written_at_one_may_lose_elements_across_a_cut_and_the_doubt_names_them(tmp_path: Path) -> None:
    """As in docs/data-workloads.md: no hints, and no connection that outlives the cut."""
    done = schemaquake(
        *("run", "--system", "cassandra:5.0.9", "--workload", "set", "--nemesis", "partition", "--time-limit", 30),
        *("-O", "consistency=ONE", "-O", "yaml.hinted_handoff_enabled=false"),
        *("-O", "yaml.internode_tcp_user_timeout=1s", "--restart", "none", "--runs", tmp_path, "--json"),
        expected=(2,),
    )
    document = json.loads(done.stdout)
    assert document["anomalies"] == []
    (doubt,) = part_of(document, "set-full")["doubts"]
    assert (doubt["kind"], doubt["objects"]) == ("undecided", ["sq_set.s"])
    element, op = map(int, re.search(r"elements \((\d+).* as op (\d+),", doubt["text"]).groups())
    history = pq.read_table(Path(document["run"]) / "history.parquet").to_pylist()
    (added,) = [
        event for event in history if (event["f"], event["type"], event["value"]) == ("add", "ok", str(element))
    ]
    (read,) = [event for event in history if event["index"] == op]
    assert (read["f"], read["type"], read["key"]) == ("read", "invoke", added["key"])

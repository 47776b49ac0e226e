"""Restart: nodes that do not serve again, folded by cause, with the changes that forbid it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from histories import judged
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.run.restart import Restart
from schemaquake.harness.model.verdict import Anomaly, Verdict

MISSING = "ERROR [main] 2026-01-02 03:04:05,678 CassandraDaemon.java:887 - Exception encountered during startup\n"
MISSING += "MissingColumns: No partition key columns found in schema table for k.t\n\tat SchemaKeyspace.fetchColumns"
CREATE = ("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok")
OLDER, NEWER = "cassandra:5.0.9", "cassandra:6.0-alpha2"
RACE = ("@10 -- info race k {}", "@11 p0 n1 invoke drop-table k.t", "@12 p0 n1 ok")
ALTER = ("@13 p1 n2 invoke add-column k.t w:int", "@14 p1 n2 ok")


def started(node: str, *, phase: str = "restart", exit_code: int | None = None, error: str | None = None) -> str:
    """A start that served, unless it exited or left an error."""
    value = {"phase": phase, "served": exit_code is None and error is None, "seconds": 2.5}
    return f"-- {node} info node-start {orjson.dumps({**value, 'exit_code': exit_code, 'first_error': error}).decode()}"


def died(node: str, error: str | None = None, *, exit_code: int = 1) -> str:
    return f"-- {node} info node-died {orjson.dumps({'exit_code': exit_code, 'first_error': error}).decode()}"


def verdict(*lines: str) -> Verdict:
    return Restart().check(judged(lines), limit_s=5)


def finding(*lines: str) -> Anomaly:
    (found,) = verdict(*lines).anomalies
    return found


BOOTED = (started("n1", phase="boot"), started("n2", phase="boot"))


def test_a_node_that_exits_at_its_restart_is_an_anomaly() -> None:
    found = finding(*BOOTED, started("n1"), started("n2", exit_code=3, error="ERROR [main] no idea"))
    assert found.type == "node-will-not-start"
    assert found.nodes == ("n2",)
    assert found.objects == ()
    assert found.evidence == {"exit_code": 3, "first_error": "ERROR [main] no idea", "seconds": {"n2": 2.5}}
    assert "n2 exited with code 3 after 2.5 s: ERROR [main] no idea" in found.explanation


def test_nodes_that_all_serve_again_are_valid() -> None:
    judgement = verdict(*BOOTED, started("n1"), started("n2"))
    assert judgement.valid is True
    assert judgement.figures == {"starts": 2, "served": 2, "seconds": {"restart": {"n1": 2.5, "n2": 2.5}}}


def test_without_a_restart_there_is_nothing_to_judge() -> None:
    judgement = verdict(*CREATE, *BOOTED)
    assert judgement.valid == "unknown"
    assert judgement.judged_nothing


def phase(name: str, state: str = "begins") -> str:
    return f'-- info phase {{"phase": "{name}", "state": "{state}"}}'


@pytest.mark.parametrize(
    ("notes", "kind"),
    [
        pytest.param(
            ['-- info run-planned {"restart": "none"}', phase("final-settled")], "nothing-to-judge", id="none"
        ),
        pytest.param(['-- info run-planned {"restart": "rolling"}'], "unread", id="planned"),
        pytest.param(['-- info run-planned {"restart": "together"}', phase("restart")], "unread", id="begun"),
        pytest.param([phase("restart")], "unread", id="begun in a run of 0.1"),
        pytest.param([phase("final-settled")], "unread", id="a run of 0.1 that was read in the end"),
    ],
)
def test_a_restart_that_was_planned_and_never_noted_is_a_doubt(notes: Sequence[str], kind: str) -> None:
    judgement = verdict(*CREATE, *BOOTED, *notes)
    assert judgement.valid == "unknown"
    assert [doubt.kind for doubt in judgement.doubts] == [kind]
    again = verdict(*CREATE, *BOOTED, *notes, started("n1"), started("n2"))
    assert again.valid is True


def test_nodes_that_faults_started_again_stand_for_no_restart_of_all() -> None:
    planned = '-- info run-planned {"restart": "rolling"}'
    assert verdict(*BOOTED, planned, started("n1", phase="fault")).valid == "unknown"


def test_a_node_that_was_left_out_of_the_restart_is_not_cleared() -> None:
    judgement = verdict(*BOOTED, started("n1"))
    assert judgement.valid == "unknown"
    assert judgement.reason == "n2 served once and was never restarted"


def test_a_node_that_does_not_come_back_after_the_faults_is_an_anomaly() -> None:
    found = finding(*BOOTED, started("n2", phase="fault", error="ERROR no"), started("n1"))
    assert found.type == "node-will-not-start"
    assert "every fault healed" in found.explanation


def test_a_node_that_comes_back_after_the_faults_is_valid() -> None:
    assert verdict(*BOOTED, started("n2", phase="fault"), started("n1"), started("n2")).valid is True


def given_up(node: str, error: str | None = None, *, ended: bool | None = None) -> str:
    """A start that did not serve within its deadline, and whose process has no exit code."""
    value = {"phase": "restart", "served": False, "seconds": 120, "exit_code": None, "first_error": error}
    return f"-- {node} info node-start {orjson.dumps(value if ended is None else {**value, 'ended': ended}).decode()}"


@pytest.mark.parametrize("ended", [None, False], ids=["as in 0.1", "alive"])
@pytest.mark.parametrize("error", [None, "", "INFO  [main] 2026-01-02 Gossiper.java:1 - Waiting for gossip to settle"])
def test_a_node_that_is_alive_without_an_error_may_only_be_slow(error: str | None, *, ended: bool | None) -> None:
    judgement = verdict(*BOOTED, started("n1"), given_up("n2", error, ended=ended))
    assert (judgement.valid, judgement.anomalies) == ("unknown", ())
    assert [doubt.kind for doubt in judgement.doubts] == ["time"]
    assert "slow-start" in str(judgement.reason)


def test_a_node_that_is_alive_with_an_error_does_not_start() -> None:
    found = finding(*BOOTED, started("n1"), given_up("n2", "ERROR [main] Unknown type k.u", ended=False))
    assert found.type == "node-will-not-start"


def test_a_node_that_ended_does_not_start_whatever_is_known_of_its_exit() -> None:
    found = finding(*BOOTED, started("n1"), given_up("n2", "INFO [main] bye", ended=True))
    assert "n2 did not serve after 120.0 s" in found.explanation


def test_a_slow_node_hides_no_other_that_does_not_start() -> None:
    judgement = verdict(*BOOTED, given_up("n1"), started("n2", exit_code=3, error="no"))
    assert judgement.valid is False
    assert [found.nodes for found in judgement.anomalies] == [("n2",)]


@pytest.mark.parametrize(
    ("end", "text"),
    [
        pytest.param(
            started("n2", exit_code=1, error="[main] No space left on device"),
            "the disk, or the memory that a local cluster keeps its data in, was full",
            id="disk",
        ),
        pytest.param(started("n2", exit_code=137), "it was killed from outside", id="killed at its start"),
        pytest.param(died("n2", exit_code=-9), "it was killed from outside", id="killed while it served"),
    ],
)
def test_what_the_machine_did_is_not_the_schemas_fault(end: str, text: str) -> None:
    judgement = verdict(*BOOTED, started("n1"), end)
    assert judgement.valid == "unknown"
    assert judgement.reason is not None
    assert judgement.reason.startswith(f"n2 did not serve: {text}")


# ── one finding a cause ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("at 2026-01-02 03:04:05,678 no", "at 2027-11-12 13:14:15,006 no", id="time"),
        pytest.param("from /10.0.0.1:7000 no", "from /10.0.0.2:7000 no", id="address"),
        pytest.param("from /[fd00:0:0:0:0:0:0:1]:7000 no", "from /[fd00:0:0:0:0:0:0:2]:7000 no", id="IPv6 address"),
        pytest.param("in /run/nodes/n1/data no", "in /run/nodes/n2/data no", id="folder"),
    ],
)
def test_the_same_error_apart_from_what_belongs_to_the_node_is_one_finding(one: str, other: str) -> None:
    found = finding(*BOOTED, started("n1", exit_code=3, error=one), started("n2", exit_code=3, error=other))
    assert found.nodes == ("n1", "n2")
    assert found.evidence == {"exit_code": 3, "first_error": one, "seconds": {"n1": 2.5, "n2": 2.5}}


@pytest.mark.parametrize(
    ("code", "error"), [pytest.param(3, "no k.u", id="another error"), pytest.param(1, "no k.t", id="another code")]
)
def test_different_causes_are_findings_of_their_own(code: int, error: str) -> None:
    ends = (started("n1", exit_code=3, error="no k.t"), started("n2", exit_code=code, error=error))
    assert [found.nodes for found in verdict(*BOOTED, *ends).anomalies] == [("n1",), ("n2",)]


# ── whose fault ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_race_over_the_object_that_the_error_names_is_told() -> None:
    found = finding(*CREATE, *RACE, *ALTER, *BOOTED, started("n1"), started("n2", exit_code=3, error=MISSING))
    assert found.objects == ("k.t",)
    assert found.ops == (0, 3, 5)
    assert "T3 = op 5: p1 n2 ALTER TABLE k.t ADD w int -> ok" in found.explanation
    assert "\tat" not in found.explanation


def test_what_raced_with_the_named_object_is_told_with_it() -> None:
    race = (
        "@11 p0 n1 invoke drop-type k.u",
        "@12 p1 n2 invoke create-table k.x a:int*",
        "@13 p0 n1 ok",
        "@14 p1 n2 ok",
    )
    before = (
        "@1 p0 n1 invoke create-type k.u f:int",
        "@2 p0 n1 ok",
        "@3 p0 n1 invoke create-table k.b a:int*",
        "@4 p0 n1 ok",
    )
    found = finding(*before, *race, *BOOTED, started("n1"), started("n2", exit_code=3, error="Unknown type k.u"))
    assert found.objects == ("k.u",)
    assert found.ops == (0, 4, 5), "the bystander k.b was created long before"


def test_a_statement_of_the_race_that_came_later_is_told_where_a_race_was_noted() -> None:
    late = ("@30 p1 n2 invoke create-table k.x a:int*", "@31 p1 n2 ok")
    ends = ("@50 " + BOOTED[0], BOOTED[1], started("n1"), started("n2", exit_code=3, error=MISSING))
    assert 5 in finding(*CREATE, *RACE, *late, *ends).ops
    assert 4 not in finding(*CREATE, *RACE[1:], *late, *ends).ops


def test_a_refused_statement_is_not_blamed() -> None:
    refused = ("@13 p1 n2 invoke add-column k.t w:int", "@14 p1 n2 fail InvalidRequest: no")
    found = finding(*CREATE, *RACE, *refused, *BOOTED, started("n1"), started("n2", exit_code=3, error=MISSING))
    assert found.ops == (0, 3)


def test_words_of_an_error_that_are_no_object_of_the_history_are_not_named() -> None:
    error = "org.apache.cassandra.Fault: schema table for other.t"
    assert finding(*CREATE, *BOOTED, started("n1"), started("n2", exit_code=3, error=error)).objects == ()


@pytest.mark.parametrize("twins", [pytest.param(False, id="alone"), pytest.param(True, id="two of that name")])
def test_a_bare_name_counts_if_it_can_only_be_one_object(*, twins: bool) -> None:
    indexes = ["@5 p0 n1 invoke create-index k.i t c", "@6 p0 n1 ok"]
    indexes += ["@7 p0 n1 invoke create-index j.i t c", "@8 p0 n1 ok"] if twins else []
    error = "Unable to parse targets for index i (c)"
    found = finding(*CREATE, *indexes, *BOOTED, started("n1"), started("n2", exit_code=3, error=error))
    assert found.objects == (() if twins else ("k.i",))


# ── deaths ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_ended_by_itself_died() -> None:
    found = finding(*CREATE, *BOOTED, died("n2", "java.lang.StackOverflowError in k.t"), *map(started, ("n1", "n2")))
    assert found.type == "node-died"
    assert found.nodes == ("n2",)
    assert found.objects == ("k.t",)
    assert found.evidence == {"exit_code": 1, "first_error": "java.lang.StackOverflowError in k.t"}


def test_a_death_is_an_anomaly_without_any_restart() -> None:
    assert verdict(*BOOTED, died("n2", "no")).valid is False


def operation(
    end: str | None, *, last: str | None = None, system: str = OLDER, stage: str = "node", more: str = NEWER
) -> list[str]:
    """An upgrade of n2, tried as the newer version and, if that failed, taken back; without `end` it goes on."""
    parameters = {"stage": stage, "to": NEWER, "takes_down": True}
    value = {"operation": 1, "nodes": ["n2"], "parameters": parameters, "becomes": {"n2": "normal"}}
    first = {"outcome": "info", "command": f"drain, stop, start as {more}", "answer": "no", "timed_out": False}
    attempts = (
        [first] if last is None else [first, {**first, "command": f"start as {OLDER}", "timed_out": last == "time"}]
    )
    ended = {**value, "effect": {"attempts": attempts, "system": system}}
    lines = [f"-- n2 invoke rolling-upgrade {orjson.dumps(value).decode()}"]
    return lines if end is None else [*lines, f"-- n2 {end} rolling-upgrade {orjson.dumps(ended).decode()}"]


@pytest.mark.parametrize(
    ("lines", "dies"),
    [
        pytest.param(operation("info", last="ended"), False, id="an operation had ended it"),
        pytest.param(operation("ok"), True, id="it served again, and then died"),
        pytest.param(operation("info", last="time"), True, id="it was alive when the operation gave up"),
        pytest.param([*operation("info"), started("n2", phase="fault")], True, id="it was started again since"),
        pytest.param([line.replace("n2", "n1") for line in operation("info")], True, id="another node was ended"),
    ],
)
def test_a_process_that_an_operation_had_ended_did_not_die_by_itself(lines: list[str], dies: bool) -> None:
    found = verdict(*BOOTED, *lines, died("n2", "no"), *map(started, ("n1", "n2"))).anomalies
    assert [one.type for one in found] == (["node-died"] if dies else [])


FAILED = started("n2", phase="fault", exit_code=3, error="ERROR Detected unreadable sstables")


@pytest.mark.parametrize(
    ("lines", "accused"),
    [
        pytest.param(operation("info", last="ended"), False, id="taken back, as no release promises"),
        pytest.param(operation("info", system=NEWER), True, id="still the newer version"),
        pytest.param(operation("ok", last="ended"), True, id="the older version did serve"),
        pytest.param(operation("info", last="ended", more=OLDER), True, id="the newer version was never started"),
        pytest.param(operation("info", last="ended", stage="finish"), True, id="the end of an upgrade"),
        pytest.param([line.replace("n2", "n1") for line in operation("info", last="ended")], True, id="another node"),
        pytest.param([], True, id="no upgrade"),
    ],
)
def test_an_older_server_need_not_start_with_files_of_a_newer_one(lines: list[str], accused: bool) -> None:
    result = verdict(*BOOTED, *lines, FAILED, started("n1"))
    assert [one.type for one in result.anomalies] == (["node-will-not-start"] if accused else [])
    assert result.valid == (False if accused else "unknown")


@pytest.mark.parametrize(
    ("node", "code", "error", "types"),
    [
        ("n2", 1, "2026-11-23 11:00:01,000 Unknown type k.u", ["node-will-not-start"]),
        ("n3", 1, "2026-11-23 11:00:01,000 Unknown type k.u", ["node-died", "node-will-not-start"]),
        ("n2", 3, "2026-11-23 11:00:01,000 Unknown type k.u", ["node-died", "node-will-not-start"]),
        ("n2", 1, "2026-11-23 11:00:01,000 Unknown type k.v", ["node-died", "node-will-not-start"]),
    ],
)
def test_a_start_that_fails_once_more_as_it_did_is_told_once(node, code, error, types) -> None:
    """A kill is healed by a start of its own, which nobody waits for; the node may end in that one first."""
    dead = died("n2", "2026-11-23 10:59:01,000 Unknown type k.u", exit_code=1)
    again = started(node, exit_code=code, error=error, phase="fault")
    assert sorted(one.type for one in verdict(*BOOTED, dead, again).anomalies) == types


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    ends=st.lists(st.sampled_from([None, MISSING, "Unknown type k.u"]), min_size=3, max_size=3),
    order=st.permutations(["n1", "n2", "n3"]),
)
def test_renaming_nodes_changes_nothing(ends: Sequence[str | None], order: Sequence[str]) -> None:
    names = dict(zip(("n1", "n2", "n3"), order, strict=True))

    def of(nodes: Sequence[str]) -> Verdict:
        boots = [started(node, phase="boot") for node in nodes]
        starts = [started(n, exit_code=e and 3, error=e) for n, e in zip(nodes, ends, strict=True)]  # type: ignore[arg-type]  # None stays None
        return verdict(*CREATE, *RACE, *ALTER, *boots, *starts)

    before, after = of(("n1", "n2", "n3")), of(order)
    told = {(frozenset(names[n] for n in a.nodes), a.objects, a.ops) for a in before.anomalies}
    assert told == {(frozenset(a.nodes), a.objects, a.ops) for a in after.anomalies}
    assert before.valid == after.valid


def test_a_node_that_joined_is_restarted_like_the_others() -> None:
    """One that did not join for certain need not be there, and one that has left is not."""
    both = {"n1": "normal", "n2": "normal"}
    members = {name: {"state": state, "expected": state} for name, state in {**both, "n3": "absent"}.items()}
    noted = f"-- info membership {orjson.dumps({'at': 'boot', 'members': members}).decode()}"

    def operation(number: int, f: str, state: str, outcome: str) -> list[str]:
        value = orjson.dumps(
            {"operation": number, "nodes": ["n3"], "parameters": {}, "becomes": {"n3": state}}
        ).decode()
        return [f"-- n3 invoke {f} {value}", f"-- n3 {outcome} {f} {value}"]

    def judgement(*operations: list[str], again: Sequence[str] = ("n1", "n2")) -> Verdict:
        lines = [line for one in operations for line in one]
        return verdict(*BOOTED, noted, *lines, phase("restart"), *(started(node) for node in again))

    joined, left = operation(0, "bootstrap", "normal", "ok"), operation(1, "decommission", "left", "ok")
    assert judgement(joined).reason == "n3 served once and was never restarted"
    assert judgement(joined, again=("n1", "n2", "n3")).valid is True
    assert judgement(joined, left).valid is True
    assert judgement(operation(0, "bootstrap", "normal", "info")).valid is True

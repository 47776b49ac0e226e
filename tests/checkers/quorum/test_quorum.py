"""Quorum: quorums must intersect, clock skew is not mistaken for a broken quorum, and legal histories are valid."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from examples import examples
from histories import events
from hypothesis import given, settings
from hypothesis import strategies as st
from quorum_store import Store, table

from schemaquake.checkers.quorum.checker import Quorum
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict

KEYSPACE = ("@1 p99 n1 invoke create-keyspace k", "@1 p99 n1 ok")
FIVE = 'create-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 5}}'
SETTLED = '@900 -- info phase {"phase": "final-settled", "state": "begins"}'


def judge(*lines: str) -> Verdict:
    return Quorum().check(Records.of(events(*KEYSPACE, *lines)), limit_s=10)


def types(verdict: Verdict) -> set[str]:
    return {anomaly.type for anomaly in verdict.anomalies}


def put(
    process: int, node: str, begins: int, ends: int, value: int, *, level: str = "QUORUM", kind: str = "ok"
) -> list[str]:
    return [
        f'@{begins} p{process} {node} invoke put k.q/1 {{"value": {value}, "consistency": "{level}"}}',
        f"@{ends} p{process} {node} {kind}",
    ]


def get(
    process: int,
    node: str,
    begins: int,
    ends: int,
    value: int | None,
    writetime: int | None,
    *,
    level: str = "QUORUM",
    f: str = "get",
) -> list[str]:
    told = orjson.dumps({"value": value, "writetime": writetime}).decode()
    return [
        f'@{begins} p{process} {node} invoke {f} k.q/1 {{"consistency": "{level}"}}',
        f"@{ends} p{process} {node} ok {told}",
    ]


def probes(held: dict[str, tuple[int | None, int | None]]) -> list[str]:
    return [
        line
        for number, (node, (value, writetime)) in enumerate(held.items())
        for line in get(50 + number, node, 901 + 2 * number, 902 + 2 * number, value, writetime, level="ONE", f="probe")
    ]


# ── missed writes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_read_of_the_acknowledged_value_is_valid() -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7), *get(1, "n2", 20, 22, 7, 11_000))
    assert verdict.valid is True
    assert verdict.figures["replicas_max"] == 3


def test_nothing_after_an_acknowledged_put_is_a_missed_write_whatever_the_clocks_say() -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7), *get(1, "n2", 20, 22, None, None))
    assert verdict.valid is False
    (found,) = verdict.anomalies
    assert found.type == "missed-quorum-write"
    assert found.objects == ("k.q/1",)
    assert found.nodes == ("n1", "n2")
    assert found.ops == (2, 4)
    assert found.explanation == (
        "Let  T1 = op 2: p0 n1 put k.q/1 := 7 at QUORUM -> ok at 0.012 s\n"
        "     T2 = op 4: p1 n2 get k.q/1 at QUORUM -> ok, nothing at 0.022 s\n"
        "Then T1 was acknowledged before T2 began; any 2 and any 2 of 3 replicas share one (2 + 2 > 3), so T2 read "
        "from a replica that has the value of T1, or a later one.\n"
        "     But T2 found no value, and values are never deleted. The same holds for 1 gets of this key."
    )
    assert found.evidence["examples"][0]["put"]["value"] == 7
    assert found.evidence["examples"][0]["get"]["value"] is None


def test_nothing_before_the_put_was_acknowledged_is_valid() -> None:
    assert judge(*put(0, "n1", 10, 22, 7), *get(1, "n2", 20, 24, None, None)).valid is True


def test_a_get_that_began_in_the_instant_of_the_acknowledgement_is_concurrent() -> None:
    assert judge(*put(0, "n1", 10, 20, 7), *get(1, "n2", 20, 24, None, None)).valid is True


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_a_put_that_was_not_acknowledged_need_not_be_seen(kind: str) -> None:
    lines = [*put(0, "n1", 10, 12, 7, kind=kind), *put(3, "n2", 10, 12, 8), *get(1, "n2", 20, 22, 8, 11_000)]
    assert judge(*lines).valid is True


def test_an_older_value_after_a_newer_one_was_acknowledged_is_a_missed_write() -> None:
    verdict = judge(
        *put(0, "n1", 10, 12, 7),
        *put(0, "n1", 20, 22, 8),
        *get(1, "n2", 30, 32, 7, 11_000),
        *get(1, "n2", 40, 42, 8, 21_000),
    )
    (found,) = verdict.anomalies
    assert found.type == "missed-quorum-write"
    assert found.ops == (4, 6)
    assert "T1 has the writetime 21000 µs, T2 11000 µs" in found.explanation


@pytest.mark.parametrize(
    ("writes", "reads", "valid"),
    [
        ("ONE", "QUORUM", True),
        ("ONE", "ALL", False),
        ("ALL", "ONE", False),
        ("ONE", "ONE", True),
        ("TWO", "TWO", False),
    ],
)
def test_only_levels_that_share_a_replica_promise_anything(writes: str, reads: str, valid: bool) -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7, level=writes), *get(1, "n2", 20, 22, None, None, level=reads))
    assert verdict.valid is valid
    assert verdict.figures["stale_by_right"] == (1 if valid else 0)


def test_at_one_writetime_the_greater_value_is_the_later_one() -> None:
    lines = [*put(0, "n1", 10, 14, 7), *put(1, "n2", 10, 14, 8)]
    assert judge(*lines, *get(2, "n3", 20, 22, 8, 11_000), *get(2, "n3", 30, 32, 7, 11_000)).valid is False
    assert judge(*lines, *get(2, "n3", 20, 22, 7, 11_000), *get(2, "n3", 30, 32, 8, 11_000)).valid is False
    assert judge(*lines, *get(2, "n3", 20, 22, 8, 11_000), *get(2, "n3", 30, 32, 8, 11_000)).valid is True


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_put_that_no_read_returned_is_bounded_by_the_puts_around_it() -> None:
    """n2's clock is 1 s ahead of the run's, as its puts before and after tell; so the unseen one was stamped at 1.031 s."""
    verdict = judge(
        *put(0, "n1", 10, 12, 7),
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 24, 26, 8, 1_021_000),
        *put(1, "n2", 30, 32, 9),
        *get(2, "n3", 40, 42, 8, 1_021_000),
        *put(1, "n2", 50, 52, 10),
        *get(2, "n3", 60, 62, 10, 1_051_000),
    )
    assert types(verdict) == {"missed-quorum-write"}
    put_evidence = verdict.anomalies[0].evidence["examples"][0]["put"]
    assert put_evidence["writetime"] is None
    low, high = put_evidence["writetime_between"]
    assert low <= 1_031_000 <= high


def test_a_put_that_the_clocks_hide_is_no_missed_write() -> None:
    """n1 is 60 s ahead: what n2 writes after it is never seen."""
    verdict = judge(
        *put(1, "n2", 2, 3, 6),
        *get(2, "n3", 4, 6, 6, 2_500),
        *put(0, "n1", 10, 12, 7),
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 30, 32, 7, 60_011_000),
        *put(1, "n2", 40, 42, 9),
        *get(2, "n3", 44, 46, 7, 60_011_000),
        '@47 p3 n2 invoke put k.q/2 {"value": 10, "consistency": "QUORUM"}',
        "@48 p3 n2 ok",
        '@50 p3 n1 invoke get k.q/2 {"consistency": "QUORUM"}',
        '@51 p3 n1 ok {"value": 10, "writetime": 47500}',
    )
    assert types(verdict) == {"shadowed-write"}
    (found,) = verdict.anomalies
    assert found.evidence["hidden"] == 2
    assert found.nodes == ("n1", "n2")
    assert "T3 = op" in found.explanation
    assert "No quorum was broken: this is last-write-wins under clocks that differ." in found.explanation
    assert verdict.figures["missed"] == verdict.figures["undecided"] == 0


def test_a_put_of_the_same_instant_may_be_hidden_by_a_greater_value() -> None:
    verdict = judge(
        *put(0, "n1", 10, 11, 8),
        *put(1, "n2", 12, 13, 7),
        *get(2, "n3", 14, 15, 7, 10_000, level="ONE"),
        *get(2, "n3", 16, 17, 8, 10_000),
    )
    assert types(verdict) == {"shadowed-write"}
    assert "at one writetime the greater value wins" in verdict.anomalies[0].explanation


def test_without_anything_to_tell_the_clock_by_an_older_value_is_not_decided() -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7), *put(1, "n2", 20, 22, 8), *get(2, "n3", 30, 32, 7, 11_000))
    assert verdict.valid == "unknown"
    assert "op 6 after op 4 through n2" in (verdict.reason or "")


def test_a_put_of_unknown_outcome_may_take_effect_after_a_later_one() -> None:
    lines = [*put(0, "n1", 10, 12, 7, kind="info"), *put(1, "n2", 20, 22, 8), *get(2, "n3", 30, 32, 7, 11_000)]
    assert judge(*lines).valid is True


@pytest.mark.parametrize(
    "note",
    [
        '@23 -- info fault-begins {"id": 0, "nemesis": "clock", "nodes": ["n2"]}',
        '@23 -- n2 info node-start {"phase": "fault", "served": true, "seconds": 0.001}',
        '@23 -- info fault-begins {"id": 0, "nemesis": "kill", "nodes": ["n2"]}',
    ],
    ids=["clock", "start", "kill"],
)
def test_a_clock_that_was_tampered_with_is_not_believed(note: str) -> None:
    lines = [
        *put(1, "n2", 20, 22, 8),
        note,
        *get(2, "n3", 24, 26, 8, 1_021_000),
        *put(1, "n2", 30, 32, 9),
        *get(2, "n3", 40, 42, 8, 1_021_000),
        *put(1, "n2", 50, 52, 10),
        *get(2, "n3", 60, 62, 10, 1_051_000),
    ]
    assert judge(*lines).valid == "unknown"
    assert judge(*(line.replace('"n2"', '"n1"').replace("-- n2", "-- n1") for line in lines)).valid is False


def test_a_put_is_stamped_below_what_its_coordinator_was_asked_for_later_whatever_its_clock_did() -> None:
    """Nobody saw 8, and n2's clock was skewed; but it stamped 9 later, and lower than n1 had stamped 7 before."""
    lines = [
        *put(0, "n1", 10, 12, 7),
        '@13 -- info fault-begins {"id": 0, "nemesis": "clock", "nodes": ["n2"]}',
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 30, 32, 7, 60_011_000),
        '@40 p3 n2 invoke put k.q/2 {"value": 9, "consistency": "QUORUM"}',
        "@41 p3 n2 ok",
        '@50 p3 n1 invoke get k.q/2 {"consistency": "QUORUM"}',
        '@51 p3 n1 ok {"value": 9, "writetime": 30040500}',
    ]
    verdict = judge(*lines)
    assert types(verdict) == {"shadowed-write"}
    assert "T2 below 30042500 µs" in verdict.anomalies[0].explanation
    assert (
        judge(
            *lines[:6], '@35 -- n2 info node-start {"phase": "fault", "served": true, "seconds": 0.001}', *lines[6:]
        ).valid
        == "unknown"
    )


def test_clocks_that_disagree_around_a_put_are_not_believed() -> None:
    """Before the put n2 was 1 s ahead, after it 5 s, and no fault explains that: somebody set the clock."""
    verdict = judge(
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 24, 26, 8, 1_021_000),
        *put(1, "n2", 30, 32, 9),
        *get(2, "n3", 40, 42, 8, 1_021_000),
        *put(1, "n2", 50, 52, 10),
        *get(2, "n3", 60, 62, 10, 5_051_000),
    )
    assert verdict.valid == "unknown"


# ── reads that go back ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quorum_read_that_shows_less_than_the_one_before_it_is_non_monotonic() -> None:
    lines = [
        *put(0, "n1", 10, 12, 7),
        *put(1, "n1", 20, 29, 8, kind="info"),
        *get(2, "n3", 30, 32, 8, 21_000),
        *get(3, "n2", 40, 42, 7, 11_000),
    ]
    verdict = judge(*lines)
    (found,) = verdict.anomalies
    assert found.type == "non-monotonic-quorum-read"
    assert found.ops == (6, 8)
    assert "CASSANDRA-14740" in found.references


def test_reads_that_overlap_or_ask_one_replica_may_differ() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *put(1, "n1", 20, 29, 8, kind="info")]
    assert judge(*lines, *get(2, "n3", 30, 41, 8, 21_000), *get(3, "n2", 40, 42, 7, 11_000)).valid is True
    assert judge(*lines, *get(2, "n3", 30, 32, 8, 21_000, level="ONE"), *get(3, "n2", 40, 42, 7, 11_000)).valid is True


# ── replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_value_on_one_replica_is_under_replicated() -> None:
    verdict = judge(
        *put(0, "n1", 10, 12, 7), SETTLED, *probes({"n1": (7, 11_000), "n2": (None, None), "n3": (None, None)})
    )
    (found,) = verdict.anomalies
    assert found.type == "under-replicated-value"
    assert found.nodes == ("n2", "n3")
    assert found.evidence["promised"] == 2
    assert found.evidence["held_by"] == ["n1"]
    assert (
        "after the cluster settled a read at ONE through each node, which a replica answers from its own data, shows n1 7, n2 nothing and n3 nothing"
        in found.explanation
    )


def test_a_value_on_two_replicas_is_what_quorum_promised() -> None:
    lines = [*put(0, "n1", 10, 12, 7), SETTLED]
    assert judge(*lines, *probes({"n1": (7, 11_000), "n2": (7, 11_000), "n3": (None, None)})).valid is True
    assert (
        judge(
            *(line.replace('"QUORUM"', '"ONE"') for line in lines),
            *probes({"n1": (7, 11_000), "n2": (None, None), "n3": (None, None)}),
        ).valid
        is True
    )


def test_a_later_value_stands_for_the_one_it_replaced() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *put(0, "n1", 20, 29, 8, kind="info"), SETTLED]
    assert judge(*lines, *probes({"n1": (7, 11_000), "n2": (8, 21_000), "n3": (None, None)})).valid is True


def test_a_replica_that_shows_an_older_value_after_the_restart_than_before_is_doubted() -> None:
    written = [*put(0, "n1", 10, 12, 7), *put(0, "n1", 20, 22, 8)]
    all_new = {"n1": (8, 21_000), "n2": (8, 21_000), "n3": (8, 21_000)}
    restarted = '@1800 -- info phase {"phase": "final-restarted", "state": "begins"}'

    def judge_ends(before: dict[str, Any], after: dict[str, Any], *, booted: Sequence[str] = ()) -> Verdict:
        again = [line.replace("@9", "@19") for line in probes(after)]
        return judge(*booted, *written, SETTLED, *probes(before), restarted, *again)

    for older in ((7, 11_000), (None, None)):
        verdict = judge_ends(all_new, all_new | {"n3": older})
        (doubt,) = verdict.doubts
        assert (verdict.valid, doubt.kind, doubt.objects) == ("unknown", "undecided", ("k.q/1",))
        assert doubt.text.startswith("1 replica shows an older value after the restart than before it: n3 by op ")
        assert judge_ends(all_new | {"n3": older}, all_new).valid is True, "a hint or a repair came later"
        assert judge_ends(all_new | {"n3": older}, all_new | {"n3": older}).valid is True
        gone = judge_ends(all_new, {"n1": (8, 21_000), "n2": (8, 21_000)})
        assert gone.valid is not False, "n3 did not answer"
        four = [
            f'@2 -- n{n} info node-start {{"phase": "boot", "served": true, "seconds": 0.001}}' for n in range(1, 5)
        ]
        text = [d.text for d in judge_ends(all_new, all_new | {"n3": older}, booted=four).doubts]
        assert not any("than before it" in one for one in text), "n3 may be no replica"


def test_an_acknowledged_put_that_no_read_shows_any_more_is_doubted() -> None:
    older, newer = put(0, "n1", 10, 12, 7), put(1, "n2", 20, 22, 8)
    gone = probes(dict.fromkeys(("n1", "n2", "n3"), (7, 11_000)))
    verdict = judge(*older, *newer, SETTLED, *gone)
    (doubt,) = verdict.doubts
    assert (verdict.valid, doubt.kind, doubt.objects) == ("unknown", "undecided", ("k.q/1",))
    assert doubt.text.startswith(
        "after the cluster settled too many nodes show a value from before op 4, an acknowledged put"
    )
    two = probes({"n1": (7, 11_000), "n2": (7, 11_000), "n3": (None, None)})
    assert judge(*older, *newer, SETTLED, *two).valid is not True, "no quorum has the newer one"


@pytest.mark.parametrize(
    ("older", "newer", "held"),
    [
        pytest.param(
            put(0, "n1", 10, 12, 7), put(1, "n2", 20, 22, 8), {"n1": 7, "n2": 8, "n3": 8}, id="a quorum has it"
        ),
        pytest.param(
            put(0, "n1", 10, 25, 7), put(1, "n2", 20, 22, 8), dict.fromkeys(("n1", "n2", "n3"), 7), id="both at once"
        ),
        pytest.param(
            put(0, "n1", 10, 12, 7),
            put(1, "n2", 20, 22, 8, kind="info"),
            dict.fromkeys(("n1", "n2", "n3"), 7),
            id="it may have failed",
        ),
        pytest.param(
            put(0, "n1", 10, 12, 7, kind="info"),
            put(1, "n2", 20, 22, 8),
            dict.fromkeys(("n1", "n2", "n3"), 7),
            id="the earlier one may have come late",
        ),
        pytest.param(
            put(0, "n1", 10, 12, 7),
            put(1, "n2", 895, 950, 8),
            dict.fromkeys(("n1", "n2", "n3"), 7),
            id="it ended after the probes began",
        ),
        pytest.param(
            put(0, "n1", 10, 12, 7),
            put(1, "n2", 20, 22, 8, level="ONE"),
            {"n1": 7, "n2": 7},
            id="the third may have it",
        ),
    ],
)
def test_a_put_that_may_be_missing_or_be_there_is_not(older: list[str], newer: list[str], held: dict[str, int]) -> None:
    times = {7: 11_000, 8: 21_000}
    lines = sorted(
        [*older, *newer, SETTLED, *probes({node: (value, times[value]) for node, value in held.items()})],
        key=lambda one: int(one[1:].split()[0]),
    )
    assert [doubt.text for doubt in judge(*lines).doubts if "writetime is not known" in doubt.text] == []


def test_a_probe_that_failed_leaves_open_what_depends_on_it() -> None:
    lines = [*put(0, "n1", 10, 12, 7), SETTLED]
    failed = ['@990 p59 n3 invoke probe k.q/1 {"consistency": "ONE"}', "@991 p59 n3 fail NoHostAvailable"]
    one = judge(*lines, *probes({"n1": (7, 11_000), "n2": (None, None)}), *failed)
    assert one.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in one.doubts] == [("unread", ("k.q/1",))]
    assert judge(*lines, *probes({"n1": (7, 11_000), "n2": (7, 11_000)}), *failed).valid is True


def boots(*nodes: str) -> list[str]:
    return [f'@2 -- {node} info node-start {{"phase": "boot", "served": true, "seconds": 0.001}}' for node in nodes]


def test_of_more_nodes_than_copies_at_least_as_many_show_a_value_as_replicas_hold_it() -> None:
    """A coordinator that is no replica shows what one of the replicas holds."""
    lines = [*boots("n1", "n2", "n3", "n4"), *put(0, "n1", 10, 12, 7), SETTLED]
    held, empty = (7, 11_000), (None, None)
    verdict = judge(*lines, *probes({"n1": held, "n2": empty, "n3": empty, "n4": empty}))
    assert (types(verdict), verdict.figures["probed_values"]) == ({"under-replicated-value"}, 1)
    assert judge(*lines, *probes({"n1": held, "n2": held, "n3": empty, "n4": empty})).valid is True
    assert judge(*lines, *probes({"n1": held, "n2": empty, "n3": empty})).valid == "unknown", "n4 may show it"


def test_a_factor_above_the_number_of_nodes_asks_for_copies_on_more_of_them() -> None:
    """A quorum of five replicas is three, and there are no more nodes."""
    created = [line.replace("create-keyspace k", FIVE) for line in KEYSPACE]
    lines = [*created, *put(0, "n1", 10, 12, 7), SETTLED]
    booted = boots("n1", "n2", "n3")
    held = dict.fromkeys(("n1", "n2", "n3"), (7, 11_000))
    short = probes(held | {"n3": (None, None)})

    def judge_five(*lines: str) -> Verdict:
        return Quorum().check(Records.of(events(*lines)), limit_s=10)

    (found,) = judge_five(*booted, *lines, *short).anomalies
    assert (found.type, found.nodes, found.evidence["promised"]) == ("under-replicated-value", ("n3",), 3)
    assert judge_five(*booted, *lines, *probes(held)).valid is True
    assert judge_five(*lines, *short).valid == "unknown", "there may be two more nodes"
    at_all = [line.replace("QUORUM", "ALL") for line in lines]
    assert judge_five(*booted, *at_all, *probes(held)).valid is True
    assert types(judge_five(*booted, *at_all, *short)) == {"under-replicated-value"}


# ── unwritten values ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "ops"),
    [
        ([*put(0, "n1", 10, 12, 7), *get(1, "n2", 20, 22, 9, 11_000)], (4,)),
        ([*put(0, "n1", 2, 3, 6), *put(0, "n1", 10, 12, 7, kind="fail"), *get(1, "n2", 20, 22, 7, 11_000)], (4, 6)),
        ([*put(0, "n1", 2, 3, 6), *get(1, "n2", 5, 6, 7, 11_000), *put(0, "n1", 10, 12, 7)], (4, 6)),
    ],
    ids=["never written", "refused", "not yet written"],
)
def test_a_value_that_was_not_written_by_then_is_found(lines: list[str], ops: tuple[int, ...]) -> None:
    verdict = judge(*lines)
    (found,) = (anomaly for anomaly in verdict.anomalies if anomaly.type == "unwritten-value")
    assert found.ops == ops


# ── what cannot be judged ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_history_without_puts_or_without_reads_has_nothing_to_judge() -> None:
    for lines in ([], put(0, "n1", 10, 12, 7), put(0, "n1", 10, 12, 7, kind="info") + get(1, "n1", 20, 21, None, None)):
        verdict = judge(*lines)
        assert verdict.valid == "unknown"
        assert verdict.judged_nothing


def test_without_the_keyspace_the_size_of_a_quorum_is_unknown() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *get(1, "n2", 20, 22, 7, 11_000)]
    verdict = Quorum().check(Records.of(events(*lines)), limit_s=10)
    assert verdict.valid == "unknown"
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*put(0, "n1", 10, 12, 7), *put(0, "n1", 20, 22, 7)], "op 4 and op 2 put the same value 7|op 2 and op 4"),
        (
            ['@3 p0 n1 invoke put k.q/1 {"value": "x", "consistency": "QUORUM"}', "@4 p0 n1 ok"],
            "op 2: 'x' is not a value",
        ),
        (['@3 p0 n1 invoke put k.q/1 {"value": 3, "consistency": "ANY"}', "@4 p0 n1 ok"], "at the level 'ANY'"),
        (['@3 p0 n1 invoke put k.q/1 {"consistency": "ONE"}', "@4 p0 n1 ok"], "op 2: None is not a value"),
    ],
    ids=["twice", "text", "level", "none"],
)
def test_what_no_workload_can_have_asked_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(HistoryError, match=said):
        judge(*lines)


# ── against a simulated store ────────────────────────────────────────────────────────────────────────────────────────

SEEDS = st.integers(0, 2**32)


def check(history: pa.Table) -> Verdict:
    return Quorum().check(Records.of(history), limit_s=10)


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, levels=st.sampled_from([("QUORUM", "QUORUM"), ("ONE", "ALL"), ("ALL", "ONE")]))
def test_a_store_that_keeps_its_promises_is_never_accused(seed: int, levels: tuple[str, str]) -> None:
    verdict = check(Store(seed, writes=levels[0], reads=levels[1]).history(60))
    assert verdict.valid is True, verdict.anomalies
    assert verdict.figures["undecided"] == 0


@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS)
def test_reads_and_writes_at_one_are_stale_by_right(seed: int) -> None:
    assert check(Store(seed, writes="ONE", reads="ONE").history(60)).valid is True


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, skews=st.tuples(*[st.sampled_from([0, 40, -40, 60_000])] * 3))
def test_clocks_that_differ_only_hide_writes(seed: int, skews: tuple[int, int, int]) -> None:
    skew_ms = dict(zip(("n1", "n2", "n3"), skews, strict=True))
    assert types(check(Store(seed, skew_ms=skew_ms).history(60))) <= {"shadowed-write"}


@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS, level=st.sampled_from(["ONE", "QUORUM", "ALL"]), forgetful=st.integers(0, 3))
def test_replicas_that_forget_are_counted_against_what_the_level_promised(
    seed: int, level: str, forgetful: int
) -> None:
    store = Store(seed, writes=level, reads="ONE", unknown=0.0, forgetful=forgetful)
    verdict = check(store.history(40))
    holders = sum(0 in held for held in store.replicas.values())
    promised = {"ONE": 1, "QUORUM": 2, "ALL": 3}[level]
    acknowledged = any(row["f"] == "put" and row["type"] == "ok" and row["key"] == "k.q/0" for row in store.rows)
    if acknowledged and holders < promised:
        assert {(a.type, a.objects) for a in verdict.anomalies} == {("under-replicated-value", ("k.q/0",))}
    elif forgetful == 0:
        assert verdict.valid is True


def planted(seed: int, change: Callable[[list[dict[str, Any]], Random], bool]) -> pa.Table | None:
    rows = Store(seed, unknown=0.0).history(60).to_pylist()
    return table(rows) if change(rows, Random(seed)) else None


def ends(rows: list[dict[str, Any]], f: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    begun = {row["process"]: row for row in rows if row["type"] == "invoke" and row["f"] == f}
    return [(begun[row["process"]], row) for row in rows if row["type"] == "ok" and row["f"] == f]


def a_stale_read(rows: list[dict[str, Any]], random: Random) -> bool:
    """A get that begins after a put was acknowledged whose writetime another read tells shows one from before that put."""
    shown: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _, row in ends(rows, "probe") + ends(rows, "get"):
        shown.setdefault((row["key"], orjson.loads(row["value"])["value"]), []).append(row)
    cases = [
        (shown[version(old)][0], ended)
        for begun, ended in ends(rows, "get")
        for old in ends(rows, "put")
        for new in ends(rows, "put")
        if old[0]["key"] == new[0]["key"] == begun["key"]
        and old[1]["time"] < new[0]["time"]
        and new[1]["time"] < begun["time"]
        and version(old) in shown
        and any(row is not ended for row in shown.get(version(new), ()))
    ]
    if not cases:
        return False
    older, ended = random.choice(cases)
    ended["value"] = orjson.dumps({**orjson.loads(older["value"]), "consistency": "QUORUM"}).decode()
    return True


def version(put: tuple[dict[str, Any], dict[str, Any]]) -> tuple[str, int]:
    return put[0]["key"], orjson.loads(put[0]["value"])["value"]


def an_empty_read(rows: list[dict[str, Any]], random: Random) -> bool:
    """A get after an acknowledged put of its key finds nothing."""
    cases = [
        ended
        for begun, ended in ends(rows, "get")
        if any(put["key"] == begun["key"] and done["time"] < begun["time"] for put, done in ends(rows, "put"))
    ]
    if not cases:
        return False
    random.choice(cases)["value"] = orjson.dumps({"consistency": "QUORUM", "value": None, "writetime": None}).decode()
    return True


@pytest.mark.parametrize("change", [a_stale_read, an_empty_read])
@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS)
def test_a_planted_stale_read_is_always_found(
    change: Callable[[list[dict[str, Any]], Random], bool], seed: int
) -> None:
    history = planted(seed, change)
    if history is not None:
        assert "missed-quorum-write" in types(check(history))


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS, shift_s=st.integers(0, 10_000))
def test_other_names_and_another_start_change_nothing(seed: int, shift_s: int) -> None:
    history = planted(seed, a_stale_read) or Store(seed, skew_ms={"n2": 5_000}).history(60)
    rows = history.to_pylist()
    for row in rows:
        row["time"] += shift_s * 10**9
        row["process"] += 100 if row["process"] >= 0 else 0
        row["node"] = None if row["node"] is None else f"host-{row['node']}"
        row["key"] = None if row["key"] is None else row["key"].replace("k.q", "k.other")
    one, other = check(history), check(pa.Table.from_pylist(rows, schema=HISTORY))
    assert (one.valid, one.figures) == (other.valid, other.figures)
    assert [(a.type, a.ops) for a in one.anomalies] == [(a.type, a.ops) for a in other.anomalies]


@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS, share=st.floats(0, 1))
def test_forgetting_acknowledgements_never_makes_a_valid_history_invalid(seed: int, share: float) -> None:
    rows = Store(seed).history(60).to_pylist()
    random = Random(seed)
    for row in rows:
        if row["type"] == "ok" and row["f"] == "put" and random.random() < share:
            row.update(type="info", value=None, error="OperationTimedOut")
    assert check(pa.Table.from_pylist(rows, schema=HISTORY)).valid is not False


def test_a_hundred_thousand_operations_take_seconds() -> None:
    rows = Store(1, keys=4).history(2_000).to_pylist()
    many = [
        {
            **row,
            "key": None if row["key"] is None else row["key"].replace("/", f"/{copy}"),
            "process": row["process"] + copy * 3_000,
        }
        for copy in range(50)
        for row in rows
        if copy == 0 or row["f"] in {"put", "get", "probe"}
    ]
    history = table(many)
    began = time.monotonic()
    verdict = check(history)
    assert verdict.valid is True
    assert verdict.figures["puts"] + verdict.figures["gets"] == 50 * sum(
        (row["type"] == "invoke" and row["f"] == "put") or (row["type"] == "ok" and row["f"] == "get") for row in rows
    )
    assert time.monotonic() - began < 20


def test_the_verdict_survives_json() -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7), *get(1, "n2", 20, 22, None, None))
    assert Verdict.from_json(orjson.loads(orjson.dumps(verdict.to_json()))) == verdict


def alter(factor: int, *, at: int = 200, process: int = 98) -> list[str]:
    replication = {"class": "SimpleStrategy", "replication_factor": factor}
    value = orjson.dumps({"replication": replication}).decode()
    return [f"@{at} p{process} n1 invoke alter-keyspace k {value}", f"@{at + 1} p{process} n1 ok"]


@pytest.mark.parametrize(("factor", "owed"), [(2, True), (3, True), (4, True), (1, False), (5, False)])
def test_quorums_of_two_replication_factors_meet_if_they_differ_by_one(factor: int, owed: bool) -> None:
    missing = [*put(1, "n1", 10, 20, 7), *alter(factor), *get(2, "n2", 300, 310, None, None)]
    assert types(judge(*missing)) == ({"missed-quorum-write"} if owed else set())
    shown = [*put(1, "n1", 10, 20, 7), *alter(factor), *get(2, "n2", 300, 310, 7, 5)]
    assert types(judge(*shown)) == set()


def test_after_two_changes_without_a_repair_what_is_owed_is_undecided() -> None:
    """One of two replicas that had the value may be dropped, and come back without it."""
    changes = [*alter(2), *alter(3, at=250, process=97)]
    assert judge(*put(1, "n1", 10, 20, 7), *changes, *get(2, "n2", 300, 310, None, None)).valid == "unknown"
    assert judge(*put(1, "n1", 10, 20, 7), *changes, *get(2, "n2", 300, 310, 7, 5)).valid is True


def test_a_value_that_was_read_with_two_writetimes_or_with_none_is_undecided() -> None:
    lines = [*put(0, "n1", 10, 20, 7), *get(1, "n1", 30, 31, 7, 15_000), *get(2, "n2", 40, 41, 7, 15_000)]
    assert judge(*lines).valid is True
    for writetime in (15_001, None):
        other = [*lines[:-2], *get(2, "n2", 40, 41, 7, writetime)]
        verdict = judge(*other)
        assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])
    unknown = [*lines[:2], *get(1, "n1", 30, 31, 7, None), *get(2, "n2", 40, 41, 7, None)]
    assert judge(*unknown).valid is True


# ── disks that operations take away ──────────────────────────────────────────────────────────────────────────────────


def replaced(begins: int, ends: int | None, outcome: str = "ok", *, number: int = 0, loses: str = "true") -> list[str]:
    """The node n3 is replaced, by a node that receives its rows from the others."""
    value = f'"operation": {number}, "nodes": ["n3"], "parameters": {{"loses_disk": {loses}}}, "becomes": {{"n3": "replaced"}}'
    end = [] if ends is None else [f"@{ends} -- {outcome} replace {{{value}}}"]
    return [f"@{begins} -- invoke replace {{{value}}}", *end]


@pytest.mark.parametrize(
    ("operation", "valid"),
    [
        (replaced(14, 16), "unknown"),
        (replaced(11, 18), "unknown"),
        (replaced(21, 30), "unknown"),  # the disk may be gone before the get is answered
        (replaced(14, None), "unknown"),
        (replaced(5, 8, "info"), "unknown"),  # it may go on
        (replaced(14, 16, "fail"), False),
        (replaced(14, 16, loses="false"), False),
        (replaced(5, 8), False),  # over before the put began
        (replaced(23, 30), False),  # begun after the get was answered
    ],
)
def test_a_put_at_quorum_may_be_left_on_no_replica_that_a_get_reads_once_a_disk_was_lost(
    operation: list[str], valid: object
) -> None:
    verdict = judge(*put(0, "n1", 10, 12, 7), *operation, *get(1, "n2", 20, 22, None, None))
    assert verdict.valid == valid
    assert [doubt.kind for doubt in verdict.doubts] == ([] if valid is False else ["undecided"])


def test_one_lost_disk_leaves_enough_copies_of_a_put_at_all() -> None:
    written = put(0, "n1", 10, 12, 7, level="ALL")
    once, twice = replaced(14, 16), [*replaced(14, 16), *replaced(17, 18, number=1)]
    verdict = judge(*written, *once, *get(1, "n2", 20, 22, None, None))
    (found,) = verdict.anomalies
    assert found.type == "missed-quorum-write"
    assert "took away at most 1 disk in between" in found.explanation
    assert judge(*written, *twice, *get(1, "n2", 20, 22, None, None)).valid == "unknown"
    assert judge(*written, *twice, *get(1, "n2", 20, 22, 7, 11_000)).valid is True


def test_what_one_get_saw_may_be_lost_to_the_next_one_with_a_disk() -> None:
    first = put(3, "n1", 5, 6, 5)
    saw = [*first, *put(0, "n1", 10, 15, 7, kind="info"), *get(1, "n2", 20, 22, 7, 11_000)]
    then = get(2, "n1", 30, 32, 5, 5_500)
    assert [one.type for one in judge(*saw, *then).anomalies] == ["non-monotonic-quorum-read"]
    assert judge(*saw, *replaced(24, 26), *then).valid == "unknown"


# ── what findings and doubts say ─────────────────────────────────────────────────────────────────────────────────────


def test_reads_without_a_writetime_are_counted_and_the_first_one_is_named() -> None:
    lines = [*put(0, "n1", 10, 20, 7), *get(1, "n1", 30, 31, 7, 15_000)]
    for at in (40, 50):
        lines += get(2, "n2", at, at + 1, 7, None)
    (doubt,) = judge(*get(3, "n3", 3, 4, None, None), *lines).doubts
    assert doubt.text == "2 reads show a value without a writetime, the first of them op 8"
    assert doubt.objects == ("k.q/1",)
    (doubt,) = judge(*lines[:4], *get(2, "n2", 3, 4, None, 15_000, level="ONE", f="probe")).doubts
    assert doubt.text == "1 read shows a writetime without a value, the first of them op 2"
    epoch = [
        *put(0, "n1", 10, 20, 7),
        *get(1, "n1", 12, 31, 7, 0),
        *put(0, "n1", 40, 41, 8),
        *get(1, "n1", 50, 51, 8, 40_500),
    ]
    assert judge(*epoch).doubts == ()


def test_a_value_with_two_writetimes_names_two_reads_of_it() -> None:
    lines = [*put(0, "n1", 10, 20, 7), *put(0, "n1", 25, 26, 8), *get(1, "n1", 30, 31, 8, 25_500)]
    lines += [*get(1, "n1", 40, 41, 8, 25_501), *get(1, "n1", 50, 51, 8, 25_502)]
    (doubt,) = judge(*lines).doubts
    assert doubt.text == "2 values were read with two writetimes; the first by op 6 and op 8"
    assert doubt.objects == ("k.q/1",)
    older = [*get(2, "n2", 22, 23, 7, 15_000), *lines[4:6]]
    assert judge(*lines[:2], *older[:2], *lines[2:6]).doubts == ()


def test_a_value_that_is_read_in_the_instant_in_which_its_put_begins_may_be_of_it() -> None:
    first = put(0, "n1", 2, 3, 6)
    for answered, wrong in ((20, set()), (19, {"unwritten-value"})):
        lines = [*first, *get(1, "n2", 15, answered, 7, 19_000), *put(0, "n1", 20, 25, 7)]
        assert types(judge(*lines)) & {"unwritten-value"} == wrong


def test_a_get_that_misses_an_owed_put_is_told_once() -> None:
    owed = [*put(0, "n1", 10, 12, 7), *put(0, "n1", 14, 16, 8, level="ONE")]
    verdict = judge(*owed, *get(1, "n2", 20, 22, None, None))
    assert types(verdict) == {"missed-quorum-write"}
    assert (verdict.figures["missed"], verdict.figures["stale_by_right"]) == (1, 0)
    back = [*put(0, "n1", 10, 12, 7), *put(0, "n1", 14, 16, 8)]
    both = judge(*back, *get(1, "n2", 20, 22, 8, 15_000), *get(1, "n2", 30, 32, 7, 11_000))
    assert types(both) == {"missed-quorum-write"}
    assert both.figures["non_monotonic"] == 0


def test_missed_puts_are_told_in_the_order_of_their_gets_whatever_their_levels() -> None:
    gets = [*get(1, "n2", 20, 22, None, None, level="QUORUM"), *get(1, "n2", 30, 32, None, None, level="ALL")]
    verdict = judge(*put(0, "n1", 10, 12, 7), *gets)
    assert verdict.figures["missed"] == 2
    assert "T2 = op 4: p1 n2 get" in verdict.anomalies[0].explanation


def test_doubts_about_lost_disks_and_other_factors_name_their_first_get() -> None:
    lost = judge(*put(0, "n1", 10, 12, 7), *replaced(14, 16), *get(1, "n2", 20, 22, None, None))
    (doubt,) = lost.doubts
    assert doubt.text == (
        "1 gets show an older value than they had to if no disk had been lost, and operations took disks away; "
        "the first: op 6 after op 2 (1 of them)"
    )
    assert doubt.objects == ("k.q/1",)
    changes = [*alter(2), *alter(3, at=250, process=97)]
    (other,) = judge(*put(1, "n1", 10, 20, 7), *changes, *get(2, "n2", 300, 310, None, None)).doubts
    assert other.text == (
        "1 gets show an older value than they had to by some of the replication factors that were in use, and not by others; "
        "the first: op 8 (factor 2 or 3) after op 2 (factor 3), of 3, 2 and 3"
    )
    assert other.objects == ("k.q/1",)


def test_a_hidden_put_is_told_with_the_first_later_read_of_what_was_before_it() -> None:
    hidden = [
        *put(1, "n2", 2, 3, 6),
        *get(2, "n3", 4, 6, 6, 2_500),
        *put(0, "n1", 10, 12, 7),
        *get(2, "n3", 14, 16, 7, 60_011_000),
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 21, 23, 7, 60_011_000),
        *get(2, "n3", 30, 32, 7, 60_011_000),
        *get(2, "n3", 34, 36, 7, 60_011_000),
        '@47 p3 n2 invoke put k.q/2 {"value": 10, "consistency": "QUORUM"}',
        "@48 p3 n2 ok",
        '@50 p3 n1 invoke get k.q/2 {"consistency": "QUORUM"}',
        '@51 p3 n1 ok {"value": 10, "writetime": 47500}',
    ]
    (found,) = judge(*hidden).anomalies
    assert (found.type, found.ops) == ("shadowed-write", (6, 10, 14))


def test_an_undecided_get_is_counted_with_its_put() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *put(1, "n2", 20, 22, 8)]
    verdict = judge(*lines, *get(2, "n3", 30, 32, 7, 11_000), *get(2, "n3", 40, 42, 7, 11_000))
    assert verdict.figures["undecided"] == 2
    assert (verdict.reason or "").startswith("2 gets show a value from before an acknowledged put")
    assert "the first: op 6 after op 4 through n2" in (verdict.reason or "")
    at_one = judge(*lines, *get(2, "n3", 30, 32, 7, 11_000, level="ONE"))
    assert (at_one.valid, at_one.figures["undecided"]) == (True, 0)
    meanwhile = judge(*lines, *get(2, "n3", 21, 32, 7, 11_000))
    assert (meanwhile.valid, meanwhile.figures["undecided"]) == (True, 0)


def test_each_get_is_undecided_by_the_puts_that_its_own_level_owes() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *put(1, "n2", 20, 22, 8)]
    for_right = [*get(2, "n3", 30, 32, 7, 11_000, level="ONE"), *get(3, "n1", 40, 42, 8, 21_000)]
    assert judge(*lines, *for_right).figures["undecided"] == 0
    at_one = [*put(0, "n1", 10, 12, 7), *put(1, "n2", 20, 22, 8, level="ONE")]
    verdict = judge(*at_one, *get(2, "n3", 30, 32, 7, 11_000), *get(3, "n1", 40, 42, 8, 21_000, level="ALL"))
    assert (verdict.valid, verdict.figures["undecided"]) == (True, 0)
    before = [*put(0, "n1", 10, 12, 7, level="ONE"), *put(1, "n2", 20, 22, 8), *get(2, "n3", 30, 32, 7, 11_000)]
    assert judge(*before).figures["undecided"] == 1


def test_a_get_that_missed_a_put_for_certain_is_no_doubt_beside_it() -> None:
    lines = [*put(0, "n1", 10, 12, 7), *replaced(14, 16), *put(0, "n1", 20, 22, 8)]
    verdict = judge(*lines, *get(1, "n2", 30, 32, None, None))
    assert types(verdict) == {"missed-quorum-write"}
    assert verdict.doubts == ()


def test_a_value_that_nobody_wrote_is_found_whatever_was_refused_later() -> None:
    first = put(0, "n1", 2, 3, 6)
    later = put(0, "n1", 30, 32, 7, kind="fail")
    assert "unwritten-value" in types(judge(*first, *get(1, "n2", 20, 22, 7, 11_000), *later))
    assert "unwritten-value" in types(judge(*first, *get(1, "n2", 20, 22, 9, 11_000), *later))
    assert "unwritten-value" not in types(judge(*first, *get(1, "n2", 20, 22, 6, 2_500), *later))


def of_key(number: int, lines: list[str], *, shift_ms: int = 0, processes: int = 0) -> list[str]:
    """The same events of another key, so many ms later and by other processes."""
    found = []
    for line in lines:
        at, process, *rest = line.split(" ")
        moved = [f"@{int(at[1:]) + shift_ms}", f"p{int(process[1:]) + processes}", *rest]
        found.append(" ".join(moved).replace("k.q/1", f"k.q/{number}"))
    return found


def in_time(*parts: list[str]) -> list[str]:
    return sorted((line for part in parts for line in part), key=lambda line: int(line[1:].split()[0]))


def test_a_writetime_of_zero_is_one_and_the_first_read_that_has_it_without_a_value_is_named() -> None:
    lines = [*put(0, "n1", 10, 20, 7), *get(1, "n1", 30, 31, 7, 15_000)]
    (doubt,) = judge(*get(2, "n2", 3, 4, None, 0), *lines).doubts
    assert doubt.text == "1 read shows a writetime without a value, the first of them op 2"
    assert judge(*get(2, "n2", 3, 4, None, None), *lines).valid is True
    first, second = (of_key(number, get(2, "n2", 1 + number, 1 + number, None, 0)) for number in (2, 3))
    (doubt,) = judge(*first, *second, *lines).doubts
    assert doubt.text == "2 reads show a writetime without a value, the first of them op 2"
    assert doubt.objects == ("k.q/2",)


def test_values_with_two_writetimes_are_told_with_the_key_of_the_first() -> None:
    lines = [*put(0, "n1", 10, 20, 7), *get(1, "n1", 30, 31, 7, 15_000), *get(1, "n1", 40, 41, 7, 15_001)]
    (doubt,) = judge(*in_time(lines, of_key(2, lines, shift_ms=1, processes=5))).doubts
    assert doubt.text.startswith("2 values were read with two writetimes")
    assert doubt.objects == ("k.q/1",)


def test_what_was_never_promised_is_no_doubt_beside_what_some_factors_promise() -> None:
    changes = [*alter(2), *alter(3, at=250, process=97)]
    open_get = [*put(1, "n1", 10, 20, 7), *changes, *get(2, "n2", 300, 310, None, None)]
    at_one = [*put(3, "n1", 12, 22, 7, level="ONE"), *get(4, "n2", 302, 312, None, None, level="ONE")]
    (doubt,) = judge(*in_time(open_get, of_key(2, at_one))).doubts
    assert doubt.text.startswith("1 gets show an older value")


def test_of_several_doubtful_gets_the_first_is_named_whichever_put_it_misses() -> None:
    first, second = put(1, "n1", 10, 12, 7), of_key(2, put(1, "n1", 13, 14, 7))
    changes = [*alter(2), *alter(3, at=250, process=97)]
    gets = [*of_key(2, get(2, "n2", 300, 310, None, None)), *get(2, "n2", 320, 330, None, None)]
    (doubt,) = judge(*first, *second, *changes, *gets).doubts
    assert doubt.text.startswith("2 gets show an older value than they had to by some of the replication factors")
    assert "the first: op 10 (factor 2 or 3) after op 4 (factor 3)" in doubt.text
    (doubt,) = judge(*first, *second, *replaced(15, 16), *gets).doubts
    assert doubt.text.startswith("2 gets show an older value than they had to if no disk had been lost")
    assert "the first: op 8 after op 4" in doubt.text
    assert doubt.objects == ("k.q/2",)


@pytest.mark.parametrize("shift_ms", [-1, 1])
def test_a_hidden_put_is_told_with_a_read_of_its_own_key(shift_ms: int) -> None:
    hidden = [
        *put(1, "n2", 3, 4, 6),
        *get(2, "n3", 5, 6, 6, 3_500),
        *put(0, "n1", 10, 12, 7),
        *get(2, "n3", 14, 16, 7, 60_011_000),
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 30, 32, 7, 60_011_000),
    ]
    dated = [*of_key(4, put(3, "n2", 47, 48, 10)), *of_key(4, get(3, "n1", 50, 51, 10, 47_500))]
    other = of_key(2, hidden, shift_ms=shift_ms, processes=10)
    other = [
        line.replace("3500", str(3_500 + 1_000 * shift_ms)).replace("60011000", str(60_011_000 + 1_000 * shift_ms))
        for line in other
    ]
    if shift_ms == 1:  # the key that is asked for first is read last
        hidden[-2:] = of_key(1, hidden[-2:], shift_ms=5)
    lines = [*KEYSPACE, *in_time(hidden, other, dated)]
    keys = {index: line.split()[5] for index, line in enumerate(lines) if " invoke " in line}
    found = judge(*lines[len(KEYSPACE) :]).anomalies
    assert sorted(one.objects for one in found if one.type == "shadowed-write") == [("k.q/1",), ("k.q/2",)]
    assert all({keys[op] for op in one.ops} == set(one.objects) and len(one.ops) == 3 for one in found)


def test_the_first_put_of_a_run_may_hide_one_and_a_read_of_nothing_shows_no_version() -> None:
    dated = [*of_key(2, put(3, "n2", 47, 48, 10)), *of_key(2, get(3, "n1", 50, 51, 10, 47_500))]
    lines = [
        *put(0, "n1", 10, 12, 7),
        *get(2, "n3", 14, 16, 7, 60_011_000),
        *put(1, "n2", 20, 22, 8),
        *get(2, "n3", 24, 25, None, None, level="ONE"),
        *get(2, "n3", 30, 32, 7, 60_011_000),
    ]
    (found,) = judge(*lines, *dated).anomalies
    assert (found.type, found.ops) == ("shadowed-write", (2, 6, 10))
    (found,) = judge(*lines[:8], *dated).anomalies
    assert (found.type, found.ops) == ("shadowed-write", (2, 6))
    early = of_key(3, put(3, "n2", 2, 3, 10))
    (found,) = judge(*early, *lines, *dated).anomalies
    assert (found.type, found.ops) == ("shadowed-write", (4, 8, 12))


@pytest.mark.parametrize(("ends", "ops"), [(19, (4, 8, 12)), (20, (2, 8)), (21, (2, 7))])
def test_a_read_of_a_put_that_was_concurrent_with_the_hidden_one_shows_nothing(ends: int, ops: tuple[int, ...]) -> None:
    """Nor does one that began in the instant in which the hidden put ended."""
    lines = in_time(
        put(0, "n1", 10, 12, 7),
        put(5, "n1", 13, ends, 9),
        get(2, "n3", 14, 15, 7, 60_011_000),
        put(1, "n2", 20, 22, 8),
        get(2, "n3", 22, 24, 9, 60_014_000),
        get(2, "n3", 30, 32, 9, 60_014_000),
        of_key(2, put(3, "n2", 47, 48, 10)),
        of_key(2, get(3, "n1", 50, 51, 10, 47_500)),
    )
    assert [one.ops for one in judge(*lines).anomalies if one.type == "shadowed-write"] == [ops]

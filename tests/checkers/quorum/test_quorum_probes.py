"""Quorum probes: which nodes count, which puts are owed to them, and what is doubted where the order of values is not known."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import pytest
from histories import events
from ring_accounts import noted

from schemaquake.checkers.quorum.checker import Quorum
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict

NODES = ("n1", "n2", "n3")
SETTLED = '@900 -- info phase {"phase": "final-settled", "state": "begins"}'
RESTARTED = '@1800 -- info phase {"phase": "final-restarted", "state": "begins"}'


def judge(*parts: list[str] | str, factor: int = 3) -> Verdict:
    replication = {"replication": {"class": "SimpleStrategy", "replication_factor": factor}}
    created = [f"@1 p99 n1 invoke create-keyspace k {orjson.dumps(replication).decode()}", "@1 p99 n1 ok"]
    lines = [*created, *(line for part in parts for line in ([part] if isinstance(part, str) else part))]
    lines.sort(key=lambda line: int(line[1:].split()[0]))
    return Quorum().check(Records.of(events(*lines)), limit_s=10)


def doubts(*parts: list[str] | str, factor: int = 3) -> list[str]:
    verdict = judge(*parts, factor=factor)
    assert verdict.anomalies == ()
    return [doubt.text for doubt in verdict.doubts]


def put(value: int, begins: int, ends: int, *, level: str = "QUORUM", kind: str = "ok", key: int = 1) -> list[str]:
    """A put of its own process; if it is read it has the writetime of its begin."""
    process = 100 * key + value
    return [
        f'@{begins} p{process} n1 invoke put k.q/{key} {{"value": {value}, "consistency": "{level}"}}',
        f"@{ends} p{process} n1 {kind}",
    ]


def probes(held: Mapping[str, int | str | None], *, at: int = 901, key: int = 1) -> list[str]:
    """A read at ONE through each of these nodes, of a value that was put 10 ms × value after the begin; "no": it failed."""
    lines = []
    for number, (node, value) in enumerate(held.items()):
        process, begins = 10_000 * key + at + number, at + 2 * number
        answer = {"value": value, "writetime": None if value is None else 10_000 * value}  # type: ignore[operator]
        ending = "fail NoHostAvailable" if value == "no" else f"ok {orjson.dumps(answer).decode()}"
        lines += [
            f'@{begins} p{process} {node} invoke probe k.q/{key} {{"consistency": "ONE"}}',
            f"@{begins + 1} p{process} {node} {ending}",
        ]
    return lines


def altered(factor: int, begins: int, ends: int) -> list[str]:
    value = {"replication": {"class": "SimpleStrategy", "replication_factor": factor}}
    asked = f"@{begins} p{90 + factor} n1 invoke alter-keyspace k {orjson.dumps(value).decode()}"
    return [asked, f"@{ends} p{90 + factor} n1 ok"]


def started(*nodes: str, phase: str = "boot", at: int = 2) -> list[str]:
    return [
        f'@{at} -- {node} info node-start {{"phase": "{phase}", "served": true, "seconds": 0.001}}' for node in nodes
    ]


OLDER, NEWER = put(1, 10, 12), put(2, 20, 22)
ALL_NEW = dict.fromkeys(NODES, 2)


def test_values_on_all_nodes_are_sound() -> None:
    verdict = judge(OLDER, NEWER, SETTLED, probes(ALL_NEW))
    assert (verdict.valid, verdict.figures["probed_values"]) == (True, 1)


def test_nodes_that_the_harness_did_not_boot_count() -> None:
    """Of a cluster that was there before, the notes name only those that the run started again."""
    held = probes({"n1": 1, "n2": 1, "n3": None})
    assert judge(started("n1", "n2", phase="restart", at=950), OLDER, SETTLED, held).valid is True
    (found,) = judge(started("n1", "n2", phase="boot"), OLDER, SETTLED, held).anomalies
    assert found.type == "under-replicated-value"


@pytest.mark.parametrize("changes", [False, True])
def test_no_replicas_are_counted_where_nodes_joined(changes: bool) -> None:
    joins = '"operation": 1, "nodes": ["n4"], "parameters": {}, "becomes": {"n4": "normal"}'
    events = [noted("boot", dict.fromkeys(NODES, "normal") | {"n4": "absent"})]
    if changes:
        events += [f"@100 -- invoke bootstrap {{{joins}}}", f"@200 -- ok bootstrap {{{joins}}}"]
    verdict = judge(events, OLDER, SETTLED, probes({"n1": 1, "n2": None, "n3": None}))
    assert (verdict.valid, verdict.figures["probed_values"]) == ((True, 0) if changes else (False, 1))


@pytest.mark.parametrize(("level", "valid"), [("ONE", True), ("QUORUM", True), ("ALL", "unknown")])
def test_a_probe_that_failed_matters_if_the_others_leave_something_open(level: str, valid: object) -> None:
    assert judge(put(1, 10, 12, level=level), SETTLED, probes({"n1": 1, "n2": 1, "n3": "no"})).valid == valid


def test_the_last_answer_of_a_node_counts() -> None:
    first = probes({"n1": 1, "n2": 1, "n3": 1})
    written = [*OLDER, *put(2, 20, 22, level="ALL")]
    assert judge(written, SETTLED, first, probes(ALL_NEW, at=920)).valid is True
    assert judge(written, SETTLED, probes(ALL_NEW), probes({"n3": 1}, at=920)).valid is False
    assert judge(written, SETTLED, probes(ALL_NEW), probes({"n3": "no"}, at=920)).valid is True


def test_what_a_node_answered_to_a_client_before_is_no_probe_of_it() -> None:
    shown = probes({"n3": 1}, at=15)
    asked = [line.replace("probe", "get").replace("ONE", "QUORUM") for line in shown]
    verdict = judge(OLDER, asked, NEWER, SETTLED, probes({"n1": 2, "n2": None, "n3": "no"}))
    assert (verdict.anomalies, [doubt.kind for doubt in verdict.doubts]) == ((), ["unread"])


def test_puts_are_owed_by_each_level_and_before_the_probes() -> None:
    at_one = put(2, 20, 22, level="ONE")
    verdict = judge(OLDER, at_one, SETTLED, probes({"n1": 2, "n2": 1, "n3": 1}))
    assert (verdict.valid, verdict.figures["probed_values"]) == (True, 2)
    (found,) = judge(OLDER, at_one, SETTLED, probes({"n1": 2, "n2": None, "n3": None})).anomalies
    assert (found.evidence["promised"], found.evidence["held_by"]) == (2, ["n1"])
    (found,) = judge(put(1, 10, 12, level="ONE"), NEWER, SETTLED, probes({"n1": 2, "n2": None, "n3": None})).anomalies
    assert (found.evidence["promised"], found.evidence["held_by"]) == (2, ["n1"])
    late = put(2, 20, 901)
    assert judge(OLDER, late, SETTLED, probes({"n1": 1, "n2": 1, "n3": 2})).valid is True


def test_probes_of_a_history_without_phases_are_of_the_first_one() -> None:
    (found,) = judge(OLDER, probes({"n1": 1, "n2": None, "n3": None})).anomalies
    assert found.evidence["phase"] == "settled"


def test_of_factors_without_an_order_nothing_is_counted() -> None:
    verdict = judge(
        altered(2, 100, 110), altered(4, 101, 109), OLDER, SETTLED, probes({"n1": 1, "n2": None, "n3": None})
    )
    assert (verdict.anomalies, verdict.figures["probed_values"]) == ((), 0)
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]
    assert "which replication factor was the last one is not known" in verdict.doubts[0].text


# ── what is older after the restart ──────────────────────────────────────────────────────────────────────────────────


def forgotten(
    after: Mapping[str, int | None], *, nodes: int = 3, factor: int = 3, changed: list[str] | None = None
) -> list[str]:
    booted = started(*(f"n{number + 1}" for number in range(nodes)))
    written = [*put(1, 10, 12, level="TWO"), *put(2, 20, 22, level="TWO")]
    lines = [*booted, *(changed or []), *written, SETTLED, *probes(ALL_NEW), RESTARTED, *probes(after, at=1901)]
    return [text for text in doubts(lines, factor=factor) if "than before it" in text]


def test_every_replica_that_shows_an_older_value_after_the_restart_is_counted() -> None:
    assert forgotten(ALL_NEW) == []
    verdict = judge(OLDER, NEWER, SETTLED, probes(ALL_NEW), RESTARTED, probes(ALL_NEW | {"n2": 1, "n3": None}, at=1901))
    texts = [doubt.text for doubt in verdict.doubts if "than before it" in doubt.text]
    assert texts == [
        "2 replicas show an older value after the restart than before it: n2 by op 9 and op 16",
    ]


def test_the_keys_of_replicas_that_show_older_values_are_named() -> None:
    second = [*put(1, 30, 32, key=2), *put(2, 40, 42, key=2)]
    before = [*probes(ALL_NEW), *probes(ALL_NEW, at=921, key=2)]
    after = [*probes(ALL_NEW | {"n3": 1}, at=1901), *probes(ALL_NEW | {"n3": 1}, at=1921, key=2)]
    verdict = judge(OLDER, NEWER, second, SETTLED, before, RESTARTED, after)
    assert [doubt.objects for doubt in verdict.doubts] == [("k.q/1", "k.q/2")]


@pytest.mark.parametrize(("nodes", "factor", "is_odd"), [(3, 3, True), (3, 5, True), (4, 3, False)])
def test_where_every_node_is_a_replica_none_shows_less_than_before(nodes: int, factor: int, *, is_odd: bool) -> None:
    held = {"n1": 2, "n2": 2, "n3": 2}
    assert bool(forgotten(held | {"n3": 1}, nodes=nodes, factor=factor)) is is_odd


@pytest.mark.parametrize(("first", "last", "is_odd"), [(3, 4, True), (4, 3, False)])
def test_whether_every_node_is_a_replica_is_decided_by_the_last_factor(first: int, last: int, *, is_odd: bool) -> None:
    changed = altered(last, 5, 6)
    assert bool(forgotten({"n1": 2, "n2": 2, "n3": 1}, nodes=4, factor=first, changed=changed)) is is_odd


def test_a_node_that_answers_after_the_restart_alone_showed_nothing_before() -> None:
    two = {"n1": 2, "n2": 2}
    lines = [*OLDER, *NEWER, SETTLED, *probes(two | {"n3": "no"}), RESTARTED, *probes(two | {"n3": 1}, at=1901)]
    assert doubts(lines) == []


# ── acknowledged puts that no read shows ─────────────────────────────────────────────────────────────────────────────


def unseen(*parts: list[str] | str, factor: int = 3) -> int:
    """How many puts no read shows, so that either clocks hide them or too few replicas have them."""
    texts = doubts(*parts, factor=factor)
    return sum("writetime is not known" in text for text in texts)


@pytest.mark.parametrize(
    ("held", "is_odd"),
    [
        pytest.param({"n1": 1, "n2": 1, "n3": 3}, True, id="two show the earlier one"),
        pytest.param({"n1": 1, "n2": 3, "n3": 3}, False, id="one may lack it"),
        pytest.param({"n1": None, "n2": 3, "n3": 3}, False, id="one lacks all"),
        pytest.param({"n1": 1, "n2": None, "n3": 3}, True, id="one shows the earlier one, and one nothing"),
        pytest.param({"n1": 3, "n2": 3, "n3": 3}, False, id="it may be hidden everywhere"),
    ],
)
def test_a_put_that_no_read_shows_may_be_hidden_only_by_later_ones(
    held: dict[str, int | None], *, is_odd: bool
) -> None:
    beside = put(3, 15, 30, level="ONE")
    assert unseen(put(1, 10, 12, level="ONE"), NEWER, beside, SETTLED, probes(held)) == is_odd


@pytest.mark.parametrize(("ends", "is_odd"), [(19, True), (20, False), (21, False)])
def test_an_earlier_put_had_ended_before_the_later_one_began(ends: int, *, is_odd: bool) -> None:
    earlier = put(1, 10, ends)
    assert unseen(earlier, NEWER, SETTLED, probes(dict.fromkeys(NODES, 1))) == is_odd


@pytest.mark.parametrize(("level", "is_odd"), [("ALL", True), ("QUORUM", False), ("ONE", False)])
def test_a_put_at_all_is_on_the_only_node_that_answers(level: str, *, is_odd: bool) -> None:
    newer = put(2, 20, 22, level=level)
    assert unseen(OLDER, newer, SETTLED, probes({"n1": 1, "n2": "no", "n3": "no"})) == is_odd


def test_of_a_factor_above_the_number_of_nodes_every_node_has_a_put_at_all() -> None:
    booted, newer = started(*NODES), put(2, 20, 22, level="ALL")
    beside = put(3, 15, 30, level="ALL")
    assert unseen(booted, newer, beside, SETTLED, probes(dict.fromkeys(NODES, 3)), factor=5) == 0
    assert unseen(booted, OLDER, newer, SETTLED, probes(dict.fromkeys(NODES, 1)), factor=5) == 1


def test_a_put_that_is_seen_or_that_an_older_value_certainly_contradicts_is_none_of_these() -> None:
    assert unseen(OLDER, NEWER, SETTLED, probes({"n1": 1, "n2": 2, "n3": 2})) == 0
    lines = [*OLDER, *NEWER, SETTLED, *probes({"n1": 1, "n2": None, "n3": None})]
    verdict = judge(lines)
    assert [one.type for one in verdict.anomalies] == ["under-replicated-value"]
    assert not any("writetime is not known" in doubt.text for doubt in verdict.doubts)


def test_a_put_that_a_client_read_is_seen_though_a_clock_that_was_ahead_hides_it_in_the_end() -> None:
    ahead = put(5, 10, 12)
    read = [line.replace("probe", "get").replace("ONE", "QUORUM") for line in probes({"n2": 2}, at=25)]
    shown = probes(dict.fromkeys(NODES, 5))
    texts = [doubt.text for doubt in judge(ahead, NEWER, read, SETTLED, shown).doubts]
    assert not any("writetime is not known" in text for text in texts)


def test_the_keys_of_all_unseen_puts_are_named() -> None:
    second = [*put(1, 30, 32, key=2), *put(2, 40, 42, key=2)]
    shown = [*probes(dict.fromkeys(NODES, 1)), *probes(dict.fromkeys(NODES, 1), at=921, key=2)]
    (doubt,) = judge(OLDER, NEWER, second, SETTLED, shown).doubts
    assert doubt.objects == ("k.q/1", "k.q/2")
    assert "a value from before op 4, an acknowledged put" in doubt.text

"""Log times: an order of the log that contradicts the times at which clients asked, and the orders that are possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.topology.log_times import _date, list_untimely, node_of_source
from schemaquake.checkers.topology.metadata_log import MetadataLog

MEMBERS = {
    f"n{number}": {"state": "normal", "expected": "normal", "address": f"10.77.0.{number}"} for number in (1, 2, 3)
}
BORN = f"@0 -- info membership {orjson.dumps({'at': 'boot', 'members': MEMBERS}).decode()}"


def create(
    number: int, at: int, *, until: int | None = None, answer: str = "ok", more: str = "", process: int | None = None
) -> list[str]:
    """A CREATE TABLE through one node, between two times in ms."""
    client = f"p{process or number} n{number}"
    asked = f"@{at} {client} invoke create-table k.t{at} a:int* {more}".strip()
    return [asked, f"@{until or at + 5} {client} {answer}"]


def alter(number: int, at: int) -> list[str]:
    """A change that may have been a no-op, without an entry."""
    asked = f'@{at} p{number} n{number} invoke alter-options k.t10 {{"options": {{"comment": "x"}}}}'
    return [asked, f"@{at + 5} p{number} n{number} ok"]


def evidence(*changes: list[str], readings: Sequence[str] = ()) -> Evidence:
    lines = sorted((line for change in changes for line in change), key=lambda line: int(line[1:].split()[0]))
    return Evidence.of(judged([BORN, *lines], readings))


def untimely(nodes: str, *changes: list[str], readings: Sequence[str] = (), first: int = 5) -> list[str]:
    """What is wrong with a log whose entries, from this epoch on, were asked for by these nodes (a digit each)."""
    entries = {epoch: f"n{digit}" for epoch, digit in enumerate(nodes, first)}
    return list(list_untimely(entries, evidence(*changes, readings=readings)))


IN_TURN = (create(1, 10), create(2, 20), create(1, 30), create(3, 40))


def test_the_order_in_which_nodes_were_asked_is_the_order_of_the_log() -> None:
    assert untimely("1213", *IN_TURN) == []
    assert untimely("21213", *IN_TURN) == [], "the first one was the server's own"
    (text,) = untimely("2113", *IN_TURN)
    assert text == (
        "the metadata log has epoch 5, for which n2 was asked at 0.020 s or later by its id, before epoch 6, which n1 had acknowledged by "
        "0.015 s"
    )
    assert len(untimely("1123", *IN_TURN)) == len(untimely("1231", *IN_TURN)) == 1


def test_changes_at_one_time_may_be_in_any_order() -> None:
    abreast = (create(1, 10, until=35), create(2, 20, until=40), create(3, 30))
    assert [untimely(order, *abreast) for order in ("123", "213", "321", "312")] == [[]] * 4
    assert untimely("21", create(1, 10), create(2, 15)) == [], "asked for at the moment of the answer"
    assert untimely("21", create(1, 10), create(2, 16)) != []


def test_a_change_without_an_answer_may_have_come_late_and_a_refused_one_has_no_entry() -> None:
    for answer, is_odd in (("ok", True), ("info timed out", False)):
        assert bool(untimely("21", create(1, 10, answer=answer), create(2, 20))) is is_odd
    assert untimely("2", create(1, 10, answer="fail no"), create(2, 20)) == []
    assert untimely("12", create(1, 30, answer="fail no"), create(1, 10), create(2, 20)) == []
    assert untimely("21", create(1, 30, answer="fail no"), create(1, 10), create(2, 20)) != []


def test_a_change_that_may_have_done_nothing_may_have_an_entry_or_none() -> None:
    changes = (create(1, 10), alter(1, 30), create(2, 40))
    assert untimely("12", *changes) == untimely("112", *changes) == []
    assert untimely("121", create(1, 10), alter(1, 30), create(2, 20)) == []
    assert untimely("21", *changes) != []
    assert untimely("121", create(1, 10), create(1, 20, more='{"if_not_exists": true}'), create(2, 30)) != []
    assert untimely("211", create(1, 10), alter(1, 30), create(2, 20)) != []


def possible_spans(sure: Sequence[bool], count: int) -> list[set[int]]:
    """Of each of a node's entries the places of the changes that it can be, by trying all; −1 is an entry of the server itself."""
    found: list[set[int]] = [set() for _ in range(count)]
    places = range(len(sure))
    for size in range(min(count, len(sure)) + 1):
        for made in combinations(places, size):
            if all(place in made for place in places if sure[place]):
                for entry, place in enumerate((*[-1] * (count - size), *made)):
                    found[entry].add(place)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_each_entry_is_dated_by_all_changes_that_it_can_be(seed: int) -> None:
    random = Random(seed)
    sure = [random.random() < 0.5 for _ in range(random.randint(1, 6))]
    changes = [create(1, 10 * at) if is_sure else alter(1, 10 * at) for at, is_sure in enumerate(sure, 1)]
    count = random.randint(sum(sure), len(sure) + 2)
    dated = {entry.epoch: entry for entry in _date(dict.fromkeys(range(5, 5 + count), "n1"), evidence(*changes))}
    for epoch, spans in enumerate(possible_spans(sure, count), 5):
        if spans == {-1}:
            assert epoch not in dated
            continue
        begins = 0 if -1 in spans else (min(spans) + 1) * 10
        ends = (max(spans) + 1) * 10 + 5
        assert (dated[epoch].begins, dated[epoch].ends) == (begins * 1_000_000, ends * 1_000_000)


@pytest.mark.parametrize(
    ("reading", "is_odd"),
    [
        ('@15 running n3 version x {"epoch": 5}', False),
        ('@15 running n3 version x {"epoch": 6}', True),
        ('@20 running n3 version x {"epoch": 6}', False),
        ('@15 running n3 version x {"epoch": 7}', True),
        ('@5 running n3 version x {"epoch": 4}', False),
        ("@15 running n3 version x", False),
    ],
)
def test_no_node_shows_an_epoch_before_its_change_was_asked_for(reading: str, *, is_odd: bool) -> None:
    found = untimely("1213", *IN_TURN, readings=[reading])
    assert found == (
        [f"n3 showed epoch {reading[-2]} at 0.015 s, and by its id n2 was asked for epoch 6 at 0.020 s or later"]
        if is_odd
        else []
    )


def test_a_source_is_a_node_by_its_name_or_by_its_address() -> None:
    known = evidence()
    sources = ("n2", "10.77.0.2", "10.77.0.3", "10.77.0.4", "2", "x")
    assert [node_of_source(source, known) for source in sources] == ["n2", "n2", "n3", None, None, None]


def numbered(node: int, count: int) -> str:
    """An id as servers make them, of 10.77.0.NODE."""
    return str((int.from_bytes(bytes([10, 77, 0, node]), "little") << 32) + count)


def logged(order: str, *changes: list[str], spelled: bool = False) -> list[str]:
    """The doubts of a whole run whose log has its changes in this order."""
    counts: dict[str, int] = {}
    entries: list[list[object]] = [[1, "1", "a"]]
    for epoch, digit in enumerate(order, 2):
        counts[digit] = counts.get(digit, 100) + 1
        identity = f"n{digit}-{counts[digit]}" if spelled else numbered(int(digit), counts[digit])
        entries.append([epoch, "4", identity])
    lines = sorted((line for change in changes for line in change), key=lambda line: int(line[1:].split()[0]))
    shown = [f"settled,restarted {node} epochs {orjson.dumps({'entries': entries}).decode()}" for node in MEMBERS]
    result = MetadataLog().check(judged([BORN, *lines], shown), limit_s=5)
    assert result.anomalies == ()
    return [doubt.text for doubt in result.doubts if "by its id" in doubt.text]


@pytest.mark.parametrize("spelled", [True, False])
def test_ids_that_were_swapped_between_nodes_leave_a_run_in_doubt(*, spelled: bool) -> None:
    assert logged("1213", *IN_TURN, spelled=spelled) == []
    assert len(logged("1231", *IN_TURN, spelled=spelled)) == 1
    fault = ['@50 -- info fault-begins {"id": 1, "nemesis": "kill", "nodes": ["n1"]}']
    assert logged("1231", *IN_TURN, fault, spelled=spelled) == [], "a retried change may have come late"
    assert logged("1231", *IN_TURN, create(1, 12, process=9), spelled=spelled) == [], (
        "one node was asked for two at once"
    )


def test_an_entry_that_is_there_again_is_counted_once() -> None:
    doubts = of_ids([numbered(1, 101), numbered(2, 101), numbered(1, 102), numbered(1, 102), numbered(3, 101)])
    assert [doubt for doubt in doubts if "by its id" in doubt] == []


def of_ids(ids: Sequence[str]) -> list[str]:
    """The doubts of a run whose log has these entries after epoch 1, for the changes that were made in turn."""
    entries = [[1, "1", "a"], *([epoch, "4", identity] for epoch, identity in enumerate(ids, 2))]
    lines = [BORN, *(line for change in IN_TURN for line in change)]
    shown = [f"settled,restarted {node} epochs {orjson.dumps({'entries': entries}).decode()}" for node in MEMBERS]
    return [doubt.text for doubt in MetadataLog().check(judged(lines, shown), limit_s=5).doubts]


def test_nodes_of_two_subnets_count_by_themselves() -> None:
    """Only the last byte of their addresses is the same."""
    here, there = (int.from_bytes(bytes([10, 77, subnet, 200]), "little") << 32 for subnet in (0, 1))
    signed = [
        str(number - 2**64 if number >= 2**63 else number) for number in (here + 9, there + 5, here + 10, there + 6)
    ]
    assert signed[0].startswith("-")
    assert [doubt for doubt in of_ids(signed) if "another order" in doubt] == []
    assert len([doubt for doubt in of_ids([*signed[2:], *signed[:2]]) if "another order" in doubt]) == 2

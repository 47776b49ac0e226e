"""Standing objects: which objects a whole reading says something of without a row, and how they stood."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.sights import Sight
from schemaquake.checkers.evidence.standing import read_standing

MADE = ("@1 p9 n3 invoke create-keyspace k", "@2 p9 n3 ok", "@3 p9 n3 invoke create-table k.t a:int*", "@4 p9 n3 ok")
ADD = ("@20 p1 n2 invoke add-column k.t d:int", "@25 p1 n2 ok")
NEW = ("@20 p1 n2 invoke create-table k.s a:int*", "@25 p1 n2 ok")
INDEX = ("@20 p1 n2 invoke create-index k.i t a", "@25 p1 n2 ok")
BOOT = '@5 -- info membership {"at": "boot", "members": {}}'
TABLE = "table k.t id=1 a:int*"
OTHER = "table k.o id=2 a:int*"
MEMORY = '{"memory": "statements"}'
LIVE = "live k.t CREATE TABLE k.t (a int PRIMARY KEY)"
KEEPS = ("version v", TABLE)
WHOLE = ("version w", OTHER)
"""A whole reading of a disk that has no row of the table that changes."""


def read(ms: int, *rows: str, node: str = "n2") -> list[str]:
    """One reading of a node."""
    return [f"@{ms} running {node} {row}" for row in rows]


def standing(history: Sequence[str], *readings: Sequence[str]) -> Sequence[Sight]:
    return read_standing(Evidence.of(judged([*MADE, *history], [row for rows in readings for row in rows])))


def told(history: Sequence[str], *readings: Sequence[str]) -> list[tuple[str, str, str, bool, int, int]]:
    """Node, side, object, whether it is there, and the reading's time (ms)."""
    found = standing(history, *readings)
    assert all(sight.stands and not sight.corrected for sight in found)
    return [
        (
            *sight.place,
            f"{sight.subject.kind} {sight.subject.key}",
            sight.definition is not None,
            sight.begins // 1_000_000,
            sight.ends // 1_000_000,
        )
        for sight in found
    ]


DROPPED = ("@26 p2 n1 invoke drop-keyspace k", "@28 p2 n1 ok")


@pytest.mark.parametrize(
    ("history", "version", "stands"),
    [
        ((*ADD, *DROPPED), "version x", False),  # it lists what there is, which is nothing
        ((*ADD, *DROPPED), "version v", True),  # it tells of what changed: nothing
        (ADD, "version x", True),
    ],
)
def test_after_a_reading_that_lists_nothing_nothing_stands(
    history: Sequence[str], version: str, *, stands: bool
) -> None:
    found = told(history, read(10, *KEEPS), read(30, version), read(40, *WHOLE))
    assert [one[2] for one in found] == ["table k.t"] * stands


STANDS = [("n2", "disk", "table k.t", True, 30, 40)]


def test_an_object_without_a_row_stands_as_it_was_shown_last() -> None:
    changed = "table k.t id=1 a:int* c:int"
    (sight,) = standing(ADD, read(10, *KEEPS), read(12, "version w", changed), read(30, "version w"), read(40, *WHOLE))
    assert sight.definition is not None
    assert set(sight.definition["columns"]) == {"a", "c"}


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)], STANDS),
        # The first reading that begins after the acknowledgement is told of, and no later one.
        ([read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE), read(50, "version x", "type k.u f:int")], STANDS),
        ([read(10, *KEEPS), read(25, "version v"), read(40, *WHOLE)], []),
        ([read(10, *KEEPS), read(25, "version v"), read(26, *WHOLE), read(40, "version x", "table k.p id=3 a:int*")], [("n2", "disk", "table k.t", True, 26, 40)]),
        ([read(10, *KEEPS), read(26, "version v"), read(40, *WHOLE)], [("n2", "disk", "table k.t", True, 26, 40)]),
        # It has a row.
        ([read(10, *KEEPS), read(30, "version v"), read(40, "version w", f"{TABLE[:-7]}b:int* a:int")], []),
        # Each reading is of its own node.
        ([read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE, node="n1")], []),
        ([read(10, *KEEPS, node="n1"), read(28, "version v"), read(30, "version v", node="n1"), read(40, *WHOLE, node="n1")], []),
        # A version alone is no whole reading, unless it says what was read of the memory.
        ([read(10, *KEEPS), read(30, "version v"), read(40, "version w")], []),
        ([read(10, *KEEPS), read(30, "version v"), read(40, 'version w {"memory": "columns"}')], STANDS),
        ([read(10, *KEEPS), read(30, "version v"), read(40, 'version w {"release": "5"}')], []),
        # What could not be read is forgotten.
        ([read(10, *KEEPS), read(30, "error Timeout"), read(40, *WHOLE)], []),
        ([read(9, "error Timeout"), read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)], STANDS),
    ],
)  # fmt: skip
def test_it_is_told_of_the_first_whole_reading_that_begins_after_the_acknowledgement(readings, expected) -> None:
    assert told(ADD, *readings) == expected


@pytest.mark.parametrize("answer", ["@25 p1 n2 info Timeout", "@25 p1 n2 fail InvalidRequest: no"])
def test_what_was_not_acknowledged_is_waited_for_in_vain(answer: str) -> None:
    assert told([ADD[0], answer], read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)) == []


def test_what_if_not_exists_may_not_have_done_is_waited_for_in_vain() -> None:
    guarded = '@20 p1 n2 invoke create-table k.s a:int* {"if_not_exists": true}'
    for answer, done in (("@25 p1 n2 ok", False), ('@25 p1 n2 ok {"applied": true}', True)):
        found = told([guarded, answer], read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE))
        assert found == ([("n2", "disk", "table k.s", False, 30, 40)] if done else [])


def test_an_object_that_a_place_never_showed_is_not_there() -> None:
    missing = [("n2", "disk", "table k.s", False, 30, 40)]
    whole = [read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)]
    assert told(NEW, *whole) == missing
    # Whatever was read before, or anew, there is a row of whatever is there.
    assert told(NEW, read(10, *KEEPS), read(12, *KEEPS), *whole[1:]) == missing
    assert told([*NEW, '@30 -- info membership {"at": "heal", "members": {}}'], *whole) == missing
    # It was there once, and the client that knew of it was lost.
    shown = read(26, "version v", "table k.s id=3 a:int*")
    assert told(NEW, read(10, *KEEPS), shown, read(27, "error x"), read(30, "version v"), read(40, *WHOLE)) == []


def test_of_a_kind_that_no_reading_has_rows_of_nothing_is_told() -> None:
    types = ("@20 p1 n2 invoke create-type k.u f:int", "@25 p1 n2 ok")
    whole = [read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)]
    assert told(types, *whole) == []
    missing = [("n2", "disk", "type k.u", False, 30, 40)]
    assert told(types, *whole, read(50, "version x", "type k.p f:int", node="n3")) == missing
    assert told(types, *whole, ["settled n1 type k.p f:int"]) == missing
    # It hides no other one.
    assert told([*types, "@21 p2 n2 invoke add-column k.t d:int", "@24 p2 n2 ok"], *whole) == STANDS


def test_an_index_is_in_the_row_of_its_table_on_disk_and_has_its_own_in_memory() -> None:
    whole = [read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)]
    assert told(INDEX, *whole) == STANDS
    index = 'live k.i {"kind": "index", "statement": "CREATE INDEX i ON k.t (a)"}'
    memory = [
        read(10, f"version v {MEMORY}", LIVE, node="n1"),
        read(11, f"version v {MEMORY}", index, node="n1"),
        read(10, f"version v {MEMORY}", LIVE),
        read(30, "version v"),
        read(40, f"version w {MEMORY}"),
    ]
    assert told(INDEX, *memory) == [
        ("n2", "memory", "index k.i", False, 30, 40),
        ("n2", "memory", "table k.t", True, 30, 40),
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (MEMORY, ["memory"]),
        ('{"memory": "columns"}', []),
        ('{"memory": "statements", "memory_error": "Timeout"}', []),
        ("", []),
    ],
)
def test_a_memory_was_read_as_a_whole_if_its_statements_were(facts: str, expected: list[str]) -> None:
    readings = [read(10, f"version v {MEMORY}", LIVE), read(30, "version v"), read(40, f"version w {facts}".strip())]
    assert [side for _, side, *_ in told(ADD, *readings)] == expected


def test_what_a_reading_lists_as_it_was_known_is_of_a_client_that_knows_nothing_else() -> None:
    first = read(10, "version v", TABLE, OTHER)
    last = [read(30, "version v"), read(40, "version w", "type k.u f:int")]
    assert told(ADD, first, *last) == STANDS
    assert told(ADD, first, read(12, "version w", OTHER), *last) == []
    assert told(ADD, first, read(12, "version w", OTHER, TABLE), *last) == STANDS
    assert told(ADD, first, read(12, "version w", f"{OTHER} c:int"), *last) == STANDS, "it is another one than before"


@pytest.mark.parametrize(
    ("notes", "stands"),
    [
        ([], True),
        (['@40 -- info membership {"at": "heal", "members": {}}'], False),
        (['@41 -- info membership {"at": "heal", "members": {}}'], True),
        (['@30 -- info membership {"at": "death", "members": {}}'], False),
        ([BOOT], True),
        (['@30 -- info membership {"at": "heal", "members": {}}', '@45 -- info membership {"at": "restart", "members": {}}'], False),
        (['@30 -- info checked {"at": "heal", "members": {}}'], True),
        (['@30 -- info note {"at": "heal", "members": {}}'], True),
        (['@30 -- info zone {"at": "heal", "members": {}}'], True),
        (['@40 -- n2 invoke move {"operation": 1, "nodes": ["n2"], "becomes": {"n2": "normal"}}'], False),
        (['@41 -- n2 invoke move {"operation": 1, "nodes": ["n2"], "becomes": {"n2": "normal"}}'], True),
        (['@30 -- n1 invoke move {"operation": 1, "nodes": ["n1"], "becomes": {"n1": "normal"}}'], True),
        (['@30 -- n1 invoke move {"operation": 1, "nodes": ["n1", "n2"], "becomes": {"n1": "normal"}}'], False),
        # Sessions to it were renewed with all others before it was asked to move, or with an earlier operation.
        (['@40 -- info membership {"at": "heal", "members": {}}', '@41 -- n2 invoke move {"operation": 1, "nodes": ["n2"], "becomes": {"n2": "normal"}}'], False),
        (['@40 -- n2 invoke move {"operation": 1, "nodes": ["n2"], "becomes": {"n2": "normal"}}', '@41 -- n2 invoke move {"operation": 2, "nodes": ["n2"], "becomes": {"n2": "normal"}}'], False),
    ],
)  # fmt: skip
def test_a_client_that_may_have_been_renewed_by_the_end_of_a_reading_says_nothing(
    notes: list[str], *, stands: bool
) -> None:
    found = told([*ADD, *notes], read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE))
    assert found == (STANDS if stands else [])


def test_a_node_that_was_renewed_hides_no_object_that_is_not_there() -> None:
    heal = '@30 -- info membership {"at": "heal", "members": {}}'
    both = [*ADD, "@21 p2 n2 invoke create-table k.s a:int*", "@24 p2 n2 ok", heal]
    found = told(both, read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE))
    assert found == [("n2", "disk", "table k.s", False, 30, 40)]


def test_the_first_reading_of_a_node_begins_when_nodes_are_followed() -> None:
    early = ("@6 p1 n2 invoke create-table k.s a:int*", "@7 p1 n2 ok")
    whole = read(40, *WHOLE)
    assert told(early, whole) == []
    assert told([*early, BOOT.replace("@5", "@8")], whole) == [("n2", "disk", "table k.s", False, 8, 40)]
    assert told([*early, BOOT.replace("@5", "@7")], whole) == []


def test_changes_are_told_in_their_order_and_each_object_once() -> None:
    changes = [*ADD, *(line.replace("d:int", "e:int").replace("p1", "p2") for line in ADD), *(line.replace("p1", "p3") for line in NEW)]  # fmt: skip
    found = told(
        sorted(changes, key=lambda line: int(line[1:3])), read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE)
    )
    assert [what for _, _, what, *_ in found] == ["table k.t", "table k.s"]


def test_a_change_that_was_acknowledged_during_a_reading_waits_for_the_next_one() -> None:
    late = ("@35 p2 n2 invoke create-table k.s a:int*", "@36 p2 n2 ok")
    readings = [read(10, *KEEPS), read(30, "version v"), read(40, *WHOLE), read(50, "version x", "type k.u f:int")]
    assert told([*ADD, *late], *readings) == [*STANDS, ("n2", "disk", "table k.s", False, 40, 50)]


IN_MEMORY = [("n2", "memory", "table k.t", True, 30, 40)]


def test_a_node_that_could_not_be_read_is_forgotten_on_both_sides() -> None:
    first, last = read(10, f"version v {MEMORY}", LIVE), [read(30, "version v"), read(40, f"version w {MEMORY}")]
    assert told(ADD, first, *last) == IN_MEMORY
    assert told(ADD, first, read(28, "error Timeout"), *last) == []


def test_a_row_of_one_side_says_nothing_of_the_other() -> None:
    both = read(10, f"version v {MEMORY}", TABLE, LIVE)
    live = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, d int)"
    for shown, expected in (
        ([f"{TABLE} d:int"], IN_MEMORY),
        ([live], STANDS),
        ([f"{TABLE} d:int", live], []),
        ([], [*STANDS, *IN_MEMORY]),
    ):
        assert told(ADD, both, read(30, "version v"), read(40, f"version w {MEMORY}", *shown)) == expected
    # What one side alone had shown is not there on the other.
    new = ("@20 p1 n2 invoke create-table k.s a:int*", "@25 p1 n2 ok")
    seen = read(26, f"version v {MEMORY}", "table k.s id=3 a:int*")
    found = told(new, both, seen, read(40, f"version w {MEMORY}"))
    assert found == [("n2", "disk", "table k.s", True, 26, 40), ("n2", "memory", "table k.s", False, 26, 40)]


@pytest.mark.parametrize("before", [OTHER, "view k.w id=3 a:int*", "keyspace l"])
def test_the_version_tells_what_was_read_wherever_its_row_stands(before: str) -> None:
    first = read(10, f"version v {MEMORY}", LIVE)
    found = told(ADD, first, read(30, "version v"), read(40, before, f"version w {MEMORY}"))
    assert [one for one in found if one[1] == "memory"] == IN_MEMORY

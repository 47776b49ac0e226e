"""Reach: an unanswered change explains what the schema model says of it, where and when it may take effect, and no more."""

from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest
from histories import judged

from schemaquake.checkers.ddl_order.reach import (
    Reach,
    Reaches,
    facts_of_columns,
    facts_of_memory,
    facts_of_row,
)
from schemaquake.checkers.ddl_order.variables import ABSENT, OBJECT_KINDS, UNSET, ColumnValue, Variable
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import Live
from schemaquake.checkers.evidence.schema_changes import SchemaObject

SETUP = (
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p90 n1 invoke create-table k.t a:int* c:int",
    "@4 p90 n1 ok",
)
BOOT = tuple(f'@0 -- {node} info node-start {{"phase": "boot", "served": true}}' for node in ("n1", "n2"))
T = SchemaObject("table", "k", "t")
MS = 1_000_000


def reaches(*lines):
    return Reaches(Evidence.of(judged([*BOOT, *SETUP, *lines])))


def unanswered(change):
    return (f"@10 p0 n1 invoke {change}", "@20 p0 n1 info OperationTimedOut")


def table(columns, **definition):
    shown = {name: {"type": cql_type, "kind": "regular", "position": -1} for name, cql_type in columns.items()}
    return facts_of_row(
        T, {"id": "7", "columns": shown, "dropped_columns": {}, "options": {}, "indexes": {}} | definition
    )


BEFORE = table({"c": "int"})


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ("add-column k.t d:int", table({"c": "int", "d": "int"})),
        ("drop-column k.t c", table({}, dropped_columns={"c": {"type": "int", "dropped_time": 1}})),
        ("rename-column k.t c>b", table({"b": "int"})),
        ("alter-options k.t comment=x", table({"c": "int"}, options={"comment": "x"})),
        ("create-index k.i t c", table({"c": "int"}, indexes={"i": {"kind": "COMPOSITES", "target": "c"}})),
        ("drop-table k.t", None),
        ("drop-keyspace k", None),
    ],
)
def test_what_a_change_leads_to_is_explained_by_it(change, after):
    explained = reaches(*unanswered(change)).explain(T, [BEFORE, after, BEFORE], 30 * MS, 40 * MS)
    assert [operation.invoked for operation in explained] == [10 * MS]


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ("add-column k.t d:int", table({"c": "int", "e": "int"})),
        ("add-column k.t d:int", table({"c": "int", "d": "text"})),
        ("add-column k.t d:int", table({})),
        ("add-column k.t d:int", None),
        ("add-column k.s d:int", table({"c": "int", "d": "int"})),
        ("alter-options k.t comment=x", table({"c": "int"}, options={"comment": "y"})),
        ("alter-options k.t comment=x", table({"c": "int"}, options={"gc_grace_seconds": 1})),
        ("drop-column k.t c", table({"c": "text"})),
        ("drop-table k.t", table({})),
        ("drop-table k.s", None),
        ("alter-keyspace k", None),
        ("create-type k.t f:int", None),
    ],
)
def test_what_no_change_leads_to_is_not(change, after):
    assert reaches(*unanswered(change)).explain(T, [BEFORE, after], 30 * MS, 40 * MS) == ()


def test_a_create_of_the_keyspace_explains_no_table_that_one_node_lacks() -> None:
    asked = unanswered("create-keyspace k")
    assert reaches(*asked).explain(T, [BEFORE, None, BEFORE], 30 * MS, 40 * MS) == ()


def test_two_values_before_any_change_are_one_too_many():
    after = table({"c": "int"}, options={"comment": "x"})
    other = table({"c": "int"}, options={"comment": "z"})
    assert (
        reaches(*unanswered("alter-options k.t comment=x")).explain(T, [BEFORE, after, other], 30 * MS, 40 * MS) == ()
    )


def test_an_answered_change_reaches_nothing():
    done = reaches("@10 p0 n1 invoke add-column k.t d:int", "@20 p0 n1 ok")
    assert done.explain(T, [BEFORE, table({"c": "int", "d": "int"})], 15 * MS, 40 * MS) == ()


def test_a_change_reaches_nothing_before_it_was_asked_for():
    later = reaches(*unanswered("drop-table k.t"))
    assert later.explain(T, [BEFORE, None], 5 * MS, 9 * MS) == ()
    assert later.explain(T, [BEFORE, None], 5 * MS, 10 * MS) != ()


def test_a_change_reaches_nothing_once_every_process_that_may_have_known_of_it_has_ended():
    restarts = tuple(
        f'@{at} -- {node} info node-start {{"phase": "restart", "served": true, "seconds": 0.01}}'
        for node, at in (("n1", 60), ("n2", 90))
    )
    both = reaches(*unanswered("drop-table k.t"), *restarts)
    assert both.explain(T, [BEFORE, None], 70 * MS, 75 * MS) != ()
    assert both.explain(T, [BEFORE, None], 81 * MS, 99 * MS) == ()
    one = reaches(*unanswered("drop-table k.t"), restarts[0])
    assert one.explain(T, [BEFORE, None], 81 * MS, 99 * MS) != ()


def test_free_text_reaches_everything_in_its_keyspaces():
    text = reaches('@10 p0 n1 invoke cql {"statement": "ALTER TABLE k.t ADD z int"}', "@20 p0 n1 info timeout")
    assert text.explain(T, [BEFORE, None, table({"q": "int"})], 30 * MS, 40 * MS) != ()
    assert text.explain(SchemaObject("table", "other", "t"), [BEFORE, None], 30 * MS, 40 * MS) != ()  # it has no key


def test_a_create_explains_no_other_id_of_a_table_that_is_there_unless_a_drop_may_have_come_before() -> None:
    other = table({"c": "int"}, id="8")
    create = unanswered("create-table k.t a:int* c:int")
    assert reaches(*create).explain(T, [BEFORE, other], 30 * MS, 40 * MS) == ()
    drop = [line.replace("p0", "p1") for line in unanswered("drop-table k.t")]
    assert reaches(*create, *drop).explain(T, [BEFORE, other], 30 * MS, 40 * MS) != ()
    assert reaches(*create).explain(T, [None, BEFORE], 30 * MS, 40 * MS) != ()


@pytest.mark.parametrize("change", ["drop-index k.i", "drop-table k.t", "drop-column k.t c", "drop-keyspace k"])
def test_an_index_goes_by_itself_or_with_what_it_is_on(change):
    index = SchemaObject("index", "k", "i")
    shown = {("index", ""): {"table": "t", "target": "c"}}
    created = ("@5 p8 n1 invoke create-index k.i t c", "@6 p8 n1 ok")
    found = reaches(*created, *unanswered(change))
    assert found.explain(index, [shown, None], 30 * MS, 40 * MS) != ()
    assert found.touching(index, 30 * MS, 40 * MS) != ()
    assert reaches(*created, *unanswered("drop-table k.s")).explain(index, [shown, None], 30 * MS, 40 * MS) == ()


def test_equal_sides_need_no_explanation():
    assert reaches(*unanswered("drop-table k.t")).explain(T, [BEFORE, BEFORE], 30 * MS, 40 * MS) == ()


def test_names_of_columns_are_enough():
    sides = (facts_of_columns(["c"]), facts_of_columns(["c", "d"]))
    assert reaches(*unanswered("add-column k.t d:int")).explain(T, sides, 30 * MS, 40 * MS) != ()
    assert reaches(*unanswered("add-column k.t e:int")).explain(T, sides, 30 * MS, 40 * MS) == ()


def read(phase, *, nodes="n1,n2", gone=False, columns="a:int* c:int", **definition):
    lines = [f"{phase} {nodes} keyspace k"]
    return lines if gone else [*lines, f"{phase} {nodes} table k.t id=7 {columns} {orjson.dumps(definition).decode()}"]


DECIDED = {
    "drop-table k.t": (read("settled"), read("settled", gone=True), None),
    "add-column k.t d:int": (
        read("settled"),
        read("settled", columns="a:int* c:int d:int"),
        table({"c": "int", "d": "int"}),
    ),
    "alter-options k.t comment=x": (
        read("settled", options={"comment": "old"}),
        read("settled", options={"comment": "x"}),
        table({"c": "int"}, options={"comment": "x"}),
    ),
}
EARLY, LATE = (30 * MS, 40 * MS), (15_000 * MS, 16_000 * MS)


@pytest.mark.parametrize("change", DECIDED)
def test_a_final_reading_decides_when_a_change_may_take_effect(change: str) -> None:
    not_yet, taken, after = DECIDED[change]

    def explains(observations, interval) -> bool:
        evidence = Evidence.of(judged([*BOOT, *SETUP, *unanswered(change)], observations))
        return bool(Reaches(evidence).explain(T, [BEFORE, after], *interval))

    assert explains((), EARLY)
    assert explains((), LATE)
    assert (explains(not_yet, EARLY), explains(not_yet, LATE)) == (False, True)
    assert (explains(taken, EARLY), explains(taken, LATE)) == (True, False)
    # One node of two decides nothing, and neither does a reading in which another one is missing.
    half = [line.replace("n1,n2", "n1") for line in taken] + [line.replace("n1,n2", "n2") for line in not_yet]
    unread = [line.replace("n1,n2", "n1") for line in taken] + ["settled n2 error NoHostAvailable"]
    for open_ones in (half, unread):
        assert explains(open_ones, EARLY)
        assert explains(open_ones, LATE)


def decided(*readings: Sequence[str]) -> tuple[bool | None, int, int | None]:
    """What readings decide of ADD d, asked at 10 ms, and within which time (ms) it may take effect."""
    lines = [*BOOT, *SETUP, *unanswered("add-column k.t d:int")]
    evidence = Evidence.of(judged(lines, [line for reading in readings for line in reading]))
    (reach,) = Reaches(evidence).of("k")
    return reach.decided, reach.begins // MS, None if reach.ends is None else reach.ends // MS


def test_each_final_reading_by_itself_decides_of_a_change() -> None:
    with_d, unread = "a:int* c:int d:int", ["settled n1 keyspace k", "settled n2 error NoHostAvailable"]
    half = [*read("settled", nodes="n1"), *read("settled", nodes="n2", columns=with_d)]
    assert decided() == (None, 10, None)
    assert decided(read("settled")) == (False, 10_000, None)
    assert decided(half) == (None, 10, None)
    assert decided(read("settled", columns=with_d)) == (True, 10, 10_000)
    assert decided(read("settled"), read("restarted")) == (False, 20_000, None)
    assert decided(read("settled"), read("restarted", columns=with_d)) == (True, 10_000, 20_000)
    assert decided(unread, read("restarted")) == (False, 20_000, None), (
        "what was not read before the restart was after it"
    )
    assert decided(read("settled"), ["restarted n2 error NoHostAvailable"]) == (False, 10_000, None)
    assert decided(unread) == (None, 10, None)


def test_a_reading_decides_nothing_of_a_change_that_another_one_may_have_undone() -> None:
    lines = [*BOOT, *SETUP, *unanswered("alter-options k.t comment=x"), "@11 p7 n2 invoke alter-options k.t comment=y"]
    evidence = Evidence.of(judged(lines, read("settled", options={"comment": "x"})))
    after = table({"c": "int"}, options={"comment": "x"})
    assert Reaches(evidence).explain(T, [BEFORE, after], *LATE)


PARTS = {
    "a column that was dropped": ("add-column k.t d:int", "drop-column k.t d"),
    "a column that was renamed": ("add-column k.t d:int", "rename-column k.t d>f"),
    "an option that was set again": ("alter-options k.t comment=x", "alter-options k.t comment=old"),
}


@pytest.mark.parametrize(("change", "undone_by"), PARTS.values(), ids=PARTS)
def test_a_reading_decides_nothing_of_a_part_that_was_set_once_more(change: str, undone_by: str) -> None:
    not_yet, _, after = DECIDED[change]

    def explains(*more: str) -> bool:
        evidence = Evidence.of(judged([*BOOT, *SETUP, *unanswered(change), *more], not_yet))
        return bool(Reaches(evidence).explain(T, [BEFORE, after], *EARLY))

    assert not explains()
    assert explains(f"@31 p7 n2 invoke {undone_by}", "@32 p7 n2 ok")
    assert not explains(f"@31 p7 n2 invoke {undone_by}", "@32 p7 n2 fail InvalidRequest: no")
    assert not explains("@31 p7 n2 invoke drop-column k.t c", "@32 p7 n2 ok"), "another part"


ADDED, INDEXED = table({"c": "int", "d": "int"}), table({"c": "int"}, indexes={"i": {"kind": "K", "target": "c"}})
WITH_X, WITH_Y = (table({"c": "int"}, options={"comment": comment}) for comment in "xy")
READ = read("settled")
ANEW = ("drop-table k.t", "create-table k.t a:int* c:int")
UNDONE = {
    "a column was dropped again": ("add-column k.t d:int", ["drop-column k.t d"], READ, ADDED),
    "a column was added again": ("drop-column k.t c", ["add-column k.t c:int"], READ, table({})),
    "a column got another name": ("add-column k.t d:int", ["rename-column k.t d>e"], READ, ADDED),
    "an option was set otherwise": (
        "alter-options k.t comment=x",
        ["alter-options k.t comment=y"],
        read("settled", options={"comment": "y"}),
        WITH_X,
    ),
    "the table was made anew": ("add-column k.t d:int", ANEW, READ, ADDED),
    "the table was created again": ("drop-table k.t", ANEW[1:], READ, None),
    "an index was dropped": ("create-index k.i t c", ["drop-index k.i"], READ, INDEXED),
    "an index went with its column": ("create-index k.i t c", ["drop-column k.t c"], READ, INDEXED),
}
LEFT_ALONE = {
    "another column was added": ("add-column k.t d:int", ["add-column k.t e:int"]),
    "another option was set": ("add-column k.t d:int", ["alter-options k.t comment=y"]),
    "a column was added to the table of an index": ("create-index k.i t c", ["add-column k.t d:int"]),
    "the column of an index got another name": ("create-index k.i t c", ["rename-column k.t c>b"]),
    "the table was dropped again": ("drop-table k.t", ["drop-table k.t"]),
    "another table was created": ("drop-table k.t", ["create-table k.u a:int*"]),
}


def explains(change: str, later: Sequence[str], after: object, readings: Sequence[str], *, begins: int = 30) -> bool:
    """Whether `change`, asked at 10 ms, is why a node showed `after` in the meantime; the later ones were acknowledged."""
    at = range(begins, begins + 10 * len(later), 10)
    lines = [
        line for t, f in zip(at, later, strict=True) for line in (f"@{t} p{t} n2 invoke {f}", f"@{t + 5} p{t} n2 ok")
    ]
    evidence = Evidence.of(judged([*BOOT, *SETUP, *unanswered(change), *lines], readings))
    return bool(Reaches(evidence).explain(T, [BEFORE, after], 20 * MS, 25 * MS))


@pytest.mark.parametrize(("change", "later", "readings", "after"), UNDONE.values(), ids=UNDONE)
def test_a_reading_does_not_tell_that_a_change_came_to_nothing_if_it_may_have_been_undone_before(
    change: str, later: Sequence[str], readings: Sequence[str], after: object
) -> None:
    assert explains(change, later, after, readings)
    assert not explains(change, (), after, READ)


@pytest.mark.parametrize(("change", "later"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_a_reading_tells_that_a_change_came_to_nothing_whatever_else_was_done(change: str, later: list[str]) -> None:
    after = INDEXED if "index" in change else None if change.startswith("drop") else ADDED
    assert not explains(change, later, after, READ)


@pytest.mark.parametrize(("answered", "undone"), [(10, False), (11, True)])
def test_what_had_ended_when_a_change_was_asked_for_undid_nothing_of_it(answered: int, *, undone: bool) -> None:
    again = ["@8 p7 n2 invoke create-table k.t a:int* c:int", f"@{answered} p7 n2 ok"]
    evidence = Evidence.of(
        judged([*BOOT, *SETUP, *again[:1], *unanswered("drop-table k.t")[:1], *again[1:], "@20 p0 n1 info no"], READ)
    )
    assert bool(Reaches(evidence).explain(T, [BEFORE, None], 20 * MS, 25 * MS)) is undone


def test_a_rename_takes_its_column_along_in_the_order_of_rows_and_in_the_condition_of_views() -> None:
    table, view = SchemaObject("table", "k", "t"), SchemaObject("view", "k", "m")
    sides = {
        table: "CREATE TABLE k.t (a int, {0} int, PRIMARY KEY (a, {0})) WITH CLUSTERING ORDER BY ({0} {1})",
        view: "CREATE MATERIALIZED VIEW k.m AS SELECT * FROM k.t WHERE a IS NOT NULL AND {0} IS NOT NULL "
        "PRIMARY KEY ({0}, a) WITH CLUSTERING ORDER BY (a {1})",
    }
    history = (
        "@1 p1 n1 invoke create-table k.t a:int* b:int+",
        "@2 p1 n1 ok",
        '@3 p1 n1 invoke create-view k.m {"base": "t", "primary_key": ["b", "a"]}',
        "@4 p1 n1 ok",
        "@5 p2 n1 invoke rename-column k.t b>e",
        "@6 p2 n1 info Timeout",
    )
    known = Reaches(Evidence.of(judged(list(history))))
    for subject, statement in sides.items():
        shown = [
            facts_of_memory(subject, Live(subject.kind, statement.format(*words)))
            for words in (("b", "ASC"), ("e", "ASC"), ("b", "DESC"))
        ]
        assert known.explain(subject, shown[:2], 0, 10**9) != ()
        assert known.explain(subject, shown[::2], 0, 10**9) == ()


# ── one reach by itself ──────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = Variable("relation", "k", "t")
KEYSPACE = SchemaObject("keyspace", "k", "")


def reach(results, *, begins=0, ends=None, **more) -> Reach:
    (operation, *_) = Evidence.of(judged([*BOOT, *SETUP, *unanswered("drop-table k.t")])).changes.all
    return Reach(operation, begins, ends, results, **more)


def test_a_reach_lasts_from_its_first_moment_to_its_last() -> None:
    known = reach({}, begins=5, ends=10)
    assert [known.during(*times) for times in ((0, 4), (0, 5), (7, 8), (10, 20), (11, 20))] == [
        *(False, True),
        *(True, True),
        False,
    ]
    assert reach({}, begins=5).during(10**18, 10**18)


def test_what_is_not_known_touches_everything_and_what_does_nothing_nothing() -> None:
    assert reach({}, everything=True).touches(T)
    assert not reach({}).touches(T)
    assert not reach({WHOLE: ("table",)}).touches(SchemaObject("table", "k", "u"))
    comment = Variable("option", "k", "t", "comment")
    assert not reach({comment: '"x"'}).touches(T)
    assert reach({comment: '"x"'}).touches(T, [("option", "comment")])
    assert not reach({comment: '"x"'}).touches(T, [("option", "caching")])


def test_the_parts_of_an_object_are_those_of_no_other() -> None:
    column = ColumnValue("int", "regular")
    results = {
        Variable(kind, keyspace, name, part): column
        for kind, part in (("column", "a"), ("option", "comment"), ("relation", ""), ("index", ""))
        for keyspace, name in (("k", "s"), ("k", "t"), ("k", "u"), ("j", "t"), ("l", "t"))
    }
    assert reach(results).parts_of(T) == [("column", "a"), ("option", "comment")]


def test_an_object_goes_with_its_keyspace_and_its_parts_do_not_go_alone() -> None:
    gone = reach({Variable("keyspace", "k"): ABSENT})
    for kind in ("table", "view", "type", "function", "index"):
        assert gone.leads_to(SchemaObject(kind, "k", "t"), (OBJECT_KINDS[kind], ""), None)
        assert not gone.creates(SchemaObject(kind, "k", "t"))
    assert not gone.touches(SchemaObject("table", "j", "t"))
    assert not gone.leads_to(T, ("column", "a"), None), "the table went, and not one column of it"
    assert not gone.leads_to(KEYSPACE, ("replication", ""), None)
    assert not gone.leads_to(T, ("relation", ""), {"is": "there"})


def test_an_object_comes_with_its_parts_and_no_object_comes_with_a_keyspace() -> None:
    made = reach({WHOLE: ("table",), Variable("keyspace", "k"): "keyspace"})
    assert made.creates(T)
    assert made.leads_to(T, ("column", "a"), ["columns", {"type": "int"}])
    assert not made.leads_to(T, ("column", "a"), None)
    assert made.leads_to(T, ("relation", ""), {"is": "there"})
    assert made.changes_whole(T)
    assert not made.changes_whole(SchemaObject("table", "k", "u"))
    assert not made.touches(SchemaObject("table", "k", "u"))


def test_the_reach_of_a_change_is_found_by_the_change_itself() -> None:
    lines = [
        *unanswered("add-column k.t d:int"),
        "@11 p1 n1 invoke add-column k.t e:int",
        "@21 p1 n1 info OperationTimedOut",
        "@12 p2 n1 invoke add-column k.t f:int",
        "@22 p2 n1 ok",
        '@13 p3 n1 invoke cql k.t {"statement": "ALTER TABLE k.t ADD z int"}',
        "@23 p3 n1 info OperationTimedOut",
        '@14 p4 n1 invoke cql k.t {"statement": "ALTER TABLE k.t ADD y int"}',
        "@24 p4 n1 ok",
    ]
    evidence = Evidence.of(judged([*BOOT, *SETUP, *sorted(lines, key=lambda line: int(line[1:].split()[0]))]))
    known = Reaches(evidence)
    found = {change.invoked // MS: known.find(change) for change in evidence.changes.all}
    assert [time for time, each in found.items() if each is not None] == [10, 11]
    for time in (10, 11):
        assert found[time] is not None
        assert found[time].operation.invoked == time * MS
    assert known.find(replace(evidence.changes.all[0], argument=None)) is None
    assert [each.operation.invoked // MS for each in known.of("k")] == [10, 11, 13], "what was acknowledged is no reach"
    assert [change.invoked // MS for change in known.any_during(0, 11 * MS)] == [10, 11]
    assert [change.invoked // MS for change in known.any_during(0, 10 * MS)] == [10]
    assert [change.invoked // MS for change in known.touching(T, 0, 99 * MS)] == [13]


def ends(*lines: str) -> int | None:
    """The time (ms) by which every process that may have known of ADD d, asked through n1 at 10 ms, had ended."""
    ordered = sorted(
        [*BOOT, *SETUP, *unanswered("add-column k.t d:int"), *lines], key=lambda at: int(at[1:].split()[0])
    )
    (known,) = Reaches(Evidence.of(judged(ordered))).of("k")
    return None if known.ends is None else known.ends // MS


def start(node: str, at: int, phase: str = "restart") -> str:
    return f'@{at} -- {node} info node-start {{"phase": "{phase}", "served": true, "seconds": 0.01}}'


def death(node: str, at: int) -> str:
    return f'@{at} -- {node} info node-died {{"exit_code": 1}}'


def test_every_process_has_ended_when_the_last_node_died_or_was_started_again() -> None:
    assert ends() is None
    assert ends(start("n1", 60), start("n2", 90)) == 80
    assert ends(start("n2", 60), start("n1", 90)) == 80
    assert ends(start("n1", 60), start("n1", 90), start("n2", 65)) == 55, "the first start of a node ends what it knew"
    assert ends(death("n1", 40), death("n2", 45)) == 45
    assert ends(death("n1", 40), start("n1", 60), start("n2", 50)) == 40
    assert ends(start("n1", 60), death("n1", 70), start("n2", 50)) == 50
    assert ends(death("n1", 40), death("n1", 90), death("n2", 30)) == 40
    assert ends(death("n1", 40), death("n2", 45), death("n3", 50)) == 45, "no note tells of a server of n3"
    assert ends(death("n1", 40)) is None
    assert ends(death("n2", 40)) is None, "the coordinator lives"


def test_what_ended_before_a_change_was_asked_for_ended_nothing_of_it() -> None:
    late = [start("n2", 90)]
    assert ends(death("n1", 9), *late) is None
    assert ends(death("n1", 10), *late) is None
    assert ends(death("n1", 11), *late) == 80
    assert ends(start("n1", 9), *late) is None
    assert ends(start("n1", 20), *late) is None, "that process began when the change was asked for"
    assert ends(start("n1", 21), *late) == 80
    assert ends(start("n1", 60, "boot"), *late) is None


def test_a_reading_that_shows_a_change_ends_no_later_what_had_ended_before() -> None:
    lines = [*BOOT, *SETUP, *unanswered("add-column k.t d:int"), start("n1", 60), start("n2", 90)]
    (known,) = Reaches(Evidence.of(judged(lines, read("settled", columns="a:int* c:int d:int")))).of("k")
    assert (known.decided, known.ends) == (True, 80 * MS)


@pytest.mark.parametrize(("shown", "is_explained"), [("2", False), ("3", True), ("4", False)])
def test_a_replication_factor_is_explained_by_the_change_that_asks_for_it(*, shown: str, is_explained: bool) -> None:
    before, after = (
        facts_of_row(KEYSPACE, {"replication": {"class": "SimpleStrategy", "replication_factor": factor}})
        for factor in ("1", shown)
    )
    found = reaches(*unanswered("alter-keyspace k")).explain(KEYSPACE, [before, after], 30 * MS, 40 * MS)
    assert bool(found) is is_explained


def leads(kind: str, wanted: object, *values: object) -> list[bool]:
    """Whether a change that gives part `a` of k.t this value may make it read as each of these."""
    known = reach({Variable(kind, "k", "t", "a"): wanted})
    return [known.leads_to(T, (kind, "a"), value) for value in values]


def test_a_column_reads_as_its_type_says_or_as_dropped() -> None:
    there, dropped = ["columns", {"type": "int"}], ["dropped_columns", {"type": "int"}]
    shown = ([there], [dropped, there], [["columns", {"type": "text"}]], None)
    assert leads("column", ColumnValue("int", None), *shown) == [True, True, False, False]
    assert leads("column", ColumnValue(None, None), *shown) == [True, True, True, False], "a RENAME leaves it open"
    assert leads("column", ColumnValue("int", None), [["columns", {"type": "org.apache.cassandra.X"}]]) == [True]
    assert leads("column", ColumnValue("int", None), True, [dropped]) == [True, True], "no type is shown"
    another, order = ["dropped_columns", {"type": "text"}], ["clustering_order", "ASC"]
    for beside in ([another, there], [order, there], [[], there]):
        assert leads("column", ColumnValue("int", None), beside) == [True]
        assert leads("column", ColumnValue("text", None), beside) == [False]
    assert leads("column", ABSENT, [["where_clause", "is not null"]], [order]) == [False, False]
    assert leads("column", ABSENT, None, [dropped], [dropped, dropped], [there], [dropped, there], [[]], True) == [
        *(True, True, True),
        *(False, False, False, False),
    ]


def test_an_option_and_a_field_read_as_they_were_asked_for() -> None:
    assert leads("option", '"x"', "x", "y", None) == [True, False, False]
    assert leads("option", UNSET, "x", "y", None) == [True, True, False]
    assert leads("option", '{"class": "A"}', {"class": "A"}, {"class": "B"}) == [True, False]
    assert leads("field", "int", "int", "INT", "text", "bigint", ["int"], None) == [
        *(True, True),
        *(False, False),
        *(True, False),
    ]
    for word in ("keyspace", "type", "renamed", "unknown"):
        assert leads("field", word, "int", None) == [True, False]
    assert leads("replication", "3", {"replication_factor": 3}, {"replication_factor": "2"}, {"dc1": 3}) == [
        *(True, False),
        False,
    ]


def test_facts_are_the_parts_of_what_a_disk_shows() -> None:
    row = {
        "id": "7",
        "columns": {"c": {"type": "int"}},
        "dropped_columns": {"c": {"type": "text"}, "d": {"type": "int"}},
        "options": {"comment": "x", "clustering_order": {"b": "ASC"}},
        "indexes": {"i": {"kind": "K"}},
    }
    assert facts_of_row(T, orjson.loads(orjson.dumps(row))) == {
        ("column", "c"): [["columns", {"type": "int"}], ["dropped_columns", {"type": "text"}]],
        ("column", "d"): [["dropped_columns", {"type": "int"}]],
        ("column", "b"): [["clustering_order", "ASC"]],
        ("option", "comment"): "x",
        ("index", "i"): {"kind": "K"},
        ("relation", ""): {"id": "7"},
    }
    maps = {"caching": {"keys": "ALL"}, "compaction": {"class": "X"}, "clustering_order": "b", "zone": "a IS NOT NULL"}
    assert facts_of_row(T, {"options": maps}) == {
        **{("option", name): value for name, value in maps.items()},
        ("relation", ""): {},
    }
    replication = {"class": "SimpleStrategy"}
    assert facts_of_row(KEYSPACE, {"replication": replication, "durable_writes": True}) == {
        ("replication", ""): replication,
        ("keyspace", ""): {"durable_writes": True},
    }
    assert facts_of_row(SchemaObject("type", "k", "u"), [["f", "int"]]) == {("field", "f"): "int"}
    assert facts_of_row(SchemaObject("function", "k", "f"), {"body": "x"}) == {("routine", ""): {"body": "x"}}
    assert facts_of_row(T, None) is None
    assert facts_of_row(T, {"id": "7", "columns": None, "dropped_columns": None, "options": None, "indexes": None}) == {
        ("relation", ""): {"id": "7"}
    }


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ('a IS NOT NULL AND "b" is not null', ["a", "b"]),
        ("a IS NOT NULL", ["a"]),
        ("a IS NOT NULL AND b > 1", []),
        ("b > 1", []),
    ],
)
def test_a_condition_is_that_of_its_columns_if_it_says_no_more(condition: str, columns: list[str]) -> None:
    view = SchemaObject("view", "k", "m")
    facts = facts_of_row(view, orjson.loads(orjson.dumps({"options": {"where_clause": condition}})))
    expected = {("column", name): [["where_clause", "is not null"]] for name in columns}
    assert facts == {**(expected or {("option", "where_clause"): condition}), ("relation", ""): {}}
    assert facts_of_row(view, {"options": {"comment": "a IS NOT NULL"}}) == {
        ("option", "comment"): "a IS NOT NULL",
        ("relation", ""): {},
    }


def test_facts_of_a_memory_are_those_of_its_statement() -> None:
    assert facts_of_memory(T, None) is None
    assert facts_of_memory(T, Live("table", "no statement")) == {("relation", ""): "no statement"}
    assert facts_of_memory(T, Live("table", columns={"a": "int"})) == {("column", "a"): "int"}
    type_u = SchemaObject(orjson.loads('"type"'), "k", "u")
    assert facts_of_memory(type_u, Live("type", "CREATE TYPE k.u (f int)")) == {("field", "f"): "int"}


def decided_beside(*lines: str, change: str = "add-column k.t d:int", shown: Sequence[str] = READ) -> bool | None:
    """What a settled reading decides of a change of unknown outcome, asked at 10 ms, beside others."""
    evidence = Evidence.of(judged([*BOOT, *SETUP, *unanswered(change), *lines], shown))
    return next(each for each in Reaches(evidence).of("k") if each.operation.invoked == 10 * MS).decided


def test_a_change_that_may_take_effect_after_a_reading_began_leaves_it_open() -> None:
    other = "alter-options k.t comment=y"
    assert decided_beside(f"@30 p5 n2 invoke {other}", "@40 p5 n2 ok") is False
    assert decided_beside(f"@30 p5 n2 invoke {other}", "@40 p5 n2 info Timeout") is None
    assert decided_beside(f"@30 p5 n2 invoke {other}") is None
    assert decided_beside(f"@30 p5 n2 invoke {other}", "@9999 p5 n2 ok") is False
    assert decided_beside(f"@30 p5 n2 invoke {other}", "@10000 p5 n2 ok") is None
    assert decided_beside(f"@30 p5 n2 invoke {other}", "@10001 p5 n2 ok") is None
    text = '@30 p5 n2 invoke cql k.t {"statement": "ALTER TABLE k.t ADD z int"}'
    assert decided_beside(text, "@40 p5 n2 ok") is None


def test_parts_leave_open_whether_their_object_was_dropped_only_if_it_may_be_another() -> None:
    drop = "drop-table k.t"
    assert decided_beside("@30 p5 n2 invoke alter-options k.t comment=y", change=drop) is False
    assert decided_beside("@30 p5 n2 invoke create-table k.t a:int*", change=drop) is None
    index = "create-index k.i t c"
    assert decided_beside(change=index) is False
    assert decided_beside("@30 p5 n2 invoke drop-column k.t c", change=index) is None
    assert decided_beside("@30 p5 n2 invoke drop-column k.u c", change=index) is False


def test_an_index_is_there_if_a_table_of_its_own_keyspace_shows_it() -> None:
    index, own = "create-index k.i t c", read("settled", indexes={"i": {"kind": "K", "target": "c"}})
    other = [
        line
        for keyspace in ("j", "l")
        for line in (
            f"settled n1,n2 keyspace {keyspace}",
            f'settled n1,n2 table {keyspace}.t id=8 a:int* {{"indexes": {{"i": {{"kind": "K", "target": "a"}}}}}}',
        )
    ]
    assert decided_beside(change=index, shown=own) is True
    assert decided_beside(change=index, shown=[*READ, *other]) is False


def test_a_function_is_looked_for_among_functions() -> None:
    made = [
        '@5 p8 n1 invoke create-function k.f {"arguments": [], "returns": "int", "language": "java", "body": "return 1;"}',
        "@6 p8 n1 ok",
    ]
    assert decided_beside(*made, change="drop-function k.f", shown=[*READ, "settled n1,n2 function k.f"]) is False
    assert decided_beside(*made, change="drop-function k.f") is True


def test_a_replication_that_was_set_once_more_is_not_decided() -> None:
    change = 'alter-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 5}}'
    assert decided_beside(change=change) is False
    assert decided_beside("@30 p5 n2 invoke alter-keyspace k", "@40 p5 n2 ok", change=change) is None


def test_a_change_of_two_parts_of_which_one_is_shown_is_not_decided() -> None:
    change = 'alter-options k.t {"options": {"comment": "x", "gc_grace_seconds": 5}}'
    for options, expected in (
        ({"comment": "x", "gc_grace_seconds": 5}, True),
        ({"comment": "", "gc_grace_seconds": 1}, False),
        ({"comment": "x", "gc_grace_seconds": 1}, None),
    ):
        assert decided_beside(change=change, shown=read("settled", options=options)) is expected
    assert decided_beside(change=change, shown=read("settled", gone=True)) is None


def test_columns_of_a_table_come_to_its_views_and_nothing_else_does() -> None:
    view = SchemaObject("view", "k", "m")
    made = ('@5 p8 n1 invoke create-view k.m {"base": "t", "primary_key": ["c", "a"]}', "@6 p8 n1 ok")
    plain, added = facts_of_columns(["a", "c"]), facts_of_columns(["a", "c", "d"])

    def explained(change: str, *sides: object) -> bool:
        return bool(reaches(*made, *unanswered(change)).explain(view, sides, 30 * MS, 40 * MS))

    assert explained("add-column k.t d:int", plain, added)
    assert not explained("add-column k.u d:int", plain, added)
    commented = [{("option", "comment"): text} for text in ("", "x")]
    assert not explained("alter-options k.t comment=x", *commented)

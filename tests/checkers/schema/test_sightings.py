"""Sightings: a node may be behind, but shows nothing before its time, nothing that nobody asked for, and never goes back."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from histories import judged
from hypothesis import given
from perfect_cluster import runs

from schemaquake.checkers.schema.sightings import Sightings
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

SETUP = (
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p91 n1 invoke create-type k.u f0:int f1:text",
    "@4 p91 n1 ok",
    '@5 p92 n1 invoke create-table k.t a:int* c:int {"options": {"comment": "x"}}',
    "@6 p92 n1 ok",
)
ADD = ("@20 p1 n2 invoke add-column k.t d:int", "@25 p1 n2 ok")
SET = ("@20 p1 n2 invoke alter-options k.t comment=y", "@25 p1 n2 ok")
FIELD = ("@20 p1 n2 invoke add-field k.u f2:int", "@25 p1 n2 ok")
INDEX = ("@20 p1 n2 invoke create-index k.i t c", "@25 p1 n2 ok")
DROP = ("@20 p1 n2 invoke drop-table k.t", "@25 p1 n2 ok")
NEW = ("@20 p1 n2 invoke create-table k.s a:int*", "@25 p1 n2 ok")
RESTART = ('@30 -- n2 info node-start {"phase": "fault", "served": true, "seconds": 0.001}',)
FINAL = (
    "settled n1,n2,n3 keyspace k",
    "settled n1,n2,n3 type k.u f0:int f1:text",
    "settled n1,n2,n3 table k.t id=1 a:int* c:int",
)


def table(*columns: str, comment: str = "x", **more: object) -> str:
    return f"table k.t id=1 {' '.join(columns)} {orjson.dumps({'options': {'comment': comment}, **more}).decode()}"


def at(line: str) -> int:
    return int(line[1:].split(" ", 1)[0])


def verdict(history: Sequence[str], sightings: Sequence[str]) -> Verdict:
    return Sightings().check(judged([*SETUP, *history], [*FINAL, *sightings]), limit_s=5)


def found(history: Sequence[str], sightings: Sequence[str]) -> list[Anomaly]:
    answer = verdict(history, sightings)
    assert answer.valid is not bool(answer.anomalies), answer.reason
    return list(answer.anomalies)


WHOLE = ("a:int*", "c:int")
MORE = ("a:int*", "c:int", "d:int")
AGAIN = (
    "@20 p1 n2 invoke create-table k.s a:int* c:int q:int",
    "@21 p1 n2 ok",
    '@22 p1 n2 invoke create-view k.m {"base": "s", "primary_key": ["c", "a"]}',
    "@23 p1 n2 ok",
    "@24 p1 n2 invoke drop-view k.m",
    "@25 p1 n2 ok",
    '@26 p1 n2 invoke create-view k.m {"base": "t", "primary_key": ["c", "a"]}',
    "@27 p1 n2 ok",
)
"""A view on one table, and then on another one that lacks a column."""


def view(base: str, *others: str) -> str:
    key = {
        "c": ("int", "partition_key", 0),
        "a": ("int", "clustering", 0),
        **dict.fromkeys(others, ("int", "regular", -1)),
    }
    columns = {name: dict(zip(("type", "kind", "position"), column, strict=True)) for name, column in key.items()}
    return f"view k.m id=3 {orjson.dumps({'columns': columns, 'base_table_name': base}).decode()}"


INDEXED = {"indexes": {"i": {"kind": "COMPOSITES", "target": "c"}}}

UNEXPLAINED = {
    "a column before its ADD began": (ADD, [f"@19 running n1 {table(*MORE)}"]),
    "a column that nobody added": ((), [f"@19 running n1 {table(*MORE)}"]),
    "a column of another type": (ADD, [f"@22 running n1 {table('a:int*', 'c:int', 'd:text')}"]),
    "a column that the CREATE declares is missing": (ADD, [f"@22 running n1 {table('a:int*', 'd:int')}"]),
    "an option before its ALTER began": (SET, [f"@19 running n1 {table(*WHOLE, comment='y')}"]),
    "a field before its ADD began": (FIELD, ["@19 running n3 type k.u f0:int f1:text f2:int"]),
    "fields out of their order": (FIELD, ["@22 running n3 type k.u f1:text f0:int"]),
    "a field of another type": (FIELD, ["@22 running n3 type k.u f0:text f1:text"]),
    "a field that the CREATE declares is missing": (FIELD, ["@22 running n3 type k.u f0:int"]),
    "an index before its CREATE began": (INDEX, [f"@19 running n2 {table(*WHOLE, **INDEXED)}"]),
    "an index on another column": (
        INDEX,
        [f"@22 running n2 {table(*WHOLE, indexes={'i': {'kind': 'COMPOSITES', 'target': 'a'}})}"],
    ),
    "a table before its CREATE began": (NEW, ["@19 running n3 table k.s id=2 a:int*"]),
    "a table that nobody created": ((), ["@19 running n3 table k.s id=2 a:int*"]),
    "a table that was refused": (
        ("@20 p1 n2 invoke create-table k.s a:int*", "@25 p1 n2 fail InvalidRequest: no"),
        ["@30 running n3 table k.s id=2 a:int*"],
    ),
    "a table that is gone before its DROP began": (
        DROP,
        [f"@10 running n3 {table(*WHOLE)}", "@19 running n3 table k.t gone"],
    ),
    "an index that is gone and was never dropped": (
        INDEX,
        [f"@30 running n3 {table(*WHOLE, **INDEXED)}", f"@40 running n3 {table(*WHOLE)}"],
    ),
    "another replication": (
        (),
        ['@19 running n3 keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": "2"}}'],
    ),
    "writes that are not durable": ((), ['@19 running n3 keyspace k {"durable_writes": false}']),
    "a dropped column that nobody dropped": (
        (),
        [f"@19 running n3 {table(*WHOLE, dropped_columns={'z': {'type': 'int', 'dropped_time': 1}})}"],
    ),
    "another column in memory": ((), ["@19 running n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c text)"]),
    "a view without a column of the table that it is on": (AGAIN, [f"@28 running n2 {view('s')}"]),
    "a view with a column of a table that it is not on": (AGAIN, [f"@28 running n2 {view('t', 'q')}"]),
    "another name in memory": ((), ["@19 running n3 live k.t CREATE TABLE k.s (a int PRIMARY KEY, c int)"]),
}
LEGAL = {
    "a column from the begin of its ADD on": (ADD, [f"@20 running n1 {table(*MORE)}"]),
    "a column that is not there yet elsewhere": (ADD, [f"@90 running n1 {table(*WHOLE)}"]),
    "a column of an ADD that was never answered": (
        ("@20 p1 n2 invoke add-column k.t d:int", "@25 p1 n2 info Timeout"),
        [f"@30 running n1 {table(*MORE)}", f"@40 running n3 {table(*WHOLE)}"],
    ),
    "an option while its ALTER is under way": (
        SET,
        [f"@21 running n1 {table(*WHOLE, comment='y')}", f"@22 running n2 {table(*WHOLE)}"],
    ),
    "a field at the end": (FIELD, ["@22 running n3 type k.u f0:int f1:text f2:int"]),
    "an index, and no index yet": (
        INDEX,
        [f"@22 running n2 {table(*WHOLE, **INDEXED)}", f"@50 running n3 {table(*WHOLE)}"],
    ),
    "a table while its CREATE is under way": (NEW, ["@21 running n3 table k.s id=2 a:int*"]),
    "a table while its DROP is under way": (
        DROP,
        [f"@10 running n3 {table(*WHOLE)}", "@21 running n3 table k.t gone"],
    ),
    "a table that is still there elsewhere": (DROP, [f"@90 running n3 {table(*WHOLE)}"]),
    "columns without the row of their table": ((), ["@19 running n3 table k.t a:int* c:int"]),
    "a view of each of the tables that it was on": (
        AGAIN,
        [f"@24 running n2 {view('s', 'q')}", f"@28 running n2 {view('t')}"],
    ),
    "memory as it was declared": ((), ["@19 running n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"]),
}


@pytest.mark.parametrize("case", UNEXPLAINED)
def test_what_cannot_have_been_there_is_found(case: str) -> None:
    assert {one.type for one in found(*UNEXPLAINED[case])} == {"unexplained-sighting"}


@pytest.mark.parametrize("case", LEGAL)
def test_what_may_have_been_there_is_not_accused(case: str) -> None:
    assert found(*LEGAL[case]) == []


BEFORE = f"@29 running n2 {table(*MORE)}"
OLDER = {
    "without a column that the node acknowledged": (
        ADD,
        ["@28 running n2 version v", f"@40 running n2 {table(*WHOLE)}"],
    ),
    "without a column that the node showed": (
        [line.replace("n2", "n1") for line in ADD],
        [BEFORE, f"@40 running n2 {table(*WHOLE)}"],
    ),
    "with an option that the node replaced": (
        SET,
        ["@28 running n2 version v", f"@40 running n2 {table(*WHOLE, comment='x')}"],
    ),
    "with a table that the node dropped": (DROP, ["@28 running n2 version v", f"@40 running n2 {table(*WHOLE)}"]),
    "without a table that the node created": (
        NEW,
        ["@28 running n2 version v", "@40 running n2 table k.s gone"],
    ),
}


@pytest.mark.parametrize("case", OLDER)
def test_a_node_that_goes_back_is_found(case: str) -> None:
    (one,) = found(*OLDER[case])
    assert (one.type, one.nodes) == ("older-sighting", ("n2",))


@pytest.mark.parametrize("case", OLDER)
def test_a_node_that_was_started_in_between_may_show_what_is_older(case: str) -> None:
    history, sightings = OLDER[case]
    assert found([*history, *RESTART], sightings) == []


FIRST = ("@10 running n2 version v", f"@11 running n2 {table(*WHOLE)}", "@28 running n2 version v")
WITHOUT_IT = ("@40 running n2 version w", "@40 running n2 type k.u f0:int f1:text")
"""A whole reading that has a row of another object, and none of the table."""
STANDING = {
    "without a column that the node acknowledged": (ADD, "column d"),
    "with an option that the node replaced": (SET, "option comment"),
    "with a table that the node dropped": (DROP, ""),
    "without a table that the node created": (NEW, "gone"),
    "without an index that the node created": (INDEX, "gone"),
}


@pytest.mark.parametrize("case", STANDING)
def test_what_a_whole_reading_has_no_row_of_stands_as_it_was(case: str) -> None:
    history, part = STANDING[case]
    (one,) = found(history, [*FIRST, *WITHOUT_IT])
    assert (one.type, one.nodes, one.evidence["part"]) == ("older-sighting", ("n2",), part)


@pytest.mark.parametrize("case", STANDING)
@pytest.mark.parametrize(
    ("replaced", "by"),
    [
        ("@28 running", "@24 running"),  # the next reading began before the acknowledgement
        ("@40 running n2 type", "@90 running n2 type"),  # no whole reading
        ("@40 running n2 version w", "@40 running n2 error Timeout"),
        ("p1 n2", "p1 n1"),  # a node that may be behind
        ("p1 n2 ok", "p1 n2 info Timeout"),
    ],
)
def test_what_a_node_need_not_have_carried_out_may_stand_as_it_was(case: str, replaced: str, by: str) -> None:
    lines = ([line.replace(replaced, by) for line in each] for each in (STANDING[case][0], [*FIRST, *WITHOUT_IT]))
    assert found(*lines) == []


@pytest.mark.parametrize("case", STANDING)
def test_a_node_that_was_started_before_a_whole_reading_may_have_lost_what_it_acknowledged(case: str) -> None:
    assert found([*STANDING[case][0], *RESTART], [*FIRST, *WITHOUT_IT]) == []


@pytest.mark.parametrize("case", [case for case in STANDING if "a table that the node created" not in case])
@pytest.mark.parametrize(
    "between", [["@35 running n2 error Timeout"], ["@12 running n2 type k.u f0:int f1:text"], ["@9 running n2 error x"]]
)
def test_a_client_that_lists_objects_anew_says_nothing_of_those_it_does_not_list(
    case: str, between: Sequence[str]
) -> None:
    """What it knew before was lost with its connection."""
    accused = bool(found(STANDING[case][0], [*FIRST, *between, *WITHOUT_IT]))
    assert accused is (between[0].startswith("@9"))


@pytest.mark.parametrize("case", [case for case in STANDING if "a table that the node created" not in case])
@pytest.mark.parametrize(
    ("note", "is_accused"),
    [
        ('@30 -- info membership {"at": "heal", "members": {}}', False),
        ('@30 -- info membership {"at": "restart", "members": {}}', False),
        ('@5 -- info membership {"at": "boot", "members": {}}', True),
        ('@41 -- info membership {"at": "heal", "members": {}}', True),
        ('@30 -- n2 invoke move {"operation": 1, "nodes": ["n2"], "becomes": {"n2": "normal"}}', False),
        ('@30 -- n1 invoke move {"operation": 1, "nodes": ["n1"], "becomes": {"n1": "normal"}}', True),
    ],
)
def test_sessions_that_were_renewed_list_what_is_there_anew(case: str, note: str, *, is_accused: bool) -> None:
    assert bool(found([*STANDING[case][0], note], [*FIRST, *WITHOUT_IT])) is is_accused


def test_an_object_that_a_removal_under_way_may_have_taken_stands_for_nothing() -> None:
    dropped = ("@30 p7 n1 invoke drop-table k.s", "@33 p7 n1 info Timeout")
    assert found((*NEW, *dropped), [*FIRST, *WITHOUT_IT]) == []


@pytest.mark.parametrize(("memory", "types"), [("statements", ["older-sighting"]), ("columns", [])])
def test_a_memory_that_was_read_as_a_whole_has_what_its_node_acknowledged(memory: str, types: Sequence[str]) -> None:
    whole = f'{{"memory": "{memory}"}}'
    live = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = 'x'"
    log = 'settled n1,n2,n3 version v {"epoch": 7, "authority": "log"}'
    readings = [f"@10 running n2 version v {whole}", f"@10 running n2 {live}", "@28 running n2 version v"]
    for history in (ADD, NEW, DROP):
        anomalies = found(history, [log, *readings, f"@40 running n2 version w {whole}"])
        assert [one.type for one in anomalies] == types


DROPPED = [line.replace("n2", "n1") for line in DROP]
COMES_AND_GOES = (f"@10 running n2 {table(*WHOLE)}", "@40 running n2 table k.t gone", f"@50 running n2 {table(*WHOLE)}")


def test_a_table_that_was_gone_is_not_there_again() -> None:
    (one,) = found(DROPPED, COMES_AND_GOES)
    assert (one.type, one.nodes, one.evidence["part"]) == ("older-sighting", ("n2",), "")
    log = 'settled n1,n2,n3 version v {"epoch": 7, "authority": "log"}'
    assert found(DROPPED, [log, *COMES_AND_GOES]) == [], "a copy on disk may be older"


@pytest.mark.parametrize(
    ("history", "sightings"),
    [
        (DROPPED, COMES_AND_GOES[::2]),
        (DROPPED, [line.replace("@50 running n2", "@50 running n3") for line in COMES_AND_GOES]),
        ([*DROPPED, "@45 -- n2 info node-start {}"], COMES_AND_GOES),
        ([DROPPED[0], "@25 p1 n1 info Timeout"], COMES_AND_GOES),
        ([*DROPPED, "@26 p2 n1 invoke create-table k.t a:int* c:int", "@27 p2 n1 info Timeout"], COMES_AND_GOES),
        ([*DROPPED, "@24 p2 n1 invoke create-table k.t a:int* c:int", "@27 p2 n1 ok"], COMES_AND_GOES),
        ([*DROPPED, "@30 p2 n1 invoke drop-table k.t", "@31 p2 n1 info Timeout"], COMES_AND_GOES),
    ],
)
def test_a_table_that_may_have_been_made_anew_is_there_again(history: Sequence[str], sightings: Sequence[str]) -> None:
    assert [one for one in found(sorted(history, key=at), sightings) if one.evidence["part"] == ""] == []


def test_a_reading_that_began_before_the_acknowledgement_may_show_what_is_older() -> None:
    assert found(ADD, ["@24 running n2 version v", f"@40 running n2 {table(*WHOLE)}"]) == []


def test_a_copy_on_disk_may_be_older_where_a_log_decides() -> None:
    log = 'settled n1,n2,n3 version v {"epoch": 7, "authority": "log"}'
    assert found(ADD, [log, "@28 running n2 version v", f"@40 running n2 {table(*WHOLE)}"]) == []
    memory = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = 'x'"
    (one,) = found(ADD, [log, "@28 running n2 version v", f"@40 running n2 {memory}"])
    assert one.type == "older-sighting"


def test_a_table_of_which_only_the_key_was_read_may_be_torn_if_the_next_reading_shows_all_of_it() -> None:
    key = f"@30 running n3 {table('a:int*')}"
    answer = verdict((), [key, f"@40 running n3 {table(*WHOLE)}"])
    assert answer.valid == "unknown"
    assert [doubt.objects for doubt in answer.doubts] == [("k.t",)]
    (one,) = found((), [key, "@40 running n3 version v"])
    assert one.evidence["part"] == "column c"


@pytest.mark.parametrize(
    ("drop", "valid"),
    [
        (("@28 p9 n1 invoke drop-table k.t", "@35 p9 n1 ok"), True),
        (("@28 p9 n1 invoke drop-keyspace k", "@35 p9 n1 ok"), True),
        (("@28 p9 n1 invoke drop-table k.t", "@29 p9 n1 info Timeout"), True),
        (("@50 p9 n1 invoke drop-table k.t", "@55 p9 n1 ok"), False),  # nobody had asked for it
    ],
)
def test_a_table_goes_column_by_column(drop: Sequence[str], valid: bool) -> None:
    rows = ["@19 running n3 version v", f"@30 running n3 {table('a:int*')}", "@40 running n3 table k.t gone"]
    assert verdict(drop, [*rows, "@41 running n3 version w"]).valid == valid


@pytest.mark.parametrize(("comment", "odd"), [("x", None), ("y", None), ("z", "unexplained-sighting")])
def test_options_of_a_row_are_judged_although_its_columns_were_not_read_yet(comment: str, odd: str | None) -> None:
    """The row of a table comes before its columns, in the middle of its CREATE."""
    bare = f'table k.t id=1 {{"columns": {{}}, "options": {{"comment": "{comment}"}}}}'
    asked = SET if comment != "x" else ()
    anomalies = found(
        asked, [f"@23 running n2 {bare}", f"@40 running n2 {table(*WHOLE, comment='y' if asked else 'x')}"]
    )
    assert [(one.type, one.evidence["part"]) for one in anomalies] == ([] if odd is None else [(odd, "option comment")])


def test_options_go_back_also_beside_columns_that_were_not_read_yet() -> None:
    bare = 'table k.t id=1 {"columns": {}, "options": {"comment": "x"}}'
    new = table(*WHOLE, comment="y")
    sightings = [f"@23 running n2 {new}", f"@30 running n2 {bare}", f"@40 running n2 {new}"]
    assert [(one.type, one.evidence["part"]) for one in found(SET, sightings)] == [("older-sighting", "option comment")]


def test_a_row_on_the_way_that_has_other_keys_than_all_final_ones_was_not_read_as_it_stands_there() -> None:
    columns = {"a": {"type": "int", "kind": "partition_key", "position": 0}, "c": {"type": "int", "kind": "regular"}}
    definition = orjson.dumps({"columns": columns, "dropped_columns": {}, "indexes": {}, "options": {"comment": "x"}})
    answer = verdict((), [f"@19 running n3 table k.t id=1 {definition.decode()}"])
    assert (answer.valid, [(doubt.kind, doubt.objects) for doubt in answer.doubts]) == (
        "unknown",
        [("unread", ("k.t",))],
    )
    assert verdict((), [f"@19 running n3 {table(*WHOLE)}"]).valid is True


OF_OTHER_BASES = (
    "@7 p93 n1 invoke create-table k.s a:int* q:int",
    "@8 p93 n1 ok",
    '@10 p94 n3 invoke create-view k.w {"base": "s", "primary_key": ["q", "a"]}',
    "@11 p94 n3 info Timeout",
    '@20 p1 n2 invoke create-view k.w {"base": "t", "primary_key": ["c", "a"]}',
    "@25 p1 n2 ok",
)
"""One view, whose CREATE on k.s may have happened or not, and whose CREATE on k.t was acknowledged."""


def view_of(base: str | None, *columns: str) -> str:
    shown = {} if base is None else {"base_table_name": base}
    return f"view k.w id=9 {' '.join(columns)} {orjson.dumps(shown).decode()}"


@pytest.mark.parametrize(
    ("shown", "odd"),
    [
        (view_of("t", "c:int*", "a:int+"), []),
        (view_of("s", "q:int*", "a:int+"), []),
        (view_of(None, "c:int*", "a:int+"), []),
        (view_of("t", "c:int*", "a:int+", "q:int"), ["column q"]),
        (view_of("t", "c:int*"), ["key", "column a"]),
    ],
)
def test_a_view_has_the_columns_of_the_table_that_it_is_of(shown: str, odd: Sequence[str]) -> None:
    anomalies = found(OF_OTHER_BASES, ["@30 running n2 keyspace k", f"@30 running n2 {shown}"])
    assert sorted(one.evidence["part"] for one in anomalies) == sorted(odd)


@pytest.mark.parametrize(
    ("selected", "odd"),
    [("*", []), ("a, c", []), ("a, c, d", []), ("a, c, cx", ["column cx"]), ("a, c, e", ["column e"])],
)
def test_the_statement_of_a_view_names_columns_that_its_table_may_have_had(selected: str, odd: Sequence[str]) -> None:
    statement = f"CREATE MATERIALIZED VIEW k.w AS SELECT {selected} FROM k.t WHERE a IS NOT NULL AND c IS NOT NULL"
    created = ('@15 p1 n2 invoke create-view k.w {"base": "t", "primary_key": ["c", "a"]}', "@16 p1 n2 ok")
    later = ("@40 p1 n2 invoke add-column k.t e:int", "@41 p1 n2 ok")
    seen = f"@30 running n2 live k.w {statement} PRIMARY KEY (c, a)"
    anomalies = found((*created, *ADD, *later), [seen])
    assert [one.evidence["part"] for one in anomalies] == list(odd)


@pytest.mark.parametrize(
    ("fields", "more", "odd"),
    [
        ("f0:int f1:text g:int h:int", (), []),
        ("f0:int f1:text h:int g:int", (), ["fields"]),
        ("f0:int f1:text h:int", (), []),
        ("f0:int f1:text h:int g:int", ("@45 p1 n2 invoke drop-type k.u", "@46 p1 n2 info Timeout"), []),
    ],
)
def test_two_fields_added_at_once_stand_in_one_order(fields: str, more: Sequence[str], odd: Sequence[str]) -> None:
    added = (
        *("@20 p1 n1 invoke add-field k.u g:int", "@20 p2 n2 invoke add-field k.u h:int"),
        *("@25 p1 n1 ok", "@25 p2 n2 ok"),
    )
    final = [FINAL[0], "settled n1,n2,n3 type k.u f0:int f1:text g:int h:int", FINAL[2]]
    records = judged([*SETUP, *added, *more], [*final, f"@30 running n2 type k.u {fields}"])
    assert [one.evidence["part"] for one in Sightings().check(records, limit_s=5).anomalies] == list(odd)


@pytest.mark.parametrize(("dropped", "odd"), [("s", []), ("t", ["older-sighting"])])
@pytest.mark.parametrize(
    "later", [(), ('@50 p1 n2 invoke create-view k.w {"base": "s", "primary_key": ["q", "a"]}', "@51 p1 n2 ok")]
)
def test_a_view_goes_with_the_table_that_it_was_made_on_and_with_no_other(
    dropped: str, odd: Sequence[str], later: Sequence[str]
) -> None:
    drops = (f"@33 p1 n2 invoke drop-table k.{dropped}", "@34 p1 n2 ok")
    history = (*OF_OTHER_BASES[:2], *OF_OTHER_BASES[4:], *drops, *later)
    shown = view_of("t", "c:int*", "a:int+")
    anomalies = found(history, [f"@30 running n2 {shown}", "@35 running n2 keyspace k", f"@40 running n2 {shown}"])
    assert [one.type for one in anomalies] == odd


@pytest.mark.parametrize(("dropped", "odd"), [("d", []), ("c", ["older-sighting"])])
def test_an_index_goes_with_its_column_and_with_no_other(dropped: str, odd: Sequence[str]) -> None:
    again = [
        "@26 p1 n2 invoke drop-index k.i", "@27 p1 n2 ok",
        "@28 p1 n2 invoke create-index k.i t c", "@29 p1 n2 ok",
        f"@33 p1 n2 invoke drop-column k.t {dropped}", "@34 p1 n2 ok",
    ]  # fmt: skip
    first = [
        "@15 p1 n2 invoke add-column k.t d:int",
        "@16 p1 n2 ok",
        "@20 p1 n2 invoke create-index k.i t d",
        "@25 p1 n2 ok",
    ]
    history = [*(first if dropped == "d" else ()), *again[0 if dropped == "d" else 2 :]]
    memory = "live k.i CREATE INDEX i ON k.t (c)"
    sightings = ["@30 running n2 version v", "@35 running n2 version v", f"@40 running n2 {memory}"]
    assert [one.type for one in found(history, sightings) if one.objects == ("k.i",)] == odd


VIEW = (
    '@20 p1 n2 invoke create-view k.w {"base": "t", "primary_key": ["c", "a"]}',
    "@25 p1 n2 ok",
    "@26 p1 n2 invoke drop-view k.w",
    "@32 p1 n2 ok",
)
COLUMNS_OF_VIEW = '@30 running n2 table k.w id=- c:int* a:int+ {"options": {}}'


def test_the_columns_of_a_view_may_be_read_without_its_row_as_it_comes_or_goes() -> None:
    reading, gone = "@30 running n2 keyspace k", "@40 running n2 table k.w gone"
    assert found(VIEW, [reading, COLUMNS_OF_VIEW, gone]) == []
    for planted in (
        found(VIEW, [reading, COLUMNS_OF_VIEW]),  # nothing corrects it
        found((), [reading, COLUMNS_OF_VIEW, gone]),  # and there never was such a view
        found(VIEW, [reading, f"@30 running n2 {table(*WHOLE).replace('k.t', 'k.w')}", gone]),  # a whole table
    ):
        assert {(one.type, one.objects) for one in planted} == {("unexplained-sighting", ("k.w",))}


@pytest.mark.parametrize(
    ("options", "is_found"),
    [
        ("replication = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true", False),
        ("replicationx = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true", True),
    ],
)
def test_a_keyspace_in_memory_has_a_replication(options: str, is_found: bool) -> None:
    seen = ["@30 running n2 keyspace k", f"@30 running n2 live k CREATE KEYSPACE k WITH {options}"]
    assert bool(found((), seen)) is is_found


@pytest.mark.parametrize(
    ("kind", "is_found"), [("COMPOSITES", False), ("KEYS", True), (None, False)], ids=["alike", "another", "not said"]
)
def test_the_kind_of_an_index_is_compared_where_final_readings_say_it(kind: str | None, is_found: bool) -> None:
    index = {"target": "c"} if kind is None else {"kind": kind, "target": "c"}
    rest = f' {{"options": {{"comment": "x"}}, "indexes": {{"i": {orjson.dumps(index).decode()}}}}}'
    seen = f"@30 running n2 {table(*WHOLE, **INDEXED)}"
    records = judged([*SETUP, *INDEX], [*FINAL[:2], FINAL[2] + rest, seen])
    assert bool(Sightings().check(records, limit_s=5).anomalies) is is_found


SAI = ('@10 p1 n2 invoke create-index k.j t c {"using": "sai"}', "@12 p1 n2 ok")


def test_an_index_of_the_server_s_own_kind_is_not_compared_with_those_that_were_asked_for() -> None:
    row = "@30 running n2 " + table(*WHOLE, indexes={"i": {"kind": "COMPOSITES", "target": "c"}})
    final = FINAL[2] + ' {"options": {"comment": "x"}, "indexes": {"j": {"kind": "CUSTOM", "target": "c"}}}'
    shown = [*FINAL[:2], final, "@30 running n2 keyspace k", row]
    records = judged([*SETUP, *SAI, *INDEX, "@40 p1 n2 invoke drop-index k.i", "@45 p1 n2 ok"], shown)
    assert Sightings().check(records, limit_s=5).anomalies == ()
    plain = [*SETUP, *INDEX, "@50 p2 n2 invoke create-index k.j t c", "@55 p2 n2 ok"]
    assert [one.evidence["part"] for one in Sightings().check(judged(plain, shown), limit_s=5).anomalies] == ["kind"]


OTHER = "settled n1,n2,n3 keyspace l"
OLD_ELSEWHERE = '{"replication": {"class": "SimpleStrategy", "replication_factor": "1"}}'


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        ("keyspace l", []),
        (f"keyspace l {OLD_ELSEWHERE}", ["unexplained-sighting"]),
        ('keyspace l {"durable_writes": false}', ["unexplained-sighting"]),
        ("keyspace l gone", ["unexplained-sighting"]),
    ],
)
def test_a_keyspace_that_no_change_concerns_is_always_as_in_the_end(shown: str, kinds: list[str]) -> None:
    assert [one.type for one in found((), [OTHER, f"@19 running n3 {shown}"])] == kinds
    altered = ("@15 p1 n1 invoke alter-keyspace l", "@16 p1 n1 ok")
    assert found(altered, [OTHER, f"@19 running n3 {shown}"]) == []


GHOST = (
    "keyspace ghost",
    "live ghost CREATE KEYSPACE ghost WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'}",
)


@pytest.mark.parametrize("shown", GHOST)
def test_a_keyspace_that_no_change_concerns_and_no_final_reading_has_is_a_doubt(shown: str) -> None:
    answer = verdict((), [f"@19 running n3 {shown}", f"@25 running n3 {shown}"])
    assert (answer.valid, [(doubt.kind, doubt.objects) for doubt in answer.doubts]) == (
        "unknown",
        [("undecided", ("ghost",))],
    )
    assert verdict((), [f"@19 running n3 {shown}", "settled n2 keyspace ghost"]).doubts == ()
    dropped = ("@15 p1 n1 invoke drop-keyspace ghost", "@16 p1 n1 ok")
    assert verdict(dropped, [f"@12 running n3 {shown}"]).doubts == ()


def test_an_index_in_memory_has_the_class_that_was_asked_for() -> None:
    memory = "live k.i CREATE INDEX i ON k.t (c)"
    final = f"settled n1,n2,n3 {memory} USING 'legacy_local_table'"
    assert found(INDEX, [final, f"@30 running n3 {memory} USING 'legacy_local_table'"]) == []
    odd = found(INDEX, [final, f"@30 running n3 {memory} USING 'odd'"])
    assert [one.evidence["part"] for one in odd] == ["class", "words"]


def test_two_releases_spell_the_class_of_an_index_in_two_ways() -> None:
    upgrade = (
        '{"operation": 1, "nodes": ["n1"], "parameters": {"stage": "node", "to": "cassandra:6.0-alpha2", "takes_down": true}, '
        '"becomes": {"n1": "normal"}'
    )
    effect = '"effect": {"attempts": [], "system": "cassandra:6.0-alpha2"}'
    lines = [
        *INDEX,
        f"@40 -- n1 invoke rolling-upgrade {upgrade}}}",
        f"@50 -- n1 ok rolling-upgrade {upgrade}, {effect}}}",
    ]
    memory = "live k.i CREATE INDEX i ON k.t (c)"
    final = f"settled n1 {memory} USING 'legacy_local_table'"
    assert [one.evidence["part"] for one in found(INDEX, [final, f"@30 running n3 {memory}"])] == ["class"]
    assert found(lines, [final, f"@30 running n3 {memory}"]) == []


def test_a_memory_that_could_not_be_read_shows_nothing_that_is_gone() -> None:
    memory = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = 'x'"
    shown = [f"@19 running n3 {memory}", "@30 running n3 live k.t gone", f"@40 running n3 {memory}"]
    assert {one.type for one in found((), shown)} == {"unexplained-sighting"}
    silent = "@30 running n3 version 1 "
    assert found((), [*shown, silent + '{"epoch": null, "memory": "statements", "memory_error": "timed out"}']) == []
    assert found((), [*shown, silent + '{"epoch": null, "memory": "statements"}']) != []


def test_a_type_and_a_table_of_one_name_are_two_objects_in_memory() -> None:
    alike = (
        "@20 p1 n2 invoke create-table k.u a:int*",
        "@25 p1 n2 ok",
        "@30 p1 n2 invoke drop-table k.u",
        "@35 p1 n2 ok",
    )
    shown = [
        "@27 running n3 live k.u CREATE TYPE k.u (f0 int, f1 text)",
        "@27 running n3 live k.u CREATE TABLE k.u (a int PRIMARY KEY)",
    ]
    assert found(alike, [*shown, "@40 running n3 live k.u gone table"]) == []
    (gone,) = found(alike, [*shown, "@40 running n3 live k.u gone type"])
    assert gone.type == "unexplained-sighting"
    assert gone.objects == ("k.u",)


def test_what_is_older_than_the_history_is_left_open() -> None:
    history = ("@1 p1 n1 invoke alter-options k.t comment=y", "@2 p1 n1 ok")
    records = judged(history, [*FINAL, f"@1 running n1 {table(*MORE)}", "@9 running n1 table k.t gone"])
    assert [one.evidence["part"] for one in Sightings().check(records, limit_s=5).anomalies] == []


def test_free_text_leaves_its_keyspace_open() -> None:
    text = ('@10 p1 n1 invoke cql {"statement": "ALTER TABLE k.t ADD d int"}', "@11 p1 n1 ok")
    assert found(text, [f"@19 running n1 {table(*MORE)}"]) == []


def test_without_readings_there_is_nothing_to_judge() -> None:
    answer = verdict((), ())
    assert answer.judged_nothing


@given(runs())
def test_a_perfect_cluster_is_never_accused(records: Records) -> None:
    answer = Sightings().check(records, limit_s=5)
    assert (answer.anomalies, answer.doubts if answer.valid is True else ()) == ((), ())


def replaced(outcome: str, *, loses: bool = True) -> tuple[str, str]:
    value = {"operation": 0, "nodes": ["n2"], "parameters": {"loses_disk": loses}, "becomes": {"n2": "normal"}}
    text = orjson.dumps(value).decode()
    return f"@30 -- invoke replace {text}", f"@40 -- {outcome} replace {text}"


@pytest.mark.parametrize(
    ("history", "is_found"),
    [
        ((), True),
        (replaced("ok"), False),
        (replaced("info"), False),
        (replaced("fail"), True),
        (replaced("ok", loses=False), True),
    ],
)
def test_a_node_whose_disk_was_taken_away_begins_without_what_it_had(history: Sequence[str], *, is_found: bool) -> None:
    had, empty = f"@20 running n2 {table(*WHOLE)}", "@50 running n2 table k.t gone"
    again = f"@60 running n2 {table(*WHOLE)}"
    assert bool(found(history, (had, empty, again))) is is_found
    may_go_on = any("info" in line for line in history)
    assert bool(found(history, (had, again, "@70 running n2 table k.t gone"))) is not may_go_on


@pytest.mark.parametrize(
    ("members_at", "node", "is_older"),
    [
        pytest.param(26, "n2", True, id="read after it had dropped it"),
        pytest.param(25, "n2", False, id="the reading may have begun before"),
        pytest.param(26, "n3", False, id="another node may be behind"),
        pytest.param(None, "n2", False, id="when the reading began is not noted"),
    ],
)
def test_the_first_reading_of_a_node_does_not_go_back_either(
    members_at: int | None, node: str, *, is_older: bool
) -> None:
    notes = [] if members_at is None else [f'@{members_at} -- info membership {{"at": "boot", "members": {{}}}}']
    anomalies = found([*DROP, *notes], [f"@30 running {node} {table(*WHOLE)}"])
    assert [one.type for one in anomalies] == (["older-sighting"] if is_older else [])

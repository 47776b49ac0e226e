"""Stale copies: a node's schema tables against what the cluster's log says, and the same readings where disks decide."""

import re

import orjson
import pytest
from histories import judged

from schemaquake.checkers.ddl_order.checker import SchemaLinearizability
from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.schema.alterations import Alterations
from schemaquake.checkers.schema.definitions import Definitions
from schemaquake.checkers.schema.divergence import Divergence
from schemaquake.checkers.schema.merged_definitions import MergedDefinitions
from schemaquake.checkers.schema.objects import Objects
from schemaquake.checkers.schema.references import References
from schemaquake.checkers.schema.table_ids import TableIds

CHECKERS = (
    *(TableIds(), MergedDefinitions(), References(), Divergence(), Objects(), Alterations()),
    SchemaLinearizability(),
)

HISTORY = (
    "@1 p0 n1 invoke create-keyspace k",
    "@2 p0 n1 ok",
    "@3 p0 n1 invoke create-type k.u f0:int",
    "@4 p0 n1 ok",
    "@5 p0 n1 invoke create-table k.t a:int* c:int v:int",
    "@6 p0 n1 ok",
    "@7 p0 n1 invoke create-table k.x a:int* c:frozen<u>",
    "@8 p0 n1 ok",
    "@9 p0 n1 invoke drop-table k.x",
    "@10 p0 n1 ok",
    "@11 p0 n1 invoke drop-type k.u",
    "@12 p0 n1 ok",
    "@13 p0 n1 invoke add-column k.t d:int",
    "@14 p0 n1 ok",
)
LOG = '{"epoch": 9, "authority": "log"}'
OLD = '{"epoch": null}'
T = "k.t id=7 a:int* c:int d:int v:int"
LIVE_T = "k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, d int, v int)"
RIGHT = (f"table {T}", "keyspace k", f"live {LIVE_T}", "live k CREATE KEYSPACE k")
STALE = (
    "table k.t id=7 a:int* c:int v:int",
    "table k.x id=8 a:int* c:frozen<u>",
    "keyspace k",
    f"live {LIVE_T}",
    "live k CREATE KEYSPACE k",
)


def reading(version, nodes, rows, *, phases="settled,restarted"):
    return [f"{phases} {nodes} version v9 {version}", *(f"{phases} {nodes} {row}" for row in rows)]


def found(observations, history=HISTORY):
    records = judged(history, observations)
    return [anomaly for checker in CHECKERS for anomaly in checker.check(records, limit_s=10).anomalies]


def kinds(observations, history=HISTORY):
    return {anomaly.type for anomaly in found(observations, history)}


@pytest.mark.parametrize("version", [LOG, '{"epoch": 9}', '{"epoch": 9, "group0": {"id": "g"}}'])
def test_a_copy_that_differs_from_the_log_is_stale_and_nothing_else(version):
    (anomaly,) = found([*reading(version, "n1,n3", RIGHT), *reading(version, "n2", STALE)])
    assert (anomaly.type, anomaly.nodes, set(anomaly.objects)) == ("stale-schema-copy", ("n2",), {"k.t", "k.x"})
    assert anomaly.evidence["restart"] == "not cured"
    copies = anomaly.evidence["copies"]["settled"]
    assert {key: copy["difference"] for key, copy in copies.items()} == {
        "table k.t": "has no column d",
        "table k.x": "is still there",
    }


def test_the_same_readings_are_a_divergence_where_each_disk_decides():
    kinds_found = kinds([*reading(OLD, "n1,n3", RIGHT), *reading(OLD, "n2", STALE)])
    assert kinds_found >= {"hidden-divergence", "memory-disk-divergence", "lost-column", "resurrected-object"}
    assert kinds_found >= {"dangling-type", "non-linearizable-ddl"}
    assert "stale-schema-copy" not in kinds_found


@pytest.mark.parametrize("version", [LOG, OLD])
def test_equal_copies_are_no_finding(version):
    assert found(reading(version, "n1,n2,n3", RIGHT)) == []


def test_a_restart_that_cures_the_copy_is_told():
    (anomaly,) = found(
        [
            *reading(LOG, "n1,n3", RIGHT),
            *reading(LOG, "n2", STALE, phases="settled"),
            *reading(LOG, "n2", RIGHT, phases="restarted"),
        ]
    )
    assert (anomaly.type, anomaly.evidence["restart"]) == ("stale-schema-copy", "cured")


def test_without_a_reading_after_the_restart_nothing_is_said_of_a_cure():
    (anomaly,) = found([*reading(LOG, "n1,n3", RIGHT, phases="settled"), *reading(LOG, "n2", STALE, phases="settled")])
    assert anomaly.evidence["restart"] == "not observed"


def test_a_copy_is_stale_since_the_reading_that_first_showed_both():
    (anomaly,) = found(
        [
            "@13 running n2 table k.t id=7 a:int* c:int v:int",
            "@15 running n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, d int, v int)",
            *reading(LOG, "n1,n3", RIGHT),
            *reading(LOG, "n2", (STALE[0], *STALE[2:])),
        ]
    )
    assert (anomaly.evidence["since_ns"], anomaly.evidence["until_ns"]) == (15_000_000, 20_000_000_000)


def test_a_column_that_no_memory_has_is_lost():
    lost = tuple(row.replace("d int, ", "") for row in RIGHT)
    kinds_found = kinds(reading(LOG, "n1,n2,n3", lost))
    assert {"lost-column", "stale-schema-copy"} <= kinds_found


def test_memories_that_differ_at_one_epoch_are_a_divergence():
    other = tuple(row.replace("d int, ", "").replace("d:int ", "") for row in RIGHT)
    kinds_found = kinds([*reading(LOG, "n1,n3", RIGHT), *reading(LOG, "n2", other)])
    assert {"hidden-divergence", "lost-column"} <= kinds_found
    assert "stale-schema-copy" not in kinds_found


def test_a_node_behind_the_log_is_no_witness_of_the_schema():
    behind = tuple(row.replace("d int, ", "").replace("d:int ", "") for row in RIGHT)
    observations = [
        *reading(LOG, "n1,n3", RIGHT),
        *(f"settled,restarted n2 {row}" for row in ('version v8 {"epoch": 8, "authority": "log"}', *behind)),
    ]
    assert kinds(observations) == {"schema-disagreement"}


def test_ids_that_memory_does_not_show_are_told_apart_by_majority():
    other = tuple(row.replace("id=7", "id=5") for row in RIGHT)
    (anomaly,) = found([*reading(LOG, "n1,n3", RIGHT), *reading(LOG, "n2", other)])
    assert (anomaly.type, anomaly.nodes) == ("stale-schema-copy", ("n2",))
    assert kinds([*reading(OLD, "n1,n3", RIGHT), *reading(OLD, "n2", other)]) >= {"conflicting-table-ids"}


def test_two_ids_on_two_nodes_are_two_doubtful_copies():
    other = tuple(row.replace("id=7", "id=5") for row in RIGHT)
    anomalies = found([*reading(LOG, "n1", RIGHT), *reading(LOG, "n2", other)])
    assert [(anomaly.type, anomaly.nodes) for anomaly in anomalies] == [
        ("stale-schema-copy", ("n1",)),
        ("stale-schema-copy", ("n2",)),
    ]


def test_an_empty_memory_that_was_described_makes_every_row_stale():
    gone = (*HISTORY, "@15 p0 n1 invoke drop-keyspace k", "@16 p0 n1 ok")
    (anomaly,) = found([*reading(LOG, "n1,n3", ()), *reading(LOG, "n2", (f"table {T}", "keyspace k"))], gone)
    assert (anomaly.type, anomaly.nodes, anomaly.objects) == ("stale-schema-copy", ("n2",), ("k",))


def test_a_node_whose_memory_failed_is_compared_with_the_others():
    failed = 'version v9 {"epoch": 9, "authority": "log", "memory_error": "busy"}'
    rows = (failed, *STALE[:3])
    (anomaly,) = found([*reading(LOG, "n1,n3", RIGHT), *(f"settled,restarted n2 {row}" for row in rows)])
    assert (anomaly.type, anomaly.nodes) == ("stale-schema-copy", ("n2",))


def test_where_no_memory_was_read_the_disks_are_judged():
    disks = [row for row in STALE if not row.startswith("live")]
    observations = [*reading('{"epoch": 9}', "n1,n2,n3", disks)]
    assert {"lost-column", "resurrected-object", "dangling-type"} <= kinds(observations)


@pytest.mark.parametrize(
    ("copy", "memory", "difference"),
    [
        ("type k.w f0:int", "CREATE TYPE k.w (f0 int, f1 int)", "has no field f1"),
        ("type k.w f1:int f0:int", "CREATE TYPE k.w (f0 int, f1 int)", "has its fields in another order"),
        ('table k.w id=1 a:int* {"options": {"comment": "x"}}', "CREATE TABLE k.w (a int PRIMARY KEY) WITH comment = 'y'", "has another value of comment"),
        ("table k.w id=1 a:text*", "CREATE TABLE k.w (a int PRIMARY KEY)", "has another definition of column a"),
        ('function k.w {"arguments": [["s", "int"]], "returns": "int", "body": "return 1;"}', "CREATE FUNCTION k.w(s int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return 2;$$", "has another value of body"),
        ('aggregate k.w {"arguments": ["int"], "state_function": "f", "state_type": "int"}', "CREATE AGGREGATE k.w(int) SFUNC g STYPE int", "has another value of state_function"),
    ],
)  # fmt: skip
def test_every_part_that_memory_shows_is_compared(copy, memory, difference):
    kind = copy.split(" ", 1)[0]
    live = f'live k.w {{"kind": "{kind}", "statement": "{memory}"}}'
    rows = ("keyspace k", "live k CREATE KEYSPACE k", copy, live)
    stale = Evidence.of(judged(HISTORY, reading(LOG, "n1", rows))).stale
    assert {(each.key, each.text) for each in stale} == {("k.w", difference)}


def test_defaults_and_spellings_of_a_server_are_no_difference():
    options = (
        '{"options": {"comment": "", "gc_grace_seconds": 864000, "caching": {"keys": "ALL"}, "flags": ["compound"]}}'
    )
    statement = "CREATE TABLE k.w (a text PRIMARY KEY, c list<int>) WITH comment = '' AND cdc = false AND gc_grace_seconds = 864000 AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}"
    rows = (
        "keyspace k",
        "live k CREATE KEYSPACE k",
        f"table k.w id=1 a:varchar* c:list<int> {options}",
        f"live k.w {statement}",
    )
    assert Evidence.of(judged(HISTORY, reading(LOG, "n1", rows))).stale == ()


@pytest.mark.parametrize(("change", "kinds_found"), [("d:int", set()), ("e:int", {"stale-schema-copy"})])
def test_a_copy_that_a_change_may_have_overtaken_is_in_doubt(change, kinds_found):
    asked = (*HISTORY[:12], f"@13 p0 n1 invoke add-column k.t {change}", "@14 p0 n1 info OperationTimedOut")
    observations = [
        *reading(LOG, "n1,n3", RIGHT, phases="settled"),
        *reading(LOG, "n2", (STALE[0], *STALE[2:]), phases="settled"),
    ]
    history = asked if change == "d:int" else (*asked, "@15 p1 n1 invoke add-column k.t d:int", "@16 p1 n1 ok")
    assert kinds(observations, history) == kinds_found
    assert Divergence().check(judged(history, observations), limit_s=5).valid == (
        "unknown" if not kinds_found else False
    )


def test_a_copy_that_is_behind_after_a_reading_that_shows_the_change_everywhere_is_stale():
    asked = (*HISTORY[:12], "@13 p0 n1 invoke add-column k.t d:int", "@14 p0 n1 info OperationTimedOut")
    observations = [*reading(LOG, "n1,n3", RIGHT), *reading(LOG, "n2", (STALE[0], *STALE[2:]))]
    assert kinds(observations, asked) == {"stale-schema-copy"}


def test_an_index_that_came_between_the_readings_of_two_copies_is_in_doubt():
    asked = (*HISTORY, "@15 p1 n1 invoke create-index k.i t c", "@16 p1 n1 info OperationTimedOut")
    with_index = f'table {T} {{"indexes": {{"i": {{"kind": "COMPOSITES", "target": "c"}}}}}}'
    observations = [
        *reading(LOG, "n1,n3", RIGHT, phases="settled"),
        *reading(LOG, "n2", (with_index, *RIGHT[1:]), phases="settled"),
    ]
    assert Divergence().check(judged(asked, observations), limit_s=5).valid == "unknown"
    assert kinds(observations) == {"stale-schema-copy"}


WHOLE = (
    *HISTORY,
    "@20 p0 n1 invoke create-table k.w a:int* b:int+ c:int v:int",
    "@21 p0 n1 ok",
    "@22 p0 n1 invoke create-index k.i w c",
    "@23 p0 n1 ok",
    '@24 p0 n1 invoke create-view k.m {"base": "w", "primary_key": ["c", "a", "b"]}',
    "@25 p0 n1 ok",
)


def columns(words: str) -> str:
    """Columns with the order of those that cluster, as servers since 3.0 show them."""
    found, places = {}, {"*": 0, "+": 0, "": -1}
    for word in words.split():
        name, _, mark = re.fullmatch(r"(\w+)(:)([*+]?)", word).groups()
        kind = {"*": "partition_key", "+": "clustering", "": "regular"}[mark]
        found[name] = {
            "type": "int",
            "kind": kind,
            "position": places[mark],
            **({"order": "asc"} if mark == "+" else {}),
        }
        places[mark] += mark != ""
    return orjson.dumps(found).decode()


W = f'table k.w id=9 {{"columns": {columns("a:* b:+ c: v:")}, "indexes": {{"i": {{"kind": "COMPOSITES", "target": "c"}}}}}}'
WHERE = "c IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL"
M = f'view k.m id=8 {{"columns": {columns("c:* a:+ b:+ v:")}, "base_table_name": "w", "base_table_id": "9", "options": {{"where_clause": "{WHERE}", "include_all_columns": true}}}}'
LIVE_W = "CREATE TABLE k.w (a int, b int, c int, v int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b ASC)"
LIVE_M = "CREATE MATERIALIZED VIEW k.m AS SELECT * FROM k.w WHERE c IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (c, a, b) WITH CLUSTERING ORDER BY (a ASC, b ASC)"
LIVE_I = "CREATE INDEX i ON k.w (c)"


def whole(old: str = "", new: str = "") -> set[str]:
    """The kinds found where every node's memory says `new` in place of `old`, and every copy is as it was asked for."""
    memory = {"k.w": ("table", LIVE_W), "k.m": ("materialized_view", LIVE_M), "k.i": ("index", LIVE_I)}
    lines = [
        f'live {key} {{"kind": "{kind}", "statement": "{text.replace(old, new) if old else text}"}}'
        for key, (kind, text) in memory.items()
    ]
    assert not old or any(old in text for _, text in memory.values())
    records = judged(WHOLE, reading(LOG, "n1,n2,n3", (*RIGHT, W, M, *lines)))
    checkers = (*CHECKERS, Definitions())
    return {anomaly.type for checker in checkers for anomaly in checker.check(records, limit_s=10).anomalies}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(b ASC)", "(b DESC)"),
        ("(a ASC, b ASC)", "(a ASC, b DESC)"),
        ("SELECT *", "SELECT a, b, c"),
        ("k.w (c)", "k.w (v)"),
        ("c IS NOT NULL AND", "c IS NOT NULL AND v IS NOT NULL AND"),
        ("v int", "v text"),
        ("c int,", "c int static,"),
        ("(c, a, b)", "(c, b, a)"),
    ],
)
def test_a_log_that_is_wrong_is_not_excused_as_stale_copies(old, new):
    assert whole(old, new) - {"stale-schema-copy"} != set()


def test_a_log_that_says_what_was_asked_is_no_finding():
    assert whole() == set()
    assert whole("SELECT *", "SELECT v, c, a, b") == set()


@pytest.mark.parametrize(
    ("stale", "right"),
    [
        (W, (columns("a:* b:+ c: v:"), columns("a:* b:+ c:"))),
        (M, (columns("c:* a:+ b:+ v:"), columns("c:* a:+ b:+"))),
        (W, ('"target": "c"', '"target": "v"')),
        (W, ('"asc"', '"desc"')),
    ],
)
def test_a_copy_of_a_table_with_a_key_of_several_columns_is_stale_and_nothing_else(stale, right):
    lines = [
        f'live k.w {{"kind": "table", "statement": "{LIVE_W}"}}',
        f'live k.i {{"kind": "index", "statement": "{LIVE_I}"}}',
    ]
    lines.append(f'live k.m {{"kind": "materialized_view", "statement": "{LIVE_M}"}}')
    rows = (*RIGHT, W, M, *lines)
    copies = tuple(row.replace(*right) if row == stale else row for row in rows)
    records = judged(WHOLE, [*reading(LOG, "n1,n3", rows), *reading(LOG, "n2", copies)])
    checkers = (*CHECKERS, Definitions())
    found = [anomaly for checker in checkers for anomaly in checker.check(records, limit_s=10).anomalies]
    assert [(anomaly.type, anomaly.nodes) for anomaly in found] == [("stale-schema-copy", ("n2",))]


WIDER_W = W.replace(columns("a:* b:+ c: v:"), columns("a:* b:+ c: v: e:"))
WIDER_M = M.replace(columns("c:* a:+ b:+ v:"), columns("c:* a:+ b:+ v: e:"))
OTHER_M = M.replace(columns("c:* a:+ b:+ v:"), columns("c:* a:+ b:+ v: f:"))


@pytest.mark.parametrize(
    ("copies", "kinds_found"),
    [
        ((WIDER_W, WIDER_M), set()),
        ((WIDER_W, M), set()),  # the view is as memory has it: of the two, the base alone may be stale
        ((W, WIDER_M), {"unexplained-definition"}),
        ((WIDER_W, OTHER_M), {"unexplained-definition"}),
    ],
)
@pytest.mark.parametrize("behind", ["memory", "copies"])
def test_a_view_of_all_columns_goes_with_the_copy_of_its_base(copies, kinds_found, behind):
    """One reading: the memory is read first, then a change of unknown outcome comes, then the tables are read; or the other way."""
    asked = (*WHOLE, "@26 p0 n1 invoke add-column k.w e:int", "@27 p0 n1 info OperationTimedOut")
    wider = LIVE_W.replace("v int,", "v int, e int,")
    lines = [
        f'live k.w {{"kind": "table", "statement": "{LIVE_W if behind == "memory" else wider}"}}',
        f'live k.m {{"kind": "materialized_view", "statement": "{LIVE_M}"}}',
        f'live k.i {{"kind": "index", "statement": "{LIVE_I}"}}',
    ]
    if behind == "copies":
        swap = {W: WIDER_W, WIDER_W: W, M: WIDER_M, WIDER_M: M}
        copies = tuple(swap.get(copy, copy) for copy in copies)
    records = judged(asked, reading(LOG, "n1", (*RIGHT, *copies, *lines), phases="settled"))
    assert {anomaly.type for anomaly in Definitions().check(records, limit_s=10).anomalies} == kinds_found


@pytest.mark.parametrize(
    ("selection", "selects_all", "judged_columns", "stale_parts"),
    [
        ("*", "true", "abcv", [("table", "e")]),
        ("*", "false", "abcve", [("table", "e")]),
        ("a, b, c, v", "false", "abcv", [("table", "e"), ("view", "e")]),
    ],
)
def test_a_view_follows_its_base_without_its_static_columns_and_only_if_it_selects_all(
    selection, selects_all, judged_columns, stale_parts
):
    """The copies are read after a change of unknown outcome, the memory before it."""
    static = '"s":{"type":"int","kind":"static","position":-1}'
    base = WIDER_W.replace('"c":{', f'{static},"c":{{', 1)
    view = WIDER_M.replace("true", selects_all)
    asked = (
        *(line.replace("b:int+", "b:int+ s:int!") for line in WHOLE),
        *("@26 p0 n1 invoke add-column k.w e:int", "@27 p0 n1 info OperationTimedOut"),
    )
    lines = [
        f'live k.w {{"kind": "table", "statement": "{LIVE_W.replace("c int,", "s int static, c int,")}"}}',
        f'live k.m {{"kind": "materialized_view", "statement": "{LIVE_M.replace("SELECT *", f"SELECT {selection}")}"}}',
        f'live k.i {{"kind": "index", "statement": "{LIVE_I}"}}',
    ]
    case = Evidence.of(judged(asked, reading(LOG, "n1", (*RIGHT, base, view, *lines), phases="settled")))
    (schema,) = case.readings.schemas
    assert set(schema.tables["k", "w"].columns) == {"a", "b", "s", "c", "v"}
    assert set(schema.views["k", "m"].columns) == set(judged_columns)
    assert [(each.kind, *(name for _, name in each.parts)) for each in case.stale] == stale_parts


@pytest.mark.parametrize("by_log", [True, False])
@pytest.mark.parametrize("applied", ["true", "false"])
def test_a_no_op_that_is_answered_as_a_change_has_no_columns(by_log, applied):
    """A coordinator that is behind the log answers IF NOT EXISTS as applied, for it compares its schema before and after."""
    again = (
        '@15 p1 n2 invoke create-table k.t a:int* e:int {"if_not_exists": true}',
        f'@16 p1 n2 ok {{"applied": {applied}}}',
    )
    readings = reading(LOG if by_log else OLD, "n1,n2,n3", RIGHT)
    accused = kinds(readings, (*HISTORY, *again))
    assert bool(accused) == (applied == "true" and not by_log), accused
    alone = (*HISTORY, *(line.replace("k.t", "k.y") for line in again))
    assert kinds(readings, alone), "nobody else made that table, and it is not there"


@pytest.mark.parametrize("by_log", [True, False])
def test_a_view_that_finds_a_table_of_its_name_may_be_answered_as_made(by_log):
    asked = 'invoke create-view k.t {"base": "b", "primary_key": ["a"], "if_not_exists": true}'
    readings = reading(LOG if by_log else OLD, "n1,n2,n3", RIGHT)

    def vanished(at, place):
        view = (f"@{at} p1 n2 {asked}", f'@{at} p1 n2 ok {{"applied": true}}')
        records = judged([*HISTORY[:place], *view, *HISTORY[place:]], readings)
        found = Objects().check(records, limit_s=10).anomalies
        return [one.evidence["absent"] for one in found if one.type == "vanished-object"] != []

    assert vanished(15, len(HISTORY)) is not by_log
    assert vanished(2, 2), "the table was made later"


KINDS = {
    "keyspace k": ('keyspace k {"durable_writes": false}', "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true"),
    "type k.u": ("type k.u f1:text", "CREATE TYPE k.u (f0 int, f1 text)"),
    "function k.f": ('function k.f {"arguments": [["s", "int"]], "body": "return 2;"}', "CREATE FUNCTION k.f(s int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return 1;$$"),
    "aggregate k.g": ('aggregate k.g {"arguments": ["int"], "state_function": "e"}', "CREATE AGGREGATE k.g(int) SFUNC f STYPE int"),
    "table k.w": (W.replace('"type":"int"', '"type":"text"'), LIVE_W),
    "view k.m": (M.replace('"type":"int"', '"type":"text"').replace('"base_table_name": "w"', '"base_table_name": "x"'), LIVE_M),
    "index k.i": (W.replace('"target": "c"', '"target": "v"'), LIVE_I),
}  # fmt: skip
"""By object: a row that is wrong, and the statement in memory."""
RIGHT_ROWS = {
    "keyspace k": "keyspace k",
    "type k.u": "type k.u f0:int f1:text",
    "function k.f": 'function k.f {"arguments": [["s", "int"]]}',
    "aggregate k.g": 'aggregate k.g {"arguments": ["int"], "state_function": "f"}',
    "table k.w": W,
    "view k.m": M,
}
NOT_OF_SCHEMA = 'live k.z {"kind": "trigger", "statement": "CREATE TRIGGER z ON k.w USING \'z\'"}'


def memory(*without):
    kinds = {"view": "materialized_view"}
    lines = [NOT_OF_SCHEMA]
    for subject, (_, statement) in KINDS.items():
        kind, key = subject.split(" ")
        if subject not in without:
            spelled = orjson.dumps({"kind": kinds.get(kind, kind), "statement": statement}).decode()
            lines.append(f"live {key} {spelled}")
    return lines


def shape(schema):
    """What a reading says of each object, as far as memory can say it."""
    return (
        schema.keyspaces,
        schema.types,
        {key: (one.arguments, one.returns, one.definition["body"]) for key, one in schema.functions.items()},
        {key: (one.arguments, one.state_function, one.state_type) for key, one in schema.aggregates.items()},
        {
            key: (
                table.columns,
                {name: column.get("order") for name, column in table.definition["columns"].items()},
                {name: index["target"] for name, index in table.indexes.items()},
                table.base_table_name,
            )
            for relations in (schema.tables, schema.views)
            for key, table in relations.items()
        },
    )


def with_copies(copies, lines):
    """The records of a run in which n2 has these copies, and every other node has the right ones."""
    right = reading(LOG, "n1,n3", [*RIGHT_ROWS.values(), *lines], phases="settled")
    return judged(WHOLE, [*right, *reading(LOG, "n2", [*copies.values(), *lines], phases="settled")])


def judged_by_log(copies, lines=None):
    """The evidence of such a run."""
    return Evidence.of(with_copies(copies, memory() if lines is None else lines))


def assert_is_judged_by_log(case):
    first, second, third = case.readings.schemas
    assert [schema.node for schema in case.readings.schemas] == ["n1", "n2", "n3"]
    assert shape(second) == shape(first) == shape(third)


@pytest.mark.parametrize("subject", RIGHT_ROWS)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_node_with_one_stale_copy_is_judged_by_the_log(subject, is_there):
    copies = {one: row for one, row in RIGHT_ROWS.items() if one != subject}
    if is_there:
        copies[subject] = KINDS[subject][0]
    case = judged_by_log(copies)
    lost = {subject} if is_there or subject != "table k.w" else {subject, "index k.i"}
    if subject == "keyspace k" and not is_there:
        assert {(each.kind, each.text) for each in case.stale} == {("keyspace", "is not there")}
    assert {f"{each.kind} {each.key}" for each in case.stale} == lost
    assert {each.node for each in case.stale} == {"n2"}
    assert_is_judged_by_log(case)


def test_a_node_with_nothing_but_stale_copies_is_judged_by_the_log():
    case = judged_by_log({subject: wrong for subject, (wrong, _) in KINDS.items() if subject != "index k.i"})
    assert {f"{each.kind} {each.key}" for each in case.stale} == RIGHT_ROWS.keys()
    assert_is_judged_by_log(case)


def test_a_stale_index_is_judged_by_the_log():
    case = judged_by_log(RIGHT_ROWS | {"table k.w": KINDS["index k.i"][0]})
    index, table = case.stale
    assert (index.kind, index.key, index.text) == ("index", "k.i", "is on v")
    assert index.copy == {"w": {"kind": "COMPOSITES", "target": "v"}}
    assert index.authority == {"table": "w", "target": "c"}
    assert (table.kind, table.key, table.parts) == ("table", "k.w", (("index", "i"),))
    assert_is_judged_by_log(case)


@pytest.mark.parametrize("subject", RIGHT_ROWS)
def test_what_a_stale_copy_says_is_shown_beside_what_the_log_says(subject):
    kind, key = subject.split(" ")
    keyspace, _, name = key.partition(".")
    statement = parse_statement(kind, KINDS[subject][1])
    wrong = judged_by_log(RIGHT_ROWS | {subject: KINDS[subject][0]})
    (stale,) = [each for each in wrong.stale if each.kind == kind]
    row = wrong.shown.schemas[1].stored()[kind, keyspace, name]
    assert (stale.copy, stale.authority) == (row, statement.definition)
    lost = judged_by_log({one: row for one, row in RIGHT_ROWS.items() if one != subject})
    (stale,) = [each for each in lost.stale if each.kind == kind]
    assert (stale.copy, stale.authority) == (None, statement.definition)
    dropped = [subject, "index k.i"] if subject == "table k.w" else [subject]
    left = judged_by_log(RIGHT_ROWS, lines=memory(*dropped))
    assert {(each.copy is None, each.authority) for each in left.stale} == {(False, None)}


@pytest.mark.parametrize("kind", ["function", "aggregate", "type", "view", "table", "index"])
def test_what_a_node_shows_of_a_keyspace_that_is_gone_is_no_finding_of_its_own(kind):
    copies = {one: row for one, row in RIGHT_ROWS.items() if one.startswith(kind) or one in {"table k.w", "keyspace k"}}
    (stale,) = judged_by_log(copies, lines=[NOT_OF_SCHEMA]).stale[:1]
    assert (stale.kind, stale.key, stale.text) == ("keyspace", "k", "is still there")
    assert {each.kind for each in judged_by_log(copies, lines=[NOT_OF_SCHEMA]).stale} == {"keyspace"}


def test_a_node_without_any_copy_lacks_the_keyspace_and_nothing_else():
    case = judged_by_log({})
    assert [(each.kind, each.text) for each in case.stale] == [("keyspace", "is not there")]
    assert_is_judged_by_log(case)


def test_nodes_without_a_copy_do_not_outvote_the_one_that_has_it():
    observations = [
        *reading(LOG, "n1", [*RIGHT_ROWS.values(), *memory()], phases="settled"),
        *reading(LOG, "n2,n3", memory(), phases="settled"),
    ]
    stale = Evidence.of(judged(WHOLE, observations)).stale
    assert [(each.node, each.kind) for each in stale] == [("n2", "keyspace"), ("n3", "keyspace")]


def test_an_object_of_a_lost_keyspace_that_is_itself_other_than_the_log_says_is_found():
    copies = {one: row for one, row in RIGHT_ROWS.items() if one != "keyspace k"} | {"type k.u": KINDS["type k.u"][0]}
    found = [(each.kind, each.text) for each in judged_by_log(copies).stale]
    assert found == [("keyspace", "is not there"), ("type", "has no field f0")]


def with_own_copies(*rows):
    """The evidence where all memories are the same, and each node has its own copy of one object."""
    shared = [row for one, row in RIGHT_ROWS.items() if one.split(" ")[1] != rows[0].split(" ")[1]]
    return Evidence.of(
        judged(
            WHOLE,
            [
                line
                for number, row in enumerate(rows, start=1)
                for line in reading(LOG, f"n{number}", [*shared, row, *memory()], phases="settled")
            ],
        )
    )


FUNCTION = 'function k.f {{"arguments": [["s", "int"]], "deterministic": {}}}'
AGGREGATE = 'aggregate k.g {{"arguments": ["int"], "state_function": "f", "initcond": "{}"}}'
OTHERS = "differs from the copies on other nodes"


@pytest.mark.parametrize(
    ("right", "wrong", "text", "parts"),
    [
        (W, W.replace("id=9", "id=8"), f"{OTHERS} in its id", ()),
        (W.replace("id=9", "id=8"), W, f"{OTHERS} in its id", ()),
        (M, M.replace("id=8", "id=9"), f"{OTHERS} in its id", ()),
        (M, M.replace('"base_table_id": "9"', '"base_table_id": "7"'), f"{OTHERS} in its base table id", ()),
        (
            W.replace('"indexes"', '"dropped_columns": {"x": {"type": "int", "dropped_time": 1}, "y": null}, "indexes"'),
            W.replace('"indexes"', '"dropped_columns": {"y": {"type": "int"}, "z": {"type": "int"}}, "indexes"'),
            f"{OTHERS} in its dropped columns",
            (("column", "x"), ("column", "y"), ("column", "z")),
        ),
        (
            W.replace('"indexes"', '"dropped_columns": null, "indexes"'),
            W.replace('"indexes"', '"dropped_columns": {"z": {"type": "int"}}, "indexes"'),
            f"{OTHERS} in its dropped columns",
            (("column", "z"),),
        ),
        (
            W.replace('"indexes"', '"options": {"a": 1, "c": [1], "e": 1}, "indexes"'),
            W.replace('"indexes"', '"options": {"b": 1, "c": [1], "e": 2}, "dropped_columns": {"z": {}}, "indexes"'),
            f"{OTHERS} in its dropped columns and its options",
            (("column", "z"), ("option", "a"), ("option", "b"), ("option", "e")),
        ),
        (
            W.replace('"indexes"', '"options": {"a": 1}, "indexes"'),
            W.replace('"indexes"', '"options": {"a": 2}, "scylla": {"cdc": 1}, "indexes"'),
            f"{OTHERS} in its options and its properties under scylla",
            (),
        ),
        (
            W.replace('"indexes"', '"dropped_columns": {}, "options": {}, "indexes"'),
            W.replace('"position":-1', '"position":7', 1)
            .replace('"COMPOSITES"', '"KEYS"')
            .replace('"indexes"', '"dropped_columns": {"y": {}}, "options": {"a": 1}, "indexes"'),
            f"{OTHERS} in its columns and its dropped columns and its indexes and its options",
            (("column", "c"), ("column", "y"), ("index", "i"), ("option", "a")),
        ),
        (W.replace('"indexes"', '"scylla": 1, "indexes"'), W, f"{OTHERS} in its properties under scylla", ()),
        ("type k.u f0:int f1:text", "type k.u f0:int f1:varchar", OTHERS, ()),
        (FUNCTION.format("true"), FUNCTION.format("false"), f"{OTHERS} in its properties under deterministic", ()),
        (AGGREGATE.format("1"), AGGREGATE.format("2"), f"{OTHERS} in its properties under initcond", ()),
        ("keyspace k", 'keyspace k {"tablets": 1}', f"{OTHERS} in its properties under tablets", ()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_copy_of_one_node_in_what_memory_does_not_show_is_not_that_of_the_others(right, wrong, text, parts, place):
    rows = [right, right, right]
    rows[place] = wrong
    case = with_own_copies(*rows)
    (stale,) = case.stale
    stored = [schema.stored()[stale.kind, stale.keyspace, stale.name] for schema in case.shown.schemas]
    assert (stale.node, stale.text, stale.parts) == (f"n{place + 1}", text, parts)
    assert (stale.copy, stale.authority) == (stored[place], stored[place - 1])
    for schema in case.readings.schemas:
        assert schema.stored() == case.shown.schemas[place - 1].stored()


@pytest.mark.parametrize(
    "rows",
    [(W, W.replace("id=9", "id=8")), (W.replace("id=9", "id=8"), W), (W, W, W, *[W.replace("id=9", "id=8")] * 3)],
)
def test_of_two_copies_on_as_many_nodes_neither_is_known_to_be_right(rows):
    case = with_own_copies(*rows)
    assert [(each.node, each.text, each.authority) for each in case.stale] == [
        (f"n{number}", f"{OTHERS} in its id", None) for number in range(1, len(rows) + 1)
    ]
    assert {schema.tables["k", "w"].id for schema in case.readings.schemas} == {None}


@pytest.mark.parametrize(
    "rows",
    [
        [W, W.replace("id=9", "id=8"), W.replace("id=9", "id=7")],
        [FUNCTION.format("true"), FUNCTION.format("false"), FUNCTION.format("null")],
    ],
)
def test_of_three_copies_none_is_known_to_be_right(rows):
    case = with_own_copies(*rows)
    assert [(each.node, each.authority) for each in case.stale] == [("n1", None), ("n2", None), ("n3", None)]
    ids = {schema.tables["k", "w"].id for schema in case.readings.schemas}
    assert ids == ({None} if rows[0] == W else {"9"})
    functions = [schema.functions for schema in case.readings.schemas]
    assert functions == [schema.functions for schema in case.shown.schemas]


def with_versions(history, *nodes):
    """The findings where each node shows a version, an epoch and rows of its own."""
    return kinds(
        [
            f"settled {node} {row}"
            for node, version, epoch, rows in nodes
            for row in (f'version {version} {{"epoch": {epoch}, "authority": "log", "barrier": "{node}"}}', *rows)
        ],
        history,
    )


LACKING = tuple(row.replace("d int, ", "").replace("d:int ", "") for row in RIGHT)


def test_nodes_of_one_version_are_witnesses_at_every_epoch():
    """An epoch counts changes of the members, too: the version says that the schema is the newest."""
    lacking = (RIGHT[0].replace("d:int ", ""), *RIGHT[1:])
    rows = [("n1", "v9", 2001, RIGHT), ("n2", "v9", 2000, lacking), ("n3", "v9", "null", RIGHT)]
    assert with_versions(HISTORY, *rows) == {"stale-schema-copy"}
    assert "lost-column" in with_versions(HISTORY, *rows[:1], ("n2", "v9", 2000, LACKING), *rows[2:])


def test_nodes_of_one_epoch_are_witnesses_whatever_their_versions():
    rows = [("n1", "v9", 2001, RIGHT), ("n2", "v8", 2001, LACKING), ("n3", "v9", 2001, RIGHT)]
    assert with_versions(HISTORY, *rows) >= {"lost-column", "schema-disagreement"}
    behind = ("n2", "v8", 2000, LACKING)
    assert with_versions(HISTORY, rows[0], behind, rows[2]) == {"schema-disagreement"}
    unknown = ("n2", "v8", "null", LACKING)
    assert with_versions(HISTORY, rows[0], unknown, rows[2]) == {"schema-disagreement"}


def test_a_node_whose_memory_was_not_read_hides_nothing_of_memories_that_differ():
    failed = 'version v9 {"epoch": 9, "authority": "log", "memory_error": "busy"}'
    disks = [row for row in RIGHT if not row.startswith("live")]
    observations = [
        *(f"settled n1 {row}" for row in (failed, *disks)),
        *reading(LOG, "n2", RIGHT, phases="settled"),
        *reading(LOG, "n3", LACKING, phases="settled"),
    ]
    case = Evidence.of(judged(HISTORY, observations))
    assert [schema.node for schema in case.readings.schemas] == ["n1", "n2", "n3"]
    assert kinds(observations) == {"hidden-divergence", "lost-column", "non-linearizable-ddl"}


@pytest.mark.parametrize("answer", [{"error": "OperationTimedOut"}, {"refusal": "unconfigured table"}])
def test_a_table_of_which_memory_says_nothing_is_no_stale_copy(answer):
    silent = f"live k.t {orjson.dumps({'kind': 'table', **answer}).decode()}"
    rows = (*RIGHT[:2], silent, RIGHT[3])
    assert Evidence.of(judged(HISTORY, reading(LOG, "n1,n2,n3", rows))).stale == ()
    case = Evidence.of(judged(HISTORY, [*reading(LOG, "n1,n3", RIGHT), *reading(LOG, "n2", (*STALE[:3], silent))]))
    assert {each.node for each in case.stale} == {"n2"}, "other nodes remember it"


@pytest.mark.parametrize("statement", [None, "CREATE TABLE k.c (a int PRIMARY KEY)"])
def test_a_table_that_the_server_keeps_for_itself_is_no_stale_copy(statement):
    own = 'table k.c id=6 a:int* {"derived_from": "t"}'
    rows = (*RIGHT, own, *([] if statement is None else [f"live k.c {statement}"]))
    assert found(reading(LOG, "n1,n2,n3", rows)) == []
    other = tuple(row.replace("id=6", "id=5") for row in rows)
    stale = Evidence.of(judged(HISTORY, [*reading(LOG, "n1,n3", rows), *reading(LOG, "n2", other)])).stale
    assert {(each.node, each.key, each.text) for each in stale} == {("n2", "k.c", f"{OTHERS} in its id")}


def test_indexes_of_one_name_in_several_keyspaces_are_told_apart():
    indexed = [
        row
        for keyspace in ("j", "k", "l")
        for row in (
            f"keyspace {keyspace}",
            f"live {keyspace} CREATE KEYSPACE {keyspace}",
            f'table {keyspace}.t id=7 a:int* c:int {{"indexes": {{"i": {{"kind": "COMPOSITES", "target": "c"}}}}}}',
            f"live {keyspace}.t CREATE TABLE {keyspace}.t (a int PRIMARY KEY, c int)",
            f"live {keyspace}.i CREATE INDEX i ON {keyspace}.t (c)",
        )
    ]
    assert Evidence.of(judged(HISTORY, reading(LOG, "n1,n2,n3", indexed))).stale == ()


def test_a_view_whose_base_has_no_copy_is_judged_by_the_log():
    case = judged_by_log({one: row for one, row in RIGHT_ROWS.items() if one != "table k.w"})
    assert {each.kind for each in case.stale} == {"table", "index"}
    assert_is_judged_by_log(case)


@pytest.mark.parametrize("has_copy", [True, False])
def test_a_view_whose_base_is_gone_from_the_log_stays_to_be_accused(has_copy):
    copies = {one: row for one, row in RIGHT_ROWS.items() if has_copy or one != "view k.m"}
    records = with_copies(copies, memory("table k.w", "index k.i"))
    case = Evidence.of(records)
    assert [schema.views["k", "m"].base_table_name for schema in case.readings.schemas] == ["w", "w", "w"]
    assert not any(schema.tables for schema in case.readings.schemas)
    assert "orphan-view" in {one.type for one in References().check(records, limit_s=5).anomalies}

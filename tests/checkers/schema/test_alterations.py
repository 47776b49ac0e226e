"""Alterations: lost columns, options and fields, undead columns; and whatever may rightly have replaced them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.schema.alterations import Alterations
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.model.verdict import Anomaly, Verdict

KEYSPACE = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")
TABLE = (*KEYSPACE, "@3 p91 n1 invoke create-table k.t a:int* c:int", "@4 p91 n1 ok")
TYPE = (*KEYSPACE, "@3 p91 n1 invoke create-type k.u f0:int", "@4 p91 n1 ok")
ADD = ("@10 p0 n1 invoke add-column k.t d:int", "@12 p0 n1 ok")
WITHOUT = ("settled n1,n2,n3 table k.t id=1 a:int* c:int",)
WITH = ("settled n1,n2,n3 table k.t id=1 a:int* c:int d:int",)


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return Alterations().check(judged(history, observations), limit_s=5)


def finding(history: Sequence[str], observations: Sequence[str]) -> Anomaly:
    (found,) = verdict(history, observations).anomalies
    return found


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledged_column_that_is_missing_is_lost() -> None:
    found = finding([*TABLE, *ADD], WITHOUT)
    assert found.type == "lost-column"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n1", "n2", "n3")
    assert found.ops == (4,)
    assert found.evidence["column"] == "d"
    assert "No reading since then showed it so." in found.explanation


def test_an_acknowledged_column_that_is_there_is_valid() -> None:
    assert verdict([*TABLE, *ADD], WITH).valid is True


def test_a_lost_column_is_told_with_its_last_sight() -> None:
    found = finding([*TABLE, *ADD], [*WITHOUT, "@13 running n3 table k.t id=1 a:int* c:int d:int"])
    assert found.evidence["last_seen"] == {"time_ns": 13_000_000, "node": "n3"}
    assert "It was last seen so on n3 at 0.013 s." in found.explanation


def test_what_was_seen_before_the_alteration_is_no_sight_of_it() -> None:
    history = [*TABLE, "@10 p0 n1 invoke drop-column k.t c", "@12 p0 n1 ok"]
    assert finding(history, [*WITHOUT, "@2 running n1 table k.t id=1 a:int*"]).evidence["last_seen"] is None


@pytest.mark.parametrize(("kind", "f"), [("view", "alter-view"), ("table", "alter-options")])
def test_a_lost_option_is_told_with_its_last_sight(kind: str, f: str) -> None:
    view = ['@5 p92 n1 invoke create-view k.m {"base": "t", "primary_key": ["c", "a"]}', "@6 p92 n1 ok"]
    made, name = (view, "k.m") if kind == "view" else ([], "k.t")
    change = [f'@10 p0 n1 invoke {f} {name} {{"options": {{"comment": "x"}}}}', "@12 p0 n1 ok"]
    lacks = f'settled n1,n2,n3 {kind} {name} id=2 c:int* a:int+ {{"options": {{"comment": ""}}}}'
    has = f'@13 running n3 {kind} {name} id=2 c:int* a:int+ {{"options": {{"comment": "x"}}}}'
    found = finding([*TABLE, *made, *change], [lacks, has])
    assert (found.type, found.objects) == ("lost-option", (name,))
    assert found.evidence["last_seen"] == {"time_ns": 13_000_000, "node": "n3"}


def test_a_column_missing_on_one_node_after_the_restart_is_lost_there() -> None:
    restarted = ["restarted n1,n2 table k.t id=1 a:int* c:int d:int", "restarted n3 table k.t id=1 a:int* c:int"]
    found = finding([*TABLE, *ADD], [*WITH, *restarted])
    assert found.nodes == ("n3",)
    assert found.evidence["readings"] == {"restarted": {"n3": "absent"}}


@pytest.mark.parametrize("answer", ["@12 p0 n1 info timed out", "@12 p0 n1 fail InvalidRequest"])
def test_a_column_that_was_not_acknowledged_may_be_missing_or_there(answer: str) -> None:
    assert verdict([*TABLE, ADD[0], answer], WITHOUT).valid is True
    assert verdict([*TABLE, ADD[0], answer], WITH).valid is True


EXCUSES = {
    "a later drop": ["@13 p1 n2 invoke drop-column k.t d", "@14 p1 n2 ok"],
    "a drop of unknown outcome": ["@13 p1 n2 invoke drop-column k.t d", "@14 p1 n2 info timed out"],
    "a concurrent drop": ["@11 p1 n2 invoke drop-column k.t d", "@12 p1 n2 ok"],
    "an early drop of unknown outcome": ["@5 p1 n2 invoke drop-column k.t d", "@6 p1 n2 info timed out"],
    "a rename": ["@13 p1 n2 invoke rename-column k.t d>e", "@14 p1 n2 ok"],
    "a drop of the table": ["@13 p1 n2 invoke drop-table k.t", "@14 p1 n2 ok"],
    "a drop of unknown outcome and another create": [
        *("@13 p1 n2 invoke drop-table k.t", "@14 p1 n2 info timed out"),
        *("@15 p2 n2 invoke create-table k.t a:int*", "@16 p2 n2 ok"),
    ],
    "another create of the table": ["@11 p1 n2 invoke create-table k.t a:int*", "@14 p1 n2 ok"],
    "a drop of the keyspace": ["@13 p1 n2 invoke drop-keyspace k", "@14 p1 n2 ok"],
}


@pytest.mark.parametrize("name", EXCUSES)
def test_what_can_have_removed_a_column_later_explains_it(name: str) -> None:
    assert verdict([*TABLE, *ADD, *EXCUSES[name]], WITHOUT).valid is True


@pytest.mark.parametrize("drop", ["drop-table k.t", "drop-keyspace k"])
def test_a_drop_of_unknown_outcome_explains_no_column_of_a_table_that_is_there(drop: str) -> None:
    asked = [f"@13 p1 n2 invoke {drop}", "@14 p1 n2 info timed out"]
    assert finding([*TABLE, *ADD, *asked], WITHOUT).type == "lost-column"
    assert verdict([*TABLE, *ADD, *asked], ["settled n1,n2,n3 keyspace k"]).anomalies == ()


def test_free_text_leaves_a_doubt_unless_it_had_ended_before() -> None:
    text = ['@13 p1 n2 invoke cql k {"statement": "ALTER TABLE t DROP d"}', "@14 p1 n2 ok"]
    found = verdict([*TABLE, *ADD, *text], WITHOUT)
    assert (found.valid, [doubt.kind for doubt in found.doubts]) == ("unknown", ["undecided"])
    before = [line.replace("@13", "@5").replace("@14", "@6") for line in text]
    assert finding([*TABLE, *ADD, *before], WITHOUT).type == "lost-column"


NO_EXCUSES = {
    "a drop before": ["@5 p1 n2 invoke drop-column k.t d", "@6 p1 n2 ok"],
    "a drop that failed": ["@13 p1 n2 invoke drop-column k.t d", "@14 p1 n2 fail InvalidRequest"],
    "a drop of another column": ["@13 p1 n2 invoke drop-column k.t x", "@14 p1 n2 ok"],
    "an addition of another column": ["@11 p1 n2 invoke add-column k.t e:int", "@12 p1 n2 fail InvalidRequest"],
    "an option": ["@11 p1 n2 invoke alter-options k.t comment=x", "@12 p1 n2 info timed out"],
    "free text elsewhere": ['@13 p1 n2 invoke cql l {"statement": "ALTER TABLE l.t DROP d"}', "@14 p1 n2 ok"],
}


@pytest.mark.parametrize("name", NO_EXCUSES)
def test_what_cannot_have_removed_a_column_does_not(name: str) -> None:
    assert finding([*TABLE, *ADD, *NO_EXCUSES[name]], WITHOUT).type == "lost-column"


def test_a_column_of_the_create_is_lost_like_any_other() -> None:
    found = finding(TABLE, ["settled n1 table k.t id=1 a:int*"])
    assert found.type == "lost-column"
    assert found.evidence["column"] == "c"


def test_a_create_that_may_have_been_a_no_op_promises_no_column() -> None:
    create = '@3 p91 n1 invoke create-table k.t a:int* c:int {"if_not_exists": true}'
    shown = ["settled n1 table k.t id=1 a:int*"]
    assert verdict([create, "@4 p91 n1 ok"], shown).valid is True
    assert verdict([create, '@4 p91 n1 ok {"applied": false}'], shown).valid is True
    assert verdict([create, '@4 p91 n1 ok {"applied": true}'], shown).valid is False


def test_a_table_that_is_not_there_has_no_columns_to_lose() -> None:
    assert verdict([*TABLE, *ADD], ["settled n1 keyspace k"]).valid is True


DROP = ("@10 p0 n1 invoke drop-column k.t c", "@12 p0 n1 ok")
BACK = ("settled n1,n2 table k.t id=1 a:int* c:int",)


def test_a_dropped_column_that_is_there_is_undead() -> None:
    found = finding([*TABLE, *DROP], BACK)
    assert found.type == "undead-column"
    assert found.ops == (4,)
    assert found.evidence["readings"] == {"settled": {"n1": "present", "n2": "present"}}


def test_a_dropped_column_that_is_gone_is_valid() -> None:
    assert verdict([*TABLE, *DROP], ["settled n1 table k.t id=1 a:int*"]).valid is True


def test_a_column_that_can_have_been_added_after_its_drop_is_not_undead() -> None:
    again = "@11 p1 n2 invoke add-column k.t c:text"
    assert verdict([*TABLE, *DROP, again, "@13 p1 n2 ok"], BACK).valid is True
    assert verdict([*TABLE, *DROP, again], BACK).valid is True
    assert finding([*TABLE, *DROP, again, "@13 p1 n2 fail InvalidRequest"], BACK).type == "undead-column"


def test_of_two_settings_one_after_the_other_only_the_last_is_accused() -> None:
    again = ("@14 p1 n2 invoke add-column k.t c:int", "@15 p1 n2 ok")
    found = finding([*TABLE, *DROP, *again], ["settled n1,n2 table k.t id=1 a:int*"])
    assert found.type == "lost-column"
    assert found.ops == (6,)


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────

COMMENT_X = ("@10 p0 n1 invoke alter-options k.t comment=x", "@12 p0 n1 ok")
COMMENT_Y = ("@11 p1 n2 invoke alter-options k.t comment=y", "@13 p1 n2 ok")


def commented(comment: str, nodes: str = "n1,n2") -> str:
    return f'settled {nodes} table k.t id=1 a:int* c:int {{"options": {{"comment": "{comment}"}}}}'


def test_an_acknowledged_option_that_does_not_show_is_lost() -> None:
    found = finding([*TABLE, *COMMENT_X], [commented("")])
    assert found.type == "lost-option"
    assert found.evidence["option"] == "comment"
    assert verdict([*TABLE, *COMMENT_X], [commented("x")]).valid is True


def test_of_two_concurrent_options_either_may_win_but_one_must() -> None:
    assert verdict([*TABLE, *COMMENT_X, *COMMENT_Y], [commented("x")]).valid is True
    assert verdict([*TABLE, *COMMENT_X, *COMMENT_Y], [commented("y")]).valid is True
    found = finding([*TABLE, *COMMENT_X, *COMMENT_Y], [commented("")])
    assert found.ops == (4, 5)


def test_an_earlier_option_does_not_explain_a_later_one() -> None:
    earlier = ("@6 p1 n2 invoke alter-options k.t comment=y", "@7 p1 n2 ok")
    assert finding([*TABLE, *earlier, *COMMENT_X], [commented("y")]).ops == (6,)


def test_an_option_of_the_create_counts() -> None:
    history = ['@1 p0 n1 invoke create-table k.t a:int* c:int {"options": {"comment": "x"}}', "@2 p0 n1 ok"]
    assert verdict(history, [commented("x", "n1")]).valid is True
    assert finding(history, [commented("", "n1")]).type == "lost-option"


def test_an_option_that_a_node_does_not_list_is_not_judged() -> None:
    assert verdict([*TABLE, *COMMENT_X], WITHOUT).valid is True


def test_a_map_compares_by_the_keys_that_were_set() -> None:
    alter = '@10 p0 n1 invoke alter-options k.t {"options": {"compaction": {"class": "LeveledCompactionStrategy"}}}'
    found = 'settled n1 table k.t id=1 a:int* c:int {"options": {"compaction": {"class": "%s", "enabled": "true"}}}'
    leveled = found % "org.apache.cassandra.db.compaction.LeveledCompactionStrategy"
    size_tiered = found % "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"
    assert verdict([*TABLE, alter, "@12 p0 n1 ok"], [leveled]).valid is True
    assert verdict([*TABLE, alter, "@12 p0 n1 ok"], [size_tiered]).valid is False


def replicated(factor: int) -> str:
    replication = f'{{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "{factor}"}}'
    return f'settled n1,n2 keyspace k {{"replication": {replication}}}'


def test_replication_is_an_option_of_a_keyspace() -> None:
    replication = '{"replication": {"class": "SimpleStrategy", "replication_factor": 2}}'
    alter = [f"@10 p0 n1 invoke alter-keyspace k {replication}", "@12 p0 n1 ok"]
    assert verdict([*KEYSPACE, *alter], [replicated(2)]).valid is True
    found = finding([*KEYSPACE, *alter], [replicated(3)])
    assert found.type == "lost-option"
    assert found.objects == ("k",)


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────

FIELD = ("@10 p0 n1 invoke add-field k.u f1:int", "@12 p0 n1 ok")


def test_an_acknowledged_field_that_is_missing_is_lost() -> None:
    found = finding([*TYPE, *FIELD], ["settled n1 type k.u f0:int"])
    assert found.type == "lost-field"
    assert found.evidence["field"] == "f1"
    assert verdict([*TYPE, *FIELD], ["settled n1 type k.u f0:int f1:int"]).valid is True
    assert verdict([*TYPE, *FIELD], ["settled n1 type k.u f1:int f0:int"]).valid is True


def test_a_renamed_field_is_not_lost() -> None:
    rename = ("@13 p1 n1 invoke rename-field k.u f1>f2", "@14 p1 n1 ok")
    assert verdict([*TYPE, *FIELD, *rename], ["settled n1 type k.u f0:int f2:int"]).valid is True


def test_a_type_that_can_have_been_dropped_and_created_anew_may_lack_it() -> None:
    anew = [
        "@13 p1 n1 invoke drop-type k.u",
        "@14 p1 n1 ok",
        "@15 p2 n1 invoke create-type k.u f0:int",
        "@16 p2 n1 ok",
    ]
    assert verdict([*TYPE, *FIELD, *anew], ["settled n1 type k.u f0:int"]).valid is True


def test_a_table_without_any_column_lost_none_of_them_alone_while_a_drop_may_have_taken_all() -> None:
    history = [
        "@3 p91 n1 invoke create-table k.t a:int* c:int",
        "@4 p91 n1 ok",
        "@10 p0 n1 invoke drop-table k.t",
        "@12 p0 n1 info timed out",
    ]
    assert not verdict(history, ['settled n1 table k.t id=1 {"options": {"comment": "x"}}']).anomalies


# ── what is judged, and what is told ─────────────────────────────────────────────────────────────────────────────────


def test_it_vouches_and_judges_while_a_run_goes_on() -> None:
    assert Alterations.vouches
    assert checker_traits(Alterations()).judges_early


def test_a_node_without_the_table_hides_no_loss_of_the_next() -> None:
    found = finding([*TABLE, *ADD], ["settled n1 keyspace k", "settled n2 table k.t id=1 a:int* c:int"])
    assert (found.type, found.nodes) == ("lost-column", ("n2",))


def test_another_create_explains_any_option_but_no_column_that_it_does_not_declare() -> None:
    again = ("@13 p1 n2 invoke create-table k.t a:int*", "@14 p1 n2 ok")
    assert verdict([*TABLE, *COMMENT_X, *again], [commented("")]).valid is True
    assert finding([*TABLE, *DROP, *again], BACK).type == "undead-column"
    assert finding([*TABLE, *DROP, *again], ["settled n1 table k.t id=1 a:int* c:int"]).ops == (4, 6)


def test_a_reading_at_the_instant_of_the_asking_may_have_been_the_last_sight() -> None:
    shown = "running n3 table k.t id=1 a:int* c:int d:int"
    assert finding([*TABLE, *ADD], [*WITHOUT, f"@10 {shown}"]).evidence["last_seen"]["time_ns"] == 10_000_000
    assert finding([*TABLE, *ADD], [*WITHOUT, f"@9 {shown}"]).evidence["last_seen"] is None


def test_a_lost_field_is_told_with_its_last_sight() -> None:
    sights = ["@13 running n3 type k.u f0:int f1:int f2:int", "@14 running n2 type k.u f0:int f2:int"]
    found = finding([*TYPE, *FIELD], ["settled n1 type k.u f0:int", *sights])
    assert found.evidence["last_seen"] == {"time_ns": 13_000_000, "node": "n3"}
    assert finding([*TYPE, *FIELD], ["settled n1 type k.u f0:int", sights[1]]).evidence["last_seen"] is None


def test_a_lost_column_is_told_by_what_each_phase_shows() -> None:
    column = finding([*TABLE, *ADD], [*WITHOUT, "restarted n1,n2 table k.t id=1 a:int* c:int"])
    assert "so column d of table k.t must be present." in column.explanation
    shown = "But after the cluster settled n1, n2 and n3, and after every node was restarted n1 and n2 show it absent."
    assert shown in column.explanation


def test_values_of_a_lost_option_are_told_as_they_are_written() -> None:
    option = finding([*TABLE, *COMMENT_X], [commented("", "n1,n2"), commented("y", "n3")])
    assert "so option comment of table k.t must be 'x'." in option.explanation
    assert "n1 and n2 show it ''; after the cluster settled n3 shows it 'y'." in option.explanation

"""Table ids: the smallest history of each finding, and its twin one event away that is valid."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.schema.table_ids import TableIds
from schemaquake.harness.model.verdict import Anomaly, Verdict

CREATE = ("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok")
ALSO = ("@1 p1 n2 invoke create-table k.t a:int*", "@2 p1 n2 ok")


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return TableIds().check(judged(history, observations), limit_s=5)


def finding(history: Sequence[str], observations: Sequence[str]) -> Anomaly:
    (found,) = verdict(history, observations).anomalies
    return found


def test_two_ids_for_one_table_are_a_conflict() -> None:
    found = finding(CREATE, ["settled n1 table k.t id=aa a:int*", "settled n2 table k.t id=bb a:int*"])
    assert found.type == "conflicting-table-ids"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n1", "n2")
    assert found.ops == (0,)
    assert found.evidence["ids"] == {"settled": {"n1": "aa", "n2": "bb"}}


def test_one_id_for_one_table_is_valid() -> None:
    assert verdict(CREATE, ["settled n1 table k.t id=aa a:int*", "settled n2 table k.t id=aa a:int*"]).valid is True


def test_a_view_has_one_id_too() -> None:
    found = finding((), ["settled n1 view k.m id=aa a:int*", "settled n2 view k.m id=bb a:int*"])
    assert found.type == "conflicting-table-ids"


def test_a_conflict_that_the_restart_ends_is_told_once_with_its_phase() -> None:
    found = finding(
        CREATE,
        [
            "settled n1 table k.t id=aa a:int*",
            "settled n2 table k.t id=bb a:int*",
            "restarted n1,n2 table k.t id=bb a:int*",
        ],
    )
    assert found.type == "conflicting-table-ids"
    assert list(found.evidence["ids"]) == ["settled"]
    assert found.evidence["seen"]["aa"]["nodes"] == ["n1"]


def test_a_node_without_the_table_does_not_conflict() -> None:
    assert verdict(CREATE, ["settled n1 table k.t id=aa a:int*", "settled n2 keyspace k"]).valid is True


def test_columns_without_a_table_have_no_id_that_could_conflict() -> None:
    assert verdict(CREATE, ["settled n1 table k.t id=aa a:int*", "settled n2 table k.t a:int*"]).valid is True


CHANGED = ("@3 running n1 table k.t id=aa a:int*", "settled n1,n2 table k.t id=bb a:int*")


def test_an_id_that_changes_without_a_drop_is_found() -> None:
    found = finding([*CREATE, *ALSO], CHANGED)
    assert found.type == "changing-table-id"
    assert found.ops == (0, 1)
    assert "2 CREATEs of it were acknowledged" in found.explanation
    assert found.evidence["ids"]["aa"] == {"first_ns": 3_000_000, "last_ns": 3_000_000, "nodes": ["n1"]}


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(["@4 p5 n1 invoke drop-table k.t", "@5 p5 n1 ok"], id="a drop"),
        pytest.param(["@4 p5 n1 invoke drop-table k.t", "@5 p5 n1 info timed out"], id="a drop of unknown outcome"),
        pytest.param(["@4 p5 n1 invoke drop-table k.t"], id="a drop that was never answered"),
        pytest.param(["@4 p5 n1 invoke drop-keyspace k", "@5 p5 n1 ok"], id="a drop of the keyspace"),
    ],
)
def test_a_drop_and_a_create_after_it_explain_a_new_id(between: Sequence[str]) -> None:
    again = ("@6 p6 n2 invoke create-table k.t a:int*", "@7 p6 n2 ok")
    assert verdict([*CREATE, *between, *again], CHANGED).valid is True


def test_free_text_between_two_ids_leaves_a_doubt() -> None:
    text = ('@4 p5 n1 invoke cql k {"statement": "DROP TABLE k.t"}', "@5 p5 n1 ok")
    again = ("@6 p6 n2 invoke create-table k.t a:int*", "@7 p6 n2 ok")
    assert verdict([*CREATE, *text, *again], CHANGED).valid == "unknown"


def test_ids_are_in_doubt_while_a_drop_and_a_create_are_under_way_and_not_while_one_of_them_is() -> None:
    drop = ("@4 p5 n1 invoke drop-table k.t", "@5 p5 n1 info timed out")
    create = ("@6 p6 n2 invoke create-table k.t a:int*", "@7 p6 n2 info timed out")
    apart = ["settled n1 table k.t id=1 a:int*", "settled n2,n3 table k.t id=2 a:int*"]
    assert verdict([*CREATE, *drop, *create], apart).valid == "unknown"
    for changes in (drop, create, ()):
        assert [found.type for found in verdict([*CREATE, *changes], apart).anomalies] == ["conflicting-table-ids"]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(["@4 p5 n1 invoke drop-table k.t", "@5 p5 n1 fail InvalidRequest"], id="a drop that failed"),
        pytest.param(
            ['@4 p5 n1 invoke drop-table k.t {"if_exists": true}', '@5 p5 n1 ok {"applied": false}'],
            id="a drop that found nothing",
        ),
        pytest.param(["@4 p5 n1 invoke drop-table k.s", "@5 p5 n1 ok"], id="a drop of another table"),
        pytest.param(['@4 p5 n1 invoke cql k {"statement": "SELECT * FROM k.t"}', "@5 p5 n1 ok"], id="a query"),
    ],
)
def test_what_did_not_drop_the_table_explains_nothing(between: Sequence[str]) -> None:
    again = ("@6 p6 n2 invoke create-table k.t a:int*", "@7 p6 n2 ok")
    assert finding([*CREATE, *between, *again], CHANGED).type == "changing-table-id"


def test_one_drop_explains_two_ids_but_not_three() -> None:
    history = [
        *CREATE,
        "@4 p5 n1 invoke drop-table k.t",
        "@5 p5 n1 ok",
        "@6 p6 n1 invoke create-table k.t a:int*",
        "@6 p7 n2 invoke create-table k.t a:int*",
        "@7 p6 n1 ok",
        "@7 p7 n2 ok",
    ]
    two = ["@3 running n1 table k.t id=aa a:int*", "settled n1,n2 table k.t id=bb a:int*"]
    assert verdict(history, two).valid is True
    assert finding(history, [*two, "@8 running n2 table k.t id=cc a:int*"]).type == "changing-table-id"


def test_a_table_need_not_have_been_seen_in_each_of_its_lives() -> None:
    again = []
    for at in (4, 8):
        again += [f"@{at} p{at} n1 invoke drop-table k.t", f"@{at + 1} p{at} n1 ok"]
        again += [f"@{at + 2} p9{at} n1 invoke create-table k.t a:int*", f"@{at + 3} p9{at} n1 ok"]
    assert verdict([*CREATE, *again], CHANGED).valid is True


def test_one_id_for_two_tables_is_found() -> None:
    found = finding(
        [*CREATE, "@1 p1 n2 invoke create-table k.s a:int*", "@2 p1 n2 ok"],
        ["settled n1 table k.t id=3e8 a:int*", "settled n2 table k.s id=3e8 a:int*"],
    )
    assert found.type == "shared-table-id"
    assert found.objects == ("k.s", "k.t")
    assert found.nodes == ("n1", "n2")
    assert found.ops == (0, 1)


def test_an_integer_id_given_twice_by_two_nodes_that_never_agree_is_shared() -> None:
    """0.7 to 1.0: each node keeps the migration of its own client, and both counted to 1004 (CASSANDRA-3794)."""
    creates = ("p0 n1 invoke create-table k.t0 a:int*", "p0 n1 ok", "p1 n2 invoke create-table k.t1 a:int*", "p1 n2 ok")
    number = f"{1004:032x}"
    (found,) = (
        TableIds()
        .check(
            judged(
                creates,
                [
                    'settled n1 version v1 {"told_from": "memory"}',
                    'settled n2 version v2 {"told_from": "memory"}',
                    f"settled n1 table k.t0 id={number} a:int",
                    f"settled n2 table k.t1 id={number} a:int",
                ],
            ),
            limit_s=5,
        )
        .anomalies
    )
    assert (found.type, found.objects, found.nodes) == ("shared-table-id", ("k.t0", "k.t1"), ("n1", "n2"))


def test_two_ids_for_two_tables_are_valid() -> None:
    observations = ["settled n1 table k.t id=3e8 a:int*", "settled n2 table k.s id=3e9 a:int*"]
    assert verdict(CREATE, observations).valid is True


def test_an_id_shared_in_both_phases_is_told_once() -> None:
    found = finding((), ["settled,restarted n1 table k.t id=1 a:int*", "settled,restarted n1 table k.s id=1 a:int*"])
    assert list(found.evidence) == ["settled", "restarted"]


BY_EPOCHS = ("1b255f4def2540a60000000000000011", "1b255f4def2540a60000000000000012")
BY_TIMES = ("a7b07390e6c911f1b659bf20f8290ccf", "a7ea4840e6c911f1b659bf20f8290ccf")
LATER = ("@3 p1 n2 invoke create-table k.s a:int*", "@4 p1 n2 ok")


def of_ids(first: str, second: str) -> list[str]:
    return [f"settled n1,n2 table k.t id={first} a:int*", f"settled n1,n2 table k.s id={second} a:int*"]


@pytest.mark.parametrize("ids", [BY_EPOCHS, BY_TIMES])
def test_a_table_that_was_created_later_with_an_earlier_id_of_the_same_counter_is_a_doubt(ids: tuple[str, str]) -> None:
    assert verdict([*CREATE, *LATER], of_ids(*ids)).valid is True
    swapped = verdict([*CREATE, *LATER], of_ids(*reversed(ids)))
    assert swapped.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in swapped.doubts] == [("undecided", ("k.s", "k.t"))]


@pytest.mark.parametrize(
    "history",
    [
        (*CREATE, "@2 p1 n2 invoke create-table k.s a:int*", "@4 p1 n2 ok"),  # at the same time
        (*CREATE, LATER[0], "@4 p1 n2 info timed out"),
        (CREATE[0], "@2 p0 n1 info timed out", *LATER),
        (
            *CREATE,
            *LATER,
            "@5 p2 n1 invoke drop-table k.t",
            "@6 p2 n1 ok",
            "@7 p2 n1 invoke create-table k.t a:int*",
            "@8 p2 n1 ok",
        ),
        (*CREATE, *LATER, "@5 p2 n1 invoke create-table k.t a:int*", "@8 p2 n1 info timed out"),
    ],
)
def test_ids_of_tables_that_may_have_been_created_in_their_order_are_valid(history: Sequence[str]) -> None:
    assert verdict(history, of_ids(*reversed(BY_EPOCHS))).valid is True


@pytest.mark.parametrize(
    "ids",
    [
        ("a7ea4840e6c911f1b659bf20f8290ccf", "a7b07390e6c911f1856b796dc978ec94"),  # two servers
        ("a7ea4840e6c941f1b659bf20f8290ccf", "a7b07390e6c941f1b659bf20f8290ccf"),  # drawn by chance
        ("12", "11"),
    ],
)
def test_ids_that_no_counter_gave_both_of_have_no_order(ids: tuple[str, str]) -> None:
    assert verdict([*CREATE, *LATER], of_ids(*ids)).valid is True


def numbered(number: int) -> str:
    return f"1b255f4def2540a6{number:016x}"


THREE = (
    *CREATE,
    *("@5 p1 n2 invoke create-table k.s a:int*", "@10 p1 n2 ok"),
    *("@6 p2 n2 invoke create-table k.r a:int*", "@7 p2 n2 ok"),
    *("@8 p3 n2 invoke create-table k.q a:int*", "@9 p3 n2 ok"),
)


def test_ids_are_in_order_also_where_one_between_them_may_be_of_either_time() -> None:
    def shown(**numbers: int) -> list[str]:
        return [f"settled n1,n2 table k.{name} id={numbered(number)} a:int*" for name, number in numbers.items()]

    assert verdict(THREE, shown(t=1, r=2, s=3, q=4)).valid is True
    assert verdict(THREE, shown(t=1, q=2, s=3, r=4)).doubts[0].objects == ("k.q", "k.r")


LIVES = (
    *CREATE,
    *("@5 p2 n1 invoke drop-table k.t", "@6 p2 n1 ok"),
    *("@7 p2 n1 invoke create-table k.s a:int*", "@8 p2 n1 ok"),
    *("@9 p2 n1 invoke create-table k.t a:int*", "@10 p2 n1 ok"),
)


def test_each_life_of_a_table_has_its_place_in_the_order() -> None:
    def shown(first: int, other: int, last: int) -> list[str]:
        return [
            f"@4 running n1 table k.t id={numbered(first)} a:int*",
            f"settled n1,n2 table k.s id={numbered(other)} a:int*",
            f"settled n1,n2 table k.t id={numbered(last)} a:int*",
        ]

    assert verdict(LIVES, shown(1, 2, 3)).valid is True
    assert verdict(LIVES, shown(2, 1, 3)).doubts[0].objects == ("k.s", "k.t")
    unanswered = [line.replace("@2 p0 n1 ok", "@2 p0 n1 info timed out") for line in LIVES]
    for history in (unanswered, [*LIVES, "@12 p7 n1 invoke create-table k.t a:int*", "@13 p7 n1 info timed out"]):
        assert verdict(history, shown(2, 1, 3)).doubts == ()

"""Data directories: tables divided on one disk, snapshots of drops that nobody asked for, and what explains either."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.schema.data_directories import DataDirectories
from schemaquake.harness.model.verdict import Anomaly, Verdict

CREATE = ("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok")
RIVAL = ("@1 p1 n2 invoke create-table k.t a:int*", "@3 p1 n2 ok")
SCHEMA = ("settled n1,n2 keyspace k", "settled n1,n2 table k.t id=aa a:int*")
PLAIN = '{"live": true, "snapshots": []}'
DROPPED = '{"live": false, "snapshots": ["dropped-17-t"]}'
KEPT = ("settled n1,n2 data-directory k.t id=aa " + PLAIN,)


def verdict(history: Sequence[str], observations: Sequence[str]) -> Verdict:
    return DataDirectories().check(judged(history, observations), limit_s=5)


def finding(history: Sequence[str], observations: Sequence[str]) -> Anomaly:
    (found,) = verdict(history, observations).anomalies
    return found


def test_one_directory_under_the_id_of_the_schema_is_valid() -> None:
    judgement = verdict(CREATE, [*SCHEMA, *KEPT])
    assert judgement.valid is True
    assert judgement.figures == {"tables": 1, "directories": 2}


BORN = ("@1 p9 n1 invoke create-keyspace k", "@2 p9 n1 ok")
STRANGE = ("settled n1 data-directory k.s id=bb " + PLAIN,)


def test_a_directory_of_a_table_that_nothing_created_is_in_doubt() -> None:
    judgement = verdict([*BORN, *CREATE], [*SCHEMA, *KEPT, *STRANGE])
    assert judgement.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in judgement.doubts] == [("undecided", ("k.s",))]


@pytest.mark.parametrize(
    "history",
    [
        (),  # the keyspace may be older than the history
        (BORN[0], "@2 p9 n1 info timed out"),
        (*BORN, "@3 p8 n1 invoke create-table k.s a:int*", "@4 p8 n1 info timed out"),
        (*BORN, '@3 p8 n1 invoke create-view k.s {"base": "t", "primary_key": ["a"]}', "@4 p8 n1 ok"),
        (*BORN, '@3 p8 n1 invoke cql k {"statement": "CREATE TABLE s (a int PRIMARY KEY)"}', "@4 p8 n1 ok"),
    ],
)
def test_a_directory_of_a_table_that_something_may_have_created_is_sound(history: Sequence[str]) -> None:
    doubts = verdict([*history, *CREATE], [*SCHEMA, *KEPT, *STRANGE]).doubts
    assert not any("k.s" in doubt.objects for doubt in doubts)


def test_without_any_directory_there_is_nothing_to_judge() -> None:
    judgement = verdict(CREATE, SCHEMA)
    assert judgement.valid == "unknown"
    assert judgement.judged_nothing


def test_directories_without_ids_leave_nothing_to_judge() -> None:
    """Up to 2.0 a name has one place, and what was never flushed may have none: that n2 has no row says nothing."""
    judgement = verdict(CREATE, [*SCHEMA, "settled n1 data-directory k.t " + PLAIN])
    assert judgement.valid == "unknown"
    assert judgement.judged_nothing


def test_a_disk_that_was_not_looked_at_leaves_it_undecided() -> None:
    judgement = verdict(CREATE, [*SCHEMA, "settled n1 data-directory k.t id=aa " + PLAIN])
    assert judgement.valid == "unknown"
    assert [(doubt.kind, "n2" in doubt.text) for doubt in judgement.doubts] == [("unread", True)]


def test_a_missing_directory_is_a_doubt_about_its_table_and_a_disk_that_was_not_read_about_all() -> None:
    other = ("settled n1,n2 table l.s id=bb a:int*", "settled n1 data-directory l.s id=bb " + PLAIN)
    judgement = verdict(CREATE, [*SCHEMA, *KEPT, *other])
    assert (judgement.valid, [doubt.objects for doubt in judgement.doubts]) == ("unknown", [("l.s",)])
    unread = verdict(CREATE, [*SCHEMA, "settled n1 data-directory k.t id=aa " + PLAIN])
    assert (unread.valid, [doubt.objects for doubt in unread.doubts]) == ("unknown", [()])


@pytest.mark.parametrize("seen", ["n1", "n2"])
def test_a_table_without_its_directory_on_a_disk_that_was_read_leaves_it_undecided(seen: str) -> None:
    other = ("settled n1,n2 table k.s id=bb a:int*", "settled n1,n2 data-directory k.s id=bb " + PLAIN)
    judgement = verdict(CREATE, [*SCHEMA, *other, f"settled {seen} data-directory k.t id=aa {PLAIN}"])
    assert [(doubt.kind, doubt.objects) for doubt in judgement.doubts] == [("unread", ("k.t",))]
    assert verdict(CREATE, [*SCHEMA, *other, *KEPT]).valid is True


MEMORY = "settled n1,n2 live k.s CREATE TABLE k.s (a int PRIMARY KEY)"


@pytest.mark.parametrize(
    "memory",
    [
        MEMORY,  # n2 shows its memory, and the table is not in it
        'settled n2 live k.t {"kind": "table", "refusal": "unconfigured table t"}',
    ],
)
def test_a_table_that_memory_lacks_was_never_opened_and_needs_no_directory(memory: str) -> None:
    other = ("settled n1,n2 table k.s id=bb a:int*", "settled n1,n2 data-directory k.s id=bb " + PLAIN)
    seen = [*SCHEMA, *other, f"settled n1 data-directory k.t id=aa {PLAIN}"]
    whole = [
        'settled n1,n2 version vv {"memory": "statements"}',
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY)",
    ]
    assert verdict(CREATE, [*whole, *seen, memory]).valid is True
    remembered = "settled n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY)"
    judgement = verdict(CREATE, [*whole, *seen, MEMORY, remembered])
    assert [(doubt.kind, doubt.objects) for doubt in judgement.doubts] == [("unread", ("k.t",))]


def test_a_memory_that_could_not_be_read_does_not_say_that_a_table_was_never_opened() -> None:
    other = ("settled n1,n2 table k.s id=bb a:int*", "settled n1,n2 data-directory k.s id=bb " + PLAIN)
    unread = 'settled n1,n2 version vv {"memory": "statements", "memory_error": "OperationTimedOut"}'
    judgement = verdict(CREATE, [unread, *SCHEMA, *other, f"settled n1 data-directory k.t id=aa {PLAIN}", MEMORY])
    assert [(doubt.kind, doubt.objects) for doubt in judgement.doubts] == [("unread", ("k.t",))]


def test_a_table_without_an_id_has_no_directory_that_could_be_missed() -> None:
    assert verdict(CREATE, [*SCHEMA, "settled n1,n2 table k.s a:int*", *KEPT]).valid is True


def test_tables_that_the_time_does_not_reach_are_left_undecided() -> None:
    history = [*CREATE, *(line.replace("k.t", "k.s") for line in RIVAL)]
    judgement = DataDirectories().check(judged(history, [*SCHEMA, *KEPT, *STRANGE]), limit_s=-1)
    assert [doubt.kind for doubt in judgement.doubts] == ["time"]
    assert judgement.valid == "unknown"


def test_directories_are_judged_in_the_final_phases_alone() -> None:
    passing = ("running n1 data-directory k.t id=bb " + PLAIN, "running n1 data-directory k.t id=aa " + DROPPED)
    assert verdict(CREATE, [*SCHEMA, *KEPT, *passing]).valid is True


# ── divided ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_live_directories_of_one_table_are_an_anomaly() -> None:
    found = finding([*CREATE, *RIVAL], [*SCHEMA, *KEPT, "settled n2 data-directory k.t id=bb " + PLAIN])
    assert found.type == "divided-data-directory"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n2",)
    assert found.ops == (0, 1)
    assert found.evidence == [{"phase": "settled", "node": "n2", "live": ["aa", "bb"], "schema": "aa"}]
    assert "n2 keeps rows of k.t under aa and bb, and knows it as aa." in found.explanation


def test_an_empty_second_directory_is_valid() -> None:
    empty = '{"live": false, "snapshots": []}'
    assert verdict(CREATE, [*SCHEMA, *KEPT, "settled n2 data-directory k.t id=bb " + empty]).valid is True


def test_rows_under_another_id_than_the_schema_has_are_an_anomaly() -> None:
    disks = ("settled n1 data-directory k.t id=aa " + PLAIN, "settled n2 data-directory k.t id=bb " + PLAIN)
    found = finding(CREATE, [*SCHEMA, *disks])
    assert found.type == "divided-data-directory"
    assert found.nodes == ("n2",)
    assert "k.t had one life between" in found.explanation


def test_nodes_with_divided_tables_come_in_order() -> None:
    disks = [f"@{at} settled {node} data-directory k.t id=bb {PLAIN}" for node, at in (("n2", 10000), ("n1", 10001))]
    assert [each["node"] for each in finding(CREATE, [*SCHEMA, *disks]).evidence] == ["n1", "n2"]


def test_each_phase_is_held_against_its_own_reading() -> None:
    again = ("restarted n1,n2 table k.t id=bb a:int*", "restarted n1,n2 data-directory k.t id=bb " + PLAIN)
    assert verdict(CREATE, [*SCHEMA, *KEPT, *again]).valid is True
    late = ("restarted n1,n2 table k.t id=bb a:int*", "restarted n1,n2 data-directory k.t id=aa " + PLAIN)
    assert finding(CREATE, [*SCHEMA, *KEPT, *late]).evidence == [
        {"phase": "restarted", "node": node, "live": ["aa"], "schema": "bb"} for node in ("n1", "n2")
    ]


def test_a_directory_whose_table_the_schema_lacks_is_left_to_others() -> None:
    assert verdict(CREATE, ["settled n1 keyspace k", "settled n1 data-directory k.t id=aa " + PLAIN]).valid is True


# ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("snapshot", ["dropped-17-t", "17-dropped-t"])
def test_a_snapshot_of_a_drop_that_nobody_asked_for_is_an_anomaly(snapshot: str) -> None:
    disk = f'settled,restarted n2 data-directory k.t id=bb {{"live": false, "snapshots": ["{snapshot}"]}}'
    found = finding([*CREATE, *RIVAL], [*SCHEMA, *KEPT, disk])
    assert found.type == "unexplained-snapshot"
    assert found.objects == ("k.t",)
    assert found.nodes == ("n2",)
    assert found.ops == (0, 1)
    assert found.evidence == {"n2": {snapshot: "bb"}}


@pytest.mark.parametrize("snapshot", ["truncated-17-t", "17-t", "mine", "what-was-dropped-17"])
def test_a_snapshot_of_another_kind_is_valid(snapshot: str) -> None:
    disk = f'settled n2 data-directory k.t id=bb {{"live": false, "snapshots": ["{snapshot}"]}}'
    assert verdict(CREATE, [*SCHEMA, *KEPT, disk]).valid is True


def test_a_refused_drop_explains_nothing_and_is_told() -> None:
    refused = ("@5 p0 n1 invoke drop-table k.t", "@6 p0 n1 fail InvalidRequest: no")
    found = finding([*CREATE, *refused], [*SCHEMA, *KEPT, "settled n2 data-directory k.t id=bb " + DROPPED])
    assert found.ops == (0, 2)
    assert "every DROP was refused" in found.explanation


def test_the_last_two_refused_drops_of_the_table_are_told() -> None:
    refused = [
        f"@{5 + at + ends} p{at} n1 {'fail InvalidRequest: no' if ends else f'invoke {change}'}"
        for at, change in zip(
            range(0, 24, 2),
            [
                *("drop-keyspace k", "drop-table k.t", "drop-view k.t"),
                *("drop-table k.s", "drop-table l.t", "drop-table j.t", "drop-keyspace l", "drop-keyspace j"),
                *("drop-type k.t", "add-column k.t c:int"),
            ],
            strict=False,
        )
        for ends in (0, 1)
    ]
    snapshot = "settled n2 data-directory k.t id=bb " + DROPPED
    assert finding([*CREATE, *refused], [*SCHEMA, *KEPT, snapshot]).ops == (0, 4, 6)
    found = finding([*CREATE, *refused[6:]], [*SCHEMA, *KEPT, snapshot])
    assert found.ops == (0,)
    assert "refused" not in found.explanation


@pytest.mark.parametrize(
    "drop",
    [
        pytest.param(["@5 p0 n1 invoke drop-table k.t", "@6 p0 n1 ok"], id="of the table"),
        pytest.param(["@5 p0 n1 invoke drop-table k.t", "@6 p0 n1 info timed out"], id="of unknown outcome"),
        pytest.param(["@5 p0 n1 invoke drop-table k.t"], id="never answered"),
        pytest.param(["@5 p0 n1 invoke drop-keyspace k", "@6 p0 n1 ok"], id="of the keyspace"),
        pytest.param(["@5 p0 n1 invoke drop-view k.t", "@6 p0 n1 ok"], id="of a view of that name"),
        pytest.param(['@5 p0 n1 invoke cql k {"statement": "DROP TABLE k.t"}', "@6 p0 n1 ok"], id="in free text"),
    ],
)
def test_a_possible_drop_explains_snapshots_and_an_old_directory(drop: Sequence[str]) -> None:
    disks = ("settled n1 data-directory k.t id=bb " + DROPPED, "settled n2 data-directory k.t id=cc " + PLAIN)
    assert not verdict([*CREATE, *drop], [*SCHEMA, *KEPT, *disks]).anomalies


def test_one_drop_explains_one_old_directory() -> None:
    drop = ("@5 p0 n1 invoke drop-table k.t", "@6 p0 n1 ok")
    old = [f"settled n2 data-directory k.t id={table_id} {PLAIN}" for table_id in ("bb", "cc")]
    assert verdict([*CREATE, *drop], [*SCHEMA, *KEPT, *old[:1]]).anomalies == ()
    found = finding([*CREATE, *drop], [*SCHEMA, *KEPT, *old])
    assert found.type == "divided-data-directory"
    assert "at most 2 lives" in found.explanation


def test_a_view_may_go_with_its_base() -> None:
    view = ('@5 p0 n1 invoke create-view k.v {"base": "t"}', "@6 p0 n1 ok")
    drop = ("@7 p0 n1 invoke drop-table k.t", "@8 p0 n1 ok")
    seen = [*SCHEMA, *KEPT, "settled n1 data-directory k.v id=bb " + DROPPED]
    assert finding([*CREATE, *view], seen).objects == ("k.v",)
    assert verdict([*CREATE, *view, *drop], seen).valid is True


def test_a_table_that_the_history_does_not_create_may_be_older_than_it() -> None:
    judgement = verdict([], [*SCHEMA, *KEPT, "settled n2 data-directory k.t id=bb " + DROPPED])
    assert judgement.valid == "unknown"
    assert judgement.judged_nothing


def test_the_drop_of_another_table_explains_nothing() -> None:
    drop = ("@5 p0 n1 invoke drop-table k.other", "@6 p0 n1 ok")
    found = finding([*CREATE, *drop], [*SCHEMA, *KEPT, "settled n2 data-directory k.t id=bb " + DROPPED])
    assert found.type == "unexplained-snapshot"


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────

SNAPSHOTS = {True: '["dropped-1-t"]', False: "[]"}
PLACES = st.lists(
    st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(["aa", "bb"]), st.booleans(), st.booleans()),
    unique_by=lambda place: place[:2],
    min_size=1,
)


@given(places=PLACES, order=st.permutations(["n1", "n2", "n3"]))
def test_renaming_nodes_changes_nothing(places: Sequence[tuple[str, str, bool, bool]], order: Sequence[str]) -> None:
    names = dict(zip(("n1", "n2", "n3"), order, strict=True))

    def of(new: dict[str, str]) -> Verdict:
        disks = [
            f"settled {new[node]} data-directory k.t id={table_id} "
            f'{{"live": {str(live).lower()}, "snapshots": {SNAPSHOTS[dropped]}}}'
            for node, table_id, live, dropped in places
        ]
        return verdict(CREATE, [*(f"settled {node} table k.t id=aa a:int*" for node in new.values()), *disks])

    before, after = of({node: node for node in names}), of(names)
    told = {(a.type, frozenset(names[node] for node in a.nodes)) for a in before.anomalies}
    assert told == {(a.type, frozenset(a.nodes)) for a in after.anomalies}
    assert before.valid == after.valid
    assert ("unexplained-snapshot" in {a.type for a in before.anomalies}) == any(dropped for *_, dropped in places)


OLD = 'n1 data-directory k.t id=bb {"live": false, "snapshots": ["dropped-4-t"]}'
DROPS = (
    "@3 p0 n1 invoke drop-table k.t",
    "@4 p0 n1 ok",
    *(line.replace("@1", "@5").replace("@2", "@6") for line in CREATE),
)
BOTH = ("settled,restarted n1,n2 keyspace k", "settled,restarted n1,n2 table k.t id=aa a:int*")
ALSO = ("settled,restarted n1,n2 data-directory k.t id=aa " + PLAIN,)


@pytest.mark.parametrize(
    ("phases", "valid"), [("settled", True), ("settled,restarted", True), ("restarted", "unknown")]
)
def test_a_directory_of_a_former_life_does_not_come_with_a_restart(phases: str, valid: bool | str) -> None:
    judgement = verdict([*CREATE, *DROPS], [*BOTH, *ALSO, f"{phases} {OLD}"])
    assert judgement.valid == valid
    assert [doubt.objects for doubt in judgement.doubts] == ([("k.t",)] if valid == "unknown" else [])


def rows_kept(
    phases: str, *events: str, settled_s: int = 15, drops: Sequence[str] = DROPS, before: Sequence[str] = ()
) -> Verdict:
    """The verdict on a table that was dropped at 4 ms, of which n1 keeps rows in these readings; the first is at so many s."""
    lines = [*BOTH, *ALSO, f"settled,restarted {OLD}", f"{phases} {OLD.replace('false', 'true')}"]
    times = {"settled": settled_s, "restarted": 25}
    each = [(phase, line.partition(" ")) for line in lines for phase in line.partition(" ")[0].split(",")]
    last = {(phase, rest.partition(" {")[0]): rest for phase, (_, _, rest) in each}
    observations = [f"@{times[phase]}000 {phase} {rest}" for (phase, _), rest in last.items()]
    return verdict([*before, *CREATE, *drops, *events], observations)


@pytest.mark.parametrize("phases", ["settled", "restarted", "settled,restarted"])
def test_rows_of_a_former_life_that_nothing_kept_are_in_doubt(phases: str) -> None:
    judgement = rows_kept(phases)
    assert judgement.valid == "unknown"
    assert [doubt.objects for doubt in judgement.doubts] == [("k.t",)]
    assert "n1 keeps rows of a former life" in judgement.doubts[0].text


def test_rows_are_deleted_soon_after_the_drop_and_not_at_once() -> None:
    assert rows_kept("settled", settled_s=4).valid is True
    assert rows_kept("settled", settled_s=6).valid == "unknown"
    assert rows_kept("settled,restarted", settled_s=4).valid == "unknown"


def test_a_node_that_is_killed_to_be_restarted_may_keep_what_it_was_about_to_delete() -> None:
    restart = '@4500 -- info phase {"phase": "restart", "state": "begins"}'
    assert rows_kept("settled,restarted", restart, settled_s=4).valid is True
    assert rows_kept("settled,restarted", restart.replace("4500", "6000"), settled_s=4).valid == "unknown"
    assert rows_kept("settled", restart.replace("4500", "6000"), settled_s=4).valid is True


LATE = [
    line.replace("@3", "@9999").replace("@4", "@10000").replace("@5", "@10010").replace("@6", "@10011")
    for line in DROPS
]
"""Ten seconds later: a node may be behind from 4.999 s on, and has deleted the rows at 15 s, when it is read."""


@pytest.mark.parametrize(
    ("events", "valid"),
    [
        ((), "unknown"),
        *(
            ((f"@{at} {event}",), valid)
            for event in ('-- n1 info node-start {"phase": "fault", "served": true}', "-- n1 info node-died {}")
            for at, valid in ((3000, "unknown"), (4999, "unknown"), (5000, True), (14999, True), (15000, "unknown"))
        ),
        (('@9000 -- n0 info node-start {"phase": "fault", "served": true}',), "unknown"),
        (("@9000 -- n0 info node-died {}",), "unknown"),
        *(
            (
                (
                    f'@{begins} -- invoke repair {{"operation": 1, "nodes": ["n2"], "becomes": {{}}}}',
                    f'@{ends} -- ok repair {{"operation": 1, "nodes": ["n2"], "becomes": {{}}}}',
                ),
                valid,
            )
            for begins, ends, valid in (
                (2000, 3000, "unknown"),
                (2000, 4999, "unknown"),
                (2000, 5000, True),
                (6000, 7000, True),
                (14999, 15500, True),
                (15000, 15500, "unknown"),
            )
        ),
    ],
)
def test_what_keeps_rows_comes_between_five_seconds_before_the_drop_and_after_it(
    events: Sequence[str], valid: bool | str
) -> None:
    assert rows_kept("settled", *events, drops=LATE).valid == valid


@pytest.mark.parametrize(("kills", "valid"), [("true", True), ("false", "unknown")])
def test_a_cluster_that_kills_servers_by_itself_may_have_kept_rows(kills: str, valid: bool | str) -> None:
    planned = f'@0 -- info run-planned {{"kills": {kills}}}'
    assert rows_kept("settled", drops=LATE, before=[planned]).valid == valid


def test_a_drop_of_unknown_outcome_may_be_carried_out_until_the_first_reading() -> None:
    open_end = [LATE[0].replace("p0", "p7"), LATE[1].replace("p0", "p7").replace("ok", "info timed out"), *LATE[2:]]
    assert rows_kept("settled", drops=open_end).valid is True
    assert rows_kept("settled,restarted", drops=open_end).valid == "unknown"


def test_a_table_that_was_not_dropped_hides_no_rows_of_another() -> None:
    other = [line.replace("k.t", "k.a") for line in (*CREATE, *SCHEMA[1:], *KEPT)]
    old = "settled n1 data-directory k.t id=bb " + PLAIN
    observations = [*SCHEMA, *KEPT, *other[2:], old]
    lines = [line for each in observations for line in [f"@15000 {each}"]]
    judgement = verdict([*CREATE, *DROPS, *(line.replace("@1", "@7").replace("@2", "@8") for line in other[:2])], lines)
    assert [doubt.objects for doubt in judgement.doubts] == [("k.t",)]


@pytest.mark.parametrize(
    "event",
    [
        '-- n1 info node-start {"phase": "fault", "served": true}',
        "-- n1 info node-died {}",
        '-- info fault-begins {"id": 1, "nemesis": "disk-full", "nodes": ["n1"]}',
        '-- invoke repair {"operation": 1, "nodes": ["n2"], "becomes": {}}',
        "p5 n2 invoke drop-table k.t",  # with an unknown outcome, it may be carried out at any time
    ],
)
def test_a_node_that_was_kept_from_deleting_rows_may_have_them(event: str) -> None:
    assert rows_kept("settled", f"@3000 {event}").valid is True


@pytest.mark.parametrize(
    "event",
    [
        '@3000 -- n2 info node-start {"phase": "fault", "served": true}',
        "@3000 -- n2 info node-died {}",
        '@3000 -- n1 info node-start {"phase": "restart", "served": true}',
        '@11000 -- n1 info node-start {"phase": "fault", "served": true}',
        "@11000 -- n1 info node-died {}",
        '@11000 -- invoke repair {"operation": 1, "nodes": ["n2"], "becomes": {}}',
    ],
)
def test_what_happens_elsewhere_before_or_later_keeps_no_rows(event: str) -> None:
    assert rows_kept("settled", event).valid == "unknown"


def test_rows_that_come_with_the_restart_are_in_doubt_whatever_happened_before() -> None:
    killed = '@3000 -- n1 info node-start {"phase": "fault", "served": true}'
    assert rows_kept("restarted", killed).valid == "unknown"
    assert rows_kept("settled,restarted", killed).valid is True


def test_a_disk_that_was_not_read_before_the_restart_has_lost_nothing() -> None:
    late = [line.replace("settled,restarted n1,n2 data", "restarted n1,n2 data") for line in ALSO]
    judgement = verdict([*CREATE, *DROPS], [*BOTH, *late, f"restarted {OLD}"])
    assert not any("former life" in doubt.text for doubt in judgement.doubts)


def test_a_node_whose_schema_was_not_read_after_the_restart_says_nothing_of_former_lives() -> None:
    unread = [line.replace("settled,restarted n1,n2", "settled n1,n2") for line in BOTH]
    rest = [line.replace("settled,restarted n1,n2", "restarted n2") for line in BOTH]
    judgement = verdict(
        [*CREATE, *DROPS], [*unread, *rest, *ALSO, "restarted n1 error NoHostAvailable", f"restarted {OLD}"]
    )
    assert not any("former life" in doubt.text for doubt in judgement.doubts)


def test_rows_on_a_disk_that_was_not_read_before_the_restart_may_be_older() -> None:
    also = ALSO[0].replace("settled,restarted n1,n2", "restarted n1,n2")
    other = "settled n2 data-directory k.t id=aa " + PLAIN
    rows = "restarted " + OLD.replace("false", "true")
    killed = '@3000 -- n1 info node-start {"phase": "fault", "served": true}'
    judgement = verdict([*CREATE, *DROPS, killed], [*BOTH, also, other, rows])
    assert not any("keeps rows" in doubt.text for doubt in judgement.doubts)


def test_a_directory_of_a_table_that_another_node_knows_by_that_id_is_its_own_life() -> None:
    """One whose id is told otherwise after the restart has two ids, which others judge."""
    tables = (
        "settled n1,n2 table k.t id=aa a:int*",
        "restarted n1 table k.t id=bb a:int*",
        "restarted n2 table k.t id=aa a:int*",
    )
    judgement = verdict([*CREATE, *DROPS], [BOTH[0], *tables, *ALSO, f"restarted {OLD}"])
    assert not any("former life" in doubt.text for doubt in judgement.doubts)


EMPTY = '{"live": false, "snapshots": []}'
SECOND = (*KEPT, f"settled n2 data-directory k.t id=bb {EMPTY}")


def test_directories_under_more_ids_than_creates_are_in_doubt() -> None:
    judgement = verdict([*BORN, *CREATE], [*SCHEMA, *SECOND])
    assert judgement.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in judgement.doubts] == [("undecided", ("k.t",))]


def test_a_refused_create_may_have_made_one_directory_and_need_not_have() -> None:
    refused = ("@4 p1 n2 invoke create-table k.t a:int*", "@5 p1 n2 fail AlreadyExists: k.t")
    third = f"settled n2 data-directory k.t id=cc {EMPTY}"
    assert verdict([*BORN, *CREATE, *refused], [*SCHEMA, *KEPT]).valid is True
    judgement = verdict([*BORN, *CREATE, *refused], [*SCHEMA, *SECOND, third])
    assert [doubt.objects for doubt in judgement.doubts] == [("k.t",)]


@pytest.mark.parametrize(
    "history",
    [
        CREATE,  # the table may have had a life before the history
        (*BORN, *CREATE, "@4 p1 n2 invoke create-table k.t a:int*", "@5 p1 n2 fail AlreadyExists: k.t"),
        (*BORN, *CREATE, "@4 p1 n2 invoke create-table k.t a:int*", "@5 p1 n2 info timed out"),
        (*BORN, *CREATE, '@4 p1 n2 invoke cql k {"statement": "CREATE TABLE t (a int PRIMARY KEY)"}', "@5 p1 n2 ok"),
    ],
)
def test_directories_under_as_many_ids_as_there_may_have_been_lives_are_sound(history: Sequence[str]) -> None:
    assert verdict(history, [*SCHEMA, *SECOND]).valid is not False
    assert not any("k.t" in doubt.objects for doubt in verdict(history, [*SCHEMA, *SECOND]).doubts)

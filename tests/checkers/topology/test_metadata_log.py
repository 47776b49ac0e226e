"""The metadata log: forks, gaps and losses; and snapshots, late joiners and newer entries, which are none of these."""

from __future__ import annotations

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.topology.metadata_log import MetadataLog

LOG = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"], [4, "21", "d"]]


def log(node, entries, phase="settled,restarted", **more):
    return f"{phase} {node} epochs {orjson.dumps({'entries': entries, **more}).decode()}"


def verdict(*lines):
    return MetadataLog().check(judged([], lines), limit_s=5)


def found(*lines):
    return [(one.type, one.nodes) for one in verdict(*lines).anomalies]


def test_one_log_on_all_nodes_is_valid():
    result = verdict(log("n1", LOG), log("n2", LOG))
    assert (result.valid, result.doubts) == (True, ())


def test_an_epoch_with_two_entries_is_a_fork():
    for other in ([3, "4", "x"], [3, "5", "c"]):
        assert found(log("n1", LOG), log("n2", [*LOG[:2], other, LOG[3]])) == [("forked-metadata-log", ("n1", "n2"))]


def test_a_restart_that_rewrites_an_epoch_is_a_fork():
    assert found(log("n1", LOG, "settled"), log("n1", [*LOG[:3], [4, "21", "x"]], "restarted")) == [
        ("forked-metadata-log", ("n1",))
    ]


def test_a_skipped_epoch_is_a_gap_on_that_node():
    assert found(log("n1", LOG), log("n2", [LOG[0], *LOG[2:]], "settled")) == [("gap-in-metadata-log", ("n2",))]


def test_a_snapshot_explains_a_gap_and_a_joiner_begins_late():
    snapshot = [*LOG, [5, "2", "e"]]
    assert found(log("n1", snapshot), log("n2", [LOG[0], snapshot[-1]]), log("n3", LOG[2:], "settled")) == []


def test_a_node_that_was_sent_a_snapshot_goes_on_with_the_epoch_after_it():
    """It was 2 snapshots behind, and is sent the later one, of which it keeps no entry."""
    more = [[5, "3", "e"], [6, "4", "f"], [7, "3", "g"], [8, "4", "h"], [9, "4", "i"]]
    whole, behind = [*LOG, *more], LOG[:2]
    assert found(log("n1", whole), log("n2", [*behind, *more[3:]])) == []
    gap = [("gap-in-metadata-log", ("n2",))]
    for kept in (
        more[1:],
        more[2:],
        more[4:],
    ):  # one snapshot behind; before the snapshot; an epoch after it is missing
        assert found(log("n1", whole), log("n2", [*behind, *kept], "settled")) == gap
    assert found(log("n1", whole), log("n2", [*LOG, more[0], *more[2:]], "settled")) == gap


def test_what_was_known_before_the_restart_is_not_lost_after_it():
    lines = [log("n1", LOG), log("n2", LOG[:3], "settled"), log("n2", LOG, "restarted")]
    assert found(*lines) == []
    assert found(*lines[:2], log("n2", LOG[:3], "restarted")) == [("lost-metadata", ("n1", "n2"))]
    # Newer entries than those of the settled cluster may still be on their way.
    newer = [*LOG, [5, "4", "e"]]
    assert found(log("n1", LOG, "settled"), log("n1", newer, "restarted"), log("n2", LOG)) == []


def test_without_entries_there_is_nothing_to_judge():
    for lines in ([], [log("n1", [])]):
        assert [doubt.kind for doubt in verdict(*lines).doubts] == ["nothing-to-judge"]


def change(f, ms, outcome="ok", **argument):
    """The two events of a change of the schema through n1."""
    value = orjson.dumps({"keyspace": "k", **argument}).decode()
    key = f"k.{argument['name']}" if "name" in argument else "k"
    return [f"@{ms} p0 n1 invoke {f} {key} {value}", f"@{ms + 1} p0 n1 {outcome}"]


def epoch(node, number, ms, phase="running"):
    return f"@{ms} {phase} {node} version {orjson.dumps({'epoch': number}).decode()}"


ASKED = [
    *change("create-keyspace", 10, replication={"class": "SimpleStrategy", "replication_factor": 1}),
    *change("create-table", 20, name="t", columns=[["k", "int", "partition_key"]]),
]
RUN = [*ASKED, '@50 -- info phase {"phase": "final-settled", "state": "begins"}']


def judged_run(events, *lines):
    return MetadataLog().check(judged(events, lines), limit_s=5)


def test_every_effective_change_that_was_acknowledged_is_an_entry():
    log_of_two = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"]]
    assert judged_run(RUN, log("n1", log_of_two, "settled")).valid is True
    for without in ([3, "5", "c"], [3, "3", "c"]):
        result = judged_run(RUN, log("n1", [*log_of_two[:2], without], "settled"))
        assert [(one.type, one.ops) for one in result.anomalies] == [("unlogged-change", (0, 2))]
    assert judged_run(RUN, log("n1", log_of_two[:2], "settled")).valid is False


@pytest.mark.parametrize(
    "more",
    [
        change("create-table", 30, name="t", if_not_exists=True),  # commits nothing where the table is there
        change("alter-options", 30, name="t", options={"comment": "c"}),
        change("create-table", 30, "info", name="u"),
        change("create-table", 30, "fail", name="u"),
    ],
)
def test_a_change_that_may_have_done_nothing_needs_no_entry(more):
    log_of_two = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"]]
    assert judged_run([*ASKED, *more, RUN[-1]], log("n1", log_of_two, "settled")).valid is True


def test_a_log_that_begins_later_is_not_counted():
    late = [[4, "2", "a"], [5, "4", "b"]]
    assert judged_run(RUN, log("n1", late, "settled")).valid is True


@pytest.mark.parametrize(
    "entry",
    [
        ["3", "4", "c"],
        [3, 4, "c"],
        [3, "4", 72142299475382090],
        [3, "-1", "c"],
        [3, "72142299475382090", "4"],
        [3, None, "c"],
        [3, "4"],
        [3, "4", "c", "c"],
    ],
)
def test_what_is_no_entry_makes_the_log_unread(entry):
    result = verdict(log("n1", LOG), log("n2", [*LOG[:2], entry, LOG[3]]))
    assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"unread"})


def test_a_change_that_is_entered_again_after_another_one_is_found():
    again = [*LOG[:3], [4, "4", "d"], [5, "4", "c"]]
    result = verdict(log("n1", again), log("n2", again, "settled"))
    assert [(one.type, one.nodes, one.evidence["epochs"], one.evidence["between"]) for one in result.anomalies] == [
        ("repeated-change", ("n1", "n2"), [3, 5], [[4, "4", "d"]])
    ]
    third = [*again, [6, "4", "e"], [7, "4", "c"]]
    assert [one.evidence["epochs"] for one in verdict(log("n1", third)).anomalies] == [[3, 5], [5, 7]]


@pytest.mark.parametrize(
    "entries",
    [
        [*LOG[:3], [4, "4", "c"], [5, "4", "c"], [6, "4", "e"]],  # nothing of the schema was changed between
        [*LOG[:3], [4, "21", "d"], [5, "4", "c"]],
        [*LOG[:3], [4, "3", "d"], [5, "4", "e"], [6, "3", "d"]],  # a snapshot changes nothing
    ],
)
def test_a_change_that_is_entered_again_and_meets_no_other_one_is_not(entries):
    assert found(log("n1", entries)) == []


def change_text(kind, *names):
    return f"AlterSchema{{schemaTransformation={kind} ({', '.join(names)})}}"


TWICE = [*LOG[:3], [4, "4", "d"], [5, "4", "c"]]


@pytest.mark.parametrize(
    ("texts", "objects"),
    [
        ({"3": ("DropColumns", "k", "t"), "4": ("AddColumns", "k", "t"), "5": ("DropColumns", "k", "t")}, [("k.t",)]),
        ({"4": ("DropKeyspace", "k"), "5": ("DropColumns", "k", "t")}, [("k.t",)]),
        ({"4": ("DropTable", "k", "t"), "5": ("CreateKeyspace", "k")}, [("k",)]),
        ({"5": ("DropColumns", "k", "t")}, [("k.t",)]),
        ({"4": ("DropColumns", "k", "t")}, [()]),
        ({"4": ("AddColumns", "other", "t"), "5": ("DropColumns", "k", "t")}, []),
    ],
)
def test_the_text_of_a_repeated_change_tells_what_it_can_have_met(texts, objects):
    told = {epoch: change_text(*text) for epoch, text in texts.items()}
    result = verdict(log("n1", TWICE, statements=told))
    assert [one.objects for one in result.anomalies] == objects
    assert [one.evidence["statements"] for one in result.anomalies] == [told for _ in objects]


def test_a_finding_tells_what_the_changes_say() -> None:
    told = {"3": change_text("DropColumns", "k", "t"), "4": change_text("AddColumns", "k", "t")}
    (found_once,) = verdict(log("n1", TWICE, statements=told)).anomalies
    assert (
        "epoch 3: entry c of kind 4, DropColumns (k, t), then epoch 4: entry d of kind 4, AddColumns (k, t), and"
        in (found_once.explanation)
    )


@pytest.mark.parametrize("texts", [None, [], "no map", {"x": "y"}, {"5": 7}])
def test_texts_that_are_none_leave_the_entries(texts):
    assert found(log("n1", TWICE, statements=texts)) == [("repeated-change", ("n1",))]
    assert found(log("n1", LOG, statements=texts)) == []


def test_one_id_with_two_kinds_is_in_doubt_and_a_change_that_was_sent_again_is_not():
    twice = [*LOG[:3], [4, "4", "c"]]
    assert verdict(log("n1", twice)).valid is True
    result = verdict(log("n1", [*LOG[:3], [4, "5", "c"]]))
    assert [doubt.kind for doubt in result.doubts] == ["undecided"]


@pytest.mark.parametrize(("kind", "valid"), [("4", True), ("3", True), ("create-table", True), ("5", "unknown")])
def test_the_ring_changes_during_a_run_only_by_its_operations(kind, valid):
    booted = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"], [4, kind, "d"]]
    seen = [epoch("n1", 2, 12), epoch("n1", 3, 22), log("n1", booted, "settled")]
    assert judged_run(RUN, *seen).valid == valid
    joined = {"operation": 0, "nodes": ["n2"], "parameters": {}, "becomes": {"n2": "normal"}}
    asked = f"@30 -- invoke bootstrap {orjson.dumps(joined).decode()}"
    assert judged_run([*ASKED, asked, RUN[-1]], *seen).valid is True
    # What was there before the run's first change is the boot's.
    assert judged_run(RUN, epoch("n1", 4, 22), log("n1", booted, "settled")).valid is True


@pytest.mark.parametrize(
    ("at", "valid"), [(4, True), (6, "unknown")], ids=["before the races", "after their first change"]
)
def test_founders_that_are_started_after_the_setup_join_as_part_of_the_run(at, valid):
    """A run whose first node takes the whole setup; the coordinator shows the end of their joining late."""
    second = '@30 -- n2 info node-start {"phase": "boot", "served": true, "seconds": 5}'
    raced = change("create-table", 40, name="u", columns=[["k", "int", "partition_key"]])
    entries = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"], [4, "5", "d"], [5, "4", "e"], [6, "4", "f"]]
    entries[at - 1][1] = "5"
    seen = [
        epoch("n1", 3, 22),
        epoch("n1", 3, 35),
        epoch("n1", 5, 42),
        epoch("n1", 5, 44),
        log("n1", entries, "settled"),
    ]
    assert judged_run([*ASKED, second, *raced, RUN[-1]], *seen).valid == valid


WHOLE = [[1, "1", "a"], [2, "4", "b"], [3, "4", "c"]]
SHORT = WHOLE[:2]
RESTARTED = '@60 -- info phase {"phase": "final-restarted", "state": "begins"}'


def test_what_is_not_logged_is_told_with_its_changes_nodes_and_numbers():
    (found,) = judged_run(RUN, log("n1", SHORT, "settled"), log("n2", SHORT, "settled")).anomalies
    assert (found.objects, found.nodes) == (("k", "k.t"), ("n1", "n2"))
    assert found.evidence == {"phase": "settled", "acknowledged": 2, "in_the_log": 1}


def test_an_entry_of_any_node_of_the_same_phase_counts():
    assert judged_run(RUN, log("n1", SHORT, "settled"), log("n2", WHOLE, "settled")).valid is True
    after = [*RUN, RESTARTED]
    types = [
        one.type for one in judged_run(after, log("n1", WHOLE, "settled"), log("n1", SHORT, "restarted")).anomalies
    ]
    assert types == ["lost-metadata", "unlogged-change"]


def test_a_node_whose_log_was_not_read_may_have_the_entry():
    unread = "settled n2 keyspace k"
    result = judged_run(RUN, unread, log("n1", SHORT, "settled"))
    assert (result.valid, result.anomalies) == ("unknown", ())
    other = "restarted n2 keyspace k"
    assert judged_run(RUN, other, "settled n1 keyspace k", log("n1", SHORT, "settled")).valid is False


def test_a_log_with_a_gap_beside_a_whole_one_is_not_counted():
    snapshot = [WHOLE[0], [5, "2", "e"]]
    assert judged_run(RUN, log("n1", SHORT, "settled"), log("n2", snapshot, "settled")).valid is True


def test_a_change_that_ends_with_the_reading_need_not_be_in_it():
    late = change("create-table", 49, name="u", columns=[["k", "int", "partition_key"]])
    assert judged_run([*ASKED, *late, RUN[-1]], log("n1", WHOLE, "settled")).valid is True
    before = change("create-table", 48, name="u", columns=[["k", "int", "partition_key"]])
    assert judged_run([*ASKED, *before, RUN[-1]], log("n1", WHOLE, "settled")).valid is False


def test_an_upgrade_begins_the_log_in_the_middle_of_the_run():
    value = {"operation": 0, "nodes": ["n1"], "parameters": {"stage": "node", "takes_down": True}, "becomes": {}}
    upgrade = f"@30 -- invoke rolling-upgrade {orjson.dumps(value).decode()}"
    assert judged_run([*ASKED, RUN[-1]], log("n1", SHORT, "settled")).valid is False
    assert Evidence.of(judged([upgrade])).notes.upgrades.operations
    assert judged_run([*ASKED, upgrade, RUN[-1]], log("n1", SHORT, "settled")).valid is True


def test_a_reading_at_the_very_moment_of_the_answer_may_be_older():
    joined = [*WHOLE, [4, "5", "d"]]
    at_once = [epoch("n1", 2, 11), epoch("n1", 4, 23), log("n1", joined, "settled")]
    assert judged_run(RUN, *at_once).valid is True
    assert judged_run(RUN, epoch("n1", 2, 12), *at_once[1:]).valid == "unknown"
    # Another node than the coordinator may be behind.
    assert judged_run(RUN, epoch("n2", 2, 12), *at_once[1:]).valid is True


def test_every_gap_of_a_log_is_told():
    twice = [[1, "1", "a"], [1, "1", "a"], [3, "4", "c"], [5, "4", "e"]]
    assert [one.evidence["after"][0] for one in verdict(log("n1", twice, "settled")).anomalies] == [3, 5]


def test_a_loss_names_the_last_entry_that_is_left():
    (found,) = verdict(log("n1", LOG, "settled"), log("n1", LOG[:3], "restarted")).anomalies
    assert found.evidence == {"known": [4, "21", "d"], "last": [3, "4", "c"]}


def test_a_phase_that_cannot_be_judged_leaves_the_other_judged():
    lines = ["settled n2 keyspace k", log("n1", WHOLE, "settled"), log("n1", WHOLE, "restarted")]
    assert judged_run([*RUN, RESTARTED], *lines).anomalies == ()
    lacking = [
        *ASKED,
        *change("create-table", 30, name="u", columns=[["k", "int", "partition_key"]]),
        RUN[-1],
        RESTARTED,
    ]
    found_then = judged_run(lacking, *lines).anomalies
    assert [(one.type, one.evidence["phase"]) for one in found_then] == [("unlogged-change", "restarted")]


def test_the_last_epochs_are_told_by_phase_and_node():
    result = verdict(log("n1", LOG, "settled"), log("n2", LOG[:3], "settled"), log("n1", LOG, "restarted"))
    assert result.figures["last_epochs"] == {"settled": {"n1": 4, "n2": 3}, "restarted": {"n1": 4}}


def test_a_node_that_was_read_and_shows_no_log_is_a_doubt_and_so_is_one_whose_log_ends_before_its_epoch():
    versions = 'settled,restarted n1,n2,n3 version v1 {"epoch": 4}'
    logs = [log(node, LOG) for node in ("n1", "n2", "n3")]
    assert verdict(versions, *logs).doubts == ()
    for part in ([*logs[:2], log("n3", LOG, "settled")], [*logs[:2], log("n3", [])]):
        result = verdict(versions, *part)
        assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"unread"})
    # The last epoch is left out on one node, before and after the restart, and it says that it has it.
    short = [log("n1", LOG, "settled"), log("n1", [*LOG, [5, "4", "e"]], "restarted")]
    later = ['settled n1,n2 version v1 {"epoch": 4}', 'restarted n1,n2 version v2 {"epoch": 5}']
    result = verdict(*later, *short, log("n2", LOG))
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["undecided"])
    behind = [
        'settled n1,n2 version v1 {"epoch": 4}',
        'restarted n1 version v2 {"epoch": 5}',
        'restarted n2 version v1 {"epoch": 4}',
    ]
    assert verdict(*behind, *short, log("n2", LOG)).valid is True


def test_a_node_that_begins_with_a_snapshot_of_the_last_epoch_shows_no_entries():
    cut = [log("n1", LOG[2:]), log("n2", LOG[2:]), log("n3", [])]
    assert verdict('settled,restarted n1,n2,n3 version v1 {"epoch": 4}', *cut).valid is True
    doubted = [
        ('settled,restarted n1,n2,n3 version v1 {"epoch": 4}', [log("n1", LOG), *cut[1:]]),  # one log is whole
        ('settled,restarted n1,n2,n3 version v1 {"epoch": 4}', cut[:2]),  # n3 was not asked
        ('settled,restarted n1,n2 version v1 {"epoch": 4}', [*cut, "settled,restarted n3 keyspace k"]),
    ]
    for versions, lines in doubted:
        assert {doubt.kind for doubt in verdict(versions, *lines).doubts} == {"unread"}, lines
    older = ['settled,restarted n1,n2 version v1 {"epoch": 4}', 'settled,restarted n3 version v1 {"epoch": 3}']
    assert {doubt.kind for doubt in verdict(*older, *cut).doubts} == {"unread"}


def test_it_vouches():
    assert MetadataLog().vouches


def test_a_log_that_alone_is_no_log_was_not_read():
    assert [doubt.kind for doubt in verdict(log("n1", [["3", "4", "c"]], "settled")).doubts] == ["unread"]


def test_a_node_that_shows_its_log_after_the_restart_alone_is_judged_there():
    lines = [log("n1", LOG), log("n2", LOG, "restarted")]
    result = verdict(*lines)
    assert (result.valid, result.figures["last_epochs"]) == (
        True,
        {"settled": {"n1": 4}, "restarted": {"n1": 4, "n2": 4}},
    )
    versions = 'settled,restarted n1,n2 version v1 {"epoch": 4}'
    assert {doubt.kind for doubt in verdict(versions, *lines).doubts} == {"unread"}


def test_a_phase_in_which_nobody_shows_a_log_leaves_the_doubts_of_the_other():
    versions = 'settled,restarted n1,n2 version v1 {"epoch": 4}'
    assert verdict(versions, log("n1,n2", LOG, "restarted")).valid is True
    assert [doubt.kind for doubt in verdict(versions, log("n1", LOG, "restarted")).doubts] == ["unread"]


def test_a_log_that_was_read_later_than_the_epoch_may_go_on_after_it():
    assert verdict('settled,restarted n1 version v1 {"epoch": 3}', log("n1", LOG)).valid is True
    result = verdict('settled,restarted n1 version v1 {"epoch": 5}', log("n1", LOG))
    assert [doubt.kind for doubt in result.doubts] == ["undecided", "undecided"]


@pytest.mark.parametrize("between", ["b2", "d"])
def test_a_repeated_change_is_found_whatever_the_id_of_the_one_between(between):
    again = [*LOG[:3], [4, "4", between], [5, "4", "c"]]
    assert [one.evidence["epochs"] for one in verdict(log("n1", again)).anomalies] == [[3, 5]]


def test_a_log_that_has_an_epoch_twice_is_not_counted():
    twice = [WHOLE[0], WHOLE[0], WHOLE[1]]
    assert judged_run(RUN, log("n1", twice, "settled")).anomalies == ()
    assert [one.type for one in judged_run(RUN, log("n1", SHORT, "settled")).anomalies] == ["unlogged-change"]


def test_an_entry_that_is_there_after_the_restart_alone_was_lacking_before():
    lines = [log("n1", SHORT, "settled"), log("n1", WHOLE, "restarted")]
    found_then = judged_run([*RUN, RESTARTED], *lines).anomalies
    assert [(one.type, one.evidence["phase"]) for one in found_then] == [("unlogged-change", "settled")]


def test_a_change_after_the_reading_began_need_not_be_in_it():
    late = change("create-table", 55, name="u", columns=[["k", "int", "partition_key"]])
    assert judged_run([*RUN, *late], log("n1", WHOLE, "settled")).valid is True


def test_what_a_coordinator_showed_before_it_took_a_change_is_the_boots():
    booted = [[1, "1", "a"], [2, "5", "b"], [3, "4", "c"], [4, "4", "d"]]
    seen = [epoch("n1", 1, 5), epoch("n1", 3, 12), epoch("n1", 3, 14), log("n1", booted, "settled")]
    assert judged_run(RUN, *seen).valid is True
    booted[3:] = [[4, "5", "d"], [5, "4", "e"]]
    assert judged_run(RUN, *seen[:3], log("n1", booted, "settled")).valid == "unknown"
    # One that was recorded after the change was acknowledged may have been answered before.
    assert judged_run(RUN, *seen[:2], log("n1", booted, "settled")).valid is True


@pytest.mark.parametrize(("phase", "valid"), [("boot", True), ("fault", "unknown"), ("a", "unknown")])
def test_only_a_start_of_the_boot_may_be_a_founder_that_joins(phase, valid):
    started = f'@30 -- n2 info node-start {{"phase": "{phase}", "served": true, "seconds": 5}}'
    entries = [*WHOLE, [4, "5", "d"]]
    seen = [epoch("n1", 3, 22), log("n1", entries, "settled")]
    assert judged_run([*ASKED, started, RUN[-1]], *seen).valid == valid


@pytest.mark.parametrize(("ms", "valid"), [(30, True), (31, "unknown")])
def test_a_change_of_the_instant_in_which_a_founder_was_started_may_be_older(ms, valid):
    started = '@30 -- n2 info node-start {"phase": "boot", "served": true, "seconds": 5}'
    raced = change("create-table", ms, name="u", columns=[["k", "int", "partition_key"]])
    entries = [*WHOLE, [4, "4", "d"], [5, "5", "e"]]
    seen = [epoch("n1", 4, ms + 3), log("n1", entries, "settled")]
    assert judged_run([*ASKED, started, *raced, RUN[-1]], *seen).valid == valid


def test_a_change_may_be_the_very_first_event():
    first = change("create-keyspace", 0, replication={"class": "SimpleStrategy", "replication_factor": 1})
    seen = [epoch("n1", 2, 3), log("n1", [*SHORT, [3, "5", "c"]], "settled")]
    assert judged_run([*first, RUN[-1]], *seen).valid == "unknown"
    assert judged_run([*first, RUN[-1]], seen[0], log("n1", SHORT, "settled")).valid is True


FIRST_NODE = [str((1 << 56) + 700 + number) for number in range(4)]
SECOND_NODE = str((2 << 56) + 5)
IN_TURN = [
    *("@10 p0 n1 invoke create-table k.a a:int*", "@20 p0 n1 ok"),
    *("@30 p0 n1 invoke create-table k.b a:int*", "@40 p0 n1 ok"),
    *("@35 p1 n2 invoke create-table k.c a:int*", "@45 p1 n2 ok"),
]
NUMBERED = [
    [1, "1", "-1"],
    [2, "4", FIRST_NODE[0]],
    [3, "4", SECOND_NODE],
    [4, "4", FIRST_NODE[1]],
    [5, "4", FIRST_NODE[2]],
]


def of_order(entries, history=IN_TURN):
    return MetadataLog().check(judged(history, [log("n1", entries), log("n2", entries)]), limit_s=5)


def swapped(entries, one, other):
    first, second = entries[one], entries[other]
    there = {one: [first[0], *second[1:]], other: [second[0], *first[1:]]}
    return [there.get(place, entry) for place, entry in enumerate(entries)]


@pytest.mark.parametrize("ids", [None, ["n1-1", "n2-1", "n1-2", "n1-3"]])
def test_changes_that_one_node_asked_for_in_another_order_are_in_doubt(ids):
    entries = NUMBERED if ids is None else [NUMBERED[0], *([*e[:2], i] for e, i in zip(NUMBERED[1:], ids, strict=True))]
    assert (of_order(entries).valid, of_order(entries).doubts) == (True, ())
    (doubt,) = of_order(swapped(entries, 1, 3)).doubts
    assert (doubt.kind, doubt.text.partition(":")[0]) == (
        "undecided",
        "one node asked for these changes in another order",
    )
    # Two nodes count by themselves, and one id may be there twice in a row.
    assert of_order(swapped(entries, 2, 3)).doubts == ()
    assert of_order([*entries, [6, *entries[-1][1:]]]).doubts == ()


@pytest.mark.parametrize(
    "history",
    [
        [*IN_TURN, "@15 p2 n1 invoke create-table k.d a:int*", "@25 p2 n1 ok"],  # at once
        [*IN_TURN, "@5 p2 n1 invoke create-table k.d a:int*", "@6 p2 n1 info timed out"],
        [*IN_TURN, '@50 -- info fault-begins {"id": 1, "nemesis": "kill", "nodes": ["n1"]}'],
    ],
)
def test_changes_that_one_node_may_have_been_asked_for_at_once_have_no_order(history):
    assert of_order(swapped(NUMBERED, 1, 3), history).doubts == ()


def test_ids_that_tell_no_node_have_no_order():
    assert of_order([NUMBERED[0], [2, "4", "9"], [3, "4", "8"], [4, "4", "x"]]).doubts == ()


def operated(f):
    value = orjson.dumps({"operation": 0, "nodes": ["n2"], "parameters": {}, "becomes": {"n2": "normal"}}).decode()
    return (f"-- n2 invoke {f} {value}", f"-- n2 info {f} {value}")


@pytest.mark.parametrize(
    ("kinds", "operation"),
    [
        (("12", "15"), "move"),
        (("16", "19"), "removenode"),
        (("16",), "cancel-sequence"),
        (("20",), "assassinate"),
        (("21", "24"), "replace"),
    ],
)
def test_changes_of_the_ring_that_another_operation_enters_are_a_doubt(kinds, operation):
    members = {"n1": {"state": "normal", "expected": "normal"}, "n2": {"state": "normal", "expected": "normal"}}
    noted = f"-- info membership {orjson.dumps({'at': 'boot', 'members': members}).decode()}"
    change = ("p1 n1 invoke create-keyspace k", "p1 n1 ok")
    entries = [[1, "1", "a"], [2, "4", "b"], *([3 + at, kind, f"c{at}"] for at, kind in enumerate(kinds))]
    shown = [
        'running n1 version 00000000-0000-0000-0000-000000000001 {"epoch": 1}',
        *(log(node, entries) for node in ("n1", "n2")),
    ]

    def doubts(f):
        return [
            one.text for one in MetadataLog().check(judged([noted, *change, *operated(f)], shown), limit_s=5).doubts
        ]

    assert not any("not by it" in text for text in doubts(operation))
    assert any("not by it" in text for text in doubts("bootstrap"))

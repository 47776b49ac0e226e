"""Upgrades: a start that fails, a change that is taken too early, a version that is not there, an end that is not reached."""

from __future__ import annotations

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.availability import Availability
from schemaquake.checkers.run.starts import find_strange_starts
from schemaquake.checkers.schema.defaults import Defaults
from schemaquake.checkers.topology.upgrades import UpgradesChecker

OLD, NEW = "cassandra:5.0.9", "cassandra:6.0-alpha2"
PROMISES = {
    "schema_changes": {"old": "unsupported", "new": "refused"},
    "until": "last-steps",
    "source": "NEWS.txt of 6.0",
}
ENDED = {
    "outcome": "info",
    "command": f"drain, stop, start as {NEW}",
    "answer": "exit code 3: Unknown type",
    "timed_out": False,
}
REFUSED = {"outcome": "fail", "command": "nodetool cms initialize", "answer": "mismatching", "timed_out": False}
SERVED = {"outcome": "ok", "command": f"drain, stop, start as {NEW}", "answer": "", "timed_out": False}


def stage(
    number, node, begins_ms, ends_ms, *, stage="node", outcome="ok", attempts=(SERVED,), system=NEW, to=NEW, **promises
):
    """The two events of an operation; without an outcome it has no end."""
    parameters = {"stage": stage, "to": to, **({} if stage == "finish" else {"takes_down": True})}
    value = {"operation": number, "nodes": [node], "parameters": parameters, "becomes": {node: "normal"}}
    lines = [f"@{begins_ms} -- {node} invoke rolling-upgrade {orjson.dumps(value).decode()}"]
    if outcome is not None:
        effect = {"attempts": list(attempts), "system": system, "promises": PROMISES | promises}
        lines.append(
            f"@{ends_ms} -- {node} {outcome} rolling-upgrade {orjson.dumps({**value, 'effect': effect}).decode()}"
        )
    return lines


def change(node, begins_ms, ends_ms, answer="ok", *, name="t", process=0):
    return [
        f"@{begins_ms} p{process} {node} invoke create-table k.{name} a:int*",
        f"@{ends_ms} p{process} {node} {answer}",
    ]


NODES = (*stage(1, "n1", 100, 200), *stage(2, "n2", 300, 400), *stage(3, "n3", 500, 600))
END = stage(4, "n1", 700, 800, stage="finish")
REFUSAL = "fail ServerError: Can't commit transformations when running in gossip mode"


def verdict(*lines, observations=()):
    return UpgradesChecker().check(judged(sorted(lines, key=_time), observations), limit_s=5)


def _time(line):
    return int(line[1:].split(" ", 1)[0])


def found(*lines, observations=()):
    result = verdict(*lines, observations=observations)
    return [one.type for one in result.anomalies], [doubt.kind for doubt in result.doubts]


def test_a_run_without_an_upgrade_is_nothing_to_judge():
    assert [doubt.kind for doubt in verdict("@1 -- info settle {}").doubts] == ["nothing-to-judge"]


def test_a_whole_upgrade_is_valid_and_says_what_became_of_changes():
    result = verdict(
        *NODES, *END, *change("n1", 250, 260, REFUSAL), *change("n3", 270, 280), *change("n2", 900, 910, name="u")
    )
    assert result.valid is True
    assert result.figures["operations"] == {"ok": 4}
    assert result.figures["ended"] is True
    assert result.figures["changes_of_mixed_times"] == {"not to be asked for, accepted": 1, "to be refused, refused": 1}


def test_a_change_that_an_upgraded_node_takes_before_the_end_is_a_finding():
    assert found(*NODES, *END, *change("n1", 250, 260)) == (["accepted-in-mixed-versions"], [])
    assert found(*NODES, *END, *change("n1", 650, 660)) == (["accepted-in-mixed-versions"], [])


@pytest.mark.parametrize(
    ("node", "begins_ms", "ends_ms"),
    [
        ("n3", 250, 260),  # not upgraded yet
        ("n1", 20, 30),  # before the first
        ("n1", 150, 160),  # while it became the other
        ("n2", 290, 310),  # begun before it
        ("n1", 690, 710),  # the last step may have allowed it
        ("n1", 750, 760),
        ("n1", 850, 860),
    ],
)
def test_one_event_away_it_is_none(node, begins_ms, ends_ms):
    assert found(*NODES, *END, *change(node, begins_ms, ends_ms)) == ([], [])


def test_a_refused_or_unknown_change_is_none_nor_one_of_a_line_that_promises_nothing():
    assert found(*NODES, *END, *change("n1", 250, 260, REFUSAL), *change("n1", 270, 280, "info T", process=1)) == (
        [],
        [],
    )
    told = {"schema_changes": {"old": "unsupported", "new": "unsupported"}}
    silent = [
        line
        for n, node in enumerate(("n1", "n2", "n3"))
        for line in stage(n, node, 100 + n * 100, 150 + n * 100, **told)
    ]
    assert found(*silent, *change("n1", 180, 190)) == ([], [])


def alter(node, begins_ms, ends_ms, options):
    value = orjson.dumps({"keyspace": "k", "name": "t", "options": options}).decode()
    return [f"@{begins_ms} p0 {node} invoke alter-options {value}", f"@{ends_ms} p0 {node} ok"]


def test_a_setting_that_was_there_already_was_not_taken():
    """A server compares before it commits, and acknowledges what changes nothing, as 6.0-alpha2 does while its log has not begun."""
    before = [*change("n1", 10, 20), *alter("n1", 30, 40, {"comment": "x", "gc_grace_seconds": 5})]
    shown = ['settled n2 table k.t id=1 a:int* {"options": {"caching": {"keys": "ALL"}, "comment": "y"}}']
    for options, kinds in (
        ({"comment": "x"}, []),
        ({"comment": "x", "gc_grace_seconds": "5"}, []),
        ({"caching": {"keys": "ALL"}}, []),
        ({"comment": "z"}, ["accepted-in-mixed-versions"]),
        ({"comment": "x", "gc_grace_seconds": 6}, ["accepted-in-mixed-versions"]),
        ({"caching": {"keys": "NONE"}}, ["accepted-in-mixed-versions"]),
    ):
        lines = [*before, *NODES, *END, *alter("n1", 250, 260, options)]
        assert found(*lines, observations=shown) == (kinds, []), options
    assert found(*NODES, *END, *alter("n1", 250, 260, {"comment": "x"}), *alter("n1", 270, 280, {"comment": "x"})) == (
        ["accepted-in-mixed-versions"],
        [],
    )


def test_a_node_that_went_back_may_take_changes_again():
    back = (*stage(1, "n1", 100, 200), *stage(2, "n1", 300, 400, stage="back", system=OLD))
    assert found(*back, *change("n1", 450, 460)) == ([], [])
    assert found(*back, *change("n1", 250, 260)) == (["accepted-in-mixed-versions"], [])


def test_a_server_of_the_newer_version_that_ends_by_itself_is_a_finding_also_if_a_later_try_serves():
    assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[ENDED])) == (["upgrade-start-failure"], [])
    assert found(*stage(1, "n1", 100, 200, attempts=[ENDED, SERVED])) == (["upgrade-start-failure"], [])


def fault(begins_ms, ends_ms, node, nemesis="kill"):
    value = orjson.dumps({"id": 9, "nemesis": nemesis, "nodes": [node], "parameters": {}}).decode()
    return [f"@{begins_ms} -- info fault-begins {value}", f"@{ends_ms} -- info fault-ends {value}"]


def test_a_fault_on_the_node_explains_it_one_on_another_node_does_not():
    failed = stage(1, "n1", 100, 200, outcome="info", attempts=[ENDED])
    assert found(*failed, *fault(120, 130, "n1")) == ([], ["undecided"])
    assert found(*failed, *fault(120, 130, "n2")) == (["upgrade-start-failure"], [])
    assert found(*failed, *fault(20, 30, "n1")) == (["upgrade-start-failure"], [])


def test_a_server_that_is_slow_or_a_full_disk_is_a_doubt():
    slow = {**ENDED, "timed_out": True}
    assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[slow])) == ([], ["undecided"])
    full = {**ENDED, "answer": "exit code 3: java.io.IOException: No space left on device"}
    assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[full])) == ([], ["undecided"])


def test_an_end_that_is_refused_without_a_fault_is_a_finding_that_names_what_was_taken_meanwhile():
    refused = stage(4, "n1", 700, 800, stage="finish", outcome="fail", attempts=[REFUSED])
    result = verdict(*NODES, *refused, *change("n3", 250, 260))
    assert [(one.type, one.evidence["accepted"]) for one in result.anomalies] == [("upgrade-does-not-end", 1)]
    assert found(*NODES, *refused, *fault(710, 720, "n2")) == ([], ["undecided"])
    slow = stage(4, "n1", 700, 800, stage="finish", outcome="info", attempts=[{**REFUSED, "timed_out": True}])
    assert found(*NODES, *slow) == ([], ["undecided"])
    unasked = stage(4, "n1", 700, 800, stage="finish", outcome="fail", attempts=[])
    assert found(*NODES, *unasked) == ([], ["undecided"])


def test_a_run_that_stopped_halfway_says_where():
    skipped = '@650 -- info operation-skipped {"nemesis": "rolling-upgrade", "nodes": ["n3"], "reason": "no time"}'
    result = verdict(*NODES[:4], skipped)
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["incomplete-run"])
    assert "n1 and n2" in result.doubts[0].text
    assert found(*NODES[:4], *stage(3, "n3", 500, 600, outcome=None)) == ([], ["incomplete-run"])
    other = '@650 -- info operation-skipped {"nemesis": "move", "nodes": ["n3"], "reason": "no time"}'
    assert found(*NODES, *END, other) == ([], [])


def test_a_node_that_says_it_is_another_release_was_not_upgraded():
    told = [
        f'{phase} n1 version v {{"epoch": null, "release": "{release}"}}'
        for phase, release in (("settled", "6.0-alpha2"), ("restarted", "6.0-alpha2"))
    ]
    assert found(*NODES, *END, observations=told) == ([], [])
    lie = ['restarted n1 version v {"epoch": null, "release": "5.0.9"}']
    assert found(*NODES, *END, observations=lie) == (["upgrade-without-effect"], [])
    assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[]), observations=lie) == ([], ["undecided"])


def storm(begins_s, node_of):
    return [
        line
        for n in range(40)
        for line in change(
            node_of(n), begins_s * 1000 + n * 250, begins_s * 1000 + n * 250 + 100, REFUSAL, name=f"t{n}"
        )
    ]


def test_refusals_that_were_promised_are_no_outage_and_the_same_ones_later_are():
    long = (*stage(1, "n1", 100, 200), *stage(2, "n2", 300, 400), *stage(3, "n3", 500, 600))
    end = stage(4, "n1", 60_000, 61_000, stage="finish")
    asked = [*change("n2", 10, 20, name="a")]
    for begins_s, kinds in ((20, []), (80, ["refused-operations"])):
        lines = sorted([*asked, *long, *end, *storm(begins_s, lambda n: ("n1", "n2", "n3")[n % 3])], key=_time)
        result = Availability().check(judged(lines), limit_s=5)
        assert [one.type for one in result.anomalies] == kinds


def doubts(*lines, observations=()):
    result = verdict(*lines, observations=observations)
    assert result.anomalies == ()
    return [doubt.text for doubt in result.doubts]


@pytest.mark.parametrize(("attempts", "system"), [((), NEW), ((SERVED,), None), ((ENDED | {"timed_out": True},), NEW)])
def test_an_acknowledged_operation_says_what_was_done_and_what_the_node_is(attempts, system):
    lines = [*NODES[:4], *stage(3, "n3", 500, 600, attempts=attempts, system=system), *END]
    (text,) = doubts(*lines)
    missing = "says of no attempt that it succeeded" if system else "does not say what n3 was afterwards"
    assert text.endswith(missing)
    failed = stage(3, "n3", 500, 600, attempts=attempts, system=system, outcome="info")
    assert not any("was acknowledged" in one for one in doubts(*NODES[:4], *failed)), "one that was not need not"


def test_an_operation_that_failed_hides_no_other_one_that_says_nothing():
    failed = stage(1, "n1", 100, 200, outcome="info", attempts=[ENDED | {"timed_out": True}])
    said = doubts(*failed, *stage(2, "n2", 300, 400, attempts=()))
    assert said[1:] == ["op 2 on n2 was acknowledged, and its note says of no attempt that it succeeded"]
    lies = [f'settled {node} version v {{"epoch": null, "release": "5.0.9"}}' for node in ("n1", "n2")]
    result = verdict(*failed, *stage(2, "n2", 300, 400), observations=lies)
    assert [(one.type, one.nodes) for one in result.anomalies] == [("upgrade-without-effect", ("n2",))]


def test_promises_are_those_of_the_whole_upgrade():
    assert doubts(*stage(1, "n1", 100, 200, outcome=None)) == ["the upgrade of n1 was begun and has no end"]
    other = stage(3, "n3", 500, 600, schema_changes={"old": "unsupported", "new": "unsupported"})
    assert doubts(*NODES[:4], *other, *END) == [
        "the operations of the upgrade name different promises for mixed versions"
    ]
    assert doubts(*NODES[:4], *stage(3, "n3", 500, 600, outcome=None)) == ["the upgrade of n3 was begun and has no end"]


def release_on_the_way(*shown, lines=(*NODES, *END)):
    rows = [f'@{at} running n1 version v {{"epoch": null, "release": {release}}}' for at, release in shown]
    return doubts(*lines, observations=rows)


def test_on_the_way_a_node_is_the_release_that_the_operations_made_it():
    old, new = '"5.0.9"', '"6.0-alpha2"'
    assert release_on_the_way((50, old), (90, old), (150, new), (170, old), (210, new), (250, new)) == []
    assert release_on_the_way((50, old), (150, old), (210, old), (250, new)) == [], "that reading began before the end"
    assert release_on_the_way((50, old), (90, new), (250, new)) == [
        "at 0.090 s n1 says that it is 6.0-alpha2, and it was 5.0.9"
    ]
    assert release_on_the_way((50, old), (210, new), (250, old), (260, old)) == [
        "at 0.250 s n1 says that it is 5.0.9, and it was 6.0-alpha2"
    ]
    assert release_on_the_way((50, old), (210, "null")) == ["n1 does not say at 0.210 s which release it is"]
    assert release_on_the_way((50, "null"), (210, "null")) == [], "nodes of this system do not say it"
    failed = stage(1, "n1", 100, 200, outcome="info", attempts=[ENDED | {"timed_out": True}])
    assert len(release_on_the_way((50, old), (210, old), (250, old), lines=failed)) == 1, "it may be either"


def option(release, chunk, name, phase="settled,restarted"):
    return f'{phase} n1 table k.{name} id={name}{name} a:int* {{"options": {{"comment": "", "chunk": "{chunk}"}}}}'


def test_defaults_of_two_releases_are_not_compared_and_those_of_one_are():
    born = [*change("n1", 10, 20, name="a"), *change("n1", 30, 40, name="b"), *change("n1", 900, 910, name="c")]
    for chunk_of_b, chunk_of_c, kinds in ((16, 4, []), (64, 16, ["unasked-option"])):
        shown = [option("6", chunk, name) for name, chunk in (("a", 16), ("b", chunk_of_b), ("c", chunk_of_c))]
        records = judged(sorted([*born, *NODES, *END], key=_time), shown)
        assert sorted({one.type for one in Defaults().check(records, limit_s=5).anomalies}) == kinds
    records = judged(
        sorted(born, key=_time), [option("5", chunk, name) for name, chunk in (("a", 16), ("b", 16), ("c", 4))]
    )
    assert [one.type for one in Defaults().check(records, limit_s=5).anomalies] == ["unasked-option"]


def test_a_node_knows_as_little_behind_an_operation_that_took_it_down_as_after_a_start():
    def notes(*lines):
        return Evidence.of(judged(sorted(lines, key=_time))).notes

    upgraded = notes(*stage(1, "n1", 100, 200))
    (start,) = upgraded.starts
    assert (start.node, start.phase, start.served, start.time, start.seconds) == (
        "n1",
        "operation",
        True,
        200_000_000,
        0.1,
    )
    assert upgraded.down(250_000_000) == frozenset()
    assert [upgraded.membership.serves("n1", ms * 1_000_000) for ms in (90, 150, 250)] == [True, True, True]
    member = '@1 -- info membership {"at": "boot", "members": {"n1": {"state": "normal", "expected": "normal"}}}'
    listed = notes(member, *stage(1, "n1", 100, 200))
    assert [listed.membership.serves("n1", ms * 1_000_000) for ms in (90, 150, 250)] == [True, False, True]
    assert notes(*stage(1, "n1", 100, 200, outcome="info")).down(250_000_000) == {"n1"}
    assert notes(*stage(1, "n1", 100, 200, stage="finish")).starts == []
    assert notes(*stage(1, "n1", 100, 200, outcome=None)).starts == []


def test_an_upgraded_node_is_a_start_that_a_whole_run_may_have():
    records = judged(sorted(NODES, key=_time))
    assert list(find_strange_starts(Evidence.of(records))) == []


@pytest.mark.parametrize(
    "effect", ["null", "[]", '"x"', '{"attempts": 7, "promises": []}', '{"attempts": [3, null], "promises": "x"}']
)
def test_an_outcome_that_says_nothing_of_use_is_read_as_one_that_says_nothing(effect):
    value = '{"operation": 1, "nodes": ["n1"], "parameters": {"stage": "node", "to": "x:2"}, "becomes": {}'
    lines = [
        f"@100 -- n1 invoke rolling-upgrade {value}}}",
        f'@200 -- n1 info rolling-upgrade {value}, "effect": {effect}}}',
    ]
    assert found(*lines, *change("n1", 250, 260)) == ([], ["undecided"])


def texts(*lines, observations=()):
    result = verdict(*lines, observations=observations)
    return [one.explanation for one in result.anomalies], [doubt.text for doubt in result.doubts]


def skipped(at_ms=650):
    return f'@{at_ms} -- info operation-skipped {{"nemesis": "rolling-upgrade", "nodes": ["n3"], "reason": "no time"}}'


def test_the_place_where_an_upgrade_stopped_names_the_nodes_that_had_become_the_newer_version():
    failed = stage(2, "n2", 300, 400, outcome="info", attempts=[])
    back = stage(2, "n2", 300, 400, stage="back", system=OLD)
    (_, (place, *_)) = texts(*stage(1, "n1", 100, 200), *failed, skipped())
    assert place == "the upgrade stopped after n1: no time"
    assert texts(*stage(1, "n1", 100, 200), *back, skipped()) == ([], ["the upgrade stopped after n1: no time"])
    (_, (place, *_)) = texts(*stage(2, "n2", 300, 400, outcome="info", attempts=[]), skipped())
    assert place == "the upgrade stopped before its first node: no time"
    unended = stage(2, "n2", 300, 400, outcome=None)
    assert texts(*stage(1, "n1", 100, 200), *unended, skipped())[1] == [
        "the upgrade stopped after n1: no time",
        "the upgrade of n2 was begun and has no end",
    ]
    begun = stage(4, "n1", 300, 400, stage="finish")
    assert texts(*stage(1, "n2", 100, 200), *begun, skipped())[1] == ["the upgrade stopped after n2: no time"]


def test_the_node_that_goes_back_is_judged_as_a_node_and_not_as_the_end_of_the_upgrade():
    ended = {**ENDED, "command": f"drain, stop, start as {OLD}"}
    back = stage(2, "n1", 300, 400, stage="back", outcome="info", attempts=[ended], system=OLD)
    (finding,) = verdict(*stage(1, "n1", 100, 200), *back).anomalies
    assert (finding.type, finding.ops) == ("upgrade-start-failure", (2,))
    assert finding.explanation.startswith(f"Let  op 2: the upgrade of n1 to {NEW} at 0.300 s -> info at 0.400 s")
    unended = stage(2, "n1", 300, 400, stage="back", outcome=None)
    assert texts(*stage(1, "n1", 100, 200), *unended)[1] == ["the upgrade of n1 was begun and has no end"]
    finish = stage(4, "n1", 700, 800, stage="finish", outcome=None)
    assert texts(*NODES, *finish)[1] == ["the end of the upgrade was begun and has no end"]


def test_a_failed_start_says_what_was_tried_and_what_it_was_answered():
    first = {**ENDED, "answer": "exit code 1: one"}
    last = {**ENDED, "answer": "exit code 1: two"}
    tried = {"outcome": "fail", "command": "nodetool drain", "answer": "busy", "timed_out": False}
    slow = {**ENDED, "timed_out": True}
    (finding,) = verdict(*stage(1, "n1", 100, 200, outcome="info", attempts=[tried, slow, first, last])).anomalies
    assert finding.evidence == {"to": NEW, "attempts": [first, last], "outcome": "info"}
    assert (finding.objects, finding.nodes, finding.ops) == (("n1",), ("n1",), (0,))
    assert finding.explanation == (
        f"Let  op 0: the upgrade of n1 to {NEW} at 0.100 s -> info at 0.200 s\n"
        f"Then its server was drained and ended, and no fault was on it, so one of {NEW} must start with its data.\n"
        "     But that ended by itself: exit code 1: one."
    )
    (finding,) = verdict(*stage(1, "n1", 100, 200, attempts=[first, SERVED])).anomalies
    assert finding.explanation.endswith("that ended by itself: exit code 1: one. It did when it was started again.")


def test_a_server_that_dies_of_a_defect_is_a_finding_and_an_attempt_that_says_nothing_is_none():
    defect = {**ENDED, "answer": "exit code 3: java.lang.NullPointerException"}
    assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[defect])) == (["upgrade-start-failure"], [])
    for empty in ({}, {**ENDED, "outcome": None}):
        assert found(*stage(1, "n1", 100, 200, outcome="info", attempts=[empty])) == ([], ["undecided"])
        assert found(*stage(1, "n1", 100, 200, attempts=[empty])) == ([], ["incomplete-run"])
    drained = {**ENDED, "command": "nodetool drain"}
    assert texts(*stage(1, "n1", 100, 200, outcome="info", attempts=[SERVED, drained])) == (
        [],
        [
            "the upgrade of n1 did not succeed: `nodetool drain` was answered with exit code 3: Unknown type",
        ],
    )
    silent = {**ENDED, "command": "nodetool drain", "answer": ""}
    assert texts(*stage(1, "n1", 100, 200, outcome="fail", attempts=[silent]))[1] == [
        "the upgrade of n1 did not succeed: `nodetool drain` was answered with nothing"
    ]
    assert texts(*stage(1, "n1", 100, 200, outcome="fail", attempts=[]))[1] == [
        "the upgrade of n1 did not succeed: nothing was asked for, because the cluster was not as it had to be"
    ]


def test_a_full_disk_explains_no_other_attempt_that_ended_of_a_defect():
    full = {**ENDED, "answer": "exit code 3: java.io.IOException: No space left on device"}
    memory = {**ENDED, "answer": "exit code 3: java.lang.OutOfMemoryError: Java heap space"}
    for attempts in ([full, ENDED], [ENDED, full]):
        (finding,) = verdict(*stage(1, "n1", 100, 200, outcome="info", attempts=attempts)).anomalies
        assert (finding.type, finding.evidence["attempts"]) == ("upgrade-start-failure", [ENDED])
        assert "exit code 3: Unknown type" in finding.explanation
    assert texts(*stage(1, "n1", 100, 200, outcome="info", attempts=[full, memory])) == texts(
        *stage(1, "n1", 100, 200, outcome="info", attempts=[full])
    )
    assert texts(*stage(1, "n1", 100, 200, outcome="info", attempts=[memory])) != texts(
        *stage(1, "n1", 100, 200, outcome="info", attempts=[full])
    )


def test_a_fault_that_is_on_no_node_alone_explains_a_start_and_is_named():
    value = '{"id": 9, "nemesis": "net", "nodes": [], "parameters": {}}'
    everywhere = [f"@120 -- info fault-begins {value}", f"@130 -- info fault-ends {value}"]
    failed = stage(1, "n1", 100, 200, outcome="info", attempts=[ENDED])
    assert texts(*failed, *everywhere)[1] == ["the upgrade of n1 did not succeed, and net may be why"]
    assert found(*stage(1, "n1", 100, 200), *everywhere) == ([], []), "it did succeed"


def test_the_end_that_is_not_reached_cites_the_changes_that_were_certainly_taken_meanwhile():
    refused = stage(4, "n1", 700, 800, stage="finish", outcome="fail", attempts=[REFUSED, {**REFUSED, "answer": "no"}])
    beside = [
        *change("n3", 20, 30, name="before"),
        *change("n3", 210, 220, REFUSAL, name="refused"),
        *change("n3", 230, 240, "info T", name="unknown", process=1),
        *change("n3", 810, 820, name="after"),
        "@910 p7 n3 invoke create-table k.open a:int*",
    ]
    finding, late = verdict(
        *NODES, *refused, *beside, *change("n3", 250, 260), *change("n3", 270, 280, name="u")
    ).anomalies
    assert (late.type, late.objects) == ("accepted-in-mixed-versions", ("k.after",))
    assert (finding.type, finding.evidence["accepted"], len(finding.ops)) == ("upgrade-does-not-end", 2, 3)
    assert finding.evidence["to"] == NEW
    assert [one["answer"] for one in finding.evidence["attempts"]] == ["mismatching", "no"]
    assert (finding.objects, finding.nodes) == (("n1",), ("n1",))
    text = finding.explanation
    assert " 2 schema changes were acknowledged while versions were mixed." in text
    assert "k.before" not in text
    assert text.endswith("But `nodetool cms initialize` was answered with no.")
    assert f"the end of the upgrade on n1 to {NEW} at 0.700 s -> fail at 0.800 s" in text
    (finding,) = verdict(*NODES, *refused).anomalies
    assert "schema changes" not in finding.explanation
    assert texts(*NODES, *refused, *fault(710, 720, "n2"))[1] == [
        "the end of the upgrade did not succeed, and kill may be why"
    ]


def test_an_end_that_was_refused_changes_nothing_and_versions_stay_mixed():
    refused, unknown = (
        stage(4, "n1", 700, 800, stage="finish", outcome=outcome, attempts=[REFUSED]) for outcome in ("fail", "info")
    )
    types = [verdict(*NODES, *end, *change("n1", 850, 860)).anomalies for end in (refused, unknown)]
    assert [[one.type for one in found] for found in types] == [
        ["upgrade-does-not-end", "accepted-in-mixed-versions"],
        ["upgrade-does-not-end"],
    ]
    assert verdict(*NODES, *refused, *change("n1", 850, 860)).anomalies[0].evidence["accepted"] == 0


def test_many_changes_are_counted_and_five_of_them_are_shown():
    refused = stage(4, "n1", 7000, 7100, stage="finish", outcome="fail", attempts=[REFUSED])
    many = [line for n in range(101) for line in change("n3", 210 + n * 2, 211 + n * 2, name=f"t{n}")]
    (finding,) = verdict(*NODES, *refused, *many).anomalies
    assert (finding.evidence["accepted"], len(finding.ops)) == (101, 101)
    assert "T5" in finding.explanation
    assert "T6" not in finding.explanation


def test_the_operation_that_had_made_the_node_the_newer_version_is_cited():
    to_and_fro = (
        *stage(1, "n1", 100, 200),
        *stage(2, "n1", 300, 400, stage="back", system=OLD),
        *stage(3, "n1", 500, 600),
        *stage(4, "n2", 610, 620),
        *stage(5, "n0", 640, 645),
    )
    (finding,) = verdict(*to_and_fro, *change("n1", 250, 260)).anomalies
    assert (finding.objects, finding.nodes, finding.ops) == (("k.t",), ("n1",), (0, 2))
    assert finding.evidence == {"to": NEW, "source": "NEWS.txt of 6.0"}
    (finding,) = verdict(*to_and_fro, *change("n1", 650, 660)).anomalies
    assert finding.ops == (4, 10)
    assert found(*to_and_fro, *change("n1", 450, 460)) == ([], [])


def test_a_statement_in_free_text_is_a_doubt_if_it_may_have_changed_the_schema():
    def text(node, begins_ms, ends_ms, statement, answer="ok"):
        return [
            f"@{begins_ms} p5 {node} invoke cql {orjson.dumps({'statement': statement}).decode()}",
            f"@{ends_ms} p5 {node} {answer}",
        ]

    creates = "CREATE TABLE k.t (a int PRIMARY KEY)"
    assert texts(*NODES, *END, *text("n1", 250, 260, creates)) == (
        [],
        ["op 2, a statement in free text, was taken by n1: it may have changed nothing"],
    )
    for legal in (
        text("n1", 250, 260, "INSERT INTO k.t (a) VALUES (1)"),
        text("n1", 250, 260, creates, REFUSAL),
        text("n1", 250, 260, creates, "info T"),
        text("n3", 250, 260, creates),
        text("n1", 50, 60, creates),
        text("n1", 850, 860, creates),
        text("n1", 250, 260, creates)[:1],
    ):
        assert texts(*NODES, *END, *legal) == ([], [])
    refused = stage(4, "n1", 700, 800, stage="finish", outcome="fail", attempts=[REFUSED])
    (finding,) = verdict(*NODES, *refused, *text("n3", 250, 260, creates)).anomalies
    assert finding.evidence["accepted"] == 0


def test_settings_of_another_object_or_of_a_later_change_are_no_excuse():
    def asked(at_ms, options, name="t", process=0):
        value = orjson.dumps({"keyspace": "k", "name": name, "options": options}).decode()
        return [f"@{at_ms} p{process} n1 invoke alter-options k.{name} {value}", f"@{at_ms + 5} p{process} n1 ok"]

    own = asked(250, {"comment": "x"})
    accused = (["accepted-in-mixed-versions"], [])
    assert found(*NODES, *END, *own, *asked(30, {"comment": "x"})) == ([], [])
    for other in ("s", "u"):
        assert found(*NODES, *END, *own, *asked(30, {"comment": "x"}, other)) == accused
        shown = [f'settled n2 table k.{other} id=1 a:int* {{"options": {{"comment": "x"}}}}']
        assert found(*NODES, *END, *own, observations=shown) == accused
    assert found(
        *NODES, *END, *own, observations=['settled n2 table k.t id=1 a:int* {"options": {"comment": "x"}}']
    ) == (
        [],
        [],
    )
    assert found(*NODES, *END, *own, observations=["settled n2 table k.t gone"]) == accused
    later = asked(270, {"comment": "x"}, process=1)
    later = [later[0].replace("n1", "n3"), later[1].replace("n1", "n3")]
    assert found(*NODES, *END, *own, *later) == accused
    created = [line.replace("a:int*", 'a:int* {"options": {"comment": "x"}}') for line in change("n1", 250, 260)]
    assert found(*NODES, *END, *asked(30, {"comment": "x"}), *created) == accused, "a CREATE changes something always"


def test_a_keyspace_may_have_had_its_replication_and_a_change_without_settings_changes_something():
    def alter_keyspace(at_ms, factor):
        value = f'{{"replication": {{"class": "SimpleStrategy", "replication_factor": {factor}}}}}'
        return [f"@{at_ms} p0 n1 invoke alter-keyspace k {value}", f"@{at_ms + 5} p0 n1 ok"]

    born = ["@10 p0 n1 invoke create-keyspace k", "@12 p0 n1 ok"]
    assert found(*born, *NODES, *END, *alter_keyspace(250, 3)) == ([], [])
    assert found(*born, *NODES, *END, *alter_keyspace(250, 2)) == (["accepted-in-mixed-versions"], [])
    (finding,) = verdict(*born, *NODES, *END, *alter_keyspace(250, 2)).anomalies
    assert finding.objects == ("k",)
    none = ['@250 p0 n1 invoke alter-options k.t {"options": {}}', "@255 p0 n1 ok"]
    assert found(*born, *NODES, *END, *none) == (["accepted-in-mixed-versions"], [])


def test_what_nodes_say_in_the_end_is_held_against_their_own_last_operation():
    def says(node, release, phase="settled"):
        return [f'{phase} {node} version v {{"epoch": null, "release": "{release}"}}']

    new, old, newer = "6.0-alpha2", "5.0.9", "7.0"
    end = stage(4, "n1", 700, 800, stage="finish", system="cassandra:6.1")
    accused = (["upgrade-without-effect"], [])
    for node in ("n1", "n2", "n3"):
        assert found(*NODES, *end, observations=says(node, new)) == ([], [])
        assert found(*NODES, *end, observations=says(node, old)) == accused
        assert found(*NODES, *end, observations=says(node, newer, "restarted")) == accused
    back = (*stage(1, "n1", 100, 200), *stage(2, "n1", 300, 400, stage="back", system=OLD))
    assert found(*back, observations=says("n1", old)) == ([], [])
    assert found(*back, observations=says("n1", new)) == accused
    assert found(*NODES[:4], observations=says("n3", old)) == ([], []), "nothing was done to it"
    unended = stage(3, "n3", 500, 600, outcome=None)
    assert found(*NODES[:4], *unended, observations=says("n3", old)) == ([], ["incomplete-run"])
    silent = stage(3, "n3", 500, 600, system=None)
    assert found(*NODES[:4], *silent, observations=says("n3", old)) == ([], ["incomplete-run"])
    (finding,) = verdict(*NODES, *end, observations=says("n2", old)).anomalies
    assert (finding.objects, finding.nodes, finding.ops) == (("n2",), ("n2",), (2,))
    assert finding.evidence == {"phase": "settled", "release": old, "system": NEW}
    assert finding.explanation.endswith("after the cluster settled it says that it is 5.0.9.")


def test_only_the_word_of_a_node_itself_in_a_final_reading_is_such_a_word():
    for row in (
        'settled n1 table k.t id=1 a:int* {"release": "5.0.9"}',
        'settled n1 view k.v id=1 a:int* {"release": "5.0.9"}',
        'settled n1 version v {"epoch": null, "release": null}',
        'settled n1 version v {"epoch": null, "release": 5}',
        "settled n1 error NoHostAvailable",
    ):
        assert found(*NODES, *END, observations=[row]) in (([], []), ([], ["unread"])), row


def test_on_the_way_each_node_is_held_against_its_own_operations():
    old, new = "5.0.9", "6.0-alpha2"

    def on_the_way(node, *shown, more=(), lines=(*NODES, *END)):
        rows = [f'@{at} running {node} version v {{"epoch": null, "release": "{each}"}}' for at, each in shown]
        return texts(*lines, observations=[*rows, *more])

    legal = ((50, old), (150, old), (210, old), (250, old), (290, old), (410, new), (450, new), (550, new), (650, new))
    assert on_the_way("n2", *legal) == ([], [])
    assert on_the_way("n2", *legal[:7], (550, old)) == (
        [],
        ["at 0.550 s n2 says that it is 5.0.9, and it was 6.0-alpha2"],
    )
    assert on_the_way("n2", *legal[:2], (180, new)) == (
        [],
        ["at 0.180 s n2 says that it is 6.0-alpha2, and it was 5.0.9"],
    )
    for phase in ("settled", "restarted"):
        lie = [f'{phase} n2 version v {{"epoch": null, "release": "{old}"}}']
        given, said = on_the_way("n2", *legal, more=lie)
        assert (len(given), said) == (1, []), "that is the finding alone"
    back = (*stage(1, "n1", 100, 200), *stage(2, "n1", 300, 400, stage="back", system=OLD))
    assert on_the_way("n1", (50, old), (250, new), (290, new), (410, old), (450, old), lines=back) == ([], [])
    assert on_the_way("n1", (50, old), (250, new), (290, new), (410, old), (450, new), lines=back) == (
        [],
        ["at 0.450 s n1 says that it is 6.0-alpha2, and it was 5.0.9"],
    )
    assert on_the_way("n1", (50, old), (100, new)) == ([], []), "it began at that moment"
    assert on_the_way("n1", (150, old), (200, old), (250, new)) == ([], []), "it ended at the moment of the one before"
    nameless = stage(1, "n1", 100, 200, system=None)
    assert len(on_the_way("n1", (50, old), (210, old), (250, old), lines=nameless)[1]) == 1, "it may be either"


def test_a_node_that_does_not_say_what_it_is_is_named_once_and_others_are_read_all_the_same():
    rows = [
        '@50 running n1 version v {"epoch": null, "release": null}',
        '@90 running n1 version v {"epoch": null, "release": null}',
        '@91 running n2 version v {"epoch": null, "release": "5.0.9"}',
        '@95 running n2 version v {"epoch": null, "release": "6.0-alpha2"}',
        '@97 running n2 version v {"epoch": null, "release": "6.0-alpha2"}',
        "@98 running n3 error NoHostAvailable",
    ]
    assert texts(*NODES, *END, observations=rows)[1] == [
        "n1 does not say at 0.050 s which release it is",
        "at 0.095 s n2 says that it is 6.0-alpha2, and it was 5.0.9",
    ]


MIDDLE = "cassandra:4.1.10"
FIRST_WAY = {
    "schema_changes": {"old": "unsupported", "new": "unsupported"},
    "until": "nodes",
    "source": "NEWS.txt of 4.1",
}


def two_upgrades(*, first_end="ok"):
    """4.0 to 4.1 from 10 to 85 ms, and the one to 6.0 of the other tests from 100 ms on."""
    way = {"to": MIDDLE, "system": MIDDLE, **FIRST_WAY}
    nodes = [
        line
        for number, node in enumerate(("n3", "n1", "n2"))
        for line in stage(10 + number, node, 10 + 20 * number, 20 + 20 * number, **way)
    ]
    return [*nodes, *stage(14, "n2", 80, 85, stage="finish", outcome=first_end, **way), *NODES, *END]


def test_two_upgrades_of_one_run_are_judged_by_the_promises_of_each():
    result = verdict(
        *two_upgrades(), *change("n3", 33, 35), *change("n2", 90, 92, name="u"), *change("n1", 250, 260, REFUSAL)
    )
    assert result.valid is True
    assert result.figures["operations"] == {"ok": 8}
    assert result.figures["changes_of_mixed_times"] == {"not to be asked for, accepted": 1, "to be refused, refused": 1}
    assert result.figures["source"] == "NEWS.txt of 4.1; NEWS.txt of 6.0"
    taken = verdict(*two_upgrades(), *change("n1", 250, 260))
    assert [(one.type, one.evidence["source"]) for one in taken.anomalies] == [
        ("accepted-in-mixed-versions", "NEWS.txt of 6.0")
    ]


def test_between_two_upgrades_versions_are_not_mixed_unless_the_first_was_not_ended():
    upgrades = Evidence.of(judged(sorted(two_upgrades(), key=_time))).notes.upgrades
    at = [time * 1_000_000 for time in (5, 25, 33, 90, 250, 450, 900)]
    assert [upgrades.promise_on("n3", time, time + 1) for time in at] == [
        None,
        "unsupported",
        "unsupported",
        None,
        "unsupported",
        "unsupported",
        None,
    ]
    assert [upgrades.versions_of("n3", time, time + 1) for time in at] == [(0, 0), *[(1, 1)] * 5, (2, 2)]
    assert upgrades.versions_of("n3", at[0], at[1]) == (0, 1)
    assert upgrades.versions_of("n3", at[5], at[6]) == (1, 2)
    assert upgrades.versions_of("n3", at[0], at[6]) == (0, 2)
    assert upgrades.mixed == (10_000_000, 800_000_000)
    unended = Evidence.of(judged(sorted(two_upgrades(first_end="fail"), key=_time))).notes.upgrades
    assert unended.promise_on("n3", at[3], at[3] + 1) == "unsupported"


def test_each_upgrade_of_a_run_has_the_same_promises_for_all_its_operations():
    other = stage(15, "n1", 86, 88, to=MIDDLE, system=MIDDLE, **{**FIRST_WAY, "source": "elsewhere"})
    assert found(*two_upgrades(), *other) == ([], ["incomplete-run"])
    assert found(*two_upgrades()) == ([], [])


def test_a_run_that_stopped_in_its_second_upgrade_says_where():
    lines = [line for line in two_upgrades() if _time(line) < 500]
    skip = (
        '@650 -- n3 info operation-skipped {"nemesis":"rolling-upgrade","nodes":["n3"],"reason":"the main phase ended"}'
    )
    (doubt,) = verdict(*lines, skip).doubts
    assert "after n1 and n2 to cassandra:6.0-alpha2: the main phase ended" in doubt.text

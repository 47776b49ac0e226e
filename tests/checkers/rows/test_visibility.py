"""Coordinators that do not know an acknowledged table or column while the run goes on, and all that excuses them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.rows.visibility import Visibility
from schemaquake.harness.model.verdict import Verdict

CREATED = ("@1000 p0 n1 invoke create-table k.t a:int* v:int", "@1100 p0 n1 ok")
NO_TABLE = 'fail InvalidRequest: Error from server: code=2200 [Invalid query] message="unconfigured table t"'
NO_COLUMN = "fail InvalidRequest: Undefined column name c"


def planned(pull_delay_s: float | None = 1) -> list[str]:
    return [] if pull_delay_s is None else [f'@1 -- info run-planned {{"pull_delay_s": {pull_delay_s}}}']


def asked(at: int, outcome: str = NO_TABLE, *, node: str = "n3", phase: str = "racing", f: str = "insert") -> list[str]:
    call = f'{f} k.t {{"row": {{"a": 1, "c": 2}}, "phase": "{phase}"}}'
    return [f"@{at} p{at} {node} invoke {call}", f"@{at + 10} p{at} {node} {outcome}"]


def verdict(
    *lines: Sequence[str],
    notes: Sequence[str] = ('@1 -- info run-planned {"pull_delay_s": 1}',),
    readings: Sequence[str] = (),
) -> Verdict:
    records = judged([*notes, *CREATED, *(line for group in lines for line in group)], readings)
    return Visibility().check(records, limit_s=5)


@pytest.mark.parametrize("f", ["insert", "delete-row", "know-table"])
def test_a_coordinator_that_does_not_know_an_acknowledged_table_in_time_is_found(f: str) -> None:
    (found,) = verdict(asked(5_000, f=f), asked(20_000, f=f), asked(30_000, "ok", f=f)).anomalies
    assert (found.type, found.objects, found.nodes) == ("invisible-change", ("k.t",), ("n3",))
    assert found.evidence["lasted_s"] == {"n3": 18.9}
    assert found.evidence["limit_s"] == 11
    assert found.evidence["answers"] == 1


def test_a_short_ignorance_is_counted_and_never_accused() -> None:
    judgement = verdict(asked(5_000), asked(12_050))
    assert judgement.valid is True
    assert judgement.figures["unknown_to_a_coordinator"] == 2
    assert judgement.figures["longest_unknown_s"] == {"n3": 10.95}


def test_a_table_and_a_column_of_it_may_both_be_unknown() -> None:
    judgement = verdict(ADDED, asked(20_000), asked(20_100, NO_COLUMN), asked(30_000, NO_COLUMN, node="n2"))
    assert judgement.valid is False
    assert [one.evidence["answers"] for one in judgement.anomalies] == [1, 2]


@pytest.mark.parametrize(("pull_delay_s", "valid"), [(0, False), (1, False), (60, True), (None, "unknown")])
def test_the_time_is_what_the_system_promises(pull_delay_s: float | None, valid: object) -> None:
    assert verdict(asked(20_000), notes=planned(pull_delay_s)).valid == valid


def test_a_run_that_says_nothing_of_its_system_is_judged_if_nothing_was_late() -> None:
    assert verdict(asked(5_000), notes=[]).valid is True


def fault(*nodes: str, begins: int, ends: int) -> list[str]:
    listed = ", ".join(f'"{node}"' for node in nodes)
    value = f'{{"id": {begins}, "nemesis": "partition", "nodes": [{listed}]}}'
    return [f"@{begins} -- info fault-begins {value}", f"@{ends} -- info fault-ends {value}"]


LEGAL = {
    "not yet acknowledged": ["@18000 p1 n1 invoke create-table k.u a:int*", "@30000 p1 n1 ok", *[line.replace("k.t", "k.u") for line in asked(20_000)]],
    "of unknown outcome": ["@1200 p1 n1 invoke create-table k.u a:int*", "@1300 p1 n1 info no", *[line.replace("k.t", "k.u") for line in asked(20_000)]],
    "dropped": [*asked(20_000), "@20005 p1 n1 invoke drop-table k.t", "@20020 p1 n1 ok"],
    "its keyspace is dropped": [*asked(20_000), "@5000 p1 n1 invoke drop-keyspace k", "@5010 p1 n1 ok"],
    "any statement may have dropped it": [*asked(20_000), '@5000 p1 n1 invoke cql {"statement": "DROP TABLE k.t"}', "@5010 p1 n1 ok"],
    "another error": asked(20_000, "fail Unavailable: 1 of 2"),
    "never answered": asked(20_000)[:1],
    "a final phase": asked(20_000, phase="settled"),
    "the coordinator is under a fault": [*asked(20_000), *fault("n3", begins=15_000, ends=25_000)],
    "the one that created it is cut off": [*asked(20_000), *fault("n1", begins=900, ends=25_000)],
    "a fault on everybody": [*asked(20_000), *fault(begins=15_000, ends=25_000)],
    "a fault that has just ended": [*asked(20_000), *fault("n2", begins=900, ends=10_000)],
    "the coordinator has just been started": [*asked(20_000), '@12000 -- n3 info node-start {"phase": "fault", "served": true, "seconds": 1}'],
}  # fmt: skip


@pytest.mark.parametrize("lines", LEGAL.values(), ids=LEGAL)
def test_what_excuses_a_coordinator(lines: Sequence[str]) -> None:
    judgement = verdict(lines, asked(2_000, "ok"))
    assert (judgement.valid, judgement.anomalies) == (True, ())


OPEN = {
    "under way": ["@20005 p1 n1 invoke drop-table k.t"],
    "of unknown outcome": ["@5000 p1 n1 invoke drop-table k.t", "@5010 p1 n1 info no"],
    "of its keyspace": ["@5000 p1 n1 invoke drop-keyspace k", "@5010 p1 n1 info no"],
}
THERE = ("@90000 settled n1,n3 keyspace k", "@90000 settled n1,n3 table k.t id=1 a:int* v:int")


def test_a_drop_of_unknown_outcome_after_which_the_table_was_created_again_is_a_doubt() -> None:
    """Of a table that is there in the end nothing tells that it was there all the time."""
    drop = ["@5000 p1 n1 invoke drop-table k.t", "@5010 p1 n1 info no"]
    again = ["@21000 p2 n2 invoke create-table k.t a:int* v:int", "@21010 p2 n2 ok"]
    there = ["@90000 settled n1,n2,n3 table k.t id=1 a:int* v:int"]
    assert verdict(drop, asked(20_000), again, readings=there).valid == "unknown"
    assert verdict(drop, asked(20_000), readings=there).valid is False
    early = [line.replace("@5", "@22") for line in drop]
    assert verdict(asked(20_000), again, early, readings=there).valid is False


@pytest.mark.parametrize("lines", OPEN.values(), ids=OPEN)
def test_a_drop_of_unknown_outcome_is_a_doubt_until_a_final_reading_decides_it(lines: Sequence[str]) -> None:
    doubted = verdict(lines, asked(20_000))
    assert (doubted.valid, doubted.anomalies) == ("unknown", ())
    assert [doubt.objects for doubt in doubted.doubts] == [("k.t",)]
    assert [found.type for found in verdict(lines, asked(20_000), readings=THERE).anomalies] == ["invisible-change"]
    none = ("@90000 settled n1,n3 keyspace l",)
    assert verdict(lines, asked(20_000), readings=none).valid is True
    # Of two nodes one shows it: whether the DROP had taken effect is open.
    half = (*none[:1], *(line.replace("n1,n3", "n1") for line in THERE))
    assert verdict(lines, asked(20_000), readings=half).valid == "unknown"


@pytest.mark.parametrize(
    "lines",
    [
        fault("n2", begins=15_000, ends=25_000),
        fault("n1", begins=900, ends=5_000),
        ['@5000 -- n3 info node-start {"phase": "fault", "served": true, "seconds": 1}'],
        ['@12000 -- n2 info node-start {"phase": "fault", "served": true, "seconds": 1}'],
        ["@20020 p1 n1 invoke drop-table k.t", "@20030 p1 n1 ok"],
        ["@5000 p1 n1 invoke drop-table k.other", "@5010 p1 n1 ok"],
    ],
    ids=["a third node", "long over", "started long ago", "another was started", "dropped later", "another dropped"],
)
def test_what_excuses_nobody(lines: Sequence[str]) -> None:
    assert [found.type for found in verdict(lines, asked(20_000)).anomalies] == ["invisible-change"]


ADDED = ("@2000 p1 n1 invoke add-column k.t c:int", "@2100 p1 n1 ok")


def test_an_acknowledged_column_that_a_coordinator_does_not_know_is_found() -> None:
    (found,) = verdict(ADDED, asked(20_000, NO_COLUMN)).anomalies
    assert (found.evidence["column"], found.evidence["lasted_s"]) == ("c", {"n3": 17.9})


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ADDED[:1],
        (*ADDED, "@3000 p2 n2 invoke drop-column k.t c", "@3010 p2 n2 info no"),
        (*ADDED, "@3000 p2 n2 invoke rename-column k.t c>d"),
        (*ADDED, "@3000 p2 n2 invoke create-table k.t a:int*", "@3010 p2 n2 info no"),
    ],
    ids=["never added", "not acknowledged", "may be dropped", "may be renamed", "another definition"],
)
def test_what_excuses_a_coordinator_that_does_not_know_a_column(lines: Sequence[str]) -> None:
    assert verdict(lines, asked(20_000, NO_COLUMN)).anomalies == ()


def test_a_drop_of_unknown_outcome_after_which_the_column_was_added_again_is_a_doubt() -> None:
    drop = ["@5000 p1 n1 invoke drop-column k.t c", "@5010 p1 n1 info no"]
    again = ["@31000 p2 n2 invoke add-column k.t c:int", "@31010 p2 n2 ok"]
    there = ["@90000 settled n1,n2,n3 table k.t id=1 a:int* c:int v:int"]
    refused = asked(30_000, NO_COLUMN)
    assert verdict(ADDED, drop, refused, again, readings=there).valid == "unknown"
    assert verdict(ADDED, drop, refused, readings=there).valid is False
    assert verdict(ADDED, refused, again, readings=there).valid is False, "nothing dropped it"
    other = [line.replace(" c", " v") for line in drop]
    assert verdict(ADDED, other, refused, again, readings=there).valid is False, "another column"


def test_without_an_acknowledged_change_there_is_nothing_to_judge() -> None:
    assert Visibility().check(judged(asked(20_000)), limit_s=5).judged_nothing


CHANGES = {
    "drop-table": ("drop-table k.t", "fail InvalidRequest: Table 'k.t' doesn't exist"),
    "rename-column": ("rename-column k.t v>w", "fail InvalidRequest: unconfigured table t"),
    "create-index": ("create-index k.i t v", "fail InvalidRequest: Table 't' doesn't exist"),
    "create-view": ('create-view k.w {"base": "t", "primary_key": ["v", "a"]}', "fail InvalidRequest: Table 'k.t' doesn't exist"),
    "add-column": ("add-column k.t c:int", "fail InvalidRequest: Table 'k.t' doesn't exist"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "error"), CHANGES.values(), ids=CHANGES)
def test_a_coordinator_that_refuses_a_change_of_a_table_that_it_does_not_know_in_time_is_found(
    what: str, error: str
) -> None:
    lines = [f"@20000 p7 n3 invoke {what}", f"@20010 p7 n3 {error}"]
    (found,) = verdict(lines).anomalies
    assert (found.type, found.objects, found.nodes) == ("invisible-change", ("k.t",), ("n3",))
    assert verdict(lines, ["@15000 p8 n1 invoke drop-table k.t", "@15010 p8 n1 ok"]).anomalies == ()
    assert verdict([line.replace("@20", "@8") for line in lines]).anomalies == ()


OBJECTS = (
    "@900 p5 n1 invoke create-keyspace k",
    "@950 p5 n1 ok",
    "@960 p5 n1 invoke create-type k.u f0:int",
    "@970 p5 n1 ok",
    '@980 p5 n1 invoke create-function k.f {"arguments": [], "returns": "int", "body": ""}',
    "@990 p5 n1 ok",
)
OTHERS = {
    "drop-type": ("drop-type k.u", "fail InvalidRequest: Type 'k.u' doesn't exist", "k.u", "drop-type k.u"),
    "add-field": ("add-field k.u f1:int", "fail InvalidRequest: Type 'k.u' doesn't exist", "k.u", "drop-type k.u"),
    "drop-function": ("drop-function k.f", "fail InvalidRequest: Function 'k.f' doesn't exist", "k.f", "drop-function k.f"),
    "create-table": ("create-table k.x a:int*", "fail InvalidRequest: Keyspace 'k' doesn't exist", "k", "drop-keyspace k"),
    "create-type": ("create-type k.x a:int", "fail InvalidRequest: Keyspace k does not exist", "k", "drop-keyspace k"),
    "drop-keyspace": ("drop-keyspace k", "fail ConfigurationException: Keyspace 'k' doesn't exist", "k", "drop-keyspace k"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "error", "subject", "removal"), OTHERS.values(), ids=OTHERS)
def test_a_coordinator_that_does_not_know_a_keyspace_type_or_function_in_time_is_found(
    what: str, error: str, subject: str, removal: str
) -> None:
    lines = [f"@20000 p7 n3 invoke {what}", f"@20010 p7 n3 {error}"]
    (found,) = verdict(OBJECTS, lines).anomalies
    assert (found.type, found.objects, found.nodes) == ("invisible-change", (subject,), ("n3",))
    assert verdict(OBJECTS, lines, [f"@15000 p8 n1 invoke {removal}", "@15010 p8 n1 ok"]).anomalies == ()
    assert verdict(OBJECTS, lines, [f"@15000 p8 n1 invoke {removal}"]).valid == "unknown"
    assert verdict(OBJECTS, [line.replace("@20", "@8") for line in lines]).anomalies == ()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("add-column k.t c:gone", "fail InvalidRequest: Unknown type k.gone"),
        ("drop-type k.u", "fail InvalidRequest: Cannot drop user type 'k.u' as it is still used"),
        ("create-table k.x a:int*", "fail InvalidRequest: Type 'k.y' doesn't exist"),
        ("drop-type k.never", "fail InvalidRequest: Type 'k.never' doesn't exist"),
    ],
)
def test_a_refusal_that_says_nothing_of_an_acknowledged_object_is_no_finding(what: str, error: str) -> None:
    assert verdict(OBJECTS, [f"@20000 p7 n3 invoke {what}", f"@20010 p7 n3 {error}"]).anomalies == ()


OWN = "had acknowledged op 1"


@pytest.mark.parametrize("error", [NO_TABLE, NO_COLUMN.replace("name c", "name v")])
def test_a_coordinator_that_does_not_know_what_it_acknowledged_itself_is_a_doubt(error: str) -> None:
    judgement = verdict(asked(1_200, error, node="n1"))
    assert (judgement.valid, [doubt.objects for doubt in judgement.doubts]) == ("unknown", [("k.t",)])
    assert OWN in judgement.doubts[0].text
    assert verdict(asked(1_200, error, node="n2")).valid is True
    assert verdict(asked(20_000, NO_TABLE, node="n1")).valid is False


@pytest.mark.parametrize(
    "excuse",
    [
        fault("n1", begins=1_150, ends=1_160),
        ['@1150 -- n1 info node-start {"phase": "fault", "served": true, "seconds": 0.01}'],
        ["@1110 p1 n2 invoke drop-table k.t", "@1120 p1 n2 ok"],
        ["@1110 p1 n2 invoke drop-table k.t", "@1120 p1 n2 info timed out"],
    ],
)
def test_a_coordinator_may_have_lost_what_it_acknowledged(excuse: Sequence[str]) -> None:
    judgement = verdict(excuse, asked(1_200, node="n1"))
    assert not any("had acknowledged" in doubt.text for doubt in judgement.doubts)
    assert judgement.anomalies == ()


AGREED = "had agreed with all nodes on one schema"


def settled(
    at: int, *, nodes: str = '{"n1": "v", "n3": "v"}', agreed: str = "true", seconds: float = 0.01
) -> list[str]:
    value = f'{{"phase": "setup", "agreed": {agreed}, "seconds": {seconds}, "versions": {nodes}}}'
    return [f"@{at} -- info settle {value}"]


@pytest.mark.parametrize("f", ["insert", "know-table"])
def test_a_coordinator_that_does_not_know_what_all_nodes_had_agreed_on_is_a_doubt(f: str) -> None:
    judgement = verdict(settled(1_150), asked(1_200, f=f))
    assert (judgement.valid, [doubt.objects for doubt in judgement.doubts]) == ("unknown", [("k.t",)])
    assert AGREED in judgement.doubts[0].text
    assert verdict(settled(1_110), asked(1_200, f=f)).valid == "unknown", "the wait began when the table was there"
    assert verdict(settled(1_200), asked(1_200, f=f)).valid == "unknown", "asked when all had just agreed"
    assert verdict(settled(1_150), asked(20_000, f=f)).valid is False, "nothing takes so long"


@pytest.mark.parametrize(
    ("notes", "more"),
    [
        pytest.param([], [], id="nobody waited"),
        pytest.param(settled(1_109), [], id="the wait began before the table was there"),
        pytest.param(settled(1_201), [], id="asked before all agreed"),
        pytest.param(settled(1_150, agreed="false"), [], id="not agreed"),
        pytest.param(settled(1_150, nodes='{"n1": "v"}'), [], id="agreed without this node"),
        pytest.param(settled(1_150), fault("n3", begins=1_160, ends=1_170), id="a fault since"),
        pytest.param(
            settled(1_150),
            ['@1160 -- n3 info node-start {"phase": "fault", "served": true, "seconds": 0.01}'],
            id="a start since",
        ),
        pytest.param(settled(1_150), ["@1160 p1 n2 invoke drop-table k.t", "@1170 p1 n2 info timed out"], id="a DROP"),
    ],
)
def test_a_coordinator_may_not_have_agreed_or_may_have_lost_it_since(notes: list[str], more: Sequence[str]) -> None:
    judgement = verdict(notes, more, asked(1_200))
    assert not any(AGREED in doubt.text for doubt in judgement.doubts)
    assert judgement.anomalies == ()

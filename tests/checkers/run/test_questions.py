"""Questions that a run of ours cannot have asked as they were recorded, and their legal twins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.questions import find_strange_questions
from schemaquake.harness.model.records import HISTORY, Records

PLAN = '@1 -- info run-planned {"restart": "rolling"}'
NOTES = [
    f'@{at} -- info phase {{"phase": "{phase}", "state": "{state}"}}'
    for phase, begins, ends in (("main", 10, 90), ("final-settled", 100, 190), ("final-restarted", 200, 290))
    for at, state in ((begins, "begins"), (ends, "ends"))
]
READS = [
    (at + number, node, key)
    for at in (120, 220)
    for number, (node, key) in enumerate((("n1", "k.r/0"), ("n2", "k.r/1"), ("n3", "k.r/2")))
]


def read(at: int, node: str, key: str, f: str = "read", value: str = "") -> list[str]:
    return [f"@{at} p{node[1:]} {node} invoke {f} {key} {value}".rstrip(), f"@{at} p{node[1:]} {node} ok {{}}"]


def strange(*lines: str, reads: object = READS) -> list[str]:
    final = [line for one in reads for line in read(*one)]  # type: ignore[attr-defined]
    return list(find_strange_questions(Evidence.of(judged([PLAN, *NOTES, *final, *lines]))))


def write(f: str, asked: str, answer: str, *, at: int = 20) -> list[str]:
    return [f"@{at} p{at} n1 invoke {f} k.r {asked}", f"@{at + 1} p{at} n1 {answer}"]


def test_one_process_asks_one_coordinator() -> None:
    assert strange(*read(20, "n1", "k.r/0")) == []
    wandered = [line.replace("p1 n1", "p1 n2") for line in read(20, "n1", "k.r/0")]
    assert strange(*wandered) == ["1 processes asked more than one coordinator, the first of them process 1"]


@pytest.mark.parametrize(
    ("value", "answer", "count"),
    [
        ('{"v": 5}', 'ok {"v": 5}', 0),
        ('{"v": 5}', 'ok {"v": 6}', 1),
        ('{"v": 5}', "fail E", 0),
        ('{"v": 5}', "info timed out", 0),
    ],
)
def test_a_write_is_acknowledged_with_the_value_that_was_asked_for(value: str, answer: str, count: int) -> None:
    assert len(strange(*write("write", value, answer), *write("write", '{"v": 1}', 'ok {"v": 1}', at=30))) == count


LEVELS = '{"consistency": "QUORUM", "additions": "QUORUM"}'


@pytest.mark.parametrize(
    ("value", "key", "count"),
    [
        (LEVELS, "k.s", 0),
        ('{"consistency": "QUORUM"}', "k.s", 1),
        ('{"additions": "QUORUM"}', "k.s", 1),
        ("{}", "k.s", 1),
        ("{}", "k.t", 0),
    ],
)
def test_reads_of_one_set_name_their_levels_if_others_of_it_do(value: str, key: str, count: int) -> None:
    lines = [*read(20, "n1", "k.s", value=LEVELS), *read(30, "n2", key, value=value)]
    assert len(strange(*lines)) == count


def reads_at(*levels: tuple[str, str], key: str = "k.s") -> list[str]:
    """Reads of one key, each at its level, that say at which level additions are made."""
    return [
        line
        for number, (level, additions) in enumerate(levels)
        for line in read(20 + 2 * number, "n1", key, value=f'{{"consistency": "{level}", "additions": "{additions}"}}')
    ]


def test_reads_of_one_set_agree_on_the_level_of_additions() -> None:
    (text,) = strange(*reads_at(("ONE", "QUORUM"), ("ONE", "QUORUM"), ("ONE", "ALL")))
    assert text == "reads of k.s say that additions to it were made at ALL and QUORUM"
    assert strange(*reads_at(("ONE", "QUORUM")), *reads_at(("ONE", "ALL"), key="k.u")) == []


@pytest.mark.parametrize(
    ("levels", "count"),
    [
        (["QUORUM"] * 5 + ["ONE"], 1),
        (["ONE"] + ["QUORUM"] * 5, 1),
        (["QUORUM"] * 4 + ["ONE"], 0),
        (["QUORUM"] * 5 + ["ONE"] * 2, 0),
        (["QUORUM"] * 5 + ["ONE", "ALL"], 0),
        (["QUORUM"] * 6, 0),
    ],
)
def test_a_lone_read_at_another_level_than_all_others_of_its_key_is_strange(levels: list[str], count: int) -> None:
    found = strange(*reads_at(*((level, "QUORUM") for level in levels)))
    assert len(found) == count
    if count:
        at = 7 + 2 * levels.index("ONE")
        number = next(row["index"] for row in judged([PLAN, *NOTES]).history.to_pylist() if row["time"] == 10_000_000)
        assert found == [f"op {number + at - 6} read k.s at ONE, and 5 other reads of it asked at QUORUM"]


def test_a_read_that_names_its_levels_and_nothing_else_names_them() -> None:
    records = judged([PLAN, *NOTES, *read(20, "n1", "k.s", value=LEVELS), *read(30, "n2", "k.s", value="{}")])
    rows = records.history.to_pylist()
    bare = [row | {"value": LEVELS} if "additions" in (row["value"] or "") else row for row in rows]
    found = find_strange_questions(
        Evidence.of(Records.of(pa.Table.from_pylist(bare, schema=HISTORY), records.observations))
    )
    assert len(list(found)) == 1


def test_clients_that_never_repeat_a_value_contradict_nothing() -> None:
    assert strange(*write("write", '{"v": 5}', 'ok {"v": 6}')) == []


@pytest.mark.parametrize(
    ("f", "answer", "count"),
    [
        ("write", "fail not applied: the condition did not hold", 1),
        ("cas", "fail not applied: the condition did not hold", 0),
        ("write", "fail Unavailable: 1 of 2", 0),
    ],
)
def test_a_condition_that_always_holds_is_not_answered_otherwise(f: str, answer: str, count: int) -> None:
    assert len(strange(*write(f, '{"v": 5}', answer))) == count


def requests(f: str, *levels: str) -> list[str]:
    """Operations of one worker, answered, at these levels."""
    answer = ' {"value": null, "writetime": null}' if f != "put" else ""
    return [
        line
        for number, level in enumerate(levels)
        for line in (
            f'p7 n1 invoke {f} k.q/{number} {{"value": {number}, "consistency": "{level}"}}',
            f"p7 n1 ok{answer}",
        )
    ]


@pytest.mark.parametrize("f", ["get", "put", "probe"])
def test_one_request_at_another_level_than_all_others_of_its_kind_is_strange(f: str) -> None:
    def lone(*levels: str) -> list[str]:
        return [text.partition(", a ")[2] for text in strange(*requests(f, *levels), reads=())]

    usual = ["QUORUM"] * 5
    assert lone(*usual, "ONE") == [f"{f}, asked at ONE, and all 5 others at QUORUM"]
    assert lone("ALL", *usual) == [f"{f}, asked at ALL, and all 5 others at QUORUM"]
    (first,), (last,) = (strange(*requests(f, *levels), reads=()) for levels in (("ALL", *usual), (*usual, "ALL")))
    assert int(last.split()[1].rstrip(",")) - int(first.split()[1].rstrip(",")) == 10
    for others in (["QUORUM"], ["ONE", "ONE"], ["ONE", "ALL"]):
        assert lone(*usual, *others) == [], "a workload may ask at several levels"
    assert lone(*usual[1:], "ONE") == [], "too few to tell"
    assert strange(*requests("put", *["ALL"] * 6), *requests("get", *["ONE"] * 6), reads=()) == []


@pytest.mark.parametrize("missing", range(len(READS)))
def test_a_reading_of_one_final_phase_alone_is_strange(missing: int) -> None:
    left = [one for number, one in enumerate(READS) if number != missing]
    (said,) = strange(reads=left)
    assert said.startswith("1 readings of the other final phase were not asked for when ")
    assert f"through {READS[missing][1]}" in said


def test_a_node_that_was_down_in_one_final_phase_was_not_asked_there() -> None:
    left = [one for one in READS if one[:2] != (222, "n3")]
    died = '@150 -- n3 info node-died {"exit_code": 1, "first_error": "E"}'
    assert strange(reads=left) != []
    assert strange(died, reads=left) == []


@pytest.mark.parametrize(
    ("settled", "restarted", "died", "count"),
    [
        (["n3"], ["n2"], True, 0),
        (["n3"], ["n2"], False, 2),
        (["n3"], [], True, 0),  # n3 would have been asked
        (["n1"], [], True, 1),
        (["n2", "n3"], ["n1"], True, 2),  # was asked of several nodes, so of n1 too
        (["n1", "n3"], ["n2"], True, 2),
    ],
)
def test_what_is_asked_of_one_node_is_asked_of_another_one_when_that_is_down(
    settled: list[str], restarted: list[str], died: bool, count: int
) -> None:
    level = '{"consistency": "ALL"}'
    lines = [line for at, node in enumerate(settled) for line in read(180 + at, node, "k.t", value=level)]
    lines += [line for at, node in enumerate(restarted) for line in read(280 + at, node, "k.t", value=level)]
    if died:
        lines.append('@150 -- n3 info node-died {"exit_code": 1, "first_error": "E"}')
    found = strange(*lines, reads=[one for one in READS if one[:2] != (222, "n3")] if died else READS)
    assert sum(int(text.split()[0]) for text in found) == count


def test_a_phase_that_was_cut_short_need_not_have_all_readings() -> None:
    cut = '@230 -- info phase-cut-short {"phase": "final-restarted"}'
    assert strange(cut, reads=READS[:-1]) == []


def test_a_workload_that_reads_otherwise_in_each_phase_is_left_alone() -> None:
    other = [(at, node, f"{key}{at}") for at, node, key in READS]
    assert strange(reads=other) == []


@pytest.mark.parametrize(
    ("second", "same"), [({"phase": "restarted"}, True), ({"phase": "restarted", "consistency": "ONE"}, False)]
)
def test_phases_may_differ_in_their_name_and_in_the_keys_that_are_theirs(second: dict[str, str], same: bool) -> None:
    more = [
        *read(180, "n1", "k.t", "get", '{"phase": "settled", "where": {"k": 1}}'),
        *read(280, "n1", "k.t", "get", str({**second, "where": {"k": 2}}).replace("'", '"')),
    ]
    assert (strange(*more) == []) is same


APPEND, READ = ("append", 1, 5, None), ("r", 2, None, None)


def transactions(asked: list[Any] | None, answered: list[Any] | None, outcome: str = "ok") -> list[str]:
    """What is strange in a run with a transaction that was asked for and answered in these micro-operations."""
    records = judged([PLAN, *NOTES, "@20 p9 n1 invoke txn k.a {}", f"@21 p9 n1 {outcome} {{}}"])
    rows = records.history.to_pylist()
    for kind, mops in (("invoke", asked), (outcome, answered)):
        (row,) = (row for row in rows if (row["f"], row["type"]) == ("txn", kind))
        row["mops"] = mops and [dict(zip("fkv", mop, strict=False), vs=mop[3]) for mop in mops]
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    return list(find_strange_questions(Evidence.of(Records.of(history, records.observations))))


@pytest.mark.parametrize(
    ("asked", "answered", "outcome", "count"),
    [
        ([APPEND, READ], [APPEND, ("r", 2, None, [1, 2])], "ok", 0),
        ([("r", 2, None, None)], [("r", 2, 7, None)], "ok", 0),
        (None, None, "ok", 0),
        ([APPEND, READ], None, "info", 0),
        ([APPEND, READ], None, "ok", 1),
        ([APPEND], None, "ok", 1),
        ([], None, "ok", 0),
        ([APPEND], [("append", 1, None, None)], "ok", 1),
        ([("append", 1, None, None)], [("append", 1, None, None)], "ok", 0),
        ([APPEND, READ], [APPEND], "ok", 1),
        ([APPEND, READ], [APPEND, READ, READ], "ok", 1),
        ([APPEND, READ], [READ, APPEND], "ok", 1),
        ([APPEND], [("append", 2, 5, None)], "ok", 1),
        ([APPEND], [("append", 1, 6, None)], "ok", 1),
        ([APPEND], [("r", 1, 5, None)], "ok", 1),
        ([READ], [("r", 3, None, [])], "ok", 1),
    ],
)
def test_a_transaction_is_answered_in_its_own_micro_operations(
    asked: list[Any] | None, answered: list[Any] | None, outcome: str, count: int
) -> None:
    assert len(transactions(asked, answered, outcome)) == count


def index_of(lines: list[str], at: int) -> int:
    """The number of the event at a time (ms)."""
    (index,) = (row["index"] for row in judged(lines).history.to_pylist() if row["time"] == at * 1_000_000)
    return int(index)


def test_an_operation_without_an_end_contradicts_nothing() -> None:
    assert strange('@20 p20 n1 invoke write k.r {"v": 5}') == []


def test_the_first_of_several_writes_with_another_value_is_named() -> None:
    same = write("write", '{"v": 1}', 'ok {"v": 1}', at=30)
    odd = [*write("write", '{"v": 5}', 'ok {"v": 6}', at=40), *write("write", '{"v": 6}', 'ok {"v": 7}', at=50)]
    (said,) = strange(*same, *odd)
    assert said.startswith("2 operations write were acknowledged")
    assert said.endswith(f"op {index_of([PLAN, *NOTES, *same, *odd], 40)}")


def test_an_answer_without_a_value_repeats_none() -> None:
    odd = [*write("write", '{"v": 5}', 'ok {"v": 6}'), *write("write", '{"v": 1}', "ok", at=30)]
    records = judged([PLAN, *NOTES, *odd])
    assert len(list(find_strange_questions(Evidence.of(records)))) == 1
    rows = [{**row, "value": None} if row["time"] == 31_000_000 else row for row in records.history.to_pylist()]
    silent = Records.of(pa.Table.from_pylist(rows, schema=HISTORY), records.observations)
    assert list(find_strange_questions(Evidence.of(silent))) == []


def test_the_first_of_several_false_conditions_is_named() -> None:
    refused = "fail not applied: the condition did not hold"
    odd = [*write("write", '{"v": 5}', refused, at=40), *write("write", '{"v": 6}', refused, at=50)]
    (said,) = strange(*odd)
    assert said.startswith("2 ")
    assert f"op {index_of([PLAN, *NOTES, *odd], 40)}" in said


MANY = [(at + number, f"n{number + 1}", f"k.r/{number}") for at in (120, 220) for number in range(12)]


def test_three_missing_readings_are_listed_and_all_are_counted() -> None:
    (said,) = strange(reads=MANY[:-5])
    assert said.startswith("5 readings of the other final phase")
    assert said.count("through") == 3


def test_as_many_missing_readings_as_are_alike_are_other_readings() -> None:
    both = [*MANY[:4], *MANY[12:14]]
    assert strange(reads=both) == []
    assert len(strange(reads=[*MANY[:4], *MANY[12:15]])) == 1


def test_a_phase_is_compared_up_to_its_last_note() -> None:
    late = [*READS, (192, "n9", "k.r/9")]
    again = '@195 -- info phase {"phase": "final-settled", "state": "ends"}'
    assert strange(reads=late) == []
    assert len(strange(again, reads=late)) == 1


@pytest.mark.parametrize("notes", [NOTES[:-1], NOTES[:-2]], ids=["begun", "never begun"])
def test_a_phase_without_an_end_is_compared_with_none(notes: list[str]) -> None:
    reads = [
        (120, "n1", "k.r/0"),
        (121, "n2", "k.r/1"),
        (122, "n3", "k.r/2"),
        (200, "n1", "k.r/0"),
        (200, "n2", "k.r/1"),
    ]
    final = [line for one in reads for line in read(*one)]
    assert len(list(find_strange_questions(Evidence.of(judged([PLAN, *NOTES, *final]))))) == 1
    assert list(find_strange_questions(Evidence.of(judged([PLAN, *notes, *final])))) == []


def test_a_run_of_before_there_were_plans_is_not_compared() -> None:
    final = [line for one in READS[:-1] for line in read(*one)]
    assert list(find_strange_questions(Evidence.of(judged([*NOTES, *final])))) == []


def test_a_node_that_died_after_a_phase_began_was_asked_in_it_all_the_same() -> None:
    died = '@230 -- n3 info node-died {"exit_code": 1, "first_error": "E"}'
    assert len(strange(died, reads=READS[:-1])) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"columns": ["a", "b"]}', '{"columns": ["b", "a"]}'),
        ('{"where": {"k": 1}, "zones": ["a", "b"]}', '{"where": {"k": 1}, "zones": ["b", "a"]}'),
        ('{"phase": "settled", "where": {"k": 1}}', '{"phase": "restarted", "where": {"j": 1}}'),
        ('{"phase": "settled", "table": "t"}', '{"phase": "restarted", "table": "u"}'),
    ],
)
def test_readings_of_other_requests_are_not_alike(one: str, other: str) -> None:
    for second, count in ((other, 2), (one, 0)):
        assert len(strange(*read(180, "n1", "k.t", "get", one), *read(280, "n1", "k.t", "get", second))) == count


def test_of_two_transactions_one_may_be_answered_otherwise() -> None:
    lines = [
        f"@{at + more} p{at} n1 {what} {{}}" for at in (20, 30) for more, what in ((0, "invoke txn k.a"), (1, "ok"))
    ]
    records = judged([PLAN, *NOTES, *lines])
    rows = records.history.to_pylist()
    for row in rows:
        if row["f"] == "txn":
            row["mops"] = [{"f": "append", "k": 1, "v": 6 if row["time"] == 31_000_000 else 5, "vs": None}]
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    (said,) = find_strange_questions(Evidence.of(Records.of(history, records.observations)))
    assert said.startswith("1 transaction was answered")
    assert said.endswith(f"op {next(row['index'] for row in rows if row['time'] == 30_000_000)}")

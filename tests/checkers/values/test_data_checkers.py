"""Sets, counters, ids, long forks, banks, availability and stats: small histories, and their twins one event away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from data_histories import data_records
from histories import observed
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.run.availability import Availability
from schemaquake.checkers.run.stats import Stats
from schemaquake.checkers.values import set_full
from schemaquake.checkers.values.bank import Bank
from schemaquake.checkers.values.counter import Counter
from schemaquake.checkers.values.long_fork import LongFork
from schemaquake.checkers.values.set_full import SetFull
from schemaquake.checkers.values.unique_ids import UniqueIds
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict


def judge(checker: object, *lines: str) -> Verdict:
    return checker.check(data_records(*lines), limit_s=10)  # type: ignore[attr-defined,no-any-return]


def types(verdict: Verdict) -> list[str]:
    return [found.type for found in verdict.anomalies]


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

ADDED = ("p0 invoke add 1", "p0 ok")


def read(*values: str) -> tuple[str, ...]:
    return tuple(line for value in values for line in ("p1 invoke read", f"p1 ok {value}"))


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ((*ADDED, *read("[1]")), "stable"),
        ((*ADDED, *read("[]")), "lost"),
        ((*ADDED, *read("[1]", "[]")), "lost"),
        ((*ADDED, *read("[]", "[1]")), "stale"),
        ((*read("[]"), *ADDED), "never_read"),
        (("p0 invoke add 1", "p1 invoke read", "p0 ok", "p1 ok []"), "never_read"),
        (("p0 invoke add 1", "p0 info", *read("[1]", "[]")), "lost"),
        (("p0 invoke add 1", "p0 info", *read("[1]", "[1]")), "recovered"),
    ],
)
def test_what_became_of_an_element(lines, outcome):
    verdict = judge(SetFull(), *lines)
    assert verdict.figures[outcome] == 1
    assert types(verdict) == (["lost-element"] if outcome == "lost" else [])
    assert verdict.valid is (outcome != "lost")


def test_a_read_that_overlaps_the_one_that_shows_it_proves_no_loss():
    lines = (*ADDED, "p1 invoke read", "p2 invoke read", "p2 ok []", "p1 ok [1]")
    assert judge(SetFull(), *lines).figures["stale"] == 1


def test_a_stale_element_is_an_anomaly_only_where_reads_must_be_fresh():
    lines = (*ADDED, *read("[]", "[1]"))
    assert judge(SetFull(), *lines).valid is True
    assert types(judge(SetFull(fresh=True), *lines)) == ["stale-element"]


def test_an_element_twice_and_one_that_nobody_added():
    assert types(judge(SetFull(), *ADDED, *read("[1,1]"))) == ["duplicated-element"]
    assert types(judge(SetFull(), *ADDED, *read("[1,2]"))) == ["unexpected-element"]
    assert types(judge(SetFull(), *ADDED, "p0 invoke add 2", "p0 fail", *read("[1,2]"))) == ["unexpected-element"]
    assert judge(SetFull(), *ADDED, "p0 invoke add 2", "p0 info", *read("[1,2]")).valid is True


def test_an_element_whose_add_was_refused_names_the_add_and_its_error():
    lines = ("p0 invoke add 2", "p0 fail", *read("[1,2]"))
    (found,) = judge(SetFull(), *ADDED, *lines).anomalies
    assert found.ops == (2, 4)
    assert "T2 shows 2: T1, which was answered as refused, took effect." in found.explanation
    assert "refused_with" in found.evidence


def test_an_element_that_is_shown_before_its_add_began_was_added_by_nobody():
    early = ("p1 invoke read", "p1 ok [1,2]", "p2 invoke read", "p0 invoke add 2", "p2 ok [1,2]", "p0 ok")
    (found,) = judge(SetFull(), *ADDED, *early, *read("[1,2]")).anomalies
    assert (found.type, found.ops) == ("unexpected-element", (2, 5))
    assert "T1 must show" in found.explanation
    assert "T1 shows 2, and T2, which added it first, began only after T1 was answered." in found.explanation
    assert judge(SetFull(), *ADDED, *early[2:], *read("[1,2]")).valid is True, "the add began while the set was read"
    again = ("p3 invoke add 2", "p3 info", *early)
    assert judge(SetFull(), *ADDED, *again, *read("[1,2]")).valid is True, "it was asked for twice"
    refused = ("p0 invoke add 2", "p0 fail", *early)
    (found,) = judge(SetFull(), *ADDED, *refused, *read("[1,2]")).anomalies
    assert (found.type, found.ops) == ("unexpected-element", (2, 4)), "T1 is the add that was refused"


def test_an_element_that_is_shown_twice_names_the_read_alone():
    lines = ("p0 invoke add 2", "p0 fail", *read("[1,2,2]"))
    twice, unexpected = judge(SetFull(), *ADDED, *lines).anomalies
    assert (twice.type, twice.ops) == ("duplicated-element", (4,))
    assert twice.explanation.endswith("But T1 shows 2 more than once.")
    assert (unexpected.type, unexpected.ops) == ("unexpected-element", (2, 4))
    (null,) = judge(SetFull(), *ADDED, *read("[1,null]")).anomalies
    assert (null.type, null.ops) == ("unexpected-element", (2,))


def test_an_element_that_was_added_twice_is_lost_by_the_addition_that_was_acknowledged():
    verdict = judge(SetFull(), "p2 invoke add 1", "p2 info", *ADDED, *read("[]"))
    assert [(found.type, found.ops) for found in verdict.anomalies] == [("lost-element", (2, 4))]


def test_a_read_without_an_answer_shows_and_lacks_nothing():
    for answer in ("fail", "info"):
        verdict = judge(SetFull(), *ADDED, *read("[1]"), "p2 invoke read", f"p2 {answer}")
        assert (verdict.valid, verdict.figures["reads"], verdict.figures["recovered"]) == (True, 1, 0)


def test_an_element_that_was_shown_before_its_add_was_refused_was_added_by_nobody():
    (found,) = judge(SetFull(), *ADDED, *read("[1,2]"), "p0 invoke add 2", "p0 fail").anomalies
    assert found.ops == (2,)
    assert found.explanation.endswith("But T1 shows 2, and nobody added it.")


def test_a_lost_element_is_told_with_its_last_sighting():
    (found,) = judge(SetFull(), *ADDED, *read("[1]", "[]")).anomalies
    assert found.ops == (0, 2, 4)
    assert found.evidence["element"] == 1
    assert "     But T3 began after that and lacks it; T2 is the last that shows it." in found.explanation


def test_how_long_an_element_was_stale():
    verdict = judge(SetFull(), *ADDED, "@10.0006 p1 invoke read", "p1 ok []", *read("[1]"))
    assert verdict.figures["stable_slowest_ms"] == 8.001
    assert judge(SetFull(), *ADDED, *read("[1]")).figures["stable_slowest_ms"] == 0


def test_a_set_that_was_never_read_is_unknown():
    verdict = judge(SetFull(), *ADDED)
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("undecided", ())]
    assert judge(SetFull(), "p0 invoke add 1", "p0 ok", *read("3")).reason == (
        "nothing to judge: no set was added to and read"
    )


def test_elements_are_told_apart_by_their_json():
    assert judge(SetFull(), 'p0 invoke add "1"', "p0 ok", *read('["1"]')).valid is True
    assert judge(SetFull(), 'p0 invoke add "1"', "p0 ok", *read("[1]")).valid is False


def test_an_element_is_stable_once_a_read_that_began_after_it_was_known_shows_it():
    during = ("p0 invoke add 1", "p1 invoke read", "p0 ok", "p1 ok [1]")
    assert judge(SetFull(), *during).figures["never_read"] == 1
    assert judge(SetFull(), *during, *read("[1]")).figures["stable"] == 1
    unknown = judge(SetFull(), "p0 invoke add 1", "p0 info", *read("[]"))
    assert [unknown.figures[name] for name in ("recovered", "stable", "never_read", "lost")] == [0, 0, 0, 0]
    assert judge(SetFull(fresh=True), "p0 invoke add 1", "p0 info", *read("[]")).valid is True


def test_a_lost_element_names_its_first_addition_and_its_last_sighting_and_how_many_more_are_lost():
    lines = ("p0 invoke add 1", "p0 info", "p2 invoke add 1", "p2 info", *read("[1]", "[]", "[1]", "[]"))
    (found,) = judge(SetFull(), *lines).anomalies
    assert (found.ops, found.nodes, found.evidence["runs"]) == ((0, 8, 10), (), [(0, 1), (2, 3)])
    assert "more elements" not in found.explanation
    two = judge(SetFull(), *ADDED, "p0 invoke add 2", "p0 ok", *read("[]")).anomalies
    assert [each.explanation.endswith("The same holds for 1 more elements.") for each in two] == [True, True]
    assert judge(SetFull(), *ADDED, *read("[]")).figures.get("stable_slowest_ms") is None


def test_what_a_refused_addition_was_refused_with_is_told():
    (found,) = judge(
        SetFull(), *ADDED, "p0 n3 invoke add 2", "p0 fail !Timeout", "p1 n2 invoke read", "p1 ok [1,2]"
    ).anomalies
    assert (found.evidence, found.nodes) == ({"element": 2, "refused_with": "Timeout"}, ("n2", "n3"))
    (twice,) = judge(SetFull(), *ADDED, *read("[1,1]")).anomalies
    assert (twice.evidence, twice.nodes) == ({"element": 1}, ())


def test_elements_may_be_of_any_kind():
    lines = ("p0 invoke add [1,2]", "p0 ok", 'p0 invoke add {"b":1,"a":2}', "p0 ok", "p0 invoke add true", "p0 ok")
    assert judge(SetFull(), *lines, *read('[[1,2],{"a":2,"b":1},true]')).figures["stable"] == 3
    assert types(judge(SetFull(), *lines, *read('[[2,1],{"a":2,"b":1},true]'))) == [
        "lost-element",
        "unexpected-element",
    ]
    (found,) = judge(SetFull(), *ADDED, *read("[1,[3]]")).anomalies
    assert found.evidence == {"element": [3]}


@pytest.mark.parametrize(
    ("lines", "valid"),
    [
        (read("[1]", "1"), "unknown"),
        (read("[1]", "1", "2"), "nothing"),
        (read("null"), False),
        (read("1"), "nothing"),
    ],
)
def test_what_is_a_set(lines, valid):
    verdict = judge(SetFull(), *ADDED, *lines)
    assert (verdict.valid, verdict.judged_nothing) == ("unknown" if valid == "nothing" else valid, valid == "nothing")


def test_sets_that_were_never_read_are_counted_and_named():
    added = [line for key in "xyz" for line in (f"p0 invoke add k={key} 1", "p0 ok")]
    (doubt,) = judge(SetFull(), *added, "p1 invoke read k=y", "p1 ok [1]").doubts
    assert (doubt.text, doubt.objects) == ("2 of 3 sets were never read", ("x", "z"))


def test_the_time_limit_ends_the_judgement_and_says_how_far_it_came(monkeypatch):
    added = [
        line for key in "wxyz" for line in (f"p0 invoke add k={key} 1", "p0 ok", f"p1 invoke read k={key}", "p1 ok [1]")
    ]
    times = iter([100.0, 100.5, 100.6, 100.7, 100.8])
    monkeypatch.setattr(set_full, "time", SimpleNamespace(monotonic=lambda: next(times)))
    verdict = SetFull().check(data_records(*added), limit_s=0.5)
    assert [(doubt.kind, doubt.text) for doubt in verdict.doubts] == [
        ("time", "the time limit of 0.5 s passed after 1 of 4 sets")
    ]


def test_no_more_sets_are_explained_than_a_report_holds():
    most = LIMITS.findings_of_all
    added = [line for key in range(most) for line in (f"p0 invoke add k={key} 1", "p0 ok")]
    reads = [line for key in range(most) for line in (f"p1 invoke read k={key}", f"p1 ok [1,2{',3' * (key > 0)}]")]
    verdict = judge(SetFull(), *added, *reads)
    assert len(verdict.anomalies) == most + (most % 2 == 0)
    assert verdict.figures["unexpected"] == 2 * most - 1
    each = [line for key in range(most + 1) for line in (f"p1 invoke read k={key}", "p1 ok [1,2]")]
    one = [line for key in range(most + 1) for line in (f"p0 invoke add k={key} 1", "p0 ok")]
    assert len(judge(SetFull(), *one, *each).anomalies) == most


@pytest.mark.parametrize("seed", range(10))
def test_reads_that_overlap_are_compared_with_all_that_show_an_element(seed):
    """Against a look at every pair of reads: an element is lost if a read lacks it, and none that ended after its begin shows it."""
    random = Random(seed)
    count = 3 + seed
    spans = sorted((begin := 10 + random.randrange(40), begin + random.randrange(1, 30)) for _ in range(count))
    shows = [random.random() < 0.6 for _ in spans]
    events = [(begin, 0, f"@{begin} p{10 + at} invoke read") for at, (begin, _) in enumerate(spans)]
    events += [
        (end, 1, f"@{end} p{10 + at} ok {[1] if shown else []}")
        for at, ((_, end), shown) in enumerate(zip(spans, shows, strict=True))
    ]
    lines = ("@1 p0 invoke add 1", "@2 p0 ok", *(line for *_, line in sorted(events)))
    last = max((begin for (begin, _), shown in zip(spans, shows, strict=True) if not shown), default=None)
    seen = any(shown and last is not None and end >= last for (_, end), shown in zip(spans, shows, strict=True))
    expected = "stable" if last is None else "stale" if seen else "lost"
    assert judge(SetFull(), *lines).figures[expected] == 1


def test_a_read_that_began_before_an_element_was_known_need_not_show_it():
    lines = ("p1 invoke read", "p2 invoke read", "p0 invoke add 1", "p2 ok []", "p1 ok [1]", "p0 ok")
    assert judge(SetFull(), *lines).figures["never_read"] == 1


@pytest.mark.parametrize("count", [2, 5, 8, 13])
def test_one_slow_read_among_many_that_show_an_element_proves_that_it_may_not_be_lost(count):
    for slow in range(count):
        begun = [f"@{10 + at} p{10 + at} invoke read" for at in range(count)]
        ends = [f"@{30 + at} p{10 + at} ok [1]" for at in range(count) if at != slow]
        lacks = ("@60 p1 invoke read", "@61 p1 ok []")
        late = (*ADDED, *begun, *ends, *lacks, f"@70 p{10 + slow} ok [1]")
        assert judge(SetFull(), *late).figures["stale"] == 1
        early = (*ADDED, *begun, *ends, f"@59 p{10 + slow} ok [1]", *lacks)
        assert judge(SetFull(), *early).figures["lost"] == 1


def test_a_sight_that_ends_in_the_instant_in_which_a_read_begins_may_be_the_later_one():
    sight = ("@20 p1 invoke read", "@30 p1 ok [1]")
    assert judge(SetFull(), *ADDED, *sight, "@30 p2 invoke read", "@31 p2 ok []").figures["stale"] == 1
    assert judge(SetFull(), *ADDED, *sight, "@30.001 p2 invoke read", "@31 p2 ok []").figures["lost"] == 1
    one, quorum = (f'k=k.s {{"consistency": "{level}", "additions": "QUORUM"}}' for level in ("ONE", "QUORUM"))
    for at, found in (("30", "stale-element"), ("30.001", "lost-element")):
        reads = (f"@20 p1 invoke read {one}", "@30 p1 ok [1]", f"@{at} p2 invoke read {quorum}", "@31 p2 ok []")
        assert types(judge(SetFull(), *replicated(3), *SET, *reads, *leveled("ONE", "QUORUM", "[]"))) == [found]


def test_a_read_that_begins_in_the_instant_of_an_acknowledgement_owes_nothing():
    levels = 'k=k.s {"consistency": "QUORUM", "additions": "QUORUM"}'
    for at, found in (("20", []), ("20.001", ["stale-element"])):
        lines = ("p0 invoke add k=k.s 1", "@20 p0 ok", f"@{at} p1 invoke read {levels}", "@21 p1 ok []")
        assert types(judge(SetFull(), *replicated(3), *lines, *leveled("QUORUM", "QUORUM", "[1]"))) == found


def test_one_and_true_are_two_elements():
    assert types(judge(SetFull(), *ADDED, *read("[true]"))) == ["lost-element", "unexpected-element"]


@given(st.data())
def test_a_set_kept_by_one_server_is_valid_and_each_planted_loss_is_found(data):
    kept: set[int] = set()
    lines: list[str] = []
    for number in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            lines += [f"p0 invoke add {number}", "p0 ok"]
            kept.add(number)
        else:
            lines += read(str(sorted(kept)))
    lines += read(str(sorted(kept)))
    verdict = judge(SetFull(fresh=True), *lines)
    assert verdict.valid is True or not kept
    if kept:
        gone = data.draw(st.sampled_from(sorted(kept)))
        planted = judge(SetFull(), *lines, *read(str(sorted(kept - {gone}))))
        assert types(planted) == ["lost-element"]
        assert planted.anomalies[0].evidence["element"] == gone


# ── counters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "lowest", "highest"),
    [
        (("p0 invoke add 2", "p0 ok"), 2, 2),
        (("p0 invoke add 2", "p0 info"), 0, 2),
        (("p0 invoke add 2", "p0 fail"), 0, 0),
        (("p0 invoke add -2", "p0 ok", "p2 invoke add 1", "p2 ok"), -1, -1),
        (("p0 invoke add -2", "p0 info", "p2 invoke add 1", "p2 info"), -2, 1),
        (("p0 invoke increment", "p0 ok", "p2 invoke decrement 3", "p2 info"), -2, 1),
    ],
)
def test_a_read_is_within_what_was_surely_and_what_was_possibly_added(lines, lowest, highest):
    for value in range(lowest - 1, highest + 2):
        verdict = judge(Counter(), *lines, *read(str(value)))
        assert verdict.valid is (lowest <= value <= highest)
        if not verdict.valid:
            assert types(verdict) == ["counter-out-of-bounds"]
            assert verdict.anomalies[0].evidence == {"read": value, "lowest": lowest, "highest": highest, "reads": 1}


def test_what_is_added_while_it_is_read_may_count():
    lines = ("p1 invoke read", "p0 invoke add 2", "p0 ok")
    assert judge(Counter(), *lines, "p1 ok 0").valid is True
    assert judge(Counter(), *lines, "p1 ok 2").valid is True
    assert judge(Counter(), *lines, "p1 ok 1").valid is True


def test_a_counter_that_nobody_read_is_nothing_to_judge():
    assert judge(Counter(), "p0 invoke add 2", "p0 ok").valid == "unknown"


@pytest.mark.parametrize(
    ("lines", "valid"),
    [
        pytest.param(read("[1]"), "nothing", id="a set"),
        pytest.param(read("1", "[1]"), "nothing", id="as many sums as lists"),
        pytest.param(read("2", "2", "[1]"), "unknown", id="mostly sums"),
        pytest.param(read("null"), "unknown", id="no sum yet"),
        pytest.param((*read("null"), *read("[1]")), "nothing", id="no sum, and a list"),
        pytest.param(read("null", "null", "2"), "unknown", id="one sum"),
        pytest.param(("p2 invoke increment", "p2 ok", *read("[1]")), "unknown", id="a list, of what is counted up"),
        pytest.param(("p2 invoke decrement", "p2 ok", *read("1")), True, id="counted down"),
    ],
)
def test_what_is_a_counter(lines, valid):
    verdict = judge(Counter(), "p0 invoke add 2", "p0 ok", *lines)
    assert (verdict.valid, verdict.judged_nothing) == ("unknown" if valid == "nothing" else valid, valid == "nothing")


def test_a_set_beside_a_counter_is_left_to_another_checker():
    of_a_set = ("p0 invoke add k=s 1", "p0 ok", "p1 invoke read k=s", "p1 ok [1]")
    verdict = judge(Counter(), "p0 invoke add 2", "p0 ok", *read("2"), *of_a_set)
    assert (verdict.valid, verdict.figures["counters"]) == (True, 1)


def test_a_read_that_finds_no_counter_which_was_added_to_before_is_undecided():
    shown = read("2")
    for lines, valid in (
        (("p0 invoke add 2", "p0 ok", *read("null"), *shown), "unknown"),
        (("p0 invoke increment 2", "p0 ok", *read("null"), *shown), "unknown"),
        (("p0 invoke add 2", "@5 p0 ok", "@5 p1 invoke read", "p1 ok null", *shown), True),
        (("p0 invoke add 2", "p0 fail", *read("null"), "p0 invoke add 2", "p0 ok", *shown), True),
        (("p0 invoke add 2", "p0 info", *read("null"), *shown), True),
        ((*read("0", "null"), "p0 invoke add 2", "p0 ok", *shown), True),
    ):
        assert judge(Counter(), *lines).valid == valid, lines
    (doubt,) = judge(Counter(), "p0 invoke add 2", "p0 ok", "p2 invoke read", "p2 info 2", *read("null")).doubts
    assert doubt.text == "no read of a counter was answered"
    for level, valid in (("QUORUM", "unknown"), ("ONE", True)):
        lines = (*replicated(3), "p0 invoke add k=k.s 2", "p0 ok", *leveled(level, "QUORUM", "null", "2"))
        assert judge(Counter(), *lines).valid == valid


def test_counters_reads_and_additions_are_counted_over_all_keys():
    one = ("p0 invoke add k=x 2", "p0 ok", "p1 n2 invoke read k=x", "p1 ok 3", "p1 n2 invoke read k=x", "p1 ok 4")
    other = ("p0 invoke add k=y 1", "p0 ok", "p0 invoke add k=y 1", "p0 fail", "p1 invoke read k=y", "p1 ok 2")
    verdict = judge(Counter(), *one, *other)
    assert verdict.figures == {"counters": 2, "reads": 3, "additions": 3, "out_of_bounds": 3}
    first, second, third = verdict.anomalies
    assert [found.nodes for found in verdict.anomalies] == [("n2",), ("n2",), ()]
    for found in (first, second):
        assert found.explanation.endswith("out of bounds. The same holds for 1 more reads.")
    assert third.explanation.endswith("T1 read 2, which is out of bounds.")


def test_sums_beyond_64_bits_are_exact():
    big = 1 << 62
    lines = [line for _ in range(3) for line in (f"p0 invoke add {big}", "p0 ok")]
    assert judge(Counter(), *lines, *read(str(3 * big))).valid is True
    assert types(judge(Counter(), *lines, *read(str(3 * big + 1)))) == ["counter-out-of-bounds"]
    assert types(judge(Counter(), *lines, *read(str(3 * big - (1 << 64))))) == ["counter-out-of-bounds"]


@pytest.mark.parametrize("asked", ["add", "add null", "increment true", 'decrement "1"'])
def test_an_addition_of_what_is_no_integer_is_refused(asked):
    with pytest.raises(HistoryError, match="wants an integer"):
        judge(Counter(), *SUMS, f"p0 invoke {asked}", "p0 ok")


@st.composite
def additions(draw: st.DrawFn) -> list[tuple[int, int | None, int, str]]:
    """(begins, ends, amount, outcome) of each, with times in ms."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        begins = draw(st.integers(1, 20))
        outcome = draw(st.sampled_from(["ok", "ok", "info", "fail"]))
        found.append((begins, begins + draw(st.integers(0, 9)), draw(st.integers(-3, 3)), outcome))
    return found


@given(additions(), st.integers(1, 20), st.integers(0, 9), st.integers(-6, 6))
def test_bounds_are_those_of_trying_every_subset(added, begins, length, value):
    ends = begins + length
    certain = [amount for _, end, amount, outcome in added if outcome == "ok" and end < begins]
    open_to_doubt = [
        amount
        for start, end, amount, outcome in added
        if outcome != "fail" and start <= ends and not (outcome == "ok" and end < begins)
    ]
    lowest = sum(certain) + sum(amount for amount in open_to_doubt if amount < 0)
    highest = sum(certain) + sum(amount for amount in open_to_doubt if amount > 0)
    rows = [(begins, "invoke", "read", 99, None), (ends, "ok", "read", 99, value)]
    for process, (start, end, amount, outcome) in enumerate(added):
        rows += [(start, "invoke", "add", process, amount), (end, outcome, "add", process, amount)]
    rows.sort(key=lambda row: (row[0], row[1] != "invoke"))
    table = [
        {"index": at, "time": moment, "type": kind, "f": f, "process": process, "value": None if v is None else str(v)}
        for at, (moment, kind, f, process, v) in enumerate(rows)
    ]
    history = HISTORY.empty_table().from_pylist(table, schema=HISTORY)
    assert Counter().check(Records.of(history), limit_s=1).valid is (lowest <= value <= highest)


# ── ids, forks, banks ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_id_that_is_given_out_twice():
    once = ("p0 invoke generate", 'p0 ok "a"', "p1 invoke generate", 'p1 ok "b"')
    assert judge(UniqueIds(), *once).valid is True
    verdict = judge(UniqueIds(), *once, "p2 invoke generate", 'p2 ok "a"')
    assert types(verdict) == ["duplicate-id"]
    assert verdict.anomalies[0].ops == (0, 4)
    assert judge(UniqueIds(), *once, "p2 invoke generate", 'p2 info "a"').valid is True
    assert judge(UniqueIds(), "p0 invoke generate", "p0 fail").valid == "unknown"


def forks(*seen: tuple[int | None, int | None]) -> Records:
    rows = []
    for process, (x, y) in enumerate(seen):
        mops = [{"f": "r", "k": 1, "v": x, "vs": None}, {"f": "r", "k": 2, "v": y, "vs": None}]
        for kind in ("invoke", "ok"):
            at = len(rows)
            rows.append({"index": at, "time": at, "process": process, "type": kind, "f": "read", "mops": mops})
    return Records.of(HISTORY.empty_table().from_pylist(rows, schema=HISTORY))


def test_reads_that_saw_two_writes_in_opposite_orders():
    assert LongFork().check(forks((None, None), (1, None), (1, 1)), limit_s=1).valid is True
    assert LongFork().check(forks((1, None), (1, None)), limit_s=1).valid is True
    verdict = LongFork().check(forks((1, 1), (1, None), (None, 1)), limit_s=1)
    assert types(verdict) == ["long-fork"]
    assert verdict.anomalies[0].ops == (2, 4)
    assert LongFork().check(forks((1, None), (2, None)), limit_s=1).valid == "unknown"
    assert LongFork().check(forks((1, None)), limit_s=1).reason == (
        "nothing to judge: no group of keys, each written once, was read twice"
    )


MOVED = ('p0 invoke transfer {"from":0,"to":1,"amount":3}', "p0 ok")


def test_money_that_was_made_lost_or_overdrawn():
    assert judge(Bank(), *MOVED, *read('{"0":7,"1":3}', '{"0":4,"1":6}')).valid is True
    assert types(judge(Bank(), *MOVED, *read('{"0":7,"1":3}', '{"0":4,"1":7}'))) == ["wrong-total"]
    assert types(judge(Bank(), *MOVED, *read('{"0":7,"1":null}'))) == ["wrong-total"]
    assert types(judge(Bank(), *MOVED, *read('{"0":-1,"1":11}'))) == ["negative-balance"]
    assert judge(Bank(overdraft=True), *MOVED, *read('{"0":-1,"1":11}')).valid is True
    assert types(judge(Bank(total=9), *MOVED, *read('{"0":7,"1":3}'))) == ["wrong-total"]
    assert judge(Bank(), *read('{"0":7,"1":3}')).valid == "unknown"


def transfer(process: int, giver: int, taker: int, amount: int) -> str:
    return f'p{process} invoke transfer {{"from":{giver},"to":{taker},"amount":{amount}}}'


def moved_unasked(*lines: str) -> list[str]:
    return [doubt.text for doubt in judge(Bank(), *lines).doubts if "the transfers that had begun" in doubt.text]


def test_a_balance_that_no_transfer_can_have_made_is_doubted() -> None:
    first, asked = read('{"0":10,"1":0,"2":5}'), (transfer(5, 0, 1, 3), "p5 ok")
    (text,) = moved_unasked(*first, *asked, *read('{"0":6,"1":4,"2":5}'))
    assert (
        "shows 6 in account 0, which by the transfers that had begun started with 6 to 9, and by the reads before with 10"
        in text
    )
    assert len(moved_unasked(*first, *asked, *read('{"0":7,"1":2,"2":6}'))) == 1, "nobody named account 2"
    assert len(moved_unasked(*first, *read('{"0":7,"1":3,"2":5}'), *asked)) == 1, "it was asked for later"
    assert len(moved_unasked(*first, *asked, *read('{"0":13,"1":-3,"2":5}'))) == 1, "it was made the other way round"
    seen = (*asked, *read('{"0":7,"1":3,"2":5}'))
    (text,) = moved_unasked(*first, *seen, *read('{"0":13,"1":-3,"2":5}'))
    assert (
        "shows 13 in account 0, which by the transfers that had begun started with 13 to 16, and by the reads before with 10"
        in text
    )


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((transfer(5, 0, 1, 3), "p5 ok", *read('{"0":7,"1":3,"2":5}')), id="it was made"),
        pytest.param((transfer(5, 0, 1, 3), "p5 ok", *read('{"0":10,"1":0,"2":5}')), id="it is not seen yet"),
        pytest.param((transfer(5, 0, 1, 3), "p5 info", *read('{"0":7,"1":3,"2":5}')), id="of unknown outcome"),
        pytest.param((transfer(5, 0, 1, 3), *read('{"0":7,"1":3,"2":5}'), "p5 ok"), id="under way"),
        pytest.param(
            (
                transfer(5, 0, 1, 3),
                "p5 ok",
                transfer(5, 1, 0, 2),
                "p5 ok",
                *read('{"0":7,"1":3,"2":5}'),
                *read('{"0":9,"1":1,"2":5}'),
            ),
            id="one after another",
        ),
        pytest.param((transfer(5, 0, 1, -3), "p5 ok", *read('{"0":13,"1":-3,"2":5}')), id="the other way round"),
        pytest.param(
            (transfer(5, 0, 1, 3), 'p5 ok {"from":0,"to":1,"amount":4}', *read('{"0":6,"1":4,"2":5}')),
            id="answered with another amount",
        ),
        pytest.param((transfer(5, 0, 9, 3), "p5 ok", *read('{"0":6,"1":4,"2":5}')), id="an account that no read shows"),
        pytest.param(
            ('p5 invoke transfer {"from":0,"to":1}', "p5 ok", *read('{"0":6,"1":4,"2":5}')),
            id="it does not say how much",
        ),
    ],
)
def test_a_balance_that_transfers_may_have_made_is_not(lines: Sequence[str]) -> None:
    assert moved_unasked(*read('{"0":10,"1":0,"2":5}'), *lines) == []


def test_a_refused_transfer_moves_nothing() -> None:
    lines = (*read('{"0":10,"1":0}'), transfer(5, 0, 1, 3), "p5 fail", *read('{"0":7,"1":3}'))
    assert len(moved_unasked(*lines)) == 1


@pytest.mark.parametrize(
    ("asked", "valid"),
    [
        ('{"from": 1, "to": 0, "amount": 2}', True),
        ('{"from": 2, "to": 0, "amount": 2}', "unknown"),
        ('{"from": 1, "to": "x", "amount": 2}', "unknown"),
        ('{"to": 0, "amount": 2}', "unknown"),
        ('{"from": 1, "to": 0}', "unknown"),
        ("[1, 0, 2]", True),
    ],
)
def test_a_transfer_names_an_amount_and_two_accounts_as_others_do(asked: str, valid: bool | str) -> None:
    lines = (f"p1 invoke transfer {asked}", "p1 ok", *read('{"0":7,"1":3}', '{"0":4,"1":6}'))
    assert judge(Bank(), *MOVED, *lines).valid == valid


def test_a_transfer_that_lacks_what_others_say_is_strange_however_much_more_they_say() -> None:
    def judged(*asked: str) -> bool | str:
        lines = [line for one in asked for line in (f"p1 invoke transfer {one}", "p1 ok")]
        return judge(Bank(), *lines, *read('{"0":7,"1":3,"2":0}')).valid

    noted = '{"from": 0, "to": 1, "amount": 2, "note": "rent"}'
    assert judged(noted, noted) is True
    assert judged(noted, '{"from": 0, "to": 1, "note": "rent"}') == "unknown"
    assert judged(noted, '{"from": 0, "to": 3, "amount": 2}') == "unknown"


def test_what_was_not_answered_says_nothing_of_balances_and_transfers() -> None:
    lines = (*MOVED, *read('{"0":7,"1":3}'))
    for answer in ("fail", "info"):
        assert judge(Bank(), *lines, "p1 invoke read", f'p1 {answer} {{"0":7,"1":4}}').valid is True
        assert judge(Bank(), *lines, 'p1 invoke transfer {"to": 0}', f"p1 {answer}").valid is True
    asked = ('p1 invoke read {"consistency": "ALL"}', 'p1 ok {"0":7,"1":3}')
    assert judge(Bank(), *lines, *asked).figures == {"reads": 2, "wrong_reads": 0}


def test_a_bank_that_nobody_read_leaves_the_others_as_they_are() -> None:
    moved = tuple(line.replace("transfer", "transfer k=x") for line in MOVED)
    assert judge(Bank(), *MOVED, *read('{"0":7,"1":3}'), *moved).valid is True


def test_a_wrong_total_names_the_read_that_has_another_one() -> None:
    (found,) = judge(Bank(), *MOVED, *read('{"0":7,"1":3}'), "p2 n2 invoke read", 'p2 ok {"0":4,"1":5}').anomalies
    assert (found.type, found.ops, found.nodes) == ("wrong-total", (2, 4), ("n2",))
    assert "the total of all accounts is always 10, as T1 found." in found.explanation
    assert "But T2 has a total of 9." in found.explanation
    (known,) = judge(Bank(total=9), *MOVED, *read('{"0":7,"1":3}')).anomalies
    assert "the total of all accounts is always 9." in known.explanation
    assert known.ops == (2,)
    (none,) = judge(Bank(), *MOVED, *read('{"0":7,"1":null}')).anomalies
    assert "T1 shows a balance that is no number." in none.explanation


def test_a_negative_balance_names_the_accounts_that_are_overdrawn_alone() -> None:
    lines = (*MOVED, "p1 n2 invoke read", 'p1 ok {"0":-1,"1":11,"2":0}')
    (found,) = judge(Bank(), *lines).anomalies
    assert (found.type, found.nodes, found.evidence) == ("negative-balance", ("n2",), {"negative": {"0": -1}})
    (without,) = judge(Bank(), *MOVED, *read('{"0":-1,"1":11}')).anomalies
    assert without.nodes == ()


@pytest.mark.parametrize("checker", [SetFull(), Counter(), Bank(), UniqueIds(), LongFork()], ids=lambda each: each.name)
def test_data_that_was_found_right_vouches_for_the_run(checker):
    assert checker.vouches is True


def test_accounts_and_transfers_in_another_form_are_left_alone() -> None:
    spelled = ('p0 invoke transfer {"from":"a","to":"b","amount":3}', "p0 ok", *read('{":a":7,":b":3}'))
    assert judge(Bank(), *spelled).valid is True
    moved = ('p0 invoke transfer {"giver":0,"taker":1,"sum":3}', "p0 ok", *read('{"0":7,"1":3}'))
    assert judge(Bank(), *moved).valid is True


# ── availability and stats ───────────────────────────────────────────────────────────────────────────────────────────


def attempts(node: str, *, begin_s: int, end_s: int, kind: str) -> list[str]:
    lines = []
    for number, second in enumerate(range(begin_s, end_s, 5)):
        process = 1000 * begin_s + number
        lines += [f"@{second * 1000} p{process} {node} invoke write 1", f"@{second * 1000 + 4000} p{process} {kind}"]
    return lines


SERVED = (*attempts("n1", begin_s=0, end_s=10, kind="ok"), *attempts("n2", begin_s=10, end_s=20, kind="ok"))
AGAIN = attempts("n3", begin_s=60, end_s=70, kind="ok")


def test_a_system_that_nobody_is_answered_by_is_unavailable():
    verdict = judge(Availability(), *SERVED, *attempts("n1", begin_s=20, end_s=60, kind="info !WriteTimeout"), *AGAIN)
    assert types(verdict) == ["unavailable"]
    assert verdict.anomalies[0].evidence["attempts"] == 8
    assert verdict.figures["longest_without_answer_s"] == {"write": 39.0}


@pytest.mark.parametrize(
    "lines",
    [
        attempts("n1", begin_s=20, end_s=60, kind="fail !InvalidRequest"),
        attempts("n1", begin_s=20, end_s=45, kind="info !WriteTimeout"),
        [
            *attempts("n1", begin_s=20, end_s=25, kind="info !Timeout"),
            *attempts("n1", begin_s=55, end_s=60, kind="info"),
        ],
        [
            '@19500 -- fault-begins {"id": 0, "nemesis": "kill", "nodes": ["n1", "n2"]}',
            *attempts("n1", begin_s=20, end_s=60, kind="info !WriteTimeout"),
            '@59500 -- fault-ends {"id": 0}',
        ],
    ],
    ids=["it refuses", "not for long", "nobody asks", "there is no majority"],
)
def test_what_is_no_unavailability(lines):
    assert judge(Availability(), *SERVED, *lines, *AGAIN).valid is True


def test_a_minority_that_is_down_is_no_excuse():
    lines = [
        '@19500 -- fault-begins {"id": 0, "nemesis": "kill", "nodes": ["n1"]}',
        *attempts("n1", begin_s=20, end_s=60, kind="fail !NoHostAvailable"),
    ]
    assert judge(Availability(), *SERVED, *lines, *AGAIN).valid is False


def test_operations_are_counted_by_kind_and_outcome_and_errors_without_their_numbers():
    verdict = judge(
        Stats(),
        *("p0 invoke write 1", "p0 ok", "p0 invoke cas [1,2]", "p0 fail", "p0 invoke write 1", "p0 info !Timeout17"),
        *("p1 invoke write 1", "p1 info !Timeout18", "p2 invoke read"),
    )
    assert verdict.valid is True
    assert verdict.figures["by_function"] == {
        "cas": {"ok": 0, "fail": 1, "info": 0},
        "read": {"ok": 0, "fail": 0, "info": 1},
        "write": {"ok": 1, "fail": 0, "info": 2},
    }
    assert verdict.figures["never_succeeded"] == ["cas", "read"]
    assert verdict.figures["unhandled"] == [{"error": "…", "count": 2, "index": 5, "example": "Timeout17"}]
    assert judge(Stats(), "p0 invoke read", "p0 fail").valid == "unknown"
    assert judge(Stats()).judged_nothing


def test_a_set_of_many_elements_takes_no_reads_times_elements():
    count = 2000
    lines = [line for n in range(count) for line in (f"p0 invoke add {n}", "p0 ok")]
    lines += [line for _ in range(20) for line in read(str(list(range(count))))]
    began = time.monotonic()
    assert judge(SetFull(), *lines).figures["stable"] == count
    assert time.monotonic() - began < 10


# ── answers of another type ──────────────────────────────────────────────────────────────────────────────────────────

SUMS = ("p0 invoke add 2", "p0 ok", *read("2", "2"))
TRANSFERS = ('p0 invoke transfer {"from": "a", "to": "b", "amount": 1}', "p0 ok")


@pytest.mark.parametrize(
    ("checker", "lines"),
    [
        (Counter(), (*SUMS, *read('"2"'))),
        (Counter(), (*SUMS, *read("2.0"))),
        (Counter(), (*SUMS, *read("[2]"))),
        (Counter(), (*SUMS, *read("true"))),
        (Counter(), (*SUMS, *read("null"))),
        (SetFull(), (*ADDED, *read("[1]", "[1]", "1"))),
        (SetFull(), (*ADDED, *read("[1]", '"1"'))),
        (SetFull(), (*ADDED, *read('{"1": 1}'))),
        (Bank(), (*TRANSFERS, *read('{"a": 1, "b": 1}', "[1, 1]"))),
        (Bank(), (*TRANSFERS, *read('{"a": 1, "b": 1, "c": 0}', '{"a": 1, "b": 1}'))),
        (Bank(), (*TRANSFERS, *read('{"a": 1, "b": 1}', '{"a": 1, "b": 1, "ghost": 0}'))),
        (UniqueIds(), ("p0 invoke generate", "p0 ok 1", "p0 invoke generate", "p0 ok null")),
    ],
)
def test_an_answer_that_is_not_of_its_kind_leaves_the_run_undecided(checker: object, lines: tuple[str, ...]) -> None:
    verdict = judge(checker, *lines)
    assert (verdict.valid, {doubt.kind for doubt in verdict.doubts}) == ("unknown", {"undecided"})


@pytest.mark.parametrize(
    ("checker", "lines"),
    [
        (Counter(), (*read("null"), *SUMS)),
        (SetFull(), (*read("null"), *ADDED, *read("[1]"))),
        (Bank(), (*TRANSFERS, *read('{"a": 1, "b": 1}', '{"b": 2, "a": 0}'))),
        (UniqueIds(), ("p0 invoke generate", "p0 ok 1", "p0 invoke generate", "p0 info")),
    ],
)
def test_what_such_objects_may_answer_is_decided(checker: object, lines: tuple[str, ...]) -> None:
    assert judge(checker, *lines).valid is True


# ── levels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def replicated(copies: int, *, key: str = "k", f: str = "create-keyspace") -> tuple[str, ...]:
    replication = (
        f'{{"keyspace": "{key}", "replication": {{"class": "SimpleStrategy", "replication_factor": {copies}}}}}'
    )
    return (f"p8 invoke {f} k={key} {replication}", "p8 ok")


def leveled(level: str, additions: str, *values: str) -> tuple[str, ...]:
    asked = f'{{"consistency": "{level}", "additions": "{additions}"}}'
    return tuple(line for value in values for line in (f"p1 invoke read k=k.s {asked}", f"p1 ok {value}"))


SET = ("p0 invoke add k=k.s 1", "p0 ok")


@pytest.mark.parametrize(
    ("read_at", "added_at", "copies", "owed"),
    [
        ("QUORUM", "QUORUM", 3, True),
        ("ALL", "ONE", 3, True),
        ("ONE", "ALL", 3, True),
        ("ONE", "QUORUM", 3, False),
        ("QUORUM", "ONE", 3, False),
        ("ONE", "ONE", 1, True),
        ("TWO", "TWO", 4, False),
        ("LOCAL_QUORUM", "QUORUM", 5, True),
    ],
)
def test_a_read_that_shares_a_replica_with_an_addition_shows_it(read_at, added_at, copies, owed):
    late = (*replicated(copies), *SET, *leveled(read_at, added_at, "[]", "[1]"))
    verdict = judge(SetFull(), *late)
    assert (types(verdict), verdict.figures["stale"]) == (["stale-element"] if owed else [], 1)
    if owed:
        assert (verdict.anomalies[0].objects, verdict.anomalies[0].ops) == (("k.s",), (2, 4, 6))
    counted = (*replicated(copies), *SET, "p0 invoke add k=k.s 2", "p0 ok", *leveled(read_at, added_at, "1"))
    assert types(judge(Counter(), *counted)) == (["counter-out-of-bounds"] if owed else [])


def test_what_no_addition_can_have_made_is_out_of_bounds_at_any_level():
    for sum_read in ("4", "-1"):
        lines = (*replicated(3), *SET, "p0 invoke add k=k.s 2", "p0 ok", *leveled("ONE", "ONE", sum_read))
        assert types(judge(Counter(), *lines)) == ["counter-out-of-bounds"]
    lines = (*replicated(3), "p0 invoke add k=k.s 5", "p0 ok", "p0 invoke add k=k.s -2", "p0 ok")
    assert judge(Counter(), *lines, *leveled("ONE", "ONE", "-2", "5", "0")).valid is True


def test_levels_promise_nothing_about_an_element_that_was_not_acknowledged_before():
    before = (*replicated(3), "p1 invoke read k=k.s", *SET, "p1 ok []", *leveled("QUORUM", "QUORUM", "[1]"))
    assert judge(SetFull(), *before).valid is True
    unknown = (*replicated(3), "p0 invoke add k=k.s 1", "p0 info", *leveled("QUORUM", "QUORUM", "[]", "[1]"))
    assert judge(SetFull(), *unknown).valid is True


UNKNOWN = (*replicated(3), "p0 invoke add k=k.s 5", "p0 info")
AT_QUORUM = '{"consistency": "QUORUM", "additions": "QUORUM"}'
JOINING = '"operation": 0, "nodes": ["n4"], "parameters": {}, "becomes": {"n4": "normal"}'


def joining(*lines: str) -> Verdict:
    """Judge a set and a counter of a history in which n4 begins to join before the first line."""
    history = data_records(*UNKNOWN, f"p99 n4 invoke bootstrap {{{JOINING}}}", *lines)
    events = [{**row, "process": -1} if row["f"] == "bootstrap" else row for row in history.history.to_pylist()]
    checker = SetFull() if "[" in lines[1] else Counter()
    return checker.check(Records.of(pa.Table.from_pylist(events, schema=HISTORY)), limit_s=1)


def test_an_element_that_a_read_showed_and_a_later_one_lacks_is_a_doubt_if_another_shows_it_again() -> None:
    (doubt,) = judge(SetFull(), *UNKNOWN, *leveled("QUORUM", "QUORUM", "[5]", "[]", "[5]")).doubts
    assert (
        doubt.text
        == "1 element (5) that op 6 lacks had been shown by an earlier read, which repaired the replicas that it asked"
    )
    begun = (*replicated(3), "p0 invoke add k=k.s 1", *leveled("QUORUM", "QUORUM", "[1]", "[]"), "p0 ok")
    assert judge(SetFull(), *begun, *leveled("QUORUM", "QUORUM", "[1]")).valid == "unknown", "its add went on"
    assert judge(SetFull(), *UNKNOWN, *leveled("ONE", "QUORUM", "[5]", "[]", "[5]")).valid is True, (
        "no replica in common"
    )
    asked = f"invoke read k=k.s {AT_QUORUM}"
    abreast = (f"p1 {asked}", f"p2 {asked}", "p1 ok [5]", "p2 ok []", *leveled("QUORUM", "QUORUM", "[5]"))
    assert judge(SetFull(), *UNKNOWN, *abreast).valid is True, "the reads overlap"
    assert joining(*leveled("QUORUM", "QUORUM", "[5]", "[]", "[5]")).valid is True, "a node that joins is not repaired"


@pytest.mark.parametrize(
    ("lines", "doubted"),
    [
        pytest.param(leveled("QUORUM", "QUORUM", "5", "0"), (5, 6, 4), id="gone again"),
        pytest.param(leveled("QUORUM", "QUORUM", "5", "0", "5"), (5, 6, 4), id="gone and back"),
        pytest.param(leveled("QUORUM", "QUORUM", "0", "5"), None, id="late"),
        pytest.param(leveled("ONE", "QUORUM", "5", "0"), None, id="no replica in common"),
        pytest.param(("p1 invoke read k=k.s", "p1 ok 5", "p1 invoke read k=k.s", "p1 ok 0"), (5, 6, 4), id="no levels"),
        pytest.param(
            (*leveled("QUORUM", "QUORUM", "5"), "p3 invoke add k=k.s -5", "p3 info", *leveled("QUORUM", "QUORUM", "0")),
            None,
            id="taken away",
        ),
        pytest.param(
            ("p3 invoke add k=k.s -5", "p3 ok", *leveled("QUORUM", "QUORUM", "0", "-5")),
            (0, 8, 6),
            id="taken away before",
        ),
        pytest.param(
            ("p3 invoke add k=k.s -9", "p3 info", *leveled("QUORUM", "QUORUM", "-9", "0")),
            (-9, 8, 6),
            id="has it again",
        ),
        pytest.param(
            ("p3 invoke add k=k.s -9", "p3 info", *leveled("QUORUM", "QUORUM", "-9", "-4")), None, id="has more"
        ),
        pytest.param(
            (
                f"p1 invoke read k=k.s {AT_QUORUM}",
                f"p2 invoke read k=k.s {AT_QUORUM}",
                "p1 ok 5",
                "p2 ok 0",
            ),
            None,
            id="abreast",
        ),
        pytest.param(
            (*leveled("QUORUM", "QUORUM", "5"), *leveled("ONE", "QUORUM", "0"), *leveled("QUORUM", "QUORUM", "5")),
            None,
            id="one at ONE between",
        ),
    ],
)
def test_a_sum_that_goes_back_behind_what_an_earlier_read_showed_is_a_doubt(lines, doubted) -> None:
    verdict = judge(Counter(), *UNKNOWN, *lines)
    assert types(verdict) == []
    if doubted is None:
        assert verdict.valid is True
        return
    earlier, read, first = doubted
    (doubt,) = verdict.doubts
    assert doubt.text.startswith(f"op {read} read ")
    assert f"after op {first} had read {earlier}, and no additions in between" in doubt.text


def test_sums_while_a_node_joins_and_sums_out_of_bounds_go_back_behind_nothing() -> None:
    assert joining(*leveled("QUORUM", "QUORUM", "5", "0")).valid is True
    verdict = judge(Counter(), *UNKNOWN, *leveled("QUORUM", "QUORUM", "9", "0"))
    assert (types(verdict), verdict.doubts) == (["counter-out-of-bounds"], ())


FACTOR_CHANGED = "a change of the replication factor before may explain it"


def test_levels_promise_nothing_once_the_replicas_change_and_a_read_that_lacks_an_element_then_is_a_doubt():
    late = (*SET, *leveled("QUORUM", "QUORUM", "[]", "[1]"))
    for copies in (4, 5):  # quorums of 3 and of 4 would meet, but for the replicas that come and go
        changed = (*replicated(3), *replicated(copies, f="alter-keyspace"))
        verdict = judge(SetFull(), *changed, *late)
        assert (verdict.valid, types(verdict)) == ("unknown", [])
        assert [doubt.text.endswith(FACTOR_CHANGED) for doubt in verdict.doubts] == [True]
        assert judge(SetFull(), *changed, *SET, *leveled("QUORUM", "QUORUM", "[1]", "[1]")).valid is True
    assert judge(SetFull(), *late).valid is True
    # That of another keyspace changes nothing here.
    other = (*replicated(3), *replicated(5, key="l"), *late)
    assert types(judge(SetFull(), *other)) == ["stale-element"]


def test_a_change_of_the_replication_factor_excuses_no_read_that_ended_before_it_was_asked_for():
    late = (*SET, *leveled("QUORUM", "QUORUM", "[]", "[1]"))
    assert types(judge(SetFull(), *replicated(3), *late, *replicated(4, f="alter-keyspace"))) == ["stale-element"]
    before = (*replicated(3), *SET, "p0 invoke add k=k.s 2", "p0 ok", *leveled("QUORUM", "QUORUM", "1"))
    assert types(judge(Counter(), *before, *replicated(4, f="alter-keyspace"))) == ["counter-out-of-bounds"]
    # The first factor counts then, and not one that comes later.
    alone = (*replicated(3), *SET, *leveled("ONE", "ONE", "[]", "[1]"))
    assert judge(SetFull(), *alone, *replicated(1, f="alter-keyspace")).valid is True
    # One that was asked for while the read was under way may have been made before it was answered.
    lines = list(late)
    lines[3:3] = replicated(4, f="alter-keyspace")
    assert judge(SetFull(), *replicated(3), *lines).valid == "unknown"


def test_a_counter_that_misses_additions_after_a_change_of_the_replication_factor_is_a_doubt():
    added = (*replicated(3), *SET, "p0 invoke add k=k.s 2", "p0 ok", *replicated(4, f="alter-keyspace"))
    verdict = judge(Counter(), *added, *leveled("QUORUM", "QUORUM", "1"))
    assert (verdict.valid, types(verdict)) == ("unknown", [])
    assert verdict.doubts[0].text.endswith(FACTOR_CHANGED)
    assert judge(Counter(), *added, *leveled("QUORUM", "QUORUM", "3")).valid is True


def test_a_change_to_a_factor_by_which_levels_share_no_replica_explains_all():
    late = (*SET, *leveled("ONE", "ONE", "[]", "[1]"))
    assert judge(SetFull(), *replicated(1), *replicated(3, f="alter-keyspace"), *late).valid is True


@pytest.mark.parametrize(
    ("f", "becomes", "loses", "valid"),
    [
        ("bootstrap", "normal", "false", False),  # who joins receives what it owns before it answers
        ("replace", "replaced", "true", "unknown"),  # what it receives may come from a replica that lacks the addition
    ],
)
def test_a_level_promises_as_much_while_nodes_join_unless_a_disk_is_lost(f, becomes, loses, valid):
    late = (*SET, *leveled("QUORUM", "QUORUM", "[]", "[1]"))
    value = (
        f'"operation": 0, "nodes": ["n3"], "parameters": {{"loses_disk": {loses}}}, "becomes": {{"n3": "{becomes}"}}'
    )
    rows = data_records(*replicated(3), f"-- {f} {{{value}}}", *late).history.to_pylist()
    begun = [row | {"type": "invoke"} if row["f"] == f else row for row in rows]
    verdict = SetFull().check(Records.of(pa.Table.from_pylist(begun, schema=HISTORY)), limit_s=10)
    assert (verdict.valid, types(verdict)) == (valid, [] if valid else ["stale-element"])
    told = [doubt.text for doubt in verdict.doubts]
    late = "1 element (1) that op 5 owed but lacks: a disk that was taken away before may explain it"
    assert told == ([late] if valid else [])


@pytest.mark.parametrize(
    ("read_at", "added_at", "copies", "lost"),
    [
        ("QUORUM", "QUORUM", 3, True),
        ("EACH_QUORUM", "LOCAL_QUORUM", 3, True),
        ("ALL", "ONE", 3, True),
        ("ONE", "ONE", 1, True),
        ("ONE", "ONE", 3, False),
        ("ONE", "QUORUM", 3, False),
        ("LOCAL_ONE", "LOCAL_QUORUM", 3, False),
    ],
)
def test_an_element_is_lost_by_reads_that_owe_it(read_at, added_at, copies, lost):
    for answers in (("[]",), ("[1]", "[]"), ("[]", "[1]", "[]", "[]")):
        verdict = judge(SetFull(), *replicated(copies), *SET, *leveled(read_at, added_at, *answers))
        assert (types(verdict), verdict.figures["lost"]) == (["lost-element"] if lost else [], int(lost))
        assert verdict.valid == (False if lost else "unknown")
        assert [doubt.kind for doubt in verdict.doubts] == ([] if lost else ["undecided"])
    again = (*replicated(copies), *SET, *leveled(read_at, added_at, "[]"), *leveled("ALL", added_at, "[1]"))
    assert "lost-element" not in types(judge(SetFull(), *again))


UNKNOWN_ADD = ("p0 invoke add k=k.s 1", "p0 info")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("p1 invoke read k=k.s", "p1 ok []", *SET), id="before the addition"),
        pytest.param((*leveled("QUORUM", "QUORUM", "[]"), *SET), id="before the addition, at a level that meets it"),
        pytest.param((*UNKNOWN_ADD, *leveled("QUORUM", "ONE", "[]", "[1]")), id="before a sight"),
        pytest.param(
            (
                *UNKNOWN_ADD,
                *leveled("QUORUM", "ONE", "[]"),
                *leveled("ONE", "ONE", "[1]"),
                *leveled("QUORUM", "ONE", "[]"),
            ),
            id="after the sight of another level",
        ),
    ],
)
def test_a_read_owes_only_what_was_acknowledged_or_shown_to_its_level_before(lines):
    verdict = judge(SetFull(), *replicated(3), *lines, *leveled("ONE", "QUORUM", "[]"))
    assert (verdict.valid, types(verdict)) == ("unknown", [])


@pytest.mark.parametrize("count", [LIMITS.members, LIMITS.members + 1])
def test_a_doubt_lists_a_few_elements(count):
    added = [line for number in range(count) for line in (f"p0 invoke add k=k.s {number}", "p0 ok")]
    (doubt,) = judge(SetFull(), *replicated(3), *added, *leveled("ONE", "ONE", "[]")).doubts
    assert doubt.text.startswith(f"{count} elements (")
    assert (", …)" in doubt.text) is (count > LIMITS.members)


def test_a_late_element_names_the_last_read_that_owed_it():
    late = (*leveled("QUORUM", "QUORUM", "[]"), *leveled("ONE", "QUORUM", "[]"), *leveled("QUORUM", "QUORUM", "[1]"))
    (found,) = judge(SetFull(), *replicated(3), *SET, *late).anomalies
    assert (found.type, found.ops) == ("stale-element", (2, 4, 8))


def test_a_late_element_names_the_last_of_several_reads_that_owed_it():
    late = leveled("QUORUM", "QUORUM", "[]", "[]", "[1]")
    (found,) = judge(SetFull(), *replicated(3), *SET, *late).anomalies
    assert (found.type, found.ops) == ("stale-element", (2, 6, 8))


def test_a_read_owes_an_element_that_was_added_twice():
    late = leveled("QUORUM", "QUORUM", "[]", "[1]")
    assert types(judge(SetFull(), *replicated(3), *SET, *SET, *late)) == ["stale-element"]
    assert types(judge(SetFull(), *replicated(3), *SET, *SET, *late[:2])) == ["lost-element"]


def test_an_element_that_a_read_shows_after_the_last_one_that_owed_it_is_late_and_not_lost():
    lines = (*replicated(3), *SET, *leveled("QUORUM", "QUORUM", "[]"), *leveled("ONE", "QUORUM", "[1]", "[]"))
    assert types(judge(SetFull(), *lines)) == ["stale-element"]


def test_where_every_read_must_be_fresh_each_owes_all_elements():
    lines = (*replicated(3), *SET, *leveled("ONE", "ONE", "[1]", "[]"))
    assert types(judge(SetFull(fresh=True), *lines)) == ["lost-element"]


def test_the_doubt_about_elements_that_no_read_owes_names_them():
    lines = (*replicated(3), *SET, "p0 invoke add k=k.s 2", "p0 ok", *leveled("ONE", "ONE", "[1]", "[2]", "[]"))
    (doubt,) = judge(SetFull(), *lines).doubts
    assert doubt.objects == ("k.s",)
    assert doubt.text == (
        "2 elements (1, 2) that the last reads lack, as op 10, may be lost: no read that owed it came after"
    )


def test_a_read_owes_what_an_earlier_one_showed_that_it_shares_a_replica_with():
    unknown = (*replicated(3), "p0 invoke add k=k.s 1", "p0 info")
    assert types(judge(SetFull(), *unknown, *leveled("QUORUM", "ONE", "[1]", "[]"))) == ["lost-element"]
    assert judge(SetFull(), *unknown, *leveled("ONE", "ONE", "[1]", "[]")).valid == "unknown"
    assert judge(SetFull(), *unknown, *leveled("QUORUM", "ONE", "[]")).valid is True  # it may never have been added


def test_an_element_is_lost_as_well_by_reads_whose_levels_are_not_told():
    lines = (*replicated(3), *SET, *leveled("ONE", "ONE", "[1]"))
    assert types(judge(SetFull(), *lines, "p1 invoke read k=k.s", "p1 ok []")) == ["lost-element"]
    assert judge(SetFull(), *lines, "p1 invoke read k=k.s", "p1 ok [1]", *leveled("ONE", "ONE", "[]")).valid is True


@pytest.mark.parametrize("f", ["replace", "alter-keyspace"])
def test_what_excuses_a_late_element_excuses_no_lost_one(f):
    levels = leveled("QUORUM", "QUORUM", "[1]", "[]")
    if f == "alter-keyspace":
        lines = (*replicated(3), *SET, *replicated(4, f=f), *levels)
        assert types(judge(SetFull(), *lines)) == ["lost-element"]
        return
    value = '"operation": 0, "nodes": ["n3"], "parameters": {"loses_disk": true}, "becomes": {"n3": "replaced"}'
    rows = data_records(*replicated(3), *SET, f"-- {f} {{{value}}}", *levels).history.to_pylist()
    begun = [row | {"type": "invoke"} if row["f"] == f else row for row in rows]
    verdict = SetFull().check(Records.of(pa.Table.from_pylist(begun, schema=HISTORY)), limit_s=10)
    assert types(verdict) == ["lost-element"]


def across(added_through: str, *reads: tuple[str, str], level: str, answer: str = "ok") -> Verdict:
    """Judge a set to which 1 is added through one node, by reads through others; n1 and n3 are in dc1, n2 and n4 in dc2."""
    replication = '{"keyspace": "k", "replication": {"class": "NetworkTopologyStrategy", "dc1": 3, "dc2": 3}}'
    asked = f'{{"consistency": "{level}", "additions": "{level}"}}'
    lines = [f"p8 invoke create-keyspace k=k {replication}", "p8 ok"]
    lines += [f"p0 {added_through} invoke add k=k.s 1", f"p0 {answer}"]
    for node, value in reads:
        lines += [f"p{node[1]} {node} invoke read k=k.s {asked}", f"p{node[1]} ok {value}"]
    rings = [
        f'settled n{number} ring {{"self": {{"address": "n{number}", "dc": "dc{2 - number % 2}"}}, "peers": {{}}}}'
        for number in (1, 2, 3, 4)
    ]
    return SetFull().check(Records.of(data_records(*lines).history, observed(*rings)), limit_s=10)


@pytest.mark.parametrize(
    ("level", "reads", "outcome"),
    [
        pytest.param("LOCAL_QUORUM", (("n3", "[1]"), ("n2", "[]")), "stale", id="the other one owes nothing"),
        pytest.param("LOCAL_QUORUM", (("n2", "[1]"), ("n3", "[]")), "lost", id="lost where it was added"),
        pytest.param("LOCAL_QUORUM", (("n3", "[]"), ("n4", "[]")), "lost", id="lost in both"),
        pytest.param("LOCAL_QUORUM", (("n2", "[1]"), ("n3", "[1]"), ("n4", "[]")), "lost", id="lost where it was shown"),
        pytest.param("LOCAL_QUORUM", (("n2", "[]"), ("n4", "[]")), "undecided", id="nobody asked where it was added"),
        pytest.param("LOCAL_QUORUM", (("n3", "[]"), ("n2", "[1]"), ("n4", "[1]")), "missed", id="late where it was added"),
        pytest.param("LOCAL_QUORUM", (("n2", "[]"), ("n3", "[1]"), ("n4", "[1]")), "stale", id="late in the other one"),
        pytest.param("QUORUM", (("n3", "[1]"), ("n2", "[]")), "lost", id="quorums of all meet"),
        pytest.param("EACH_QUORUM", (("n3", "[1]"), ("n2", "[]")), "lost", id="quorums of each meet"),
        pytest.param("EACH_QUORUM", (("n2", "[]"), ("n2", "[1]")), "missed", id="late at a quorum of each"),
        pytest.param("LOCAL_ONE", (("n3", "[1]"), ("n3", "[]")), "undecided", id="one and one"),
    ],
)  # fmt: skip
def test_a_local_level_owes_what_was_added_or_shown_in_its_data_centre(level, reads, outcome):
    verdict = across("n1", *reads, level=level)
    found = {"lost": "lost-element", "missed": "stale-element"}.get(outcome)
    assert types(verdict) == ([] if found is None else [found])
    assert verdict.valid == (False if found else "unknown" if outcome == "undecided" else True)


def test_an_element_that_is_lost_in_the_data_centre_that_owed_it_names_the_read_of_that_one():
    verdict = across("n1", ("n3", "[1]"), ("n1", "[]"), ("n2", "[]"), level="LOCAL_QUORUM")
    (found,) = verdict.anomalies
    assert (found.type, found.ops, found.nodes) == ("lost-element", (2, 4, 6), ("n1", "n3"))


def test_an_element_that_is_lost_where_it_was_shown_names_the_last_read_that_owed_it_and_no_earlier_one():
    (found,) = across("n1", ("n3", "[]"), ("n2", "[1]"), ("n4", "[]"), level="LOCAL_QUORUM").anomalies
    assert (found.type, found.ops) == ("lost-element", (2, 6, 8))


def test_of_an_addition_of_unknown_outcome_a_data_centre_owes_what_it_showed():
    shown = ("n3", "[1]")
    assert types(across("n1", shown, ("n1", "[]"), level="LOCAL_QUORUM", answer="info")) == ["lost-element"]
    assert across("n1", shown, ("n1", "[1]"), ("n2", "[]"), level="LOCAL_QUORUM", answer="info").valid is True


def test_a_read_of_a_data_centre_that_is_not_known_owes_nothing_at_a_local_level():
    assert across("n1", ("n3", "[1]"), ("n5", "[]"), level="LOCAL_QUORUM").valid is True
    assert types(across("n1", ("n3", "[1]"), ("n5", "[]"), level="QUORUM")) == ["lost-element"]


def center(*copies: int) -> str:
    """A replication with so many replicas in dc1, dc2 …; SimpleStrategy with so many as a negative number says."""
    if copies[0] < 0:
        return f'{{"class": "SimpleStrategy", "replication_factor": {-copies[0]}}}'
    named = ", ".join(f'"dc{number}": {count}' for number, count in enumerate(copies, 1) if count)
    return f'{{"class": "NetworkTopologyStrategy", {named}}}'


def placed(checker: object, *replications: str, level: str, lines: list[str], known: bool = True) -> Verdict:
    """Judge lines about a keyspace that has had these replications, in turn; `LEVELS` in a line stands for the levels of a read."""
    fs = ("create-keyspace", *["alter-keyspace"] * len(replications))
    changes = [
        line
        for f, replication in zip(fs, replications, strict=False)
        for line in (f'p8 invoke {f} k=k {{"keyspace": "k", "replication": {replication}}}', "p8 ok")
    ]
    asked = f'{{"consistency": "{level}", "additions": "{level}"}}'
    rings = [
        f'settled n{number} ring {{"self": {{"address": "n{number}", "dc": "dc{2 - number % 2}"}}, "peers": {{}}}}'
        for number in (1, 2, 3, 4)
    ]
    history = data_records(*changes, *(line.replace("LEVELS", asked) for line in lines)).history
    return checker.check(Records.of(history, observed(*(rings if known else []))), limit_s=10)  # type: ignore[attr-defined,no-any-return]


LATE = [
    *("p0 n1 invoke add k=k.s 1", "p0 ok"),
    *("p1 n3 invoke read k=k.s LEVELS", "p1 ok []", "p1 n3 invoke read k=k.s LEVELS", "p1 ok [1]"),
]


@pytest.mark.parametrize(
    ("replications", "found"),
    [
        pytest.param([center(3)], ["stale-element"], id="one data centre"),
        pytest.param([center(3, 3)], ["stale-element"], id="two"),
        pytest.param([center(3), center(0, 3)], [], id="another data centre"),
        pytest.param([center(2, 4), center(3, 3)], [], id="as many, elsewhere"),
        pytest.param([center(-3), center(3)], [], id="another strategy"),
        pytest.param([center(3, 3), center(3, 3)], ["stale-element"], id="the same again"),
    ],
)
def test_replicas_that_move_to_other_data_centers_excuse_a_late_element(replications, found):
    assert types(placed(SetFull(), *replications, level="QUORUM", lines=LATE)) == found


def test_levels_of_one_data_center_are_as_good_as_those_of_all_where_there_is_one():
    for known in (True, False):
        assert types(placed(SetFull(), center(3), level="LOCAL_QUORUM", lines=LATE, known=known)) == ["stale-element"]
    # Of two it is not known in which one was asked.
    assert types(placed(SetFull(), center(3, 3), level="LOCAL_QUORUM", lines=LATE, known=False)) == []


def test_a_strategy_that_names_no_data_center_says_nothing_of_where_levels_meet():
    lost = [*LATE[:2], "p1 n2 invoke read k=k.s LEVELS", "p1 ok []"]
    assert placed(SetFull(), center(-6), center(3, 3), level="LOCAL_ONE", lines=lost).valid == "unknown"
    assert types(placed(SetFull(), center(-6), center(3, 3), level="QUORUM", lines=lost)) == ["lost-element"]


def test_a_read_that_says_more_than_its_levels_says_them():
    asked = '{"consistency": "QUORUM", "additions": "QUORUM", "more": 1}'
    lines = (*replicated(3), *SET, f"p1 invoke read k=k.s {asked}", "p1 ok []", f"p1 invoke read k=k.s {asked}")
    assert types(judge(SetFull(), *lines, "p1 ok [1]")) == ["stale-element"]


def test_a_sum_may_be_an_older_one_once_the_replicas_have_changed():
    lines = [*LATE[:2], "p1 n3 invoke read k=k.s LEVELS", "p1 ok 0"]
    assert types(placed(Counter(), center(3), level="QUORUM", lines=lines)) == ["counter-out-of-bounds"]
    assert types(placed(Counter(), center(3), center(3, 3), level="QUORUM", lines=lines)) == []


@pytest.mark.parametrize(("at", "excused"), [(9, True), (11, True), (13, False)])
def test_a_disk_that_is_taken_away_before_a_read_is_answered_excuses_a_late_element(at, excused):
    value = '"operation": 0, "nodes": ["n3"], "parameters": {"loses_disk": true}, "becomes": {"n3": "replaced"}'
    asked = '{"consistency": "QUORUM", "additions": "QUORUM"}'
    late = [f"@9.5 p1 invoke read k=k.s {asked}", "@12 p1 ok []"]
    replaced = f"@{at} -- replace {{{value}}}"
    middle = [replaced, *late] if at < 9.5 else [late[0], replaced, late[1]] if at < 12 else [*late, replaced]
    lines = (*replicated(3), *SET, *middle, *leveled("QUORUM", "QUORUM", "[1]"))
    rows = data_records(*lines).history.to_pylist()
    begun = [row | {"type": "invoke"} if row["f"] == "replace" else row for row in rows]
    verdict = SetFull().check(Records.of(pa.Table.from_pylist(begun, schema=HISTORY)), limit_s=10)
    assert types(verdict) == ([] if excused else ["stale-element"])


def after_replace(*reads: str, loses: str = "true", copies: str = "3") -> Verdict:
    """Judge a counter to which 5 and −2 were added before n3 was replaced, by reads of it afterwards."""
    value = f'"operation": 0, "nodes": ["n3"], "parameters": {{"loses_disk": {loses}}}, "becomes": {{"n3": "replaced"}}'
    added = ("p0 invoke add k=k.s 5", "p0 ok", "p0 invoke add k=k.s -2", "p0 ok")
    lines = (*replicated(int(copies)), *added, f"-- replace {{{value}}}", *reads)
    rows = data_records(*lines).history.to_pylist()
    begun = [row | {"type": "invoke"} if row["f"] == "replace" else row for row in rows]
    return Counter().check(Records.of(pa.Table.from_pylist(begun, schema=HISTORY)), limit_s=10)


@pytest.mark.parametrize("sums", [("3", "0"), ("3", "5"), ("3", "null")])
def test_a_sum_that_only_a_lost_disk_explains_is_undecided(sums):
    verdict = after_replace(*leveled("QUORUM", "QUORUM", *sums))
    assert verdict.valid == "unknown"
    (doubt,) = verdict.doubts
    assert (doubt.objects, "the first of them op 9" in doubt.text) == (("k.s",), True)
    assert after_replace(*leveled("QUORUM", "ONE", *sums)).valid is True, "such a read owes no addition"
    assert after_replace(*leveled("QUORUM", "QUORUM", "3", "3")).valid is True
    assert after_replace(*leveled("QUORUM", "QUORUM", *sums), loses="false").valid in {False, "unknown"}


def test_a_sum_that_no_lost_disk_explains_is_out_of_bounds():
    verdict = after_replace(*leveled("QUORUM", "QUORUM", "6", "-3"))
    assert (types(verdict), verdict.figures["out_of_bounds"], verdict.doubts) == (["counter-out-of-bounds"] * 2, 2, ())


def test_a_level_that_is_none_is_an_error():
    with pytest.raises(HistoryError, match="SOME"):
        judge(SetFull(), *replicated(3), *SET, *leveled("SOME", "QUORUM", "[]", "[1]"))


def test_an_element_that_a_read_shows_before_anybody_asked_to_add_it_is_unexpected():
    early = ["@1 p0 invoke add 1", "@2 p0 ok", "@3 p1 invoke read", "@4 p1 ok [1,2]", "@5 p0 invoke add 2", "@6 p0 ok"]
    late = ["@7 p1 invoke read", "@8 p1 ok [1,2]"]
    (found,) = judge(SetFull(), *early, *late).anomalies
    assert (found.type, found.evidence["element"]) == ("unexpected-element", 2)
    assert found.ops == (2, 4), "the read, and the add that came too late"
    twin = [line.replace("@4 p1 ok", "@5 p1 ok") for line in early]
    assert judge(SetFull(), *sorted(twin, key=lambda line: int(line[1])), *late).valid is True


def test_a_short_read_among_long_ones_may_be_the_early_one():
    lines = [
        *("@1 p1 invoke read", "@2 p2 invoke read", "@3 p2 ok [2]", "@5 p0 invoke add 2", "@6 p0 ok", "@9 p1 ok [2]"),
        *("@10 p1 invoke read", "@11 p1 ok [2]"),
    ]
    (found,) = judge(SetFull(), *lines).anomalies
    assert (found.type, found.ops) == ("unexpected-element", (1, 3)), "not the read that began first and ended last"


@pytest.mark.parametrize("shown", ["[1]", "3"])
def test_what_was_read_of_a_key_that_nothing_was_written_to_is_a_doubt(shown):
    verdict = judge(SetFull(), *read(shown))
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]
    made = judge(SetFull(), "p3 invoke create-table {}", "p3 ok", *read(shown))
    assert [doubt.kind for doubt in made.doubts] == ["undecided"]
    for legal in ("[]", "0", "null"):
        assert [doubt.kind for doubt in judge(SetFull(), *read(legal)).doubts] == ["nothing-to-judge"]
    for other in (("p0 invoke write 3", "p0 ok"), ("p0 invoke transfer {}", "p0 info timed out")):
        assert [doubt.kind for doubt in judge(SetFull(), *other, *read(shown)).doubts] == ["nothing-to-judge"]

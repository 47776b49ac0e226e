"""Verdicts: three values, worst first, and unknown is never good news."""

from __future__ import annotations

import itertools
from typing import get_args

import orjson
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.harness.model.verdict import (
    Anomaly,
    Doubt,
    DoubtKind,
    Merge,
    Stat,
    Verdict,
    combine,
    describe_doubts,
    make_stats,
    merge_doubts,
)

VALIDITIES = [True, False, "unknown"]


@pytest.mark.parametrize(
    ("validities", "combined"),
    [
        ([], "unknown"),
        ([True], True),
        ([False], False),
        (["unknown"], "unknown"),
        ([True, True], True),
        ([True, "unknown"], "unknown"),
        ([True, False], False),
        (["unknown", False], False),
        ([True, "unknown", False, True], False),
    ],
    ids=str,
)
def test_false_outweighs_unknown_outweighs_true(validities, combined):
    assert combine(validities) == combined


def test_order_and_repetition_change_nothing():
    for validities in itertools.product(VALIDITIES, repeat=3):
        combined = {combine(order) for order in itertools.permutations(validities * 2)}
        assert len(combined) == 1


def test_combining_in_parts_is_combining_at_once():
    for a, b, c in itertools.product(VALIDITIES, repeat=3):
        assert combine([combine([a, b]), c]) == combine([a, combine([b, c])]) == combine([a, b, c])


def test_a_stream_of_validities_will_do():
    assert combine(validity for validity in (True, "unknown")) == "unknown"


@pytest.mark.parametrize("validity", [None, 1, 0, "true", "Unknown", "", [], {}], ids=repr)
def test_what_is_no_validity_is_refused(validity):
    with pytest.raises(ValueError, match="a verdict is True, False"):
        Verdict(valid=validity, checker="c")


def test_a_statistic_that_is_no_stat_is_refused():
    with pytest.raises(ValueError, match="make_stats"):
        Verdict(valid=True, checker="c", stats={"tables": 3})


def test_a_doubt_of_no_kind_is_refused():
    with pytest.raises(ValueError, match="nothing-to-judge"):
        Doubt("nothing to judge", "no table")


def test_a_verdict_says_what_it_knows_and_leaves_out_the_rest():
    stats = make_stats({"tables": 3, "longest": Stat(2.5, "s", "max")})
    assert Verdict(valid=True, checker="table-ids", stats=stats).to_json() == {
        "schema": 2,
        "valid": True,
        "checker": "table-ids",
        "anomalies": [],
        "stats": {"tables": {"value": 3}, "longest": {"value": 2.5, "unit": "s", "merge": "max"}},
    }
    undecided = Verdict.unknown("table-ids", Doubt("unread", "n1 was not read", ("ks",))).to_json()
    assert undecided["valid"] == "unknown"
    assert undecided["doubts"] == [{"kind": "unread", "text": "n1 was not read", "objects": ["ks"]}]
    assert undecided["reason"] == "n1 was not read (ks)"


def test_only_the_whole_document_has_the_number_of_the_schema():
    whole = Verdict(valid=True, checker="all", parts=(Verdict(valid=True, checker="c"),)).to_json()
    assert "schema" in whole
    assert "schema" not in whole["parts"][0]


def test_a_verdict_of_a_later_schema_is_refused():
    document = Verdict(valid=True, checker="c").to_json()
    with pytest.raises(ValueError, match="schema 3"):
        Verdict.from_json({**document, "schema": 3})


@pytest.mark.parametrize(
    ("valid", "kinds", "nothing"),
    [
        ("unknown", ["nothing-to-judge"], True),
        ("unknown", ["nothing-to-judge", "nothing-to-judge"], True),
        ("unknown", ["nothing-to-judge", "time"], False),
        ("unknown", ["time"], False),
        ("unknown", [], False),
        (False, ["nothing-to-judge"], False),
        (True, ["nothing-to-judge"], False),
    ],
    ids=str,
)
def test_a_checker_judged_nothing_if_that_is_all_it_has_to_say(valid, kinds, nothing):
    doubts = tuple(Doubt(kind, str(number)) for number, kind in enumerate(kinds))
    assert Verdict(valid=valid, checker="c", doubts=doubts).judged_nothing is nothing


def test_a_person_reads_once_what_several_checkers_doubt():
    doubts = [
        Doubt("unread", "n3 was not read", ("k.a",), "objects"),
        Doubt("time", "n3 was not read", (), "objects"),
        *(Doubt("unread", "n3 was not read", ("k.b", "k.a"), f"checker {number}") for number in range(4)),
        Doubt("nothing-to-judge", "no set", (), None),
    ]
    assert describe_doubts(doubts) == (
        "objects, checker 0, checker 1 and 2 more: n3 was not read (k.a, k.b)",
        "objects: n3 was not read",
        "nothing to judge: no set",
    )
    assert describe_doubts([doubts[0], Doubt("unread", "n3 was not read", (), "rows")]) == (
        "objects, rows: n3 was not read",
    ), "one of them doubts everything"
    assert describe_doubts([]) == ()


def test_doubts_that_say_the_same_of_several_objects_are_one():
    doubts = [Doubt("time", "late", (name,)) for name in ("a", "b", "a")]
    assert merge_doubts([*doubts, Doubt("memory", "late", ("c",))]) == (
        Doubt("time", "late", ("a", "b")),
        Doubt("memory", "late", ("c",)),
    )
    assert merge_doubts([doubts[0], Doubt("time", "late")]) == (Doubt("time", "late"),), "of everything"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=2)
    ),
    max_leaves=5,
)
NAMES = st.text("abk.-_1", min_size=1, max_size=6)
SOME = st.lists(NAMES, max_size=2).map(tuple)
ANOMALIES = st.builds(
    Anomaly,
    type=NAMES,
    title=NAMES,
    objects=SOME,
    nodes=SOME,
    ops=st.lists(st.integers(0, 99), max_size=2).map(tuple),
    evidence=JSON,
    explanation=NAMES,
    references=SOME,
)


STATS = st.builds(Stat, JSON, st.none() | NAMES, st.sampled_from(get_args(Merge)))
DOUBTS = st.builds(Doubt, st.sampled_from(get_args(DoubtKind)), NAMES, SOME, st.none() | NAMES)


def _verdicts(parts):
    return st.builds(
        Verdict,
        valid=st.sampled_from(VALIDITIES),
        checker=NAMES,
        anomalies=st.lists(ANOMALIES, max_size=2).map(tuple),
        stats=st.dictionaries(NAMES, STATS, max_size=2),
        doubts=st.lists(DOUBTS, max_size=2).map(tuple),
        undecided=st.none() | SOME,
        parts=parts,
    )


VERDICTS = _verdicts(st.lists(_verdicts(st.just(())), max_size=2).map(tuple))


@given(VERDICTS)
@settings(deadline=None, max_examples=examples(60))
def test_a_verdict_read_back_from_its_json_is_the_verdict(verdict):
    assert Verdict.from_json(orjson.loads(orjson.dumps(verdict.to_json()))) == verdict


@given(st.lists(DOUBTS, max_size=8))
def test_merging_loses_no_doubt_and_makes_up_none(doubts):
    merged = merge_doubts(doubts)
    assert {(one.kind, one.text, one.checker) for one in merged} == {
        (one.kind, one.text, one.checker) for one in doubts
    }
    for one in merged:
        alike = [
            other for other in doubts if (other.kind, other.text, other.checker) == (one.kind, one.text, one.checker)
        ]
        everything = any(not other.objects for other in alike)
        assert set(one.objects) == (set() if everything else {name for other in alike for name in other.objects})
    assert merge_doubts(merged) == merged


NUMBERS = st.integers(-5, 5)


@given(st.sampled_from(get_args(Merge)), NUMBERS, NUMBERS, NUMBERS)
def test_numbers_merge_in_any_order_to_the_same(merge, a, b, c):
    one, two, three = (Stat(number, merge=merge) for number in (a, b, c))
    assert one.merged(two) == two.merged(one)
    assert one.merged(two).merged(three) == one.merged(two.merged(three))
    assert one.merged(two).value == {"sum": a + b, "max": max(a, b), "min": min(a, b)}[merge]


@given(st.lists(st.sampled_from(VALIDITIES), max_size=8))
def test_the_fold_of_three_values(validities):
    folded = combine(validities)
    if folded is True:
        assert validities
        assert all(validity is True for validity in validities)
    assert (folded is False) == any(validity is False for validity in validities)
    for more in VALIDITIES:
        worst = {True: 0, "unknown": 1, False: 2}
        assert worst[combine([*validities, more])] >= worst[more], "one more never makes it better than itself"

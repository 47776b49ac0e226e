"""Verdicts: three values, worst first, and unknown is never good news."""

from __future__ import annotations

import itertools

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.harness.model.verdict import Anomaly, Verdict, combine

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


def test_a_verdict_says_what_it_knows_and_leaves_out_the_rest():
    assert Verdict(valid=True, checker="table-ids", stats={"tables": 3}).to_json() == {
        "valid": True,
        "checker": "table-ids",
        "anomalies": [],
        "stats": {"tables": 3},
    }
    undecided = Verdict(valid="unknown", checker="table-ids", reason="nothing to judge").to_json()
    assert undecided["valid"] == "unknown"
    assert undecided["reason"] == "nothing to judge"


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


def _verdicts(parts):
    return st.builds(
        Verdict,
        valid=st.sampled_from(VALIDITIES),
        checker=NAMES,
        anomalies=st.lists(ANOMALIES, max_size=2).map(tuple),
        stats=st.dictionaries(NAMES, JSON, max_size=2),
        reason=st.none() | NAMES,
        parts=parts,
    )


VERDICTS = _verdicts(st.lists(_verdicts(st.just(())), max_size=2).map(tuple))


@given(VERDICTS)
@settings(deadline=None, max_examples=60)
def test_a_verdict_read_back_from_its_json_is_the_verdict(verdict):
    assert Verdict.from_json(orjson.loads(orjson.dumps(verdict.to_json()))) == verdict

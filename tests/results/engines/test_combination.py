from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict, combine, make_stats
from schemaquake.results.engines.combination import in_order, keyspaces_undecided, of_all_checkers, of_all_keyspaces

VALID = Verdict(valid=True, checker="c")
INVALID = Verdict(valid=False, checker="c", anomalies=(Anomaly(type="lost", title="x", objects=("ks.t",)),))
UNKNOWN = Verdict.unknown("c", Doubt("time", "the time limit passed"))
NOTHING = Verdict.unknown("c", Doubt("nothing-to-judge", "no table"))


def named(verdict: Verdict, checker: str) -> Verdict:
    return replace(verdict, checker=checker)


OBSERVED = named(VALID, "observed")
VOUCHING = ("c", "rows", "views")
"""Every checker here but `observed`."""


# ── keyspaces ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parts", "valid"),
    [
        pytest.param({"a": VALID, "b": VALID}, True, id="all valid"),
        pytest.param({"a": VALID, "b": INVALID}, False, id="one invalid"),
        pytest.param({"a": UNKNOWN, "b": INVALID}, False, id="false outweighs unknown"),
        pytest.param({"a": VALID, "b": UNKNOWN}, "unknown", id="unknown outweighs true"),
        pytest.param({"a": VALID, "b": NOTHING}, True, id="nothing to judge beside valid is left out"),
        pytest.param({"a": UNKNOWN, "b": NOTHING}, "unknown", id="nothing to judge beside unknown"),
        pytest.param({"a": NOTHING, "b": NOTHING}, "unknown", id="nothing to judge anywhere"),
        pytest.param({}, "unknown", id="no keyspace"),
    ],
)
def test_keyspaces_combine(parts, valid):
    assert of_all_keyspaces("c", parts).valid == valid


def test_a_doubt_that_only_contains_the_words_is_a_real_unknown():
    other = Verdict.unknown("c", Doubt("crashed", "nothing to judge: or so it says"))
    assert of_all_keyspaces("c", {"a": VALID, "b": other}).valid == "unknown"


def test_a_verdict_that_lacked_something_and_had_nothing_to_judge_elsewhere_is_a_real_unknown():
    both = Verdict.unknown("c", *NOTHING.doubts, *UNKNOWN.doubts)
    assert of_all_keyspaces("c", {"a": VALID, "b": both}).valid == "unknown"


def test_an_invalid_part_is_never_left_out_whatever_its_doubts():
    odd = Verdict(valid=False, checker="c", doubts=NOTHING.doubts)
    assert of_all_keyspaces("c", {"a": VALID, "b": odd}).valid is False


def test_doubts_name_their_keyspaces_and_are_given_once():
    parts = dict.fromkeys("abcde", UNKNOWN) | {"f": Verdict(valid="unknown", checker="c"), "g": VALID}
    combined = of_all_keyspaces("c", parts)
    assert [(doubt.kind, doubt.objects) for doubt in combined.doubts] == [
        ("time", tuple("abcde")),
        ("undecided", ("f",)),
    ]
    assert combined.undecided == tuple("abcdef")
    assert combined.reason == "the time limit passed (a, b, c and 2 more); no reason given (f)"


def test_a_doubt_that_names_objects_of_its_keyspace_keeps_them():
    doubt = Doubt("unread", "n1 did not answer", ("a.t",))
    parts = {"a": Verdict.unknown("c", doubt), "b": Verdict.unknown("c", replace(doubt, objects=("key 7",)))}
    combined = of_all_keyspaces("c", parts)
    assert [one.objects for one in combined.doubts] == [("a.t", "b", "key 7")]
    assert [one.objects for one in keyspaces_undecided(combined, ["b"])] == [("a.t", "b", "key 7")]
    assert keyspaces_undecided(combined, ["z"]) == ()


def test_a_doubt_of_a_broken_keyspace_does_not_make_it_undecided():
    broken = replace(INVALID, doubts=UNKNOWN.doubts)
    combined = of_all_keyspaces("c", {"a": broken, "b": VALID})
    assert [doubt.objects for doubt in combined.doubts] == [("a",)]
    assert combined.undecided == ()
    assert keyspaces_undecided(combined, ["a", "b"]) == ()


def test_nothing_to_judge_anywhere_is_nothing_to_judge():
    assert of_all_keyspaces("c", {"a": NOTHING}).judged_nothing
    assert of_all_keyspaces("c", {}).judged_nothing


@pytest.mark.parametrize(
    ("judged", "valid"),
    [
        pytest.param([0, 0], "unknown", id="no keyspace has an object"),
        pytest.param([0, 1], True, id="one keyspace has an object"),
        pytest.param([None, 0], True, id="one does not count objects"),
    ],
)
def test_a_checker_that_judged_no_object_in_the_whole_run_had_nothing_to_judge(judged, valid):
    parts = {
        str(n): Verdict(valid=True, checker="c", stats=make_stats({} if count is None else {"judged": count}))
        for n, count in enumerate(judged)
    }
    combined = of_all_keyspaces("c", parts)
    assert combined.valid == valid
    assert combined.judged_nothing == (valid == "unknown")
    assert combined.undecided == ()


def test_what_is_found_or_doubted_without_an_object_stands():
    stats = make_stats({"judged": 0})
    assert of_all_keyspaces("c", {"a": replace(INVALID, stats=stats)}).valid is False
    doubted = of_all_keyspaces("c", {"a": replace(UNKNOWN, stats=stats), "b": replace(VALID, stats=stats)})
    assert not doubted.judged_nothing
    assert doubted.undecided == ("a",)


def test_counts_add_up_and_sizes_and_times_do_not():
    def of(judged: int, largest: int, by_type: dict[str, int], **more: Stat) -> Verdict:
        sizes = {"nodes": Stat(3, merge="max"), "largest": Stat(largest, merge="max")}
        stats = make_stats({"judged": judged, "by_type": by_type, **sizes, **more})
        return Verdict(valid=True, checker="c", stats=stats)

    one = of(2, 5, {"table": 1, "view": 2}, fastest=Stat({"n1": 4, "n2": 1}, "s", "min"))
    other = of(4, 4, {"table": 1}, fastest=Stat({"n1": 3}, "s", "min"), late=Stat(1))
    combined = of_all_keyspaces("c", {"a": one, "b": other})
    assert combined.stats["fastest"] == Stat({"n1": 3, "n2": 1}, "s", "min")
    assert combined.figures == {
        "judged": 6,
        "nodes": 3,
        "largest": 5,
        "by_type": {"table": 2, "view": 2},
        "fastest": {"n1": 3, "n2": 1},
        "late": 1,
        "keyspaces": 2,
        "keyspaces_without": 0,
    }


def test_statistics_that_are_no_numbers_are_kept_side_by_side():
    parts = {
        keyspace: Verdict(
            valid=True,
            checker="c",
            stats=make_stats({"mode": mode, "agreed": agreed, "names": names, "same": "s"}),
        )
        for keyspace, mode, agreed, names in (
            ("a", "x", True, ["p"]),
            ("b", "y", False, ["p", "q"]),
            ("c", "x", True, []),
        )
    }
    stats = of_all_keyspaces("c", parts).figures
    assert stats["mode"] == ["x", "y"]
    assert stats["agreed"] == [True, False]
    assert stats["names"] == ["p", "q"]
    assert stats["same"] == "s"


# ── anomalies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_anomalies_come_in_one_order_each_once():
    one = Anomaly(type="b", title="1", ops=(10,))
    some = [Anomaly(type="b", title="1", ops=(9,)), one, Anomaly(type="a", title="2", objects=("z",)), one]
    orders = {in_order(shuffled) for shuffled in permutations(some)}
    assert orders == {(some[2], some[0], one)}


def test_anomalies_that_differ_in_evidence_alone_are_two():
    pair = [Anomaly(type="a", title="t", evidence={"n": 1}), Anomaly(type="a", title="t", evidence={"n": 2})]
    assert len(in_order([*pair, *reversed(pair)])) == 2


# ── checkers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdicts", "by_name", "unjudged", "valid"),
    [
        pytest.param([OBSERVED, VALID], False, [], True, id="all valid"),
        pytest.param([OBSERVED, VALID, INVALID], False, [], False, id="one invalid"),
        pytest.param([OBSERVED, VALID, UNKNOWN], False, [], "unknown", id="one unknown"),
        pytest.param([OBSERVED, VALID, NOTHING], False, [], True, id="one without anything to judge"),
        pytest.param([OBSERVED, VALID, NOTHING], True, [], "unknown", id="the same, but asked for by name"),
        pytest.param([VALID, NOTHING], False, [], "unknown", id="nobody vouches"),
        pytest.param(
            [named(UNKNOWN, "observed"), VALID, NOTHING], False, [], "unknown", id="the voucher does not know"
        ),
        pytest.param([named(INVALID, "observed"), VALID, NOTHING], False, [], False, id="the voucher objects"),
        pytest.param([named(NOTHING, "observed"), VALID, NOTHING], False, [], "unknown", id="the voucher saw nothing"),
        pytest.param([OBSERVED, NOTHING], False, [], "unknown", id="the voucher alone judged"),
        pytest.param([OBSERVED, VALID], False, ["ks"], "unknown", id="a keyspace nobody judged"),
        pytest.param([OBSERVED, INVALID], False, ["ks"], False, id="a keyspace nobody judged, another broken"),
        pytest.param([], False, [], "unknown", id="no checkers"),
    ],
)
def test_checkers_combine(verdicts, by_name, unjudged, valid):
    combined = of_all_checkers(verdicts, by_name=by_name, vouching=VOUCHING, unjudged=unjudged, stats={})
    assert combined.valid == valid
    assert combined.parts == tuple(verdicts)
    if valid is not False:
        assert (combined.reason is None) == (valid is True)


def test_the_reason_names_who_does_not_know_and_what_nobody_judged():
    combined = of_all_checkers(
        [named(UNKNOWN, "rows"), VALID], by_name=True, vouching=VOUCHING, unjudged=["b", "a"], stats={}
    )
    assert [(doubt.kind, doubt.checker, doubt.objects) for doubt in combined.doubts] == [
        ("time", "rows", ()),
        ("undecided", None, ("a", "b")),
    ]


def test_the_run_has_all_anomalies_and_says_who_had_nothing_to_judge():
    combined = of_all_checkers(
        [OBSERVED, INVALID, named(NOTHING, "views")], by_name=False, vouching=VOUCHING, stats={"events": 7}
    )
    assert combined.anomalies == INVALID.anomalies
    assert combined.figures == {"events": 7, "checkers": 3, "nothing_to_judge": ["views"]}


verdicts = st.sampled_from([VALID, INVALID, UNKNOWN, NOTHING])


@given(st.lists(verdicts, max_size=6), st.booleans(), st.booleans())
def test_a_run_is_valid_only_if_everybody_who_judged_says_so(drawn, by_name, vouched):
    run = of_all_checkers([*drawn, *([OBSERVED] if vouched else [])], by_name=by_name, vouching=VOUCHING, stats={})
    strict = combine(verdict.valid for verdict in run.parts)
    assert run.valid == strict or (strict == "unknown" and run.valid is True and vouched and not by_name)
    if run.valid is True:
        assert any(verdict.valid is True for verdict in drawn) or (vouched and not drawn)
        assert UNKNOWN not in drawn
        assert INVALID not in drawn


@given(st.dictionaries(st.text(min_size=1, max_size=2), verdicts, max_size=6), st.sampled_from(["x", "y"]))
def test_one_more_unknown_keyspace_never_makes_good_news(parts, more):
    before, after = of_all_keyspaces("c", parts), of_all_keyspaces("c", {**parts, more * 3: UNKNOWN})
    assert after.valid == (False if before.valid is False else "unknown")

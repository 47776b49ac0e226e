"""Comparing versions: gone and new are claims that take tries, and a rate that differs is told only if chance does not explain it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from schemaquake.results.intervals import fisher, holm
from schemaquake.results.site.comparing import compare_versions, summarise


def sighting(broken: int, tried: int, needed: int | None = None) -> dict[str, Any]:
    state = "not tried" if not tried else "affected" if broken else "held"
    return {"state": state, "broken": broken, "tried": tried, "unit": "race", "needed": needed}


def compared(*pairs: tuple[tuple[int, int], tuple[int, int]]) -> list[dict[str, Any]]:
    rows = [({"worst": f"harm {n}"}, sighting(*one), sighting(*other)) for n, (one, other) in enumerate(pairs)]
    return compare_versions(rows)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ((3, 3), (0, 6), "gone"),
        ((3, 3), (0, 5), "perhaps-gone"),
        ((3, 3), (0, 0), "untried-after"),
        ((3, 3), (1, 9), "stays"),
        ((0, 6), (3, 3), "new"),
        ((0, 5), (3, 3), "perhaps-new"),
        ((0, 0), (3, 3), "untried-before"),
        ((0, 4), (0, 4), "neither"),
    ],
)
def test_a_finding_is_gone_or_new_only_after_so_many_tries(before, after, kind):
    (row,) = compared((before, after))
    assert row["kind"] == kind


def test_too_few_tries_are_counted_beside_the_version_on_which_they_were():
    (gone,), (new,) = compared(((3, 3), (0, 5))), compared(((0, 1), (3, 3)))
    assert gone["notes"] == {"before": "", "after": "5 of the 6 tries that would show it"}
    assert new["notes"] == {"before": "1 of the 6 tries that would show it", "after": ""}
    (decided,) = compared(((3, 3), (0, 6)))
    assert decided["notes"] == {"before": "", "after": ""}


def test_it_takes_as_many_tries_as_the_versions_own_page_asks_for():
    """A finding of several versions has one rate: four tries verify it on 6.0 although 3 of 3 on 5.0 alone would take six."""
    for needed, kind in ((4, "gone"), (5, "perhaps-gone")):
        (row,) = compare_versions([({"worst": ""}, sighting(3, 3), sighting(0, 4, needed))])
        assert row["kind"] == kind
    assert row["notes"]["after"] == "4 of the 5 tries that would show it"
    (back,) = compare_versions([({"worst": ""}, sighting(0, 4, 4), sighting(3, 3))])
    assert back["kind"] == "new"


def test_what_was_tried_on_neither_is_left_out():
    assert compared(((0, 0), (0, 0))) == []
    assert len(compared(((0, 0), (0, 1)))) == 1


def test_a_rate_that_differs_is_told_if_chance_does_not_explain_it():
    more, alike, seldom = compared(((5, 24), (23, 24)), ((5, 8), (6, 7)), ((20, 20), (1, 20)))
    assert [row["notes"]["after"] for row in (more, alike, seldom)] == [
        "more often than before",
        "",
        "more seldom than before",
    ]


def test_and_of_many_findings_one_rare_chance_is_none():
    rare = ((1, 8), (6, 8))
    assert fisher(*rare) < 0.05
    assert compared(rare)[0]["notes"]["after"] == "more often than before"
    assert {row["notes"]["after"] for row in compared(rare, *[((4, 8), (4, 8))] * 9)} == {""}


def test_the_summary_has_the_risks_of_the_second_version_first_and_the_worst_of_each():
    groups = summarise(compared(((3, 3), (0, 6)), ((2, 3), (2, 3)), ((0, 9), (3, 3)), ((1, 2), (1, 2))))
    assert [(group["kind"], len(group["rows"]), group["worst"]) for group in groups] == [
        ("new", 1, "harm 2"),
        ("stays", 2, "harm 1"),
        ("gone", 1, "harm 0"),
    ]


# ── the tests of chance ──────────────────────────────────────────────────────────────────────────────────────────────


def test_fishers_test_has_the_published_values():
    assert fisher((3, 4), (1, 4)) == pytest.approx(34 / 70), "the lady tasting tea"
    assert fisher((4, 4), (0, 4)) == pytest.approx(2 / 70)
    assert fisher((8, 10), (1, 6)) == pytest.approx(0.0349650, abs=1e-7)
    assert fisher((0, 0), (3, 4)) == 1


def counted_out(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Fisher's test by drawing every set of races that could have broken."""
    (broken, tried), (others, others_tried) = one, other
    sets = [sum(place < tried for place in some) for some in combinations(range(tried + others_tried), broken + others)]
    return sum(sets.count(each) for each in set(sets) if sets.count(each) <= sets.count(broken)) / len(sets)


@pytest.mark.parametrize("tried", range(6))
@pytest.mark.parametrize("others_tried", range(1, 6))
def test_and_that_of_every_small_table_by_counting(tried, others_tried):
    for broken in range(tried + 1):
        for others in range(others_tried + 1):
            one, other = (broken, tried), (others, others_tried)
            assert fisher(one, other) == pytest.approx(counted_out(one, other))
            assert fisher(one, other) == fisher(other, one)


def test_holm_corrects_the_smallest_most_and_keeps_their_order():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []

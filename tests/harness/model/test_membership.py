"""The states that follow from operations and from what the cluster shows."""

from __future__ import annotations

import pytest

from schemaquake.harness.model.membership import TopologyChange, expected_states, serving

THREE = {"n1": "normal", "n2": "normal", "n3": "normal"}


def expected(*changes, shown=None, initial=None):
    made = [TopologyChange(becomes=becomes, outcome=outcome) for becomes, outcome in changes]
    return expected_states(initial or THREE, made, shown or initial or THREE)


def test_a_node_that_is_shown_as_left_should_serve_unless_it_was_asked_to_leave():
    assert serving(expected(shown={**THREE, "n3": "left"})) == ("n1", "n2", "n3")
    assert serving(expected(({"n3": "left"}, "fail"), shown={**THREE, "n3": "left"})) == ("n1", "n2", "n3")


def test_a_node_whose_leaving_was_acknowledged_has_left_whatever_is_shown():
    assert expected(({"n3": "left"}, "ok"))["n3"] == "left"


@pytest.mark.parametrize("outcome", ["info", None])
@pytest.mark.parametrize("shown", ["normal", "leaving", "left"])
def test_after_an_unknown_outcome_the_cluster_decides(outcome, shown):
    assert expected(({"n3": "left"}, outcome), shown={**THREE, "n3": shown})["n3"] == shown


def test_what_is_neither_known_nor_shown_need_not_serve():
    assert expected(({"n3": "left"}, "info"), shown={"n1": "normal"})["n3"] == "left"
    assert expected(({"n4": "normal"}, "info"), shown={"n1": "normal"})["n4"] == "absent"


def test_a_retry_that_is_acknowledged_settles_an_unknown_outcome():
    assert expected(({"n3": "left"}, "info"), ({"n3": "left"}, "ok"))["n3"] == "left"


def test_a_replacement_changes_two_nodes():
    initial = {**THREE, "n4": "absent"}
    states = expected(({"n3": "replaced", "n4": "normal"}, "ok"), initial=initial)
    assert serving(states) == ("n1", "n2", "n4")

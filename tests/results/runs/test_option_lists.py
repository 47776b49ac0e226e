"""Option lists: `a,b,c` and `-O name=value`."""

from __future__ import annotations

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.results.runs.option_lists import named_values, split


def test_parts_stand_between_commas_and_blanks_do_not_count():
    assert split(" a, b ,,c,") == ("a", "b", "c")
    assert split(" , ") == ()


def test_a_value_may_have_equals_signs_of_its_own_and_the_last_of_a_name_counts():
    assert named_values(["x=1", "y=a=b", "x=", "y=c"]) == {"x": "", "y": "c"}


def test_an_entry_without_an_equals_sign_is_refused_by_its_words():
    with pytest.raises(PlanError, match='-O needs name=value, not "keys"'):
        named_values(["x=1", "keys"])

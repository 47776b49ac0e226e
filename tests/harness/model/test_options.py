"""Options: declared with a default, read from `-O name=value`, and refused by name where a value does not fit."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import configured, declared, names, one_of, option, truth, whole_number, written


@dataclass(frozen=True, kw_only=True)
class Tea:
    kind: str = option("black", "black or green", parse=one_of("black", "green"), shorthand=True)
    cups: int | None = option(None, "the number of cups, 1 or more", parse=whole_number(least=1))
    sweet_with: tuple[str, ...] = option((), "what is in it, with commas", parse=names)
    hot: bool = option(True, "true or false", parse=truth)
    minutes: float = 3.0


GIVEN = {"kind": "green", "cups": "2", "sweet-with": "honey,milk", "hot": "false", "minutes": "4.5"}


def test_options_are_read_by_their_types_and_written_back() -> None:
    tea = configured(Tea(), {**GIVEN, "memory": "1g"})
    assert tea == Tea(kind="green", cups=2, sweet_with=("honey", "milk"), hot=False, minutes=4.5)
    assert written(tea, beside={"memory": "1g", "cups": "9"}) == {**GIVEN, "memory": "1g"}


def test_defaults_are_not_written_even_where_another_value_stood() -> None:
    assert written(Tea(), beside={"cups": "9", "memory": "1g"}) == {"memory": "1g"}


def test_a_declaration_says_how_an_option_is_written() -> None:
    assert [(each.name, each.default, each.shorthand) for each in declared(Tea)][:3] == [
        ("kind", "black", True), ("cups", None, False), ("sweet-with", (), False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "red"}, "--kind red: black or green"),
        ({"cups": "0"}, "-O cups=0: the number of cups"),
        ({"cups": "many"}, "-O cups=many: the number of cups"),
        ({"hot": "warm"}, "-O hot=warm: true or false"),
        ({"minutes": "few"}, "-O minutes=few: not a number"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        configured(Tea(), given)


def test_the_owner_of_prefixed_options_refuses_what_it_has_not() -> None:
    assert configured(Tea(), {"tea.cups": "3", "cups": "4"}, owner="tea").cups == 3
    with pytest.raises(PlanError, match='"tea" has no such option'):
        configured(Tea(), {"tea.cup": "3"}, owner="tea")

"""Checked values: every kind of field that values from files have, and what it cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from schemaquake.harness.checked_values import require_types


@dataclass(frozen=True)
class Part:
    name: str


@dataclass(frozen=True)
class Whole:
    count: int = 1
    share: float = 0.5
    is_whole: bool = True
    valid: Literal[True, False, "unknown"] = True
    reason: str | None = None
    names: tuple[str, ...] = ("a",)
    sides: tuple[tuple[Part, ...], ...] = ((Part("a"),),)
    counts: Mapping[str, int] = field(default_factory=lambda: {"ok": 1})
    part: Part = Part("b")
    anything: Any = None


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"share": 1}, {"valid": "unknown"}, {"valid": False}, {"reason": "why"}, {"names": ()}, {"sides": ((),)}, {"counts": {}},
        {"anything": object()},
    ],
)  # fmt: skip
def test_what_the_types_say_is_accepted(changed):
    require_types(replace(Whole(), **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"count": "1"}, {"count": True}, {"count": None}, {"count": 1.0}, {"share": "0.5"}, {"share": False}, {"is_whole": 1}, {"valid": 1},
        {"valid": 0}, {"valid": "yes"}, {"valid": None}, {"valid": {}}, {"reason": 7}, {"reason": {}}, {"names": "a"}, {"names": ["a"]},
        {"names": (1,)}, {"sides": (("a",),)}, {"sides": (Part("a"),)}, {"sides": ((Part(1),),)}, {"counts": {"ok": "1"}}, {"counts": {1: 1}},
        {"counts": ()}, {"part": "b"}, {"part": None}, {"part": Part(None)},
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(changed):
    (name,) = changed
    named = "Part.name" if name == "part" and isinstance(changed[name], Part) else f"Whole.{name}"
    with pytest.raises(TypeError, match=named if name != "sides" else "Whole.sides|Part.name"):
        require_types(replace(Whole(), **changed))


def test_a_type_that_has_no_check_is_an_error_of_the_program():
    @dataclass
    class Odd:
        values: set[str]

    Odd.__annotations__["values"] = set[str]
    with pytest.raises(NotImplementedError):
        require_types(Odd(set()))

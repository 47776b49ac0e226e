"""In every test of a checker: what it finds is among the types that it declares."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from schemaquake.harness.registry import load_all


@pytest.fixture(autouse=True, scope="session")
def _checkers_declare_what_they_find() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in {type(checker) for checker in load_all("checkers").values()}:
            patch.setattr(kind, "check", _declared(kind.check))
        yield


def _declared(check: Any) -> Any:
    @functools.wraps(check)
    def checked(checker: Any, *args: Any, **named: Any) -> Any:
        verdict = check(checker, *args, **named)
        found = {anomaly.type for anomaly in verdict.anomalies}
        assert found <= set(checker.finds), (
            f"{checker.name} found {found - set(checker.finds)}, which it does not declare"
        )
        return verdict

    return checked

from __future__ import annotations

import pytest

from schemaquake.checkers.elle.example import example_history
from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.weak_isolation.isolation import WeakIsolation
from schemaquake.harness.model.records import Records


@pytest.mark.parametrize(
    ("write", "checker"), [("append", ListAppend()), ("w", RwRegister(linearizable_keys=True)), ("w", WeakIsolation())]
)
def test_it_is_judged_and_valid_so_that_everything_is_loaded(write, checker):
    verdict = checker.check(Records.of(example_history(write)), limit_s=60)
    assert verdict.valid is True, verdict
    checker.warm()


def test_a_read_that_saw_something_else_would_be_told():
    history = example_history("append")
    rows = history.to_pylist()
    rows[-1]["mops"][0]["vs"] = [2, 1]
    broken = Records.of(history.from_pylist(rows, schema=history.schema))
    assert ListAppend().check(broken, limit_s=60).valid is False

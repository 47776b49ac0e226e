"""Explanations: operations are named once, in order, and those beyond a limit are counted."""

from __future__ import annotations

import pytest

from schemaquake.checkers.findings.explanation import name_operations


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([], "nothing"),
        ([7], "op 7"),
        ([12, 7, 12], "op 7 and op 12"),
        ([4, 3, 2, 1], "op 1, op 2, op 3 and op 4"),
        ([5, 4, 3, 2, 1, 1], "op 1, op 2, op 3, op 4 and 1 more"),
    ],
)
def test_operations_are_named_and_the_rest_is_counted(operations, text):
    assert name_operations(operations) == text

"""Setup agreement: what the notes say of it."""

import pytest

from schemaquake.results.matrix.setup_agreement import setup_agreed


@pytest.mark.parametrize(
    ("settles", "agreed"),
    [
        ([{"phase": "setup", "agreed": True}, {"phase": "settled", "agreed": False}], True),
        ([{"phase": "setup", "agreed": False}, {"phase": "settled", "agreed": True}], False),
        ([{"phase": "settled", "agreed": False}], True),
        ([], True),
    ],
)
def test_only_the_wait_after_the_setup_says_whether_races_began_alike(
    settles: list[dict[str, object]], *, agreed: bool
) -> None:
    assert setup_agreed(settles) is agreed

"""Related records of a clean run cannot be altered together so that the run passes as valid, where that is a lie.

Each attack alters what belongs together, so that no record contradicts the ones beside it. Some of these stories are lawful:
they are listed with their reasons, and twins of lies that are lawful stay unaccused. Docs: `docs/soundness.md`, "Joint lies".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from random import Random

import pytest
from joint_lies import JointRun
from lies import Lie
from soundness import RING, RUNS, UPGRADED, Judge, clean_run

RECORDED = [name for name in RUNS if name != "perfect"]
LAWFUL = "legal: *"
"""Twins of lies that are no lies: nothing may accuse them."""
MAY_STAY: Mapping[str, str] = {
    "ids of two lives of a table exchanged everywhere": "Ids are drawn by chance or by the time of day, which may be a minute off.",
    "members' * exchanged everywhere": "The names that a run gives its nodes are its own.",
    "clients of setup +? s": "A phase's operations a little later promise the same, where nothing was read in between.",
    "clients of main -? s": "A client may have asked a second earlier, and be answered as early, where no reading contradicts it.",
    "clients of final-* -1 s": "The same, of a phase that had begun by then.",
    "coordinators exchanged everywhere": "Of two nodes that had all that was asked of both, nothing says which one was asked.",
    "coordinator without operations in main": "A check of rows that is not there says nothing, and a node that joined late was asked for nothing else.",
    "function without operations in main": "The same, of all checks of rows.",
    "changes of one object exchanged: add-column, rename-column": "Two changes of one table that do not bear on each other may have been made in either order, where none was read between them.",
    "all of * are unavailable: check-rows": "One or two reads that were refused alone are no storm, and say nothing.",
    "all of * are unavailable: read": "The same.",
    "all of final-restarted time out: read": "The same, of one without an answer.",
    "final phases exchanged: readings": "The two final readings are alike where nothing has changed in between.",
    "restart changes the version to a new one": "Up to 5.0 a version is a digest of what a node has, which nobody can tell from another.",
    "*logs* ?1 h": "Servers may write their logs in any time zone.",
    "line moved to *": "A line that is no error says nothing of the cluster.",
    "epochs: one more from the begin on": "Nothing says with which number a log begins.",
    "epochs: one entered again in the *": "6.0-alpha2 enters a change again whose answer was late, and it then changes nothing.",
    "* of a node for *, which answers meanwhile": "A node that joins, moves or leaves meanwhile is brought back by that.",
    "operation moved by *": "What nodes show of an operation may lie anywhere between its begin and its end.",
    "fault moved by *": "When a fault began is told by its notes alone.",
}  # fmt: skip
"""Kinds of lies that may stay valid, each with its reason. Some of each are caught."""
SAMPLE = 8


@cache
def lies(name: str) -> Mapping[str, list[Lie]]:
    """The lies of a run by their kinds."""
    found: dict[str, list[Lie]] = {}
    for lie in JointRun(clean_run(name).records).lies():
        found.setdefault(lie.kind, []).append(lie)
    return found


def attacks(name: str) -> Iterator[Lie]:
    """The first and the last lie of each kind that must be caught."""
    for kind, own in lies(name).items():
        if not any(fnmatchcase(kind, pattern) for pattern in (LAWFUL, *MAY_STAY)):
            yield from own[:1] if len(own) == 1 else (own[0], own[-1])


def told(lie: Lie) -> str:
    return f"{lie.kind}: {lie.text}"


@pytest.mark.parametrize("name", ["cassandra-5.0.9", RING])
def test_records_that_were_altered_together_do_not_pass_as_valid(name: str) -> None:
    decide = Judge()
    sample = Random(f"joint {name}").sample(list(attacks(name)), SAMPLE)
    assert [told(lie) for lie in sample if decide.valid(lie) is True] == []


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
def test_no_kind_of_records_altered_together_passes_as_valid(name: str) -> None:
    decide = Judge()
    assert [told(lie) for lie in attacks(name) if decide.valid(lie) is True] == []


@pytest.mark.parametrize("name", [RECORDED[0], *(pytest.param(name, marks=pytest.mark.long) for name in RECORDED[1:])])
def test_a_lawful_story_is_not_accused(name: str) -> None:
    decide = Judge()
    lawful = [own[0] for kind, own in lies(name).items() if fnmatchcase(kind, LAWFUL)]
    assert lawful
    assert [told(lie) for lie in lawful if decide.valid(lie) is False] == []


def test_every_reason_is_of_a_kind_that_a_run_has() -> None:
    kinds = {kind for name in ("cassandra-5.0.9", UPGRADED, RING) for kind in lies(name)}
    for pattern in (LAWFUL, *MAY_STAY):
        assert any(fnmatchcase(kind, pattern) for kind in kinds), pattern

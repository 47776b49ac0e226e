"""Commit rules: a metadata service that pauses, refuses, delays, drops, doubles or reorders chosen commits (CEP-21's test CMS).

A rule names a kind of entry: a schema change as in the history (`create-table`), or a step of a sequence (`START_JOIN`, `FINISH_LEAVE`,
`PREPARE_MOVE`), and which of them, counted on all members from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from schemaquake.harness.errors import PlanError

__all__ = ["ACTS", "CommitAct", "CommitRules", "parse_rules"]

CommitAct: TypeAlias = Literal["pause", "refuse", "delay", "drop", "double", "reorder"]
"""`pause`: not before a while. `refuse`: not at all, and said so. `delay`: the others are sent the entry after a while. `drop`: the
others are not sent it, and whoever asked hears nothing. `double`: the others are sent it twice. `reorder`: the others are sent it after
the next one."""

ACTS: Final[tuple[CommitAct, ...]] = get_args(CommitAct)
_STEPS: Final = ("PREPARE", "START", "MID", "FINISH", "CANCEL")
_CHANGES: Final = ("JOIN", "LEAVE", "MOVE", "REPLACE")


class Rule(NamedTuple):
    """One rule; it applies to the n-th entry of its kind."""

    act: CommitAct
    kind: str
    number: int


class CommitRules:
    """The rules of one cluster, with how many entries of each kind there have been."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._met: dict[str, int] = {}
        self._entries: dict[tuple[str, tuple[str, int]], int] = {}

    def acts(self, kind: str, entry: tuple[str, int]) -> frozenset[CommitAct]:
        """Return what is done to an entry; one that is tried again counts once."""
        if not self._rules:
            return frozenset()
        number = self._entries.get((kind, entry))
        if number is None:
            number = self._met[kind] = self._met.get(kind, 0) + 1
            self._entries[kind, entry] = number
        return frozenset(rule.act for rule in self._rules if (rule.kind, rule.number) == (kind, number))


def parse_rules(options: Mapping[str, str], schema_changes: Iterable[str]) -> CommitRules:
    """Read `cms.pause=FINISH_JOIN`, `cms.refuse=create-table@2` and so on. Raises PlanError for a kind that there is not."""
    known = {*schema_changes, *(f"{step}_{change}" for step in _STEPS for change in _CHANGES)}
    rules = []
    for act in ACTS:
        for text in filter(None, options.get(f"cms.{act}", "").split(",")):
            kind, _, number = text.partition("@")
            if kind not in known or not (number or "1").isdecimal() or int(number or 1) < 1:
                raise PlanError(
                    f"-O cms.{act}={text}: no such entry. Entries: {', '.join(sorted(known))}, each with @2, @3, …"
                )
            rules.append(Rule(act, kind, int(number or 1)))
    return CommitRules(rules)

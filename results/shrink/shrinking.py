"""Shrinking: the order in which parts are left out, and the criterion of a failure.

Faults first, because runs without them are quick; then races, statements and rows; then nodes; and all over again until
no part can be left out. A candidate is tried several times, on fresh clusters or in keyspaces of its own, and fails if
the anomaly shows in at least a stated share of its tries. A flaky anomaly is kept at that rate.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from schemaquake.results.shrink.candidate import Candidate, atoms, keeping
from schemaquake.results.shrink.ddmin import ddmin

__all__ = ["BudgetSpent", "Measured", "Shrinking", "Shrunk"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measured:
    """The anomaly showed in `broken` of `tried`; undecided tries are not counted."""

    broken: int
    tried: int

    def fails(self, rate: float) -> bool:
        """Return True if it shows at that rate or above. An untried candidate does not fail."""
        return self.tried > 0 and self.broken > 0 and self.broken >= rate * self.tried


class BudgetSpent(Exception):
    """Raised by an oracle that may not run another candidate."""


class Oracle(Protocol):
    """A function that runs a candidate. Raises BudgetSpent instead of a run beyond the budget."""

    def __call__(self, candidate: Candidate) -> Measured: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest candidate that was found, its failures, and `minimal`: True if no part of it could be left out."""

    candidate: Candidate
    measured: Measured
    minimal: bool
    asked: int
    """The number of candidates that were run."""


@dataclass(slots=True)
class Shrinking:
    """One search. The oracle is asked once about each candidate."""

    oracle: Oracle
    rate: float
    spent: bool = field(default=False, init=False)
    """True if the budget ended the search."""
    _known: dict[bytes, Measured] = field(default_factory=dict)
    _best: Candidate | None = None

    def shrink(self, start: Candidate, *, likely: Sequence[Candidate] = ()) -> Shrunk | None:
        """Return the smallest scenario that still fails; None if not even `start` does.

        `likely` are guesses at a smaller one. The search continues with the first that fails, and `start` need not be run then.
        Within its budget the result is 1-minimal in each of faults, races, statements and nodes.
        """
        minimal = False
        try:
            first = next((one for one in (*likely, start) if self._fails(one)), None)
            if first is not None:
                self._best = first
                minimal = self._shrink_fully()
        except BudgetSpent:
            self.spent = True
            log.warning("the time budget is spent: this may not be the smallest scenario")
        if self._best is None:
            return None
        measured = self._known[self._best.identity]
        return Shrunk(candidate=self._best, measured=measured, minimal=minimal, asked=len(self._known))

    def _shrink_fully(self) -> bool:
        while True:
            before = self._current().identity
            for part in (
                self._drop_faults,
                self._drop_restart,
                self._drop_partition,
                self._drop_races,
                self._drop_statements,
                self._drop_nodes,
            ):
                part()
            if self._current().identity == before:
                return True

    def _drop_faults(self) -> None:
        best = self._current()
        ddmin(best.nemeses, lambda kept: self._accept(replace(best, nemeses=tuple(kept))))

    def _drop_restart(self) -> None:
        best = self._current()
        if best.restart != "none":
            self._accept(replace(best, restart="none"))

    def _drop_partition(self) -> None:
        best = self._current()
        if best.mode == "partition":
            self._accept(replace(best, mode="barrier"))

    def _drop_races(self) -> None:
        best = self._current()
        ddmin(best.races, lambda kept: bool(kept) and self._accept(replace(best, races=tuple(kept))))

    def _drop_statements(self) -> None:
        best = self._current()
        ddmin(atoms(best), lambda kept: self._accept(keeping(best, kept)))

    def _drop_nodes(self) -> None:
        any(self._accept(smaller) for smaller in self._current().fewer_nodes())

    def _current(self) -> Candidate:
        assert self._best is not None
        return self._best

    def _accept(self, candidate: Candidate) -> bool:
        """Return True if the candidate fails, and continue the search from it."""
        if any(not race.sides for race in candidate.races) or not self._fails(candidate):
            return False
        self._best = candidate
        return True

    def _fails(self, candidate: Candidate) -> bool:
        identity = candidate.identity
        if identity not in self._known:
            self._known[identity] = self.oracle(candidate)
            log.info(
                "candidate",
                extra={
                    **candidate.size(),
                    "shows": f"{self._known[identity].broken} of {self._known[identity].tried}",
                },
            )
        return self._known[identity].fails(self.rate)

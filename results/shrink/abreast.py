"""Shrinking abreast: the smallest race of each of several findings, looked for at the same time.

A search asks about one candidate after the other, and each waits for a cluster of its own. Here every search names all candidates
that its next step depends on, and the oracle races those of all searches together. So a run with a dozen findings needs about as
many clusters as a run with one. First the suspects are raced as they are, a few at a time; then what is left of the first that
breaks is raced without single statements, and with two statements alone, until nothing smaller breaks.

Within its budget the result is 1-minimal, as that of `schemaquake.results.shrink.shrinking` is: without any one of its statements or
kinds of rows the anomaly did not show often enough.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Protocol

from schemaquake.results.shrink.candidate import Atom, Candidate, atoms, keeping
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured
from schemaquake.workloads.races.engine import Race

__all__ = ["Asked", "Oracle", "Smallest", "Target", "shrink_abreast"]

log = logging.getLogger(__name__)

_SUSPECTS: Final = 6
"""Suspects of a target that are raced before the next ones are."""
_CANDIDATES: Final = 24
"""Candidates of a target that are raced at the same time."""
_RACES: Final = 12
"""Races of a target that one cluster should have: few candidates are tried several times at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An anomaly, and the races that may show it, the likeliest first. `id` tells targets apart."""

    id: str
    anomaly: str
    suspects: tuple[Race, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A race, the anomaly that is looked for in its keyspace, and how often it is raced."""

    race: Race
    anomaly: str
    tries: int = 1


class Oracle(Protocol):
    """A function that races all of these. Raises BudgetSpent instead of a run beyond the budget."""

    def __call__(self, asked: Sequence[Asked]) -> Sequence[Measured]:
        """Return how often each showed its anomaly, of the tries that were decided, in the same order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest:
    """The smallest race that was found for a target; `race` is None if no suspect showed the anomaly."""

    target: Target
    race: Race | None
    measured: Measured
    minimal: bool
    """True if the anomaly did not show without any one of its parts."""
    raced: int
    """Number of different races of which at least one try was decided."""


def shrink_abreast(
    targets: Sequence[Target], oracle: Oracle, *, rate: float, tries: int, confirm: int = 0
) -> list[Smallest]:
    """Return the smallest race of each target, in their order. What was found when the budget ended is not minimal.

    A candidate is taken as soon as it breaks, in this share of its tries; only where none does are they tried again, `tries` times in all. What is
    found in the end is raced `confirm` times more, and these races alone are counted then: those of the search were chosen for having broken.
    """
    searches = [_Search(target, rate, tries) for target in targets]
    try:
        while wanted := [(search, one) for search in searches for one in search.wanted()]:
            for (search, asked), one in zip(wanted, oracle([asked for _, asked in wanted]), strict=True):
                search.learn(asked, one)
            for search in searches:
                search.advance()
            log.info("raced together", extra={"candidates": len(wanted), "smallest": [s.size for s in searches]})
        found = [(search, search.best) for search in searches if search.best is not None]
        if confirm and found:
            last = [Asked(best, search.target.anomaly, confirm) for search, best in found]
            for (search, _), one in zip(found, oracle(last), strict=True):
                search.confirmed = one if one.tried else None
    except BudgetSpent:
        log.warning("the time budget is spent: not every finding has its smallest scenario")
    return [search.result() for search in searches]


@dataclass(slots=True)
class _Search:
    """The search for one target's smallest race."""

    target: Target
    rate: float
    tries: int
    best: Race | None = None
    confirmed: Measured | None = None
    _known: dict[bytes, Measured] = field(default_factory=dict)
    _asked: Counter[bytes] = field(default_factory=Counter)
    _level: int = 1
    """How often each candidate of this step has been asked about when the step ends."""
    _wave: int = 0
    """Place of the first suspect of this step."""
    _whole: bool = False
    """True once no statement can be left out: then it is what they rest on, and the rows, that are."""
    _done: bool = False

    @property
    def size(self) -> int:
        """The number of parts of the smallest race so far; 0 if there is none."""
        return 0 if self.best is None else len(_atoms(self.best))

    def wanted(self) -> list[Asked]:
        """Return the races on which the next step depends; none if the search is over."""
        if self._done:
            return []
        some = self._candidates()
        self._level = max(self._level, min(self.tries, _RACES // max(1, len(some))))
        lacking = [(race, self._level - self._asked[_identity(race)]) for race in some]
        return [Asked(race, self.target.anomaly, tries) for race, tries in lacking if tries > 0][:_CANDIDATES]

    def learn(self, asked: Asked, measured: Measured) -> None:
        """Take the result of one race."""
        identity = _identity(asked.race)
        known = self._known.get(identity, Measured(0, 0))
        self._known[identity] = Measured(known.broken + measured.broken, known.tried + measured.tried)
        self._asked[identity] += asked.tries

    def advance(self) -> None:
        """Go on from the smallest candidate that breaks; where none does, try them again, or the next ones."""
        if self._done:
            return
        some = self._candidates()
        broken = [race for race in some if self._breaks(race)]
        # Parts that can be left out one at a time may be left out together, which is asked next; a pair need not wait for that.
        if any(self._asked[_identity(race)] < self._level for race in some) and not any(map(_is_pair, broken)):
            return
        if broken:
            # The first of the smallest ones: suspects come in the order of likelihood.
            self.best = min(broken, key=lambda race: len(_atoms(race)))
            self._level = 1
            self._whole = self._whole or _is_pair(self.best)
        elif self.best is None:
            self._go_on_to_others()
        elif self._level < self.tries:
            self._level += 1
        elif not self._whole:
            self._whole, self._level = True, 1
        else:
            self._done = True

    def _go_on_to_others(self) -> None:
        """Take the first of the suspects that were tried least often, and those after it."""
        tried = [self._asked[_identity(race)] for race in self.target.suspects]
        least = min(tried, default=self.tries)
        self._done = least >= self.tries
        if not self._done:
            self._wave, self._level = tried.index(least), least + 1

    def result(self) -> Smallest:
        """Return the result so far."""
        measured = Measured(0, 0)
        if self.best is not None:
            measured = self.confirmed or self._known[_identity(self.best)]
        return Smallest(
            target=self.target,
            race=self.best,
            measured=measured,
            minimal=self._done and self.best is not None,
            raced=sum(one.tried > 0 for one in self._known.values()),
        )

    def _candidates(self) -> list[Race]:
        """Return the races of this step: some suspects, or what is smaller than the best one."""
        if self.best is None:
            return list(self.target.suspects[self._wave : self._wave + _SUSPECTS])
        parts = [atom for atom in _atoms(self.best) if self._whole or atom[0] == "side"]
        removable = {atom for atom in parts if self._breaks(_without(self.best, {atom}))}
        return list(_smaller(self.best, parts, removable))

    def _breaks(self, race: Race) -> bool:
        measured = self._known.get(_identity(race))
        return measured is not None and measured.fails(self.rate)


def _smaller(race: Race, parts: Sequence[Atom], removable: set[Atom]) -> Iterator[Race]:
    """Yield the races that are smaller by one step, each once: two statements alone, without one of these parts, and without all removable ones."""
    seen = {_identity(race)}
    together = [_without(race, removable)] if len(removable) > 1 else []
    for one in (*_pairs(race), *(_without(race, {atom}) for atom in parts), *together):
        if any(one.sides) and _identity(one) not in seen:
            seen.add(_identity(one))
            yield one


def _is_pair(race: Race) -> bool:
    return sum(map(len, race.sides)) <= 2


def _pairs(race: Race) -> Iterator[Race]:
    """Yield the race with two statements of two coordinators alone, where it has more."""
    stated = [atom for atom in _atoms(race) if atom[0] == "side"]
    if len(stated) <= 2:
        return
    for one, other in combinations(stated, 2):
        if one[2] != other[2]:
            yield _without(race, set(stated) - {one, other})


def _without(race: Race, left_out: set[Atom]) -> Race:
    candidate = Candidate(races=(race,))
    (smaller,) = keeping(candidate, [atom for atom in atoms(candidate) if atom not in left_out]).races
    return smaller


def _atoms(race: Race) -> list[Atom]:
    return atoms(Candidate(races=(race,)))


def _identity(race: Race) -> bytes:
    return Candidate(races=(race,)).identity

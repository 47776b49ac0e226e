"""Tally: a checker's findings and doubts, folded into its verdict.

One fold for all checkers: false if anything was found; unknown if nothing was found and something could not be decided;
true otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Validity, Verdict, make_stats

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """The findings and doubts of one checker so far.

    `keep` is how many anomalies of one type the verdict keeps; None: all. The others are counted in `found`.
    """

    checker: str
    keep: int | None = None
    anomalies: list[Anomaly] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    judged: int = 0
    """Things judged, whether or not anything was found (`judge`)."""
    found: dict[str, int] = field(default_factory=dict)
    """How many anomalies of each type were found."""

    def judge(self, *findings: Anomaly | Doubt | None) -> None:
        """Count one thing as judged, and add its findings: anomalies, doubts, or None for nothing."""
        self.judged += 1
        for finding in findings:
            if isinstance(finding, Doubt):
                self.doubt(finding)
            elif finding is not None:
                self.add(finding)

    def add(self, *anomalies: Anomaly) -> None:
        """Add anomalies that are at hand."""
        for anomaly in anomalies:
            if self._count(anomaly.type):
                self.anomalies.append(anomaly)

    def find(self, kind: str, make: Callable[[], Anomaly]) -> None:
        """Count an anomaly of that type, and make it if the verdict is to keep it."""
        if self._count(kind):
            self.anomalies.append(make())

    def _count(self, kind: str) -> bool:
        """Count an anomaly, and tell whether the verdict keeps it."""
        self.found[kind] = self.found.get(kind, 0) + 1
        return self.keep is None or self.found[kind] <= self.keep

    def doubt(self, *doubts: Doubt) -> None:
        """Add reasons why something is not decided."""
        self.doubts += doubts

    @property
    def valid(self) -> Validity:
        """The answer so far: false outweighs unknown outweighs true."""
        return False if self.found else "unknown" if self.doubts else True

    def verdict(self, **stats: JSON | Stat) -> Verdict:
        """Make the verdict, with these statistics (`make_stats`)."""
        return Verdict(
            valid=self.valid,
            checker=self.checker,
            anomalies=tuple(self.anomalies),
            stats=make_stats(stats),
            doubts=tuple(self.doubts),
        )

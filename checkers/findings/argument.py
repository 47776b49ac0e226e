"""Arguments: explanations of why a finding is impossible otherwise, in the form Let …, Then …, But ….

Let  T1 = op 412: p3 n1 ALTER TABLE k.t ADD c1 int -> ok at 8.214 s
     T2 = op 431: p5 n2 ALTER TABLE k.t ADD c2 int -> ok at 8.219 s
Then T1 was acknowledged, so every node must show column c1 of k.t.
     But after the cluster settled n2 shows (k, v, c2). It was last seen on n3 at 11.380 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.limits import LIMITS

__all__ = ["Argument", "label", "render_argument"]


@dataclass(frozen=True, slots=True)
class Argument:
    """An explanation in three parts: what is given, what follows from it, and what was seen instead.

    Operations of `let` are called T1, T2 … in their order; other lines stand as they are (`label` names them).
    """

    let: Sequence[PairedOperation | str]
    then: str
    but: str

    def render(self, *, lines: int | None = LIMITS.lines) -> str:
        """Render the argument; of `let` at most so many lines, and the number of the others. None: all of them."""
        given: list[str] = []
        operations = 0
        for entry in self.let[:lines]:
            if isinstance(entry, PairedOperation):
                operations += 1
                given.append(f"T{operations} = {entry.text()}")
            else:
                given.append(entry)
        if lines is not None and len(self.let) > lines:
            given.append(f"… and {len(self.let) - lines} more")
        return render_argument(given, self.then, self.but)


def label(lines: Iterable[str], letter: str = "T") -> list[str]:
    """Name lines `T1 = …`, `T2 = …` in their order."""
    return [f"{letter}{number} = {line}" for number, line in enumerate(lines, 1)]


def render_argument(let: Sequence[str], then: str, but: str) -> str:
    """Render the three parts; each line of `let` stands by itself, and an empty `let` is left out."""
    given = [f"{'     ' if number else 'Let  '}{line}" for number, line in enumerate(let)]
    return "\n".join([*given, f"Then {then}", f"     But {but}"])

"""Limits: the numbers of findings, examples and lines that a verdict keeps and an explanation shows.

Verdicts are read by people and stored by the thousand, so everything in them that grows with the history is cut off
somewhere. What is beyond a limit is counted, not listed. A checker that wants another number says so in one line:
`_LIMITS: Final = replace(LIMITS, findings=20)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LIMITS", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The greatest numbers of things listed. Lengths are in characters."""

    lines: int = 8
    """Lines of an explanation's Let part."""
    findings: int = 10
    """Findings of one kind in a verdict."""
    findings_of_all: int = 100
    """Findings of one kind in a verdict on many objects."""
    examples: int = 5
    """Examples in the evidence of one finding."""
    objects: int = 20
    """Keys, objects or differences in the evidence of one finding."""
    members: int = 100
    """Members of one set, map or list in the evidence of one finding."""
    operations: int = 10
    """Operations that a finding names for what it counts."""
    suspects: int = 6
    """Schema changes that a finding names as its likely cause."""
    named: int = 4
    """Objects that a sentence names before it counts."""
    error_length: int = 300
    """Characters of an error's text."""


LIMITS: Final = Limits()
"""What a checker keeps and shows unless it says otherwise."""

"""Messages between servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Failure", "Message"]


class Failure(NamedTuple):
    """The answer of a node that could not do what it was asked for."""

    reason: str


# Not frozen, and no tuple: there are several for every operation, and to make the one and to read the other takes several times as long.
@dataclass(slots=True)
class Message:
    """Message from one server to another. It is never changed."""

    sender: str
    kind: str
    body: Any
    epoch: int = 0
    """The sender's epoch; 0 in designs without."""
    question: Any = None
    """The `Answers` that wait for an answer to this message, or that it is one to; None: nobody waits."""

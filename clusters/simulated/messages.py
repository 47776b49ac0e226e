"""Messages between servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

__all__ = ["Failure", "Message", "message_of"]


class Failure(NamedTuple):
    """The answer of a node that could not do what it was asked for."""

    reason: str


class Message(NamedTuple):
    """A message from one server to another."""

    sender: str
    kind: str
    body: Any
    epoch: int = 0
    """The sender's epoch; 0 in designs without."""
    question: Any = None
    """The `Answers` that wait for an answer to this message, or that it is one to; None: nobody waits."""


message_of: Final[Callable[[tuple[str, str, Any, int, Any]], Message]] = partial(tuple.__new__, Message)
"""Makes a message of all its fields in order, in a third of the time: there are several for every operation."""

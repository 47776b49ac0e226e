"""Failures: errors in the code of a worker or of the observer, classified where they occur and raised by the conductor.

Most workers are processes, and an exception need not survive a pipe; its kind and its text do.
"""

from __future__ import annotations

import traceback
from typing import Literal, NamedTuple

from schemaquake.harness.errors import ClusterError, NodeUnreachable, SchemaquakeError

__all__ = ["Failure", "classify_failure"]


class Failure(NamedTuple):
    """The kind of an error, and its message; for a defect (`failed`) the whole traceback."""

    kind: Literal["unreachable", "refused", "failed"]
    text: str

    def to_error(self, who: str, error: type[ClusterError]) -> ClusterError:
        """Return the exception to raise: NodeUnreachable, or `error`, which for a defect names `who` failed."""
        match self.kind:
            case "unreachable":
                return NodeUnreachable(self.text)
            case "refused":
                return error(self.text)
        return error(f"{who} failed:\n{self.text}")


def classify_failure(error: Exception) -> Failure:
    """Classify an error: a node that does not answer, another error that the harness knows, or a defect."""
    match error:
        case NodeUnreachable():
            return Failure("unreachable", str(error))
        case SchemaquakeError():
            return Failure("refused", str(error))
    return Failure("failed", "".join(traceback.format_exception(error)))

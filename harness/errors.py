"""Every error Schemaquake raises on purpose, as one tree.

SchemaquakeError
├─ PlanError              the plan cannot be run as written (exit 254)
├─ NotApplicable          this system has no such feature: neither a pass nor a failure
├─ EnvironmentLacks       this machine lacks something the run needs
│  └─ FetchError          a distribution could not be fetched
├─ ClusterError
│  ├─ NodeUnreachable     a node does not answer
│  ├─ StartTimeout        a node was alive but did not serve in time
│  └─ NodeDied            a node's process ended by itself
├─ FaultNotAllowed        the cluster's owner does not allow this fault here
├─ HealError              a fault could not be undone (see the ledger)
├─ JournalError           an event could not be written ahead: the run cannot go on
└─ HistoryError           a history that no harness can have written
   └─ DamagedFile         a file that was damaged after it was written: what it tells is unknown

A message says what happened, where, and what to do next. The command line prints it without a traceback.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Final, Literal

__all__ = [
    "ClusterError",
    "DamagedFile",
    "EnvironmentLacks",
    "ExitCode",
    "FaultNotAllowed",
    "FetchError",
    "HealError",
    "HistoryError",
    "JournalError",
    "NodeDied",
    "NodeUnreachable",
    "NotApplicable",
    "PlanError",
    "SchemaquakeError",
    "StartTimeout",
    "StoreError",
]


_HISTORY_ERROR_MOST: Final = 2_000  # characters


class ExitCode(IntEnum):
    """The exit code of the command; the numbers are Jepsen's."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    BAD_ARGUMENTS = 254
    CRASHED = 255
    """The command crashed, or was interrupted."""

    @classmethod
    def of(cls, valid: Literal[True, False, "unknown"]) -> ExitCode:
        """Return the exit code of a verdict (`schemaquake.harness.model.verdict.Validity`)."""
        if valid == "unknown":
            return cls.UNKNOWN
        return cls.VALID if valid else cls.INVALID


class SchemaquakeError(Exception):
    """The root of all errors that the command line prints as a sentence."""

    exit_code: ExitCode = ExitCode.CRASHED


class PlanError(SchemaquakeError):
    """The plan cannot be run as written: an unknown name, a value out of range, options that exclude each other."""

    exit_code = ExitCode.BAD_ARGUMENTS


class NotApplicable(PlanError):
    """The workload needs a feature that this system never had; a matrix prints it as such, never as a pass."""


class EnvironmentLacks(SchemaquakeError):
    """The machine lacks a tool, a privilege, memory or a runtime; the message names it and how to get it."""

    exit_code = ExitCode.BAD_ARGUMENTS


class FetchError(EnvironmentLacks):
    """A distribution could not be fetched, or is damaged."""


class ClusterError(SchemaquakeError):
    """The system under test could not be started, reached or stopped."""


class NodeUnreachable(ClusterError):
    """A node does not answer at its address."""


class StartTimeout(ClusterError):
    """A node's process lives but did not serve clients before its deadline."""


class NodeDied(ClusterError):
    """A node's process ended by itself; carries its exit code and its first error."""

    def __init__(self, message: str, *, node: str, exit_code: int | None, first_error: str) -> None:
        super().__init__(message)
        self.node = node
        self.process_exit_code = exit_code
        self.first_error = first_error


class FaultNotAllowed(PlanError):
    """The cluster's owner does not allow this fault here."""


class HealError(ClusterError):
    """A fault could not be undone; the ledger still lists it, and `schemaquake heal RUN` may be tried again."""


class JournalError(SchemaquakeError):
    """An event could not be written ahead (a full disk, a journal that is torn); what was written before is whole."""


class StoreError(SchemaquakeError):
    """A run was recorded and could not be judged, as a file of its folder cannot be read or written (a full disk); its journals are whole."""


class HistoryError(SchemaquakeError):
    """A history that no harness can have written; names the file, the line or index, and the contradiction.

    A history's own names and values may be of any length. Of a message that holds them, beginning and end are kept.
    """

    exit_code = ExitCode.BAD_ARGUMENTS

    def __init__(self, message: str) -> None:
        half = _HISTORY_ERROR_MOST // 2
        super().__init__(message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}")


class DamagedFile(HistoryError):
    """A file that was damaged after it was written; carries the file and the place. A run that has one is unknown."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path

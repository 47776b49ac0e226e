"""Stop conditions: what the owner of a deployed cluster wants asked while faults are on (`stop_if`, `consent_file`).

    a command    run on this machine: exit code 0 says stop, 1 says go on; any other, or no end in time, says stop
    CQL          the first cell of the first row, on each node: a number above or below the bound says stop
    consent      the file on each node: once it is gone, or no longer holds the words, it says stop

A node that does not answer says nothing, because faults are what may keep it from answering.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from schemaquake.clusters.cluster_file.model import StopIf
from schemaquake.clusters.cql.client import CqlClient, CqlConnector
from schemaquake.clusters.cql.targets import NotUnderstood, targets
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import NodeUnreachable, PlanError
from schemaquake.harness.model.protocols import StopCondition

__all__ = ["CommandCondition", "ConsentCondition", "CqlCondition", "conditions_of", "consent_lack"]

_CONSENT_EVERY_S: Final = 2.0
_READS_WITHIN_S: Final = 10.0
_GO_ON: Final = 1
_ABSENT: Final = 44
# Only root may consent for the node: a file that others can write is nobody's word.
_CONSENT: Final = f"""
[ -f "$1" ] || exit {_ABSENT}
case $(stat -Lc '%u %a' "$1") in
  "0 "*[2367] | "0 "*[2367]?) echo "$1 may be written by others than root" >&2; exit 1 ;;
  "0 "*) ;;
  *) echo "$1 does not belong to root" >&2; exit 1 ;;
esac
cat "$1"
"""


class CommandCondition:
    """A command of the owner's, run on this machine."""

    def __init__(self, argv: Sequence[str], *, every_s: float, timeout_s: float) -> None:
        self.name = " ".join(argv)
        self.every_s = every_s
        self._argv = argv
        self._timeout_s = timeout_s

    def ask(self) -> str | None:
        """Run the command. Returns what it printed if it says stop, or why it says nothing."""
        try:
            done = subprocess.run(
                self._argv, capture_output=True, timeout=self._timeout_s, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return f"it did not end within {self._timeout_s:g} s"
        except OSError as error:
            return f"it could not be run: {error.strerror or error}"
        if done.returncode == _GO_ON:
            return None
        printed = (done.stdout + done.stderr).decode(errors="replace").strip()[-300:]
        return f"exit code {done.returncode}" + (f", {printed}" if printed else "")

    def close(self) -> None:
        """Do nothing: no session is open."""


class CqlCondition:
    """A number that one node is asked for in CQL."""

    def __init__(self, condition: StopIf, node: str, connector: CqlConnector) -> None:
        """Raises PlanError for a statement that does more than read."""
        assert condition.cql is not None
        try:
            reads_only = targets(condition.cql).reads_only
        except NotUnderstood as error:
            raise PlanError(f"stop_if cql: {error}: {condition.cql}") from error
        if not reads_only:
            raise PlanError(f"stop_if cql: it must only read: {condition.cql}")
        bound = f"above {condition.above:g}" if condition.above is not None else f"below {condition.below:g}"
        self.name = f"{condition.cql} {bound} on {node}"
        self.every_s = condition.every_seconds
        self._condition = condition
        self._node = node
        self._connector = connector
        self._client: CqlClient | None = None

    def ask(self) -> str | None:
        """Read the number. Returns it if it is beyond the bound; an answer that is no number says stop, no answer nothing."""
        assert self._condition.cql is not None
        try:
            if self._client is None:
                timeout_s = self._condition.timeout_seconds
                self._client = self._connector.connect(self._node, request_timeout_s=timeout_s)
            rows = self._client.read(self._condition.cql)
        except NodeUnreachable:
            self.close()
            return None
        return beyond(self._condition, rows)

    def close(self) -> None:
        """Close the session."""
        if self._client is not None:
            self._client.close()
            self._client = None


def beyond(condition: StopIf, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why these rows say stop, None if they do not; without a row they do not."""
    cell = next(iter(rows[0].values()), None) if rows else None
    if cell is None:
        return None
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return f"{cell!r} is no number"
    is_beyond = not number <= condition.above if condition.above is not None else not number >= (condition.below or 0)
    return f"it is {number:g}" if is_beyond else None


class ConsentCondition:
    """The owner's file on one node, which says that this node may be disturbed."""

    def __init__(self, node: str, transport: Transport, path: str, allowances: Collection[str]) -> None:
        self.name = f"consent of {node}"
        self.every_s = _CONSENT_EVERY_S
        self._transport = transport
        self._path = path
        self._allowances = allowances

    def ask(self) -> str | None:
        """Read the file. Returns what it lacks; a node that does not answer says nothing."""
        try:
            return consent_lack(self._transport, self._path, self._allowances)
        except NodeUnreachable:
            return None

    def close(self) -> None:
        """Do nothing: the transport is the node's."""


def consent_lack(transport: Transport, path: str, allowances: Collection[str]) -> str | None:
    """Return why the node does not consent to faults of these words; None if it does.

    The file belongs to root. Without a word in it everything is consented to that the cluster file allows; a line that
    begins with `#` is a comment. Raises ClusterError, NodeUnreachable.
    """
    done = transport.run(["sh", "-c", _CONSENT, "sh", path], timeout_s=_READS_WITHIN_S)
    if done.exit_code == _ABSENT:
        return f"there is no {path}"
    if done.exit_code != 0:
        return done.stderr.strip() or f"{path} cannot be read"
    lines = [line for line in done.stdout.splitlines() if not line.lstrip().startswith("#")]
    consented = {word for line in lines for word in line.replace(",", " ").split()}
    lacking = sorted(set(allowances) - consented) if consented else []
    return f"{path} does not hold {', '.join(lacking)}" if lacking else None


def conditions_of(
    stop_if: Sequence[StopIf],
    *,
    connector: CqlConnector,
    nodes: Sequence[str],
) -> Sequence[StopCondition]:
    """Make the conditions of a cluster file, CQL once a node. Raises PlanError as `CqlCondition` does."""
    return list(_stated(stop_if, connector, nodes))


def _stated(stop_if: Sequence[StopIf], connector: CqlConnector, nodes: Sequence[str]) -> Iterator[StopCondition]:
    for condition in stop_if:
        if condition.command is not None:
            yield CommandCondition(
                condition.command, every_s=condition.every_seconds, timeout_s=condition.timeout_seconds
            )
        else:
            yield from (CqlCondition(condition, node, connector) for node in nodes)

"""Metadata log: every node has the same entries of the one log of changes of schema and topology, and loses none.

Judges the entries (epoch, kind, entry id) that each node had after the cluster settled and after every node was
restarted (`epochs` rows; Cassandra 6.0).
Finds: `forked-metadata-log`, `gap-in-metadata-log`, `lost-metadata`, `unlogged-change`, `repeated-change`. Source: CEP-21, one log of
epochs; CASSANDRA-21455 (logs with gaps); kinds of entries: `tcm/Transformation.java`; one id for one change: `tcm/log/Entry.java`.

A node that joined, or was far behind, begins with a snapshot, so that its entries may begin later than those of others, or go on
after a snapshot that others made. Entries that another node has and this one lacks only count as lost if they were known
before the restart, because the newest may still be on their way.

A log that begins with epoch 1 has an entry for every change that was acknowledged and cannot have done nothing: one of options may,
and one with IF [NOT] EXISTS. Entries that no log can have are doubts: of no kind, of one id and two kinds, and changes of the ring while
nobody changed it, changes that one node asked for one after another in another order, and an order that contradicts the times at
which clients asked. An id twice in a row is none: 6.0-alpha2 commits a change again whose answer was late, and it then changes nothing. With another
change of the schema in between, what that one made is changed again by a statement that had been carried out before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import surely_changed
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.topology.accounts import PHASES
from schemaquake.checkers.topology.log_times import list_untimely, node_of_source, read_epochs
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import Records, keyspace_of
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["MetadataLog"]

_STANDS_FOR_ALL: Final = "2"
"""The kind of an entry that is a snapshot itself (FORCE_SNAPSHOT), and stands for all before it."""
_SNAPSHOTS: Final = frozenset({_STANDS_FOR_ALL, "3"})
"""Kinds of entries after which nodes have a snapshot (TRIGGER_SNAPSHOT has them make one)."""
_SCHEMA: Final = frozenset({"4"}) | SCHEMA_CHANGES
"""Kinds of entries that change the schema: servers have one for all, simulated clusters one for each statement."""
_ENTERED_BY: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("12", "13", "14", "15"), frozenset({"move", "cancel-sequence"})),
    **dict.fromkeys(
        ("16", "17", "18", "19"), frozenset({"decommission", "removenode", "cancel-sequence", "lost-majority"})
    ),
    "20": frozenset({"assassinate", "lost-majority"}),
    **dict.fromkeys(("21", "22", "23", "24"), frozenset({"replace", "lost-majority"})),
}
"""The operations that enter a kind of entry, for those that few do (`Transformation.java`: PREPARE_MOVE, …, ASSASSINATE, …, FINISH_REPLACE)."""
_KIND: Final = re.compile(r"\d{1,3}|[A-Za-z][A-Za-z_-]*")
_SPELLED: Final = re.compile(r"([A-Za-z]\w*)-(\d+)")
"""An id of an entry of a simulated cluster: the node, and the number of the change that it asked for."""
_BITS: Final = 32
"""Bits of a server's id of an entry that are the number; those before them are the node's address."""
_NUMBER: Final = re.compile(r"-?\d{1,20}")
_NAMED: Final = re.compile(r"=[\w-]+ \((\w+)(?:, (\w+))?\)")
"""What a change in the log names: `AlterSchema{schemaTransformation=DropColumns (ks, t)}`."""


class _Entry(NamedTuple):
    epoch: int
    kind: str
    id: str

    def text(self) -> str:
        return f"epoch {self.epoch}: entry {self.id} of kind {self.kind}"


@dataclass(frozen=True, slots=True)
class _Log:
    """The entries that one node had in one phase, in order of their epochs."""

    phase: str
    node: str
    entries: Sequence[_Entry]
    statements: Mapping[int, str] = field(default_factory=dict)
    """Epoch → what the change says, where one id is there twice and the node told it: `DropColumns (ks, t)` within it."""
    unreadable: bool = False
    """True if some are no entries: an epoch, a kind and an id each."""

    @property
    def is_whole(self) -> bool:
        """True if every entry from epoch 1 on is there."""
        return [entry.epoch for entry in self.entries] == list(range(1, len(self.entries) + 1))


class MetadataLog:
    """All nodes have one metadata log, without gaps, and keep it."""

    name = "metadata-log"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "forked-metadata-log",
        "gap-in-metadata-log",
        "lost-metadata",
        "unlogged-change",
        "repeated-change",
    )
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few thousand entries take no time
        """Judge all logs. Stats: the last epoch by phase and node."""
        evidence = Evidence.of(records)
        shown = _read_logs(evidence)
        unreadable = [log for log in shown if log.unreadable]
        logs = [log for log in shown if log.entries and not log.unreadable]
        if not logs and not unreadable:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no node showed entries of a metadata log"))
        tally = Tally(self.name, keep=LIMITS.findings)
        for log in unreadable:
            text = f"{phase_text(log.phase)} the log of {log.node} has entries that are no epoch, kind and id"
            tally.doubt(Doubt("unread", text))
        tally.doubt(*(Doubt("undecided", text) for text in (*_list_shared_ids(logs), *_list_strangers(logs, evidence))))
        tally.doubt(*_list_without_log(shown, evidence))
        if _are_one_by_one(evidence):
            tally.doubt(*_list_disordered(logs), *_list_untimely(logs, evidence))
        tally.judge(*_find_forks(logs))
        snapshots = {entry.epoch for log in logs for entry in log.entries if entry.kind in _SNAPSHOTS}
        for log in logs:
            tally.judge(*_find_gaps(log, snapshots))
        tally.judge(*_find_losses(logs))
        tally.judge(*_find_unlogged(logs, evidence))
        tally.judge(*_find_repeated(logs))
        last: dict[str, dict[str, int]] = {}
        for log in logs:
            last.setdefault(log.phase, {})[log.node] = log.entries[-1].epoch
        return tally.verdict(last_epochs=last)


def _read_logs(evidence: Evidence) -> Sequence[_Log]:
    """Read the last log of each node in each final phase, in order of phases and nodes."""
    table = evidence.observations
    rows = table.filter(pc.equal(table["kind"], "epochs")).sort_by([("time", "ascending")]).to_pylist()
    found = {
        (row["phase"], row["node"]): _log(row["phase"], row["node"], orjson.loads(row["definition"]))
        for row in rows
        if row["definition"] is not None
    }
    return [found[phase, node] for phase in PHASES for _, node in sorted(k for k in found if k[0] == phase)]


def _log(phase: str, node: str, definition: Mapping[str, Any]) -> _Log:
    entries = definition["entries"]
    if not all(map(_is_entry, entries)):
        return _Log(phase, node, (), unreadable=True)
    texts = definition.get("statements")
    texts = texts if isinstance(texts, dict) else {}
    statements = {int(epoch): text for epoch, text in texts.items() if epoch.isdigit() and isinstance(text, str)}
    return _Log(phase, node, sorted(_Entry(*entry) for entry in entries), statements)


def _is_entry(entry: Sequence[Any]) -> bool:
    return [type(part) for part in entry] == [int, str, str] and _KIND.fullmatch(entry[1]) is not None


def _list_without_log(logs: Sequence[_Log], evidence: Evidence) -> Iterator[Doubt]:
    """Yield a doubt for each node that was read in a final phase and showed no entries, though others did, and for a log that ends early.

    A node that shows an epoch has all entries up to it, but for those that a snapshot stands for. Where all logs begin later than with epoch
    1, one that shows the last epoch may have begun with a snapshot of just that.
    """
    if evidence.notes.upgrades.operations:
        return
    for phase in PHASES:
        of_phase = {log.node: log for log in logs if log.phase == phase}
        others = [log.entries for log in of_phase.values() if log.entries]
        if not others:
            continue
        last = max(entries[-1].epoch for entries in others)
        are_cut = min(entries[0].epoch for entries in others) > 1
        for schema in evidence.shown.of(phase):
            log = of_phase.get(schema.node)
            if log is None or not (log.entries or log.unreadable):
                if log is not None and are_cut and schema.epoch is not None and schema.epoch >= last:
                    continue
                yield Doubt("unread", f"{phase_text(phase)} {schema.node} showed no entries of the metadata log")
            elif log.entries and schema.epoch is not None and log.entries[-1].epoch < schema.epoch:
                text = f"{phase_text(phase)} {schema.node} shows epoch {schema.epoch}, and its log ends with {log.entries[-1].epoch}"
                yield Doubt("undecided", text)


def _list_shared_ids(logs: Sequence[_Log]) -> Iterator[str]:
    """Yield the ids under which logs have entries of more than one kind: an id is that of one change."""
    kinds: dict[str, set[str]] = {}
    for log in logs:
        for entry in log.entries:
            kinds.setdefault(entry.id, set()).add(entry.kind)
    if shared := sorted(identity for identity, found in kinds.items() if len(found) > 1):
        yield f"the metadata log has entries of several kinds under the id {listing(shared)}"


def _list_strangers(logs: Sequence[_Log], evidence: Evidence) -> Iterator[str]:
    """Yield the entries, after the run's first change of the schema, that change the ring although nothing of the run does.

    Of a run with operations on the topology only what a single kind of them enters is judged.
    """
    began = _epoch_of_first_change(evidence)
    if began is None or evidence.notes.upgrades.operations:
        return
    later = {entry for log in logs for entry in log.entries if entry.epoch > began}
    tried = {operation.f for operation in evidence.notes.operations}
    if evidence.notes.membership.operations:
        strangers = sorted(one for one in later if one.kind in _ENTERED_BY and not _ENTERED_BY[one.kind] & tried)
    else:
        strangers = sorted(entry for entry in later if entry.kind not in _SCHEMA | _SNAPSHOTS)
    if strangers:
        yield f"the ring was changed while the run went on, and not by it: {listing(entry.text() for entry in strangers)}"


def _list_disordered(logs: Sequence[_Log]) -> Iterator[Doubt]:
    """Yield a doubt for each node whose changes of the schema are in the log in another order than it asked for them.

    Each node counts its entries up as it asks for them, and here no client asked a node for two changes at once.
    """
    strange: dict[str, set[_Entry]] = {}
    for log in logs:
        last: dict[str, tuple[int, _Entry]] = {}
        for entry in (one for one in log.entries if one.kind in _SCHEMA):
            if (place := _place(entry.id)) is None:
                continue
            source, number = place
            if source in last and last[source][0] > number:
                strange.setdefault(source, set()).update((last[source][1], entry))
            last[source] = number, entry
    for _, entries in sorted(strange.items()):
        yield Doubt(
            "undecided",
            f"one node asked for these changes in another order: {listing(map(_Entry.text, sorted(entries)))}",
        )


def _list_untimely(logs: Sequence[_Log], evidence: Evidence) -> Iterator[Doubt]:
    """Yield a doubt if the order of the log contradicts the times at which clients asked for its changes."""
    entries = {entry for log in logs for entry in log.entries if entry.kind in _SCHEMA}
    # An id that is there again is one change, carried out again without an effect.
    first: dict[str, int] = {}
    for entry in sorted(entries):
        first.setdefault(entry.id, entry.epoch)
    nodes: dict[int, str] = {}
    for identity, epoch in first.items():
        place = _place(identity)
        node = None if place is None else node_of_source(place[0], evidence)
        if node is not None:
            nodes[epoch] = node
    yield from (Doubt("undecided", text) for text in list_untimely(nodes, evidence))


def _are_one_by_one(evidence: Evidence) -> bool:
    """Tell if each node was asked for one change of the schema after another, in a run without faults and changes of nodes."""
    notes = evidence.notes
    is_changed = notes.faults or notes.membership.operations or notes.upgrades.operations
    return not is_changed and not _are_any_abreast(evidence)


def _are_any_abreast(evidence: Evidence) -> bool:
    """Tell if clients may have asked one node for two changes of the schema at once."""
    open_until: dict[str | None, float] = {}
    for change in evidence.changes.all:
        if change.invoked <= open_until.get(change.node, -1):
            return True
        is_over = change.type != "info" and change.completed is not None
        open_until[change.node] = float(change.completed or 0) if is_over else float("inf")
    return False


def _place(identity: str) -> tuple[str, int] | None:
    """Return the node that an id of an entry is from, and its number there; None: the id does not tell.

    The first four bytes of a server's ids are the node's address, the last byte first (`tcm/log/Entry.java`; of 10.77.0.2 such an id begins with
    02 00 4d 0a); those of simulated clusters spell the node.
    """
    spelled = _SPELLED.fullmatch(identity)
    if spelled is not None:
        return spelled[1], int(spelled[2])
    number = int(identity) % 2**64 if _NUMBER.fullmatch(identity) else 0
    if not number >> _BITS:
        return None
    return ".".join(str(byte) for byte in (number >> _BITS).to_bytes(4, "little")), number


def _epoch_of_first_change(evidence: Evidence) -> int | None:
    """Return the first epoch that a coordinator showed after a change of the schema that it had acknowledged since all founders serve; null if none did."""
    # Founders that were started after the first one had taken the setup join as part of the run.
    booted = max((start.time for start in evidence.notes.starts if start.phase == "boot"), default=-1)
    acked: dict[str | None, int] = {}
    for change in evidence.changes.all:
        if change.acknowledged and change.completed is not None and change.invoked > booted:
            acked[change.node] = min(change.completed, acked.get(change.node, change.completed))
    return min(
        (shown.epoch for shown in read_epochs(evidence) if shown.begins > acked.get(shown.node, shown.begins)),
        default=None,
    )


def _find_forks(logs: Sequence[_Log]) -> Iterator[Anomaly]:
    """Yield a finding for each epoch under which two logs have different entries."""
    known: dict[int, dict[_Entry, list[_Log]]] = {}
    for log in logs:
        for entry in log.entries:
            known.setdefault(entry.epoch, {}).setdefault(entry, []).append(log)
    for epoch, entries in sorted(known.items()):
        if len(entries) > 1:
            told = [f"{_holders(having)} {entry.text()}" for entry, having in entries.items()]
            yield anomaly(
                "forked-metadata-log",
                nodes=[log.node for having in entries.values() for log in having],
                evidence={"epoch": epoch, "entries": [list(entry) for entry in entries]},
                explanation=Argument([], "an epoch is one entry, the same on every node.", f"{'; '.join(told)}."),
            )


def _find_gaps(log: _Log, snapshots: Collection[int]) -> Iterator[Anomaly]:
    """Yield a finding for each gap that no snapshot explains, or an epoch that a log has twice.

    `snapshots` are the epochs after which nodes have one. A node that is sent one goes on with the epoch after it, and keeps no entry of
    it (`LocalLog`); it is sent one where more than one was made since its last epoch (`LogReader.getLogState`).
    """
    for before, after in pairwise(log.entries):
        if after.epoch in {before.epoch + 1, before.epoch} or after.kind == _STANDS_FOR_ALL:
            continue  # one epoch with two entries is a fork
        made_since = [epoch for epoch in snapshots if before.epoch < epoch < after.epoch]
        if len(made_since) > 1 and after.epoch - 1 in made_since:
            continue
        yield anomaly(
            "gap-in-metadata-log",
            nodes=[log.node],
            evidence={"phase": log.phase, "before": list(before), "after": list(after)},
            explanation=Argument(
                [],
                f"{log.node} applied {after.text()} on what it had, so it must have applied every epoch before.",
                f"{phase_text(log.phase)} its log goes from epoch {before.epoch} to {after.epoch} without a snapshot.",
            ),
        )


def _find_losses(logs: Sequence[_Log]) -> Iterator[Anomaly]:
    """Yield a finding for each node that ends, after the restart, before an epoch that was known when the cluster had settled."""
    earlier = [log for log in logs if log.phase == PHASES[0]]
    if not earlier:
        return
    newest = max((log.entries[-1], log.node) for log in earlier)
    for log in logs:
        entry, node = newest
        if log.phase == PHASES[1] and log.entries[-1].epoch < entry.epoch:
            yield anomaly(
                "lost-metadata",
                nodes=[log.node, node],
                evidence={"known": list(entry), "last": list(log.entries[-1])},
                explanation=Argument(
                    [],
                    f"{node} had {entry.text()} when the cluster had settled, so every node must have it after the restart.",
                    f"the log of {log.node} ends with epoch {log.entries[-1].epoch}.",
                ),
            )


def _find_unlogged(logs: Sequence[_Log], evidence: Evidence) -> Iterator[Anomaly]:
    """Yield a finding for a phase whose logs, each of them whole, have fewer entries than changes were acknowledged before."""
    for phase in PHASES:
        began = evidence.notes.began(f"final-{phase}")
        whole = [log for log in logs if log.phase == phase]
        nodes = {schema.node for schema in evidence.readings.schemas if schema.phase == phase}
        is_complete = whole and all(log.is_whole for log in whole) and nodes <= {log.node for log in whole}
        if began is None or not is_complete or evidence.notes.upgrades.operations:
            continue
        entries = {entry.epoch for log in whole for entry in log.entries if entry.kind in _SCHEMA}
        acknowledged = [change for change in evidence.changes.all if _is_effective(change, began)]
        if len(entries) < len(acknowledged):
            yield anomaly(
                "unlogged-change",
                objects=sorted({change.key for change in acknowledged if change.key is not None}),
                nodes=[log.node for log in whole],
                ops=[change.index for change in acknowledged],
                evidence={"phase": phase, "acknowledged": len(acknowledged), "in_the_log": len(entries)},
                explanation=Argument(
                    [],
                    f"{len(acknowledged)} changes were acknowledged that cannot have done nothing, and each is an entry of the log.",
                    f"{phase_text(phase)} the logs of {listing(log.node for log in whole)} begin with epoch 1, and have {len(entries)} entries of such changes.",
                ),
            )


def _find_repeated(logs: Sequence[_Log]) -> Iterator[Anomaly]:
    """Yield a finding for each change of the schema that is two entries of a log, with another one between them that it can have met."""
    having: dict[tuple[_Entry, ...], list[_Log]] = {}
    for log in logs:
        changes = [entry for entry in log.entries if entry.kind in _SCHEMA]
        last: dict[str, int] = {}
        for place, entry in enumerate(changes):
            later = changes[last.get(entry.id, place) + 1 : place]
            between = [one for one in later if _can_meet(log, one, entry)]
            if between:
                having.setdefault((changes[last[entry.id]], *between, entry), []).append(log)
            last[entry.id] = place
    for (first, *between, again), of_logs in sorted(having.items()):
        statements = {epoch: text for log in of_logs for epoch, text in log.statements.items()}
        yield anomaly(
            "repeated-change",
            objects=[changed] if (changed := _changed(statements.get(again.epoch))) else (),
            nodes=[log.node for log in of_logs],
            evidence={
                "id": first.id,
                "epochs": [first.epoch, again.epoch],
                "between": [list(entry) for entry in between],
                "statements": {str(epoch): statements[epoch] for epoch in sorted(statements)},
            },
            explanation=Argument(
                [],
                "a change is one entry of the log, and takes effect once.",
                f"{_holders(of_logs)} {_told(first, statements)}, "
                f"then {listing(_told(entry, statements) for entry in between)}, and then entry {again.id} once more as epoch {again.epoch}.",
            ),
        )


def _told(entry: _Entry, statements: Mapping[int, str]) -> str:
    """Return an entry as a finding tells it, with what it changes if that was read."""
    named = _NAMED.search(statements.get(entry.epoch, ""))
    return entry.text() if named is None else f"{entry.text()}, {named[0].removeprefix('=')}"


def _can_meet(log: _Log, *changes: _Entry) -> bool:
    """Tell if two entries are changes of one keyspace, as far as the log tells what they change."""
    keyspaces = {keyspace_of(key) for one in changes if (key := _changed(log.statements.get(one.epoch)))}
    return len(keyspaces) < len(changes)


def _changed(statement: str | None) -> str | None:
    """Return the key of the keyspace, or of the object in one, that a statement in the log names; None: it names none."""
    named = _NAMED.search(statement or "")
    return None if named is None else ".".join(part for part in named.groups() if part is not None)


def _holders(logs: Iterable[_Log]) -> str:
    """Render the nodes of these logs with their verb: `n1 has`, `n1 and n2 have`."""
    nodes = sorted({log.node for log in logs})
    return f"{listing(nodes)} {'has' if len(nodes) == 1 else 'have'}"


def _is_effective(change: PairedOperation, before: int) -> bool:
    """Tell if a change was acknowledged before a time (ns) and cannot have done nothing."""
    return surely_changed(change) and change.completed is not None and change.completed < before

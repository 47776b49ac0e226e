"""Membership: every node knows exactly the members that the acknowledged operations left.

Judges the conductor's notes of the members, the operations on the topology, and what each node said of the ring after
the cluster settled and after every node was restarted (`system.local`, `system.peers`, gossip where it is a table, the
directory of the metadata log where there is one).
Finds: `missing-member`, `ghost-member`, `ring-disagreement`, `failed-change-took-effect`, `change-without-effect`,
`hanging-change`. Sources: CEP-21, membership; CASSANDRA-16422 (assassinated nodes), CASSANDRA-21583.

A member that gossip does not call NORMAL, and a directory that contradicts the peers of the same node, are doubts. After an operation of unknown outcome its nodes may be members or not; the accounts must then still agree. What changed
after a definite refusal is an accusation of its own. An operation that timed out while faults went on, or within its
limit after them, is a doubt; so is one that takes a node's disk away and did not end while rows had one replica: nobody may have
those of that node to stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.quorum.levels import sum_factors
from schemaquake.checkers.topology.accounts import IN_GOSSIP, OUTSIDE, Account, read_accounts, read_addresses
from schemaquake.checkers.topology.operations import render_change
from schemaquake.harness.model.membership import GONE, MemberState
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.harness.units import S

__all__ = ["Membership"]

_MEMBERS: Final = frozenset({"normal", "leaving"})
_JOINED: Final = "JOINED"
_FORGETS_S: Final = 60
"""How long (s) after a replacement gossip may list the node that was replaced: half a quarantine of 60 s by default, and the noise of a busy machine."""
_READ_S: Final = 10
"""How long (s) a reading may go on that was begun while its node was a member."""
_SHORTEST_LIMIT_S: Final = 1.0
"""The shortest limit (s) of an attempt. One that took less could not be asked for, though earlier releases of ours noted that it ran into its limit."""
_LONGER: Final = 1.5
_SPARE_S: Final = 60.0
"""By how much (a part, and s) an attempt may exceed its limit: a command that is given up has to be ended, and a machine may be busy."""


class Membership:
    """All nodes list the same members: those that the operations left."""

    name = "membership"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "missing-member",
        "ghost-member",
        "ring-disagreement",
        "failed-change-took-effect",
        "change-without-effect",
        "hanging-change",
    )
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few rows a node take no time
        """Judge all accounts. Unknown without any. Stats: accounts by phase, operations by outcome."""
        case = _Case(Evidence.of(records))
        if not case.accounts and not case.operations:
            nothing = Doubt("nothing-to-judge", "no node was asked for its account of the ring")
            return Verdict.unknown(self.name, nothing)
        tally = Tally(self.name, keep=LIMITS.findings)
        tally.doubt(*_list_unread(case), *_list_strange_gossip(case))
        tally.doubt(
            *_list_contradictions(case),
            *_list_strange_places(case),
            *_list_strange_directories(case),
            *_list_changed_members(case),
            *_list_doubles(case),
        )
        tally.doubt(*_list_answers_of_the_gone(case), *_list_answers_of_the_absent(case))
        tally.doubt(*_list_returns(case), *_list_lingering(case))
        for account in case.read:
            tally.judge(*_judge_account(case, account))
        tally.judge(*_judge_agreement(case))
        for operation in case.operations:
            tally.judge(_judge_effect(case, operation), _judge_duration(case, operation))
        outcomes = [operation.outcome or "unended" for operation in case.operations]
        return tally.verdict(
            accounts={phase: len([a for a in case.read if a.phase == phase]) for phase in ("settled", "restarted")},
            operations={outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        )


@dataclass(frozen=True)
class _Case:
    """The evidence, as this checker reads it."""

    evidence: Evidence

    @cached_property
    def accounts(self) -> Sequence[Account]:
        return read_accounts(self.evidence)

    @cached_property
    def read(self) -> Sequence[Account]:
        return [account for account in self.accounts if account.error is None]

    @cached_property
    def operations(self) -> Sequence[TopologyOperation]:
        return self.evidence.notes.operations

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """Node → address, by the nodes' own word, and by the notes where these speak of the same addresses.

        Clients may reach a node by another address than the others do.
        """
        told = {account.node: account.address for account in self.read}
        noted = read_addresses(self.evidence)
        alike = all(noted.get(node, address) == address for node, address in told.items())
        return {**noted, **told} if alike else told

    @cached_property
    def knows_all(self) -> bool:
        """True if every address of a node is known: the run itself changed who is a member, and each node is named."""
        return bool(self.operations) and self.addresses.keys() >= read_addresses(self.evidence).keys()

    @cached_property
    def certain(self) -> Mapping[str, MemberState]:
        """Node → the state that follows from the operations; without nodes of operations of unknown outcome."""
        states = dict(self.evidence.notes.membership.initial)
        open_to_doubt: set[str] = set()
        for operation in self.operations:
            for node, state in operation.becomes.items():
                if operation.outcome == "ok":
                    states[node] = state
                    open_to_doubt.discard(node)
                elif operation.outcome != "fail" and states.get(node) != state:
                    open_to_doubt.add(node)
        return {node: state for node, state in states.items() if node not in open_to_doubt}

    @cached_property
    def settled(self) -> bool:
        """True if every operation has ended with a definite outcome."""
        return all(operation.outcome in {"ok", "fail"} for operation in self.operations)

    @cached_property
    def changing(self) -> frozenset[str]:
        """The nodes of operations that have no definite outcome."""
        open_ones = [operation for operation in self.operations if operation.outcome not in {"ok", "fail"}]
        return frozenset(node for operation in open_ones for node in (*operation.nodes, *operation.becomes))

    def of(self, node: str) -> list[TopologyOperation]:
        """Return the operations that concern the node."""
        return [operation for operation in self.operations if node in operation.becomes]

    def decided_by(self, node: str) -> TopologyOperation | None:
        """Return the last operation with a definite outcome that concerns the node."""
        return next((one for one in reversed(self.of(node)) if one.outcome in {"ok", "fail"}), None)


def _list_unread(case: _Case) -> Iterator[Doubt]:
    if case.operations and not case.read:
        yield Doubt("unread", "the topology was changed, and no node gave an account of the ring afterwards")
    for account in case.accounts:
        if account.error is not None:
            text = f"{account.node} gave no account of the ring {phase_text(account.phase)}: {account.error}"
            yield Doubt("unread", text)
    given = {(account.phase, account.node) for account in case.accounts}
    for schema in case.evidence.readings.schemas if given else ():  # readings of 0.1 have no accounts
        if (schema.phase, schema.node) not in given:
            text = f"{schema.node} showed its schema {phase_text(schema.phase)}, and gave no account of the ring"
            yield Doubt("unread", text)


def _list_strange_gossip(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each account in which gossip does not call a certain member that serves NORMAL."""
    for account in case.read:
        for node, state in case.certain.items():
            status = (account.gossip or {}).get(case.addresses.get(node, ""))
            if account.gossip and node in case.addresses and state == "normal" and status != "NORMAL":
                shown = "is not in gossip" if status is None else f"is {status or 'without a status'} in gossip"
                yield Doubt("undecided", f"{phase_text(account.phase)} {node}, a member, {shown} of {account.node}")


def _list_contradictions(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each account whose directory says something else of a member than its peers, once nothing changes."""
    for account in case.read if case.settled else ():
        # Until an upgrade has ended, a node may keep the host id that it had, and its entry in the directory names another one.
        upgrades = case.evidence.notes.upgrades
        by_id = not upgrades.operations or upgrades.finished is not None
        members = {address: _identity(member, by_id=by_id) for address, member in account.members.items()}
        entries = {
            address: _identity(entry, by_id=by_id)
            for address, entry in (account.directory or {}).items()
            if entry.get("state") not in OUTSIDE
        }
        strange = sorted(address for address, identity in entries.items() if members.get(address) != identity)
        strange += sorted(address for address in members if account.directory and address not in entries)
        strange += sorted(
            node
            for node, state in case.certain.items()
            if state == "normal"
            and account.directory is not None
            and account.directory.get(case.addresses.get(node, ""), {}).get("state", _JOINED) != _JOINED
        )
        if strange:
            when = phase_text(account.phase)
            yield Doubt(
                "undecided", f"{when} the directory of {account.node} contradicts its peers on {listing(strange)}"
            )


def _list_doubles(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each account with a member that is listed under an address not its own, or whose host id or token another has.

    Nodes of an operation of unknown outcome may be in between.
    """
    changing = {case.addresses.get(node) for node in case.changing}
    for account in case.read:
        bearers: dict[str, set[str]] = {}
        for address, member in account.members.items():
            for mark in {member.get("host_id"), *(member.get("tokens") or ())} - {None}:
                bearers.setdefault(str(mark), set()).add(address)
        strange = [address for some in bearers.values() if len(some - changing) > 1 for address in some - changing]
        if case.settled:
            strange += [address for address, member in account.members.items() if member.get("address") != address]
            gossip = account.gossip or account.members
            strange += [
                address for address in account.members.keys() - case.addresses.values() if address not in gossip
            ]
        if strange:
            when = phase_text(account.phase)
            text = f"{when} the account of {account.node} contradicts itself on {listing(sorted(set(strange)))}"
            yield Doubt("undecided", text)


def _list_strange_places(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each member whose data centre or rack two accounts of one phase name differently, once nothing changes.

    Nodes of two releases may name them in two ways.
    """
    releases = {(schema.phase, schema.node): schema.release for schema in case.evidence.readings.schemas}
    told: dict[tuple[str, str, str | None], set[tuple[Any, Any]]] = {}
    for account in case.read if case.settled else ():
        release = releases.get((account.phase, account.node))
        if release is None and case.evidence.notes.upgrades.mixed is not None:
            continue
        for address, member in account.members.items():
            told.setdefault((account.phase, address, release), set()).add((member.get("dc"), member.get("rack")))
    strange = {(phase, address) for (phase, address, _), places in told.items() if len(places) > 1}
    for phase, address in sorted(strange):
        text = f"{phase_text(phase)} nodes differ in the data centre or rack of {address}"
        yield Doubt("undecided", text)


def _list_strange_directories(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each node that directories of two nodes, or of two phases, give other host ids, once nothing changes."""
    told: dict[str, set[Any]] = {}
    for account in case.read if case.settled else ():
        for address, entry in (account.directory or {}).items():
            told.setdefault(address, set()).add(entry.get("host_id"))
    for address, host_ids in sorted(told.items()):
        if len(host_ids) > 1:
            yield Doubt("undecided", f"directories differ in the host id of {address}")


def _list_changed_members(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each member whose host id, tokens or place all accounts of one phase tell otherwise than all of the other.

    Nothing changes the ring between the final readings, and a restart changes neither. Nodes of two releases may differ.
    """
    if not case.settled or case.evidence.notes.upgrades.operations:
        return
    told: dict[str, dict[str, set[Any]]] = {}
    for account in case.read:
        for address, member in account.members.items():
            identity = (*_identity(member, by_id=True), member.get("dc"), member.get("rack"))
            told.setdefault(address, {}).setdefault(account.phase, set()).add(identity)
    for address, phases in sorted(told.items()):
        shown = [identities for identities in phases.values() if len(identities) == 1]
        if len(shown) > 1 and len(set.union(*shown)) > 1:
            yield Doubt("undecided", f"{address} has another host id, other tokens or another place after the restart")


def _list_answers_of_the_gone(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each node that answered a client, or showed its schema, after an operation by which it left had been acknowledged."""
    gone = {
        node: operation
        for operation in case.operations
        for node, state in operation.becomes.items()
        if state in GONE and operation.outcome == "ok" and case.of(node)[-1] is operation
    }
    for node, operation in gone.items():
        assert operation.completed is not None
        left = f"its {operation.f} was acknowledged (op {operation.index})"
        answered = [index for index, begun, _ in _list_answers(case, node) if begun > operation.completed]
        if answered:
            text = f"{node} answered {len(answered)} requests of clients that began after {left}"
            yield Doubt("undecided", f"{text}; the first is op {answered[0]}")
        late = [time for time in _list_readings(case, node) if time > operation.completed + _READ_S * S]
        if late:
            yield Doubt("undecided", f"{node} showed its schema {late[0] / S:.3f} s into the run, after {left}")


def _list_answers_of_the_absent(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each node that answered a client, or showed its schema, before any operation was to make it a member."""
    for node, state in case.evidence.notes.membership.initial.items():
        if state != "absent":
            continue
        begun = min((operation.invoked for operation in case.of(node)), default=None)
        answered = [index for index, _, ended in _list_answers(case, node) if begun is None or ended < begun]
        if answered:
            text = f"{node} answered {len(answered)} requests of clients before it was asked to join"
            yield Doubt("undecided", f"{text}; the first is op {answered[0]}")
        early = [time for time in _list_readings(case, node) if begun is None or time < begun]
        if early:
            text = f"{node} showed its schema {early[0] / S:.3f} s into the run, before it was asked to join"
            yield Doubt("undecided", text)


def _list_answers(case: _Case, node: str) -> Iterator[tuple[int, int, int]]:
    """Yield (index, invocation, completion in ns) of the requests of clients that a node answered."""
    history = case.evidence.history
    asked = history.filter(pc.and_(pc.equal(history["node"], node), pc.greater_equal(history["process"], 0)))
    begun: dict[int, tuple[int, int]] = {}
    for row in asked.select(["index", "process", "type", "time"]).to_pylist():
        if row["type"] == "invoke":
            begun[row["process"]] = row["index"], row["time"]
        elif row["type"] == "ok" and row["process"] in begun:
            yield *begun[row["process"]], row["time"]


def _list_readings(case: _Case, node: str) -> Sequence[int]:
    """List when (ns) a node answered with its version of the schema, in order."""
    rows = case.evidence.observations
    is_own = pc.and_(pc.equal(rows["node"], node), pc.equal(rows["kind"], "version"))
    return sorted(rows.filter(pc.and_(is_own, pc.is_null(rows["error"])))["time"].to_pylist())


def _list_returns(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each node that the notes of the members show as gone, and later as a member, without an operation in between."""
    gone: dict[str, int] = {}
    for event, value in case.evidence.notes.all:
        if event["f"] != "membership":
            continue
        for node, shown in (value.get("members") or {}).items():
            state = shown.get("state") if isinstance(shown, Mapping) else None
            if state in GONE - {"absent"}:
                gone[node] = event["time"]
            elif state in _MEMBERS and node in gone:
                since = gone.pop(node)
                if not any(one.completed is None or one.completed >= since for one in case.of(node)):
                    yield Doubt("undecided", f"{node} had left, and is shown as {state} by op {event['index']}")


def _list_sources(case: _Case, account: Account, node: str) -> Sequence[str]:
    """List the tables in which another node wrongly lists one that is gone."""
    if node == account.node or _may_linger(case, account, node):
        return ()
    return account.sources(case.addresses[node])


def _may_linger(case: _Case, account: Account, node: str) -> bool:
    """Tell if gossip may still list a node: where there is no directory it forgets one that was replaced only once it was silent for long enough."""
    decided, address = case.decided_by(node), case.addresses.get(node, "")
    return (
        account.directory is None
        and case.certain.get(node) == "replaced"
        and account.sources(address) == [IN_GOSSIP]
        and decided is not None
        and decided.completed is not None
        and account.time - decided.completed <= _FORGETS_S * S
    )


def _list_lingering(case: _Case) -> Iterator[Doubt]:
    """Yield a doubt for each replaced node that a node's gossip still lists in the last account that this node gave."""
    last = {account.node: account for account in sorted(case.read, key=lambda account: account.time)}
    for node in case.certain:
        listed = [teller for teller, account in last.items() if teller != node and _may_linger(case, account, node)]
        if listed:
            text = f"{node} was replaced less than {_FORGETS_S} s before the last account of {listing(sorted(listed))}, which may still list it in gossip"
            yield Doubt("undecided", text)


def _identity(member: Mapping[str, Any], *, by_id: bool) -> tuple[Any, frozenset[str]]:
    return member.get("host_id") if by_id else None, frozenset(member.get("tokens") or ())


def _judge_account(case: _Case, account: Account) -> Iterator[Anomaly]:
    """Yield what one node's account has too much, and what it lacks."""
    for node, state in case.certain.items():
        address = case.addresses.get(node)
        if address is None:
            continue
        if state in _MEMBERS and not account.lists(address):
            yield _report_missing(case, account, node)
        elif state in GONE and (sources := _list_sources(case, account, node)):
            yield _report_ghost(case, account, node, sources)
    known = set(case.addresses.values())
    for address in account.members:
        if case.knows_all and address not in known:
            yield _report_stranger(account, address)
    if case.settled:
        for address, entry in (account.directory or {}).items():
            if entry.get("sequence") is not None:
                yield _report_unfinished(case, account, address, str(entry["sequence"]))


def _report_missing(case: _Case, account: Account, node: str) -> Anomaly:
    return _report_other(
        case,
        account,
        node,
        "missing-member",
        f"{node} is a member, and every node must list it.",
        f"{account.node} lists only {listing(sorted(_names(case, account)))}.",
    )


def _report_ghost(case: _Case, account: Account, node: str, sources: Sequence[str]) -> Anomaly:
    return _report_other(
        case,
        account,
        node,
        "ghost-member",
        f"{node} is no member, and no node may list it.",
        f"{account.node} lists {case.addresses[node]} in {listing(sources)}.",
    )


def _report_other(case: _Case, account: Account, node: str, kind: str, then: str, seen: str) -> Anomaly:
    """Report that an account differs from what the last answer about a node decided; after a refusal, that the change took effect."""
    decided = case.decided_by(node)
    failed = decided is not None and decided.outcome == "fail"
    if decided is not None:
        because = "the answer to T1 proves that nothing was changed" if failed else "T1 was acknowledged"
        then = f"{because}, so {then}"
    return _report(
        "failed-change-took-effect" if failed else kind,
        account,
        [node, account.node],
        case.of(node),
        then,
        f"{phase_text(account.phase)} {seen}",
    )


def _report_stranger(account: Account, address: str) -> Anomaly:
    then = "every member has an address that was prepared for a node of this cluster."
    but = f"{phase_text(account.phase)} {account.node} lists {address}, which is no node's."
    return _report("ghost-member", account, [account.node], [], then, but, about=address)


def _report_unfinished(case: _Case, account: Account, address: str, sequence: str) -> Anomaly:
    then = "every operation has ended with a definite answer, so no sequence of steps may be under way."
    but = f"{phase_text(account.phase)} {account.node} shows for {address}: {sequence}."
    named = [node for node, known in case.addresses.items() if known == address]
    return _report("hanging-change", account, [*named, account.node], case.operations, then, but)


def _judge_agreement(case: _Case) -> Iterator[Anomaly]:
    """Yield a finding for each phase and address on which two accounts differ."""
    for phase in ("settled", "restarted"):
        accounts = [account for account in case.read if account.phase == phase]
        for address in sorted({address for account in accounts for address in account.members}):
            told: dict[tuple[str, ...], list[str]] = {}
            for account in accounts:
                member = account.members.get(address)
                if member is None and _is_decided(case, address):
                    continue  # a missing member is a finding of its own, and so is a stranger
                said = ("no member",) if member is None else (str(member["host_id"]), *member["tokens"])
                told.setdefault(said, []).append(account.node)
            if len(told) > 1:
                yield _report_disagreement(case, phase, address, told)


def _is_decided(case: _Case, address: str) -> bool:
    """Tell if a member at an address, or the lack of it, is judged by the operations."""
    known = address in case.addresses.values()
    return any(case.addresses.get(node) == address for node in case.certain) if known else case.knows_all


def _report_disagreement(
    case: _Case, phase: str, address: str, accounts: Mapping[tuple[str, ...], Sequence[str]]
) -> Anomaly:
    words = [
        f"{listing(nodes)} {'say' if len(nodes) > 1 else 'says'} {' '.join(said)}" for said, nodes in accounts.items()
    ]
    named = [node for node, known in case.addresses.items() if known == address]
    return anomaly(
        "ring-disagreement",
        objects=named or [address],
        nodes=[node for nodes in accounts.values() for node in nodes],
        ops=[operation.index for node in named for operation in case.of(node)],
        evidence={
            "phase": phase,
            "address": address,
            "accounts": {" ".join(said): list(nodes) for said, nodes in accounts.items()},
        },
        explanation=Argument(
            label(render_change(operation) for node in named for operation in case.of(node)),
            "all nodes must know each member by the same host id and tokens once nothing changes any more.",
            f"{phase_text(phase)} of {address} {'; '.join(words)}.",
        ),
    )


def _judge_effect(case: _Case, operation: TopologyOperation) -> Anomaly | None:
    """Find a move that was acknowledged and is the last change of its node, and whose token some node does not know."""
    if operation.outcome != "ok" or operation.token is None or case.of(operation.nodes[0])[-1] is not operation:
        return None
    node = operation.nodes[0]
    address = case.addresses.get(node, "")
    for account in case.read:
        member = account.members.get(address)
        if member is not None and operation.token not in member["tokens"]:
            return _report(
                "change-without-effect",
                account,
                [node, account.node],
                [operation],
                f"T1 was acknowledged, so every node must know {node} by the token {operation.token}.",
                f"{phase_text(account.phase)} {account.node} knows it by {listing(member['tokens'])}.",
            )
    return None


def _judge_duration(case: _Case, operation: TopologyOperation) -> Anomaly | Doubt | None:
    """Find an operation whose attempts all ran into their limit, with no fault that could have held them up.

    One that took longer than its limit and ended is a doubt.
    """
    limit_s = operation.limit_s
    slow = [
        one for one in operation.attempts if limit_s and float(one.get("seconds") or 0) > _LONGER * limit_s + _SPARE_S
    ]
    if slow and operation.completed is not None:
        seconds = max(float(attempt["seconds"]) for attempt in slow)
        text = f"an attempt at {operation.f} of {listing(operation.nodes)} took {seconds:.0f} s, and its limit is {limit_s:.0f} s"
        return Doubt("time", f"{text} (op {operation.index})")
    attempts = _attempts_at_change(operation)
    late = [
        float(attempt["seconds"])
        for attempt in attempts
        if attempt.get("timed_out") and float(attempt.get("seconds") or 0) >= _SHORTEST_LIMIT_S
    ]
    if operation.completed is None:
        return Doubt("incomplete-run", f"{operation.f} of {listing(operation.nodes)} was begun and has no end")
    if not late or len(late) < len(attempts):
        return None
    allowed = int(max(late) * S)
    faults = [
        fault
        for fault in case.evidence.notes.faults
        if fault.begins < operation.completed and (fault.ends is None or fault.ends + allowed > operation.completed)
    ]
    what = f"{operation.f} of {listing(operation.nodes)} did not end within its limit"
    if faults:
        return Doubt("time", f"{what}, and {faults[-1].nemesis} may have held it up")
    alone = _keyspaces_of_one_replica(case, operation) if operation.loses_disk else ()
    if alone:
        return Doubt("undecided", f"{what}, and it took the only replica of rows of {listing(alone)} away")
    if operation.loses_disk and _leaves_no_majority(case, operation):
        return Doubt("undecided", f"{what}, and it left no majority of the members, by which it is decided")
    return anomaly(
        "hanging-change",
        objects=operation.nodes,
        nodes=operation.nodes,
        ops=[operation.index],
        evidence={"operation": operation.f, "attempts": [dict(attempt) for attempt in operation.attempts]},
        explanation=Argument(
            label([render_change(operation)]),
            "with no fault in place T1 must end within its limit.",
            f"{len(late)} attempts ran into it.",
        ),
    )


def _attempts_at_change(operation: TopologyOperation) -> Sequence[Mapping[str, Any]]:
    """Return the attempts at a change itself: where it was taken back and begun anew, those that began it; otherwise all.

    A change that was taken back after one limit does not show whether it hung or was slow, and its abort counts as its answer.
    """
    attempts = operation.attempts
    beginnings, taken_back = attempts[::2], attempts[1::2]
    command = next((attempt.get("command") for attempt in attempts), None)
    anew = len(beginnings) > len(taken_back) and all(one.get("command") == command for one in beginnings)
    undone = all(one.get("command") != command and one.get("outcome") == "ok" for one in taken_back)
    return beginnings if anew and undone else attempts


def _leaves_no_majority(case: _Case, operation: TopologyOperation) -> bool:
    """Tell if too few members were left to decide on anything when an operation had taken its node down, where a log decides."""
    if not any(schema.follows_log for schema in case.evidence.shown.schemas):
        return False
    membership = case.evidence.notes.membership
    members = [node for node in membership.initial if membership.serves(node, operation.invoked - 1)]
    dead = [node for node in members if node in operation.nodes]
    return 2 * (len(members) - len(dead)) <= len(members)


def _keyspaces_of_one_replica(case: _Case, operation: TopologyOperation) -> Sequence[str]:
    """Return the keyspaces that may have had one replica of each row while an operation went on, by what clients asked for."""
    ends = operation.invoked if operation.completed is None else operation.completed
    factors: dict[str, set[int]] = {}
    for change in case.evidence.operations(("create-keyspace", "alter-keyspace")):
        argument = change.argument
        replication = argument.get("replication") if isinstance(argument, Mapping) else None
        if change.key is None or not replication or not change.possible or change.invoked >= ends:
            continue
        if change.acknowledged and change.completed is not None and change.completed < operation.invoked:
            factors[change.key] = set()  # whatever it was before
        factors.setdefault(change.key, set()).add(sum_factors(replication))
    return sorted(keyspace for keyspace, known in factors.items() if 1 in known)


def _report(
    kind: str,
    account: Account,
    nodes: Sequence[str],
    operations: Sequence[TopologyOperation],
    then: str,
    but: str,
    *,
    about: str | None = None,
) -> Anomaly:
    latest_first = sorted(operations, key=lambda operation: operation.invoked, reverse=True)
    return anomaly(
        kind,
        objects=nodes[:1] if about is None else [about],
        nodes=nodes,
        ops=[operation.index for operation in operations],
        evidence={
            "phase": account.phase,
            "members": {address: dict(member) for address, member in account.members.items()},
            "operations": [
                {"index": one.index, "f": one.f, "nodes": list(one.nodes), "outcome": one.outcome} for one in operations
            ],
        },
        explanation=Argument(label(render_change(operation) for operation in latest_first), then, but),
    )


def _names(case: _Case, account: Account) -> list[str]:
    """Name the members of an account, by address where they are no node's."""
    by_address = {address: node for node, address in case.addresses.items()}
    return [by_address.get(address, address) for address in account.members if account.lists(address)]

"""Placements: every node describes the replicas that follow from the ring, and all nodes describe the same ones.

Judges what each node answered when it was asked for the ranges of a keyspace (`ownership` rows, `nodetool describering`)
after the cluster settled and after every node was restarted, against the tokens, racks and data centres that the same
node lists (`ring` rows) and the keyspace's replication (`keyspace` rows), by our own model of Cassandra's strategies
(`schemaquake.harness.placements`).
Finds: `misplaced-replicas`, `divided-placements`, `pending-ranges`. Sources: CEP-21, data placement;
`locator/SimpleStrategy.java`, `locator/NetworkTopologyStrategy.java`; CASSANDRA-14801 and CASSANDRA-14802 (pending
ranges).

The order of replicas is not judged. While any node still shows an operation under way its description may be that of a
step in between: what differs then is a doubt, and so is a strategy that is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.topology.accounts import PHASES, Account, read_accounts
from schemaquake.checkers.topology.operations import render_change
from schemaquake.checkers.topology.ownership import Described, model_of, read_described, read_replications
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.harness.placements.strategies import Placement

__all__ = ["Placements"]

_UNDER_WAY: Final = frozenset({"BOOT", "BOOT_REPLACE", "LEAVING", "MOVING", "BOOTSTRAPPING", "BOOT_REPLACING"})
"""States of gossip and of the directory in which a node has ranges that are not yet, or no longer, its own."""


class _Difference(NamedTuple):
    """The replicas of one token by two accounts; an account that has none there gives an empty set."""

    token: int
    one: frozenset[str]
    other: frozenset[str]


class Placements:
    """The replicas that every node describes are those that follow from the ring."""

    name = "placements"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("misplaced-replicas", "divided-placements", "pending-ranges")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few ranges a node take no time
        """Judge all descriptions. Unknown without any. Stats: descriptions judged, ranges in them."""
        evidence = Evidence.of(records)
        described = read_described(evidence)
        if not described:
            nothing = Doubt("nothing-to-judge", "no node was asked for the replicas of its ranges")
            return Verdict.unknown(self.name, nothing)
        accounts = {(one.phase, one.node): one for one in read_accounts(evidence) if one.error is None}
        operations = evidence.notes.operations
        replications = read_replications(evidence)
        tally = Tally(self.name, keep=LIMITS.findings)
        restless: dict[str, Sequence[str]] = {phase: _find_restless(accounts, phase) for phase in PHASES}
        if all(operation.outcome in {"ok", "fail"} for operation in operations):
            for account in accounts.values():
                tally.judge(*_find_pending(account, operations))
        for one in described:
            tally.judge(*_judge(one, accounts, replications, operations, busy=bool(restless[one.phase])))
        tally.doubt(*_list_undescribed(described, accounts, replications))
        for phase in PHASES:
            tally.judge(*_judge_agreement(described, phase, operations, busy=bool(restless[phase])))
        ranges = sum(len(one.placement.ends) for one in described if one.placement is not None)
        return tally.verdict(descriptions=len(described), ranges=ranges)


def _find_restless(accounts: Mapping[tuple[str, str], Account], phase: str) -> Sequence[str]:
    """Find the addresses that some node shows in the middle of an operation."""
    found = set()
    for (of_phase, _), account in accounts.items():
        if of_phase == phase:
            found |= {address for address, status in (account.gossip or {}).items() if status in _UNDER_WAY}
            found |= {
                address
                for address, entry in (account.directory or {}).items()
                if entry.get("state") in _UNDER_WAY or entry.get("sequence") is not None
            }
    return sorted(found)


def _find_pending(account: Account, operations: Sequence[TopologyOperation]) -> Iterator[Anomaly]:
    """Yield a finding for each member that the node still shows in the middle of an operation when all have ended.

    A node that never became a member may stay in gossip for a while, and does no harm there.
    """
    for address in account.members:
        shown = {
            "gossip": (account.gossip or {}).get(address),
            "the directory": (account.directory or {}).get(address, {}).get("state"),
        }
        told = {source: state for source, state in shown.items() if state in _UNDER_WAY}
        if told:
            yield anomaly(
                "pending-ranges",
                objects=[address],
                nodes=[account.node],
                ops=[operation.index for operation in operations],
                evidence={"phase": account.phase, "address": address, "states": told},
                explanation=Argument(
                    label(render_change(operation) for operation in operations),
                    "every operation has ended with a definite answer, so no range may be pending.",
                    f"{phase_text(account.phase)} {account.node} shows {address} as "
                    f"{listing(f'{state} in {source}' for source, state in told.items())}.",
                ),
            )


def _judge(
    one: Described,
    accounts: Mapping[tuple[str, str], Account],
    replications: Mapping[tuple[str, str, str], Mapping[str, str]],
    operations: Sequence[TopologyOperation],
    *,
    busy: bool,
) -> Iterator[Anomaly | Doubt]:
    """Yield what one node's description has otherwise than our model of the ring that the node lists."""
    where = f"{phase_text(one.phase)} {one.node}"
    account, replication = accounts.get((one.phase, one.node)), replications.get((one.phase, one.node, one.keyspace))
    if one.placement is None:
        yield Doubt("unread", f"{where} did not describe the ranges of {one.keyspace}: {one.error}")
        return
    if account is None or replication is None:
        missing = "account of the ring" if account is None else f"replication of {one.keyspace}"
        yield Doubt("unread", f"{where} described ranges, but gave no {missing}")
        return
    try:
        model = model_of(account, replication)
    except ValueError as error:
        yield Doubt("undecided", f"{where}: no replicas follow from what it lists: {error}")
        return
    differences = list(_compare(one.placement, model)) if one.placement.ends else []
    if differences and busy:
        yield Doubt("undecided", f"{where} describes other replicas of {one.keyspace} while an operation is under way")
    elif differences or one.flaw is not None:
        yield _report_misplaced(one, account, replication, differences, operations)


def _list_undescribed(
    described: Sequence[Described],
    accounts: Mapping[tuple[str, str], Account],
    replications: Mapping[tuple[str, str, str], Mapping[str, str]],
) -> Iterator[Doubt]:
    """Yield a doubt for each keyspace that a node shows and does not describe, though another one describes it."""
    there = {(one.phase, one.node, one.keyspace) for one in described}
    by_others = {(one.phase, one.keyspace) for one in described if one.placement is not None}
    for phase, node, keyspace in sorted(replications.keys() - there):
        if (phase, keyspace) in by_others and (phase, node) in accounts:
            yield Doubt(
                "unread", f"{phase_text(phase)} {node} did not describe the ranges of {keyspace}, which others do"
            )


def _compare(one: Placement, other: Placement) -> Iterator[_Difference]:
    """Yield the tokens at which ranges end and the replicas of both differ."""
    for token in sorted({*one.ends, *other.ends}):
        mine, its = ({replica.node for replica in placement.at(token)} for placement in (one, other))
        if mine != its:
            yield _Difference(token, frozenset(mine), frozenset(its))


def _report_misplaced(
    one: Described,
    account: Account,
    replication: Mapping[str, str],
    differences: Sequence[_Difference],
    operations: Sequence[TopologyOperation],
) -> Anomaly:
    what = one.flaw or f"it names {_render(differences[0].one)} for token {differences[0].token}"
    so = f", not {_render(differences[0].other)}" if differences and one.flaw is None else ""
    return anomaly(
        "misplaced-replicas",
        objects=[one.keyspace],
        nodes=[one.node],
        ops=[operation.index for operation in operations],
        evidence={
            "phase": one.phase,
            "replication": dict(replication),
            "ring": {address: dict(member) for address, member in account.members.items()},
            "differences": _render_differences(differences),
        },
        explanation=Argument(
            label(render_change(operation) for operation in operations),
            f"the replicas of {one.keyspace} follow from the tokens, racks and data centres that {one.node} lists.",
            f"{phase_text(one.phase)} {what}{so}.",
        ),
    )


def _judge_agreement(
    described: Sequence[Described], phase: str, operations: Sequence[TopologyOperation], *, busy: bool
) -> Iterator[Anomaly | Doubt]:
    """Yield a finding for each keyspace whose ranges two nodes describe with different replicas."""
    by_keyspace: dict[str, list[Described]] = {}
    for one in described:
        if one.phase == phase and one.placement is not None and one.placement.ends:
            by_keyspace.setdefault(one.keyspace, []).append(one)
    for keyspace, (first, *others) in sorted(by_keyspace.items()):
        assert first.placement is not None
        differing = [
            (other, differences)
            for other in others
            if other.placement is not None and (differences := list(_compare(first.placement, other.placement)))
        ]
        if not differing:
            continue
        other, differences = differing[0]
        token, mine, its = differences[0]
        but = f"for token {token} {first.node} names {_render(mine)}, and {other.node} {_render(its)}"
        if busy:
            yield Doubt("undecided", f"{phase_text(phase)}, while an operation is under way, {but}")
            continue
        yield anomaly(
            "divided-placements",
            objects=[keyspace],
            nodes=[first.node, *(one.node for one, _ in differing)],
            ops=[operation.index for operation in operations],
            evidence={"phase": phase, "differences": {one.node: _render_differences(some) for one, some in differing}},
            explanation=Argument(
                label(render_change(operation) for operation in operations),
                f"once nothing changes any more, all nodes must name the same replicas of {keyspace}.",
                f"{phase_text(phase)} {but}.",
            ),
        )


def _render(nodes: frozenset[str]) -> str:
    return listing(sorted(nodes))


def _render_differences(differences: Sequence[_Difference]) -> list[dict[str, Any]]:
    return [
        {"token": str(token), "described": sorted(one), "expected": sorted(other)}
        for token, one, other in differences[: LIMITS.examples]
    ]

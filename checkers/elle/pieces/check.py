"""The check of transactions piece by piece: its steps in order; the verdict is the one on the whole history.

By ranges of the history: transactions, laid out by key (`layout`) → by shares of the keys: versions, anomalies of single keys,
dependencies (`shares`) → by ranges again: the latest invocation that reaches each transaction, until nothing changes → by
groups of equal A: components (`reaching`). What may lie on a cycle is then a small part, unless real time is broken over
a long time. On this part the search for cycles is that of a whole history, in one place; so is the explanation of the few
findings that are shown (`citations`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.elle.cycles import Cycles, Found, find_cycles
from schemaquake.checkers.elle.explain import Reason
from schemaquake.checkers.elle.graphs import ORDER, graph
from schemaquake.checkers.elle.keys import SHOWN_MOST
from schemaquake.checkers.elle.pieces.citations import Citations, read_citations, read_rows
from schemaquake.checkers.elle.pieces.ids import range_of
from schemaquake.checkers.elle.pieces.layout import (
    EDGES,
    Edges,
    Laid,
    Plan,
    Table,
    lay_out,
    lay_out_range,
    order_processes,
    share_of,
)
from schemaquake.checkers.elle.pieces.projection import NODES, nodes_as_transactions
from schemaquake.checkers.elle.pieces.reaching import (
    Group,
    Left,
    Range,
    close,
    gather,
    joined_spans,
    leave_edges,
    leave_nodes,
    reach,
)
from schemaquake.checkers.elle.pieces.shares import (
    JUNCTIONS,
    JudgedShare,
    Precedence,
    Share,
    Shown,
    judge_share,
    justify,
)
from schemaquake.checkers.elle.tables import of_tables
from schemaquake.checkers.elle.transactions import numbered_by_appearance
from schemaquake.checkers.elle.verdicts import NOTHING, Findings, Question, concluded, register_stats
from schemaquake.checkers.elle.version_order import TAKEN
from schemaquake.checkers.elle.witnesses import Cycle
from schemaquake.checkers.exchange.exchange import Exchange, Rows, of_part
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.distinct import distinct
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Verdict

__all__ = ["check_in_pieces"]

_TIMES_OF_A_SHARE: Final = 3
"""A share of the keys takes so many times the memory of its rows, and more where it has many transactions."""


def check_in_pieces(exchange: Exchange, question: Callable[[], Question], promises: Collection[str] = ()) -> Verdict:
    """Judge every transaction of the kind in question, table by table as `schemaquake.checkers.elle.tables` does.

    `question` makes the question on one table, whose time then begins. Raises HistoryError and PlanError.
    """
    tables = _tables(exchange)
    if len(tables) <= 1:
        return _TransactionCheck.of(exchange, question(), promises, None).verdict()

    def verdicts() -> Iterator[tuple[str, Verdict]]:
        for number, table in enumerate(tables):
            with exchange.apart(str(number)) as apart:
                yield str(table), _TransactionCheck.of(apart, question(), promises, Table(table)).verdict()

    return of_tables(verdicts())


def _tables(exchange: Exchange) -> list[str | None]:
    """List the tables of which there are transactions, in the order in which they appear."""
    if not exchange.keyed:
        return [None]
    found = exchange.each(_tables_of_range, range(len(exchange.first) - 1))
    return list(dict.fromkeys(table for part in found for table in part))


def _tables_of_range(rows: Rows, number: int) -> list[str | None]:
    events = rows.events(number)
    tables: list[str | None] = pc.unique(events["key"].filter(events["mops"].is_valid()).cast(pa.string())).to_pylist()
    return tables


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedKeys:
    """All shares of the keys, as they were asked and as they were judged; `stats` are those of registers."""

    asked: Sequence[Share]
    judged: Sequence[JudgedShare]
    stats: Mapping[str, JSON]

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of findings by anomaly."""
        counts: dict[str, int] = {}
        for share in self.judged:
            for name, count in share.counts.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def first(self) -> Mapping[str, Sequence[Shown]]:
        """The contradictions to be shown, by anomaly, in their order."""
        found: dict[str, list[Shown]] = {}
        for share in self.judged:
            for name, shown in share.shown.items():
                found.setdefault(name, []).extend(shown)
        return {name: sorted(found[name], key=lambda one: one.rank)[:SHOWN_MOST] for name in sorted(found)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransactionCheck:
    """The check of one table's transactions."""

    exchange: Exchange
    question: Question
    promises: Collection[str]
    plan: Plan

    @classmethod
    def of(
        cls, exchange: Exchange, question: Question, promises: Collection[str], table: Table | None
    ) -> _TransactionCheck:
        """Plan the check of a table; None: the only one there is."""
        plan = Plan(
            kind=question.kind,
            table=table,
            order=question.order,
            ranges=tuple(exchange.first),
            shares=exchange.shares,
        )
        return cls(exchange=exchange, question=question, promises=promises, plan=plan)

    def verdict(self) -> Verdict:
        """Carry the check out. Raises HistoryError and PlanError."""
        question, now = self.question, time.monotonic()
        laid, steps, ordered = self._laid_out()
        now = question.lap("transactions", now)
        if not any(part.transactions for part in laid):
            return question.nothing(NOTHING[question.kind], {})
        self._refuse_what_does_not_fit(laid)
        keys = self._judged_keys(laid)
        now = question.lap("orders", now)
        left = self._reached(laid, [*(share.edges for share in keys.judged), *steps])
        now = question.lap("dependencies", now)
        cycles = self._core(laid, keys, left).cycles(question)
        now = question.lap("cycles", now)
        anomalies = self._anomalies(laid, keys, cycles)
        question.lap("explanations", now)
        findings = Findings(
            transactions=sum(part.transactions for part in laid),
            counts=keys.counts,
            cycles=cycles,
            anomalies=anomalies,
            related=lambda: any(share.dependent for share in keys.judged) or ordered,
            stats=keys.stats,
        )
        return concluded(findings, question)

    def _ranges(self) -> range:
        return range(len(self.plan.ranges) - 1)

    # ── by ranges: transactions ──────────────────────────────────────────────────────────────────────────────────────

    def _laid_out(self) -> tuple[list[Laid], list[Edges], bool]:
        """Lay all transactions out: (those of each range and those across, the order of processes, `related` by order)."""
        plan, exchange = self.plan, self.exchange
        laid = exchange.each(lay_out_range, [(plan, number) for number in self._ranges()])
        laid.append(lay_out(exchange, plan, laid))
        if plan.order == "process":
            return laid, *order_processes(exchange, plan, laid)
        parts = [part for part in laid if part.transactions]
        ordered = plan.order == "realtime" and (
            min((part.first_end for part in parts), default=0) < max((part.last_begin for part in parts), default=0)
        )
        return laid, [], ordered

    def _refuse_what_does_not_fit(self, laid: Sequence[Laid]) -> None:
        """Raise HistoryError if a share of the keys takes more memory than there is: keys are not judged in pieces."""
        allowed = self.exchange.memory_bytes
        if allowed is None:
            return
        for number in range(self.plan.shares):
            parts = of_part((part.operations for part in laid if part.micro_operations), number)
            taken = _TIMES_OF_A_SHARE * self.exchange.size(parts)
            if taken > allowed:
                raise HistoryError(
                    f"what was asked of one key, or read of it, takes some {taken >> 20} MiB, and there are "
                    f"{allowed >> 20}: a key cannot be judged in pieces. Allow more (--memory), where there is more"
                )

    # ── by keys ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judged_keys(self, laid: Sequence[Laid]) -> _JudgedKeys:
        """Judge all shares of the keys.

        A promise that any key breaks is not relied on for any key: then all are judged once more without it.
        """
        doubted: set[str] = set()
        while True:
            asked = self._shares(laid, doubted)
            judged = self.exchange.each(judge_share, asked)
            broken = {promise for share in judged for promise in share.broken}
            if broken <= doubted:
                break
            doubted.add(next(promise for promise in TAKEN if promise in broken - doubted))
        stats: Mapping[str, JSON] = {}
        if self.question.kind == "rw-register":
            kept = [promise for promise in TAKEN if promise in self.promises and promise not in doubted]
            unordered = sum(share.unordered for share in judged)
            stats = register_stats(kept, [promise for promise in TAKEN if promise in doubted], unordered)
        return _JudgedKeys(asked=asked, judged=judged, stats=stats)

    def _shares(self, laid: Sequence[Laid], doubted: Collection[str]) -> list[Share]:
        parts = [part for part in laid if part.micro_operations]
        low, high = min((part.low for part in parts), default=0), max((part.high for part in parts), default=0)
        count = sum(part.micro_operations for part in parts)
        return [
            Share(
                plan=self.plan,
                number=number,
                operations=of_part((part.operations for part in parts), number),
                by_appearance=numbered_by_appearance(low, high, count),
                promises=self.promises,
                doubted=frozenset(doubted),
                forbidden=self.question.forbidden,
            )
            for number in range(self.plan.shares)
        ]

    # ── what may lie on a cycle ──────────────────────────────────────────────────────────────────────────────────────

    def _reached(self, laid: Sequence[Laid], edges: Sequence[Edges]) -> Left:
        """Find the members of components, and the spans in which real time is broken."""
        ranges = [
            Range(
                number=number,
                ranges=self.plan.ranges,
                nodes=of_part((part.nodes for part in laid), number),
                edges=of_part((part.edges for part in edges), number),
                crossings=of_part((part.crossings for part in edges), number),
                clip=self.plan.order == "realtime",
            )
            for number in self._ranges()
        ]
        gathered = self.exchange.each(gather, self._relaxed(ranges))
        members = [part.members for part in gathered]
        across = [part.across for part in gathered if part.across is not None]
        if across:
            shares = self.plan.shares
            members += self.exchange.each(close, [Group(across, number, shares) for number in range(shares)])
        return Left([part for part in members if part is not None], joined_spans(gathered))

    def _relaxed(self, ranges: list[Range]) -> list[Range]:
        """Let ranges hand on A to each other until nothing changes; return them with what they were handed last."""
        asking, turn = [part.number for part in ranges], 0
        asks: dict[int, frozenset[int]] = {}
        while asking:
            found = self.exchange.each(reach, [ranges[number] for number in asking])
            for number, answer in zip(asking, found, strict=True):
                ranges[number] = replace(ranges[number], before=answer.handed, prepared=answer.prepared)
                asks[number] = answer.asks
            changed = {number for number, answer in zip(asking, found, strict=True) if answer.changed}
            turn += 1
            handed = [[ranges[other].before for other in sorted(asks[part.number])] for part in ranges]
            ranges = [replace(part, handed=given, turn=turn) for part, given in zip(ranges, handed, strict=True)]
            asking = [part.number for part in ranges if asks[part.number] & changed]
        return ranges

    def _core(self, laid: Sequence[Laid], keys: _JudgedKeys, left: Left) -> _Core:
        """Read the part of the graph in which every cycle lies."""
        if not left.members and not len(left.spans.begins):  # the common case: nothing lies on a cycle
            return _Core(NODES.empty_table(), EDGES.empty_table(), JUNCTIONS.empty_table())
        exchange = self.exchange
        asked = [(number, of_part((part.nodes for part in laid), number), left) for number in self._ranges()]
        nodes = exchange.each(leave_nodes, asked)
        edges = exchange.each(leave_edges, [(number, share, left) for number, share in enumerate(keys.judged)])
        return _Core(
            nodes=exchange.read(nodes, NODES).sort_by("id"),
            edges=exchange.read([of_edges for of_edges, _ in edges], EDGES),
            junctions=exchange.read([junctions for _, junctions in edges], JUNCTIONS),
        )

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────

    def _anomalies(self, laid: Sequence[Laid], keys: _JudgedKeys, cycles: Cycles) -> list[Anomaly]:
        """Write the prohibited findings, as the check of a whole history does."""
        contradictions = keys.first
        shown = [witness for witness in cycles.witnesses if witness.kind in self.question.forbidden]
        ids = {id_ for found in contradictions.values() for one in found for id_ in one.found.transactions}
        ids |= {id_ for witness in shown for id_ in witness.cycle.nodes}
        if not ids:
            return []
        citations = self._cited(laid, ids)
        reasons = self._reasons(keys.asked, citations, {claim for witness in shown for claim in _claims(witness)})
        anomalies = [
            citations.contradiction(name, one.found) for name, found in contradictions.items() for one in found
        ]
        return anomalies + [citations.cycle(witness, reasons, self.question.order) for witness in shown]

    def _cited(self, laid: Sequence[Laid], ids: Collection[int]) -> Citations:
        """Read the transactions of these ids from the history."""
        plan, exchange = self.plan, self.exchange
        wanted = np.array(sorted(ids), np.int64)
        ranges = distinct(range_of(wanted, plan.ranges)).tolist()
        parts = [part for number in ranges for part in of_part((part.nodes for part in laid), number)]
        nodes = exchange.read(parts, NODES)
        nodes = nodes.filter(pa.array(np.isin(nodes["id"].to_numpy(), wanted)))
        invoked, last = nodes["invoked"].to_numpy(), nodes["id"].to_numpy()
        rows = distinct(np.concatenate([invoked, last[last < plan.rows]]))
        ranges_of_rows = range_of(rows, plan.ranges)
        asked = [(int(number), rows[ranges_of_rows == number].tolist()) for number in distinct(ranges_of_rows)]
        kept = exchange.each(read_rows, asked)
        return read_citations(exchange, kept, plan.kind, dict(zip(invoked.tolist(), last.tolist(), strict=True)))

    def _reasons(
        self, shares: Sequence[Share], citations: Citations, claims: Collection[Precedence]
    ) -> Mapping[Precedence, Sequence[Reason]]:
        """Ask the shares of the keys that both transactions touch why one comes before the other."""
        asked: dict[int, list[Precedence]] = {}
        for claim in sorted(claims, key=lambda one: (one.before, one.after, one.kind)):
            both = np.array(sorted(citations.keys(claim.before) & citations.keys(claim.after)), np.int64)
            for number in distinct(share_of(both, self.plan.shares)).tolist():
                asked.setdefault(number, []).append(claim)
        order = sorted(asked)
        answers = self.exchange.each(justify, [(shares[number], asked[number]) for number in order])
        found: dict[Precedence, list[Reason]] = {}
        for number, answer in zip(order, answers, strict=True):
            for claim, reason in zip(asked[number], answer, strict=True):
                if reason is not None:
                    found.setdefault(claim, []).append(reason)
        return found


def _claims(witness: Found) -> list[Precedence]:
    """List the dependencies of a cycle."""
    nodes = witness.cycle.nodes
    following = (*nodes[1:], nodes[0])
    steps = zip(nodes, following, witness.cycle.kinds, strict=True)
    return [Precedence(one, other, kind) for one, other, kind in steps if kind != ORDER]


@dataclass(frozen=True, slots=True)
class _Core:
    """The part of the graph in which every cycle lies."""

    nodes: pa.Table
    edges: pa.Table
    junctions: pa.Table

    def cycles(self, question: Question) -> Cycles:
        """Find the cycles, their nodes as ids."""
        ids = self.nodes["id"].to_numpy()
        junctions = self.junctions.sort_by([(name, "ascending") for name in ("sort", "rank", "rank_at", "number")])
        names = np.concatenate([ids, junctions["id"].to_numpy()])
        order = np.argsort(names, kind="stable")
        source, target = (
            order[np.searchsorted(names[order], self.edges[name].to_numpy())].astype(np.int32)
            for name in ("source", "target")
        )
        dependencies = graph(len(ids), len(names), source, target, self.edges["kind"].to_numpy())
        found = find_cycles(
            nodes_as_transactions(self.nodes),
            dependencies,
            question.order,
            deadline=question.began + question.limit_s,
        )
        witnesses = [
            replace(one, cycle=Cycle(tuple(int(ids[node]) for node in one.cycle.nodes), one.cycle.kinds))
            for one in found.witnesses
        ]
        return Cycles(counts=found.counts, witnesses=witnesses, undecided=found.undecided, late=found.late)

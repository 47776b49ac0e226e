"""Transaction check: list-append and rw-register of one history file, carried by an engine; the verdict is the local one.

By ranges of the file: transactions, laid out by key → by key: versions, what single keys show, dependencies → by
ranges again: the latest invocation that reaches each transaction, until nothing changes → groups of equal A.
What may lie on a cycle is then a small part, unless real time is broken over a long time. On this part the search
for cycles is the local one, here, where the check was asked for; so is the choice of words, for a few transactions.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemaquake.checkers.elle.cycles import Cycles, Found, find_cycles
from schemaquake.checkers.elle.graphs import ORDER, graph
from schemaquake.checkers.elle.projection import NODES
from schemaquake.checkers.elle.transactions import INFO, NEVER, Transactions, numbered_by_appearance
from schemaquake.checkers.elle.verdicts import SHOWN_MOST, Findings, Question, concluded, with_undecided
from schemaquake.checkers.elle.version_order import TAKEN
from schemaquake.checkers.elle.witnesses import Cycle
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.engines.dependencies import (
    EDGES,
    JUNCTIONS,
    SEGMENTS,
    judge_keys,
    lay_out,
    reasons,
    scatter,
    share_of,
    write_edges,
)
from schemaquake.results.engines.engine import Engine
from schemaquake.results.engines.frontier import FRONTIER, joined
from schemaquake.results.engines.parts import by_part, read_parts, read_whole
from schemaquake.results.engines.ranges import Ranges, owner
from schemaquake.results.engines.reaching import close, gather, joined_spans, leave_edges, leave_nodes, reach
from schemaquake.results.engines.steps import Document, each
from schemaquake.results.engines.telling import Told, read_events
from schemaquake.results.store.parquet_footer import row_groups

__all__ = ["TransactionCheck"]

_TIMES_OF_A_SHARE: Final = 3
"""A share of the keys takes so many times the memory of what is written of it, and more where it has many transactions."""
_NOTHING: Final[Mapping[str, str]] = {
    "list-append": "no transaction appends to lists or reads them",
    "rw-register": "no transaction reads or writes registers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCheck:
    """One check. `scratch` is a folder that all tasks see.

    `table`: a document with a `key`, and only transactions of that table are judged; None: there is only one.
    """

    engine: Engine
    ranges: Ranges
    scratch: Path
    question: Question
    promises: Sequence[str]
    table: Mapping[str, str | None] | None

    def verdict(self) -> Verdict:
        """The verdict. Raises HistoryError and PlanError."""
        question, now = self.question, time.monotonic()
        laid = self._lay_out()
        now = question.lap("transactions", now)
        if not sum(part["count"] for part in laid):
            return question.nothing(_NOTHING[question.checker], {})
        self._refuse_what_does_not_fit(laid)
        documents, shares, stats = self._judge_keys(laid)
        now = question.lap("orders", now)
        spread = [share["dependencies"] for share in shares] + [
            part["dependencies"] for part in laid if "dependencies" in part
        ]
        members, spans = self._reached(laid, spread)
        now = question.lap("dependencies", now)
        left = self._left(laid, shares, members, spans)
        cycles = left.cycles(question)
        now = question.lap("cycles", now)
        counts = _counts(shares)
        anomalies = self._told(laid, documents, shares, cycles)
        question.lap("explanations", now)
        findings = Findings(
            transactions=sum(part["count"] for part in laid),
            counts=counts,
            cycles=cycles,
            anomalies=anomalies,
            related=lambda: any(share["dependent"] for share in shares) or self._ordered(laid),
            stats=stats,
        )
        verdict = concluded(findings, question)
        return with_undecided(verdict, question) if question.checker == "rw-register" else verdict

    # ── by ranges: transactions ──────────────────────────────────────────────────────────────────────────────────────

    def _lay_out(self) -> list[Document]:
        """What `lay_out` found of every range, and of what begins in one and ends in another."""
        asked = {
            "kind": self.question.checker,
            "table": self.table,
            "rows": self.ranges.rows,
            "ranges": list(self.ranges.first),
            "shares": self._shares,
            "order": self.question.order,
            "folder": str(self.scratch),
        }
        laid = each(self.engine, scatter, self.ranges.documents(**asked))
        events, rows = joined(read_whole([part["frontier"] for part in laid], FRONTIER))
        laid.append(lay_out(events, rows, {**asked, "range": "across"}, consecutive=False))
        if self.question.order == "process":
            laid.append(self._between_segments(laid))
        return laid

    @property
    def _shares(self) -> int:
        """How many shares of the keys there are."""
        return 2 * self.engine.width

    def _between_segments(self, laid: Sequence[Document]) -> Document:
        """The steps of processes from one segment to the next."""
        segments = read_whole([part["segments"] for part in laid], SEGMENTS)
        segments = segments.sort_by([("process", "ascending"), ("invoked", "ascending")])
        same = np.flatnonzero(np.diff(segments["process"].to_numpy()) == 0)
        source, target = segments["last"].to_numpy()[same], segments["first"].to_numpy()[same + 1]
        one, other = (segments[name].to_numpy() for name in ("last_ok", "first_ok"))
        edges = source, target, np.full(len(source), ORDER, np.int8)
        return {
            "count": 0,
            "micro_operations": 0,
            "nodes": [],
            "operations": [],
            "ordered": bool((one[same] & other[same + 1]).any()),
            "dependencies": write_edges(self.scratch, "process-across", edges, self.ranges.first),
        }

    def _ordered(self, laid: Sequence[Document]) -> bool:
        """Whether any committed transaction comes before another one by the order alone."""
        if self.question.order == "process":
            return any(part["ordered"] for part in laid)
        parts = [part for part in laid if part["count"]]
        return self.question.order == "realtime" and (
            min(part["first_end"] for part in parts) < max(part["last_begin"] for part in parts)
        )

    def _refuse_what_does_not_fit(self, laid: Sequence[Document]) -> None:
        """Raise HistoryError if a share of the keys takes more memory than there is: keys are not judged in pieces."""
        allowed = self.engine.memory_bytes
        if allowed is None:
            return
        sizes: dict[str, list[int]] = {}
        for share in range(self._shares):
            size = 0
            for part in by_part([part["operations"] for part in laid if part["micro_operations"]], share):
                if part["file"] not in sizes:
                    sizes[part["file"]] = [group.size for group in row_groups(Path(part["file"]))]
                size += sizes[part["file"]][part["group"]]
            if _TIMES_OF_A_SHARE * size > allowed:
                raise HistoryError(
                    f"what was asked of one key, or read of it, takes some {_TIMES_OF_A_SHARE * size >> 20} MiB, and there "
                    f"are {allowed >> 20}: a key cannot be judged in pieces. Allow more (--memory), where there is more"
                )

    # ── by keys ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _key_documents(self, laid: Sequence[Document], doubted: Collection[str]) -> list[Document]:
        parts = [part for part in laid if part["micro_operations"]]
        low, high = min((part["low"] for part in parts), default=0), max((part["high"] for part in parts), default=0)
        written = [part["operations"] for part in parts]
        asked = {
            "kind": self.question.checker,
            "by_appearance": numbered_by_appearance(low, high, sum(part["micro_operations"] for part in parts)),
            "promises": list(self.promises),
            "doubted": sorted(doubted),
            "told": sorted(self.question.forbidden),
            "ranges": list(self.ranges.first),
            "folder": str(self.scratch),
        }
        return [{"share": share, "operations": by_part(written, share), **asked} for share in range(self._shares)]

    def _judge_keys(self, laid: Sequence[Document]) -> tuple[list[Document], list[Document], Mapping[str, JSON]]:
        """What the shares of the keys were asked, what they found, and what is told of all of them.

        A promise that any key breaks is not relied on for any key: then all are judged once more without it.
        """
        doubted: set[str] = set()
        while True:
            documents = self._key_documents(laid, doubted)
            shares = each(self.engine, judge_keys, documents)
            broken = {promise for share in shares for promise in share.get("broken", ())}
            if broken <= doubted:
                break
            doubted.add(next(promise for promise in TAKEN if promise in broken - doubted))
        if self.question.checker == "list-append":
            return documents, shares, {}
        kept = [promise for promise in TAKEN if promise in self.promises and promise not in doubted]
        stats: dict[str, JSON] = {
            "promises": kept,
            "broken-promises": [promise for promise in TAKEN if promise in doubted],
            "unordered-keys": sum(share["unordered"] for share in shares),
        }
        return documents, shares, stats

    # ── what may lie on a cycle ──────────────────────────────────────────────────────────────────────────────────────

    def _reached(self, laid: Sequence[Document], spread: Sequence[Document]) -> tuple[list[str], Any]:
        """Files of the members of components, and the spans in which real time is broken."""
        nodes = [part["nodes"] for part in laid if part["nodes"]]
        documents: list[Document] = [
            {
                "range": number,
                "ranges": list(self.ranges.first),
                "nodes": by_part(nodes, number),
                "edges": by_part([part["edges"] for part in spread], number),
                "crossings": by_part([part["crossings"] for part in spread], number),
                "clip": self.question.order == "realtime",
                "folder": str(self.scratch),
                "handed": [],
                "before": None,
                "round": 0,
            }
            for number in range(len(self.ranges))
        ]
        asking, turn = documents, 0
        asks: dict[int, set[int]] = {}
        while asking:
            found = each(self.engine, reach, asking)
            for document, answer in zip(asking, found, strict=True):
                document["before"] = answer["handed"]
                asks[document["range"]] = set(answer["asks"])
            changed = {document["range"] for document, answer in zip(asking, found, strict=True) if answer["changed"]}
            turn += 1
            for document in documents:
                from_others = sorted(asks[document["range"]])
                document["handed"] = [documents[other]["before"] for other in from_others]
                document["round"] = turn
            asking = [document for document in documents if asks[document["range"]] & changed]
        gathered = each(self.engine, gather, documents)
        searched = list(gathered)
        across = [part["across"] for part in gathered if part["crossing"]]
        if across:
            more = [
                {"across": across, "shares": self._shares, "share": share, "folder": str(self.scratch)}
                for share in range(self._shares)
            ]
            searched += each(self.engine, close, more)
        return [part["members"] for part in searched if part["members"]], joined_spans(gathered)

    def _left(self, laid: Sequence[Document], shares: Sequence[Document], members: list[str], spans: Any) -> _Left:
        if not members and not spans[0]:  # the common case: nothing lies on a cycle
            return _Left(NODES.empty_table(), EDGES.empty_table(), JUNCTIONS.empty_table())
        asked = {"members": members, "spans": spans, "folder": str(self.scratch)}
        written = [part["nodes"] for part in laid if part["nodes"]]
        nodes = each(
            self.engine,
            leave_nodes,
            [{"range": number, "nodes": by_part(written, number), **asked} for number in range(len(self.ranges))],
        )
        edges = each(
            self.engine,
            leave_edges,
            [
                {
                    "share": number,
                    "nodes": share["nodes"],
                    "edges": [reference for reference in share["dependencies"]["edges"] if reference],
                    "junctions": share["junctions"],
                    **asked,
                }
                for number, share in enumerate(shares)
            ],
        )
        return _Left(
            nodes=read_whole([part["nodes"] for part in nodes], NODES).sort_by("id"),
            edges=read_whole([part["edges"] for part in edges], EDGES),
            junctions=read_whole([part["junctions"] for part in edges], JUNCTIONS),
        )

    # ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _told(
        self, laid: Sequence[Document], documents: Sequence[Document], shares: Sequence[Document], cycles: Cycles
    ) -> list[Anomaly]:
        """The prohibited findings, as the local check tells them."""
        single: dict[str, list[Document]] = {}
        for share in shares:
            for name, found in share["told"].items():
                single.setdefault(name, []).extend(found)
        first = {name: sorted(found, key=lambda one: one["order"])[:SHOWN_MOST] for name, found in single.items()}
        shown = [witness for witness in cycles.witnesses if witness.kind in self.question.forbidden]
        ids = {id_ for found in first.values() for one in found for id_ in one["transactions"]}
        ids |= {id_ for witness in shown for id_ in witness.cycle.nodes}
        if not ids:
            return []
        told = self._read(laid, ids)
        questions = {question for witness in shown for question in _questions(witness)}
        answers = self._ask(documents, told, questions)
        anomalies = [told.contradiction(name, one) for name in sorted(first) for one in first[name]]
        return anomalies + [told.cycle(witness, answers, self.question.order) for witness in shown]

    def _read(self, laid: Sequence[Document], ids: Collection[int]) -> Told:
        """The transactions of these ids from the history."""
        wanted = np.array(sorted(ids), np.int64)
        written = [part["nodes"] for part in laid if part["nodes"]]
        owners = owner(wanted, self.ranges.first)
        parts = [reference for number in np.unique(owners) for reference in by_part(written, int(number))]
        nodes = read_parts(parts, NODES)
        nodes = nodes.filter(pa.array(np.isin(nodes["id"].to_numpy(), wanted)))
        invoked, last = nodes["invoked"].to_numpy(), nodes["id"].to_numpy()
        rows = np.unique(np.concatenate([invoked, last[last < self.ranges.rows]]))
        place = owner(rows, self.ranges.first)
        documents = [
            {**document, "wanted": rows[place == document["range"]].tolist()}
            for document in self.ranges.documents(folder=str(self.scratch))
            if (place == document["range"]).any()
        ]
        files = [part["events"] for part in each(self.engine, read_events, documents)]
        return Told.of_events(files, self.question.checker, dict(zip(invoked.tolist(), last.tolist(), strict=True)))

    def _ask(
        self, documents: Sequence[Document], told: Told, questions: Collection[tuple[int, int, int]]
    ) -> Mapping[tuple[int, int, int], list[Document]]:
        """Why transactions come before others, from the shares of the keys that both touch."""
        asked: dict[int, list[tuple[int, int, int]]] = {}
        for question in sorted(questions):
            both = np.array(sorted(told.keys(question[0]) & told.keys(question[1])), np.int64)
            for share in np.unique(share_of(both, self._shares)).tolist():
                asked.setdefault(int(share), []).append(question)
        order = sorted(asked)
        answers = each(self.engine, reasons, [{**documents[share], "questions": asked[share]} for share in order])
        found: dict[tuple[int, int, int], list[Document]] = {}
        for share, answer in zip(order, answers, strict=True):
            for question, reason in zip(asked[share], answer["reasons"], strict=True):
                if reason is not None:
                    found.setdefault(question, []).append(reason)
        return found


def _questions(witness: Found) -> list[tuple[int, int, int]]:
    """The dependencies of a cycle."""
    nodes = witness.cycle.nodes
    following = (*nodes[1:], nodes[0])
    return [
        (one, other, kind)
        for one, other, kind in zip(nodes, following, witness.cycle.kinds, strict=True)
        if kind != ORDER
    ]


def _counts(shares: Sequence[Document]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for share in shares:
        for name, count in share["counts"].items():
            counts[name] = counts.get(name, 0) + count
    return counts


@dataclass(frozen=True, slots=True)
class _Left:
    """The part of the graph in which every cycle lies."""

    nodes: pa.Table
    edges: pa.Table
    junctions: pa.Table

    def cycles(self, question: Question) -> Cycles:
        """The cycles, their nodes as ids."""
        ids = self.nodes["id"].to_numpy()
        junctions = self.junctions.sort_by([(name, "ascending") for name in ("sort", "rank", "rank_at", "number")])
        names = np.concatenate([ids, junctions["id"].to_numpy()])
        order = np.argsort(names, kind="stable")
        source, target = (
            order[np.searchsorted(names[order], self.edges[name].to_numpy())].astype(np.int32)
            for name in ("source", "target")
        )
        kind = self.edges["kind"].to_numpy()
        found = find_cycles(
            _transactions(self.nodes),
            graph(len(ids), len(names), source, target, kind),
            question.order,
            deadline=question.began + question.limit_s,
        )
        witnesses = [
            replace(one, cycle=Cycle(tuple(int(ids[node]) for node in one.cycle.nodes), one.cycle.kinds))
            for one in found.witnesses
        ]
        return Cycles(counts=found.counts, witnesses=witnesses, undecided=found.undecided, late=found.late)


def _transactions(nodes: pa.Table) -> Transactions:
    """Transactions without what they did, whose places in time count from 0."""
    invoked, completed = nodes["invoked"].to_numpy(), nodes["completed"].fill_null(-1).to_numpy()
    moments = np.unique(np.concatenate([invoked, completed[completed >= 0]]))
    unknown = nodes["status"].to_numpy() == INFO
    none: npt.NDArray[Any] = np.zeros(0, np.int64)
    return Transactions(
        status=nodes["status"].to_numpy().copy(),
        process=nodes["process"].to_numpy().copy(),
        invoked=np.searchsorted(moments, invoked).astype(np.int32),
        completed=np.where(unknown, NEVER, np.searchsorted(moments, completed)).astype(np.int32),
        index=nodes["index"].to_numpy().copy(),
        first=np.zeros(len(nodes) + 1, np.int64),
        f=none.astype(np.int8),
        key=none.astype(np.int32),
        value=none,
        given=none.astype(np.bool_),
        begin=none,
        end=none,
        elements=none,
        keys=none,
        time=none,
        memory=pa.chunked_array([], pa.int64()),
    )

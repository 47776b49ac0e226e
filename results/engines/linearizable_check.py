"""Linearizable check: one history file, judged key by key by many tasks; an object is linearizable if each of its keys is.

By ranges of the file each operation goes to the share of its key (both of its events, by the key of the invocation), then
each share is judged by the checker itself. Herlihy and Wing (1990) prove that nothing is lost: linearizability is local.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemaquake.checkers.linearizability.linearizable import TOLD_MOST, Linearizable
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, combine, merge_doubts, merge_stats
from schemaquake.results.engines.deadline import Overdue, deadline
from schemaquake.results.engines.engine import Engine
from schemaquake.results.engines.frontier import FRONTIER, apart, joined
from schemaquake.results.engines.parts import by_part, read_parts, read_whole, write_parts, write_whole
from schemaquake.results.engines.ranges import Ranges, read_range
from schemaquake.results.engines.steps import Document, each

__all__ = ["LinearizableCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearizableCheck:
    """One check. `scratch` is a folder that all tasks see."""

    engine: Engine
    ranges: Ranges
    scratch: Path
    checker: Linearizable
    limit_s: float

    def verdict(self) -> Verdict:
        """The verdict. Raises HistoryError."""
        shares = 2 * self.engine.width
        asked = {"shares": shares, "folder": str(self.scratch)}
        laid = each(self.engine, _scatter, self.ranges.documents(**asked))
        events, _ = joined(read_whole([part["frontier"] for part in laid], FRONTIER))
        laid.append(_share_out(events, {**asked, "range": "across"}))
        names = (pq.read_schema(self.ranges.file).metadata or {}).get(b"names", b"{}").decode()
        step = functools.partial(_judge, self.checker, self.limit_s, names)
        written = [part["events"] for part in laid]
        documents = [{"events": by_part(written, share)} for share in range(shares)]
        found = each(self.engine, step, [document for document in documents if document["events"]])
        return _combined(self.checker.name, [Verdict.from_json(one) for one in found])


def _scatter(document: Document) -> Document:
    """The operations of a range by key, and what the range cannot pair."""
    events = read_range(document)
    rows = document["first"] + np.arange(len(events))
    whole, frontier = apart(events, rows, document["range"])
    file = Path(document["folder"]) / f"frontier-{document['range']}.parquet"
    shared_out = _share_out(events.filter(pa.array(whole)), document)
    return {**shared_out, "frontier": write_whole(file, frontier)}


def _share_out(events: pa.Table, document: Document) -> Document:
    """Both events of every operation to the share of its key; the nemesis' to none."""
    invocation, completion = ends(events)
    share = np.full(len(events), document["shares"])
    share[invocation] = _share_of(events["key"], document["shares"])[invocation]
    answered = completion >= 0
    share[completion[answered]] = share[invocation[answered]]
    file = Path(document["folder"]) / f"events-{document['range']}.parquet"
    return {"events": write_parts(file, events, share, document["shares"])}


def _share_of(keys: pa.ChunkedArray, shares: int) -> npt.NDArray[np.int64]:
    """The share of each key, the same in every process."""
    encoded = keys.combine_chunks().dictionary_encode()
    known = [zlib.crc32(key.encode()) % shares for key in encoded.dictionary.to_pylist()]
    found: npt.NDArray[np.int64] = np.array([*known, 0], np.int64)[encoded.indices.fill_null(len(known)).to_numpy()]
    return found


def _judge(checker: Linearizable, limit_s: float, names: str, document: Document) -> Document:
    """The checker's verdict on one share of the keys."""
    events = read_parts(document["events"], HISTORY)
    events = events.take(pc.sort_indices(events["index"])).replace_schema_metadata({b"names": names.encode()})
    try:
        with deadline(2 * limit_s):
            verdict = checker.check(Records.of(events), limit_s=limit_s)
    except Overdue:
        text = f"some keys were given up: they did not end by themselves within twice the limit of {limit_s:g} s"
        verdict = Verdict.unknown(checker.name, Doubt("time", text))
    told: Document = orjson.loads(orjson.dumps(verdict.to_json(), option=orjson.OPT_SERIALIZE_NUMPY))
    return told


_BY_SEARCH: Final = "search"


def _combined(name: str, verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict from those on the shares. As many anomalies are told as of one history, and the same."""
    judged = [verdict for verdict in verdicts if not verdict.judged_nothing]
    if not judged:
        return verdicts[0] if verdicts else Linearizable().check(Records.of(HISTORY.empty_table()), limit_s=1)
    anomalies = sorted((anomaly for verdict in judged for anomaly in verdict.anomalies), key=_told_first)
    return Verdict(
        valid=combine(verdict.valid for verdict in judged),
        checker=name,
        anomalies=tuple(anomalies[:TOLD_MOST]),
        stats=merge_stats(verdict.stats for verdict in judged),
        doubts=merge_doubts(doubt for verdict in judged for doubt in verdict.doubts),
    )


def _told_first(anomaly: Anomaly) -> tuple[bool, str]:
    """What zones refute comes before what a search does, then by key: as in one history."""
    evidence: Mapping[str, Any] = anomaly.evidence if isinstance(anomaly.evidence, dict) else {}
    return evidence.get("why") == _BY_SEARCH, anomaly.objects[0] if anomaly.objects else ""

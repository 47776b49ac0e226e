"""Questions: operations of clients that a run of ours cannot have asked as they were recorded.

Each worker has one coordinator, so each process number asks one node. An answer repeats what it acknowledges: the micro-operations of a
transaction, and the value of a write. A condition that always holds is never answered as one that did not. All reads of a set or counter
say at which level they were made, or none does; they agree on the level of additions, and none alone asks at another level than all others.
The readings of one final phase are those of the other one, so one that is recorded in the other phase alone is missing.

For histories with the conductor's notes alone, as `schemaquake.checkers.run.answers`, which it stands beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import READ_LEVELS
from schemaquake.checkers.findings.explanation import listing
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import CONDITION_FALSE, NEMESIS
from schemaquake.harness.model.queries import ECHOED_WRITES, READS
from schemaquake.harness.model.records import plain

__all__ = ["find_strange_questions"]

_REPEATING: Final = (*ECHOED_WRITES, "transfer")
"""Writes whose answers repeat the value that was asked for."""
_ALWAYS_HOLDS: Final = ("write", "txn")
"""Conditional writes whose condition holds for every row, and for one that is not there."""
_READINGS: Final = (*sorted(READS), "txn", "read-rows")
_FINAL: Final = ("settled", "restarted")
_EXAMPLES: Final = 3
_AT_LEVELS: Final = ("get", "put", "probe")
"""Requests that each workload makes at one level of its own."""
_LEVEL: Final = r'"consistency":\s*"(?P<level>[^"]+)"'
_SEVERAL: Final = 5
"""How many reads of a key, or requests of a kind, at one level make a single one at another level strange."""

_Positions = npt.NDArray[np.int64]


def find_strange_questions(evidence: Evidence) -> Iterator[str]:
    """Yield what is wrong with the questions of a run with notes. Raises HistoryError."""
    invocation, completion = evidence.ends()
    answered = completion >= 0
    asked, answers = evidence.history.take(invocation[answered]), evidence.history.take(completion[answered])
    acknowledged = pc.equal(plain(answers.select(["type"]))["type"], "ok")
    yield from _find_wandering_processes(evidence)
    yield from _find_other_transactions(asked.filter(acknowledged), answers.filter(acknowledged))
    yield from _find_other_writes(asked.filter(acknowledged), answers.filter(acknowledged))
    yield from _find_false_conditions(asked, answers)
    yield from _find_odd_levels(asked)
    yield from _find_lone_requests(asked)
    yield from _find_one_sided_readings(evidence, evidence.history.take(invocation))


def _find_wandering_processes(evidence: Evidence) -> Iterator[str]:
    """Yield how many process numbers asked more than one coordinator: a worker has one, and keeps it under its next number."""
    events = plain(evidence.history.select(["process", "node"]))
    clients = events.filter(pc.and_(pc.not_equal(events["process"], NEMESIS), pc.is_valid(events["node"])))
    asked = clients.group_by("process", use_threads=False).aggregate([("node", "count_distinct")])
    found = asked.filter(pc.greater(asked["node_count_distinct"], 1))["process"].to_pylist()
    if found:
        yield f"{len(found)} processes asked more than one coordinator, the first of them process {min(found)}"


def _find_other_transactions(asked: pa.Table, answers: pa.Table) -> Iterator[str]:
    """Yield how many transactions were answered with other micro-operations than were asked for."""
    which = pc.is_valid(asked["mops"])
    first, second = (rows.filter(which)["mops"].combine_chunks() for rows in (asked, answers))
    if not len(first):
        return
    lengths = [pc.fill_null(pc.list_value_length(mops), 0).to_numpy(zero_copy_only=False) for mops in (first, second)]
    wrong = lengths[0] != lengths[1]
    same = pa.array(~wrong)
    flat = [pc.list_flatten(mops.filter(same)) for mops in (first, second)]
    owners = np.repeat(np.flatnonzero(~wrong), lengths[0][~wrong])
    fields = [{name: pc.struct_field(mops, name) for name in ("f", "k", "v")} for mops in flat]
    reads = pc.is_in(plain(pa.table({"f": fields[0]["f"]}))["f"], value_set=pa.array(["r", "read"]))
    for name in ("f", "k", "v"):
        one, other = (plain(pa.table({name: each[name]}))[name] for each in fields)
        alike = pc.or_(
            pc.fill_null(pc.equal(one, other), fill_value=False), pc.and_(pc.is_null(one), pc.is_null(other))
        )
        if name == "v":  # a read has what it found
            alike = pc.or_(alike, reads)
        wrong[owners[~np.asarray(alike.to_numpy(zero_copy_only=False), bool)]] = True
    if wrong.any():
        index = asked.filter(which)["index"][int(np.argmax(wrong))].as_py()
        yield f"{counted(int(wrong.sum()), 'transaction was', 'transactions were')} answered with other micro-operations than were asked for, the first of them op {index}"


def _find_other_writes(asked: pa.Table, answers: pa.Table) -> Iterator[str]:
    """Yield the kinds of writes that were acknowledged with another value than was asked for, where others repeat theirs."""
    names = plain(asked.select(["f"]))["f"]
    alike = pc.fill_null(pc.equal(asked["value"], answers["value"]), fill_value=False)
    differs = pc.and_(pc.invert(alike), pc.and_(pc.is_valid(asked["value"]), pc.is_valid(answers["value"])))
    for f in _REPEATING:
        of_kind = pc.equal(names, f)
        other = asked.filter(pc.and_(of_kind, differs))
        if len(other) and pc.any(pc.and_(of_kind, alike)).as_py():
            first = other["index"][0].as_py()
            yield f"{counted(len(other), f'operation {f} was', f'operations {f} were')} acknowledged with another value than was asked for, the first of them op {first}"


def _find_false_conditions(asked: pa.Table, answers: pa.Table) -> Iterator[str]:
    """Yield how many writes were answered as if their condition did not hold, which always holds."""
    writes = pc.is_in(plain(asked.select(["f"]))["f"], value_set=pa.array(_ALWAYS_HOLDS))
    refused = pc.fill_null(pc.starts_with(answers["error"], CONDITION_FALSE), fill_value=False)
    found = asked.filter(pc.and_(writes, refused))
    if len(found):
        first = found["index"][0].as_py()
        yield f"{counted(len(found), 'write was not applied although its', 'writes were not applied although their')} condition always holds, the first of them op {first}"


def _find_odd_levels(asked: pa.Table) -> Iterator[str]:
    """Yield what is wrong with the levels that reads of a set or counter name: of themselves, and of the additions to their key."""
    reads = asked.filter(pc.and_(pc.equal(plain(asked.select(["f"]))["f"], "read"), pc.is_valid(asked["value"])))
    by_key: dict[str | None, list[tuple[int, Mapping[str, Any]]]] = {}
    for row in plain(reads.select(["index", "key", "value"])).to_pylist():
        value = orjson.loads(row["value"])
        if isinstance(value, dict):
            by_key.setdefault(row["key"], []).append((row["index"], value))
    for key, found in by_key.items():
        whole = [(index, value) for index, value in found if set(READ_LEVELS) <= value.keys()]
        lacking = [index for index, value in found if not set(READ_LEVELS) <= value.keys()]
        if whole and lacking:
            yield f"{counted(len(lacking), f'read of {key} does', f'reads of {key} do')} not say at which levels they and additions were made, the first of them op {lacking[0]}"
        additions = {str(value["additions"]) for _, value in whole}
        if len(additions) > 1:
            yield f"reads of {key} say that additions to it were made at {listing(sorted(additions))}"
        yield from _find_lone_level(key, {index: str(value["consistency"]) for index, value in whole})


def _find_lone_level(key: str | None, levels: Mapping[int, str]) -> Iterator[str]:
    """Yield the read of a key that asked at another level than all others. Where reads ask at several, each is asked more than once."""
    if (found := _find_lone(levels)) is not None:
        lone, usual = found
        yield f"op {lone} read {key} at {levels[lone]}, and {len(levels) - 1} other reads of it asked at {usual}"


def _find_lone_requests(asked: pa.Table) -> Iterator[str]:
    """Yield the get, put or probe that asked at another level than all others of its kind, of which there are several."""
    names = plain(asked.select(["f"]))["f"]
    for f in _AT_LEVELS:
        rows = asked.filter(pc.equal(names, f))
        if not len(rows):
            continue
        named = pc.struct_field(pc.extract_regex(rows["value"], _LEVEL), "level").to_pylist()
        levels = dict(zip(rows["index"].to_pylist(), named, strict=True))
        if (found := _find_lone(levels)) is not None and None not in {levels[found[0]], found[1]}:
            yield f"op {found[0]}, a {f}, asked at {levels[found[0]]}, and all {len(levels) - 1} others at {found[1]}"


def _find_lone(levels: Mapping[int, str | None]) -> tuple[int, str | None] | None:
    """Return the operation whose level no other one has, and that of all others, if these are several and have one; or None."""
    counts = Counter(levels.values()).most_common()
    if [count for _, count in counts[1:]] != [1] or counts[0][1] < _SEVERAL:
        return None
    usual = counts[0][0]
    return next(index for index, level in levels.items() if level != usual), usual


# ── final readings ───────────────────────────────────────────────────────────────────────────────────────────────────


def _find_one_sided_readings(evidence: Evidence, asked: pa.Table) -> Iterator[str]:
    """Yield how many readings of one final phase the other one lacks, among those of nodes that served in both."""
    notes = evidence.notes
    spans = [_span(evidence, f"final-{phase}") for phase in _FINAL]
    cut = {phase.removeprefix("final-") for phase, _ in notes.shortened}
    if not notes.planned or None in spans or cut & set(_FINAL):
        return
    events = plain(asked.select(["time", "process", "f", "node", "key", "value", "mops"]))
    wanted = pc.and_(pc.is_in(events["f"], value_set=pa.array(_READINGS)), pc.not_equal(events["process"], NEMESIS))
    begins = [span[0] for span in spans if span is not None]
    away = frozenset().union(*(notes.down(time) for time in begins))
    asked_in: list[dict[str, set[str]]] = []
    for begin, end in (span for span in spans if span is not None):
        within = pc.and_(pc.greater_equal(events["time"], begin), pc.less_equal(events["time"], end))
        through: dict[str, set[str]] = {}
        for row in events.filter(pc.and_(wanted, within)).to_pylist():
            through.setdefault(_question(row), set()).add(row["node"])
        asked_in.append(through)

    def serves(node: str) -> bool:
        return node not in away and all(notes.membership.serves(node, begin) for begin in begins)

    def is_moved(question: str) -> bool:
        """Return whether each phase asked that of one node, where one of the two nodes did not serve in both."""
        nodes = [through.get(question, set()) for through in asked_in]
        return [len(each) for each in nodes] == [1, 1] and not all(map(serves, set().union(*nodes)))

    read = [
        {(question, node) for question, nodes in through.items() for node in filter(serves, nodes)}
        for through in asked_in
    ]
    for phase, ours, others in zip(_FINAL, read, reversed(read), strict=True):
        missing = sorted(f"{question} through {node}" for question, node in others - ours if not is_moved(question))
        if 0 < len(missing) < len(ours & others):  # else these are other readings by intention
            text = f"{len(missing)} readings of the other final phase were not asked for when {phase}"
            yield f"{text}: {listing(missing[:_EXAMPLES])}"


def _span(evidence: Evidence, phase: str) -> tuple[int, int] | None:
    """Return the times (ns) of the begin and the end of a phase; None: it was not carried out as a whole."""
    times = [time for time, name, _ in evidence.notes.phases if name == phase]
    return (times[0], times[-1]) if len(times) > 1 else None


def _question(row: Mapping[str, Any]) -> str:
    """Return the text of a reading, alike through all nodes and in both final phases; a row that is written for a phase has a key of its own."""
    value = None if row["value"] is None else orjson.loads(row["value"])
    if isinstance(value, dict):
        value = {name: sorted(each) if name == "where" else each for name, each in value.items() if name != "phase"}
    mops = [[mop["f"], mop["k"], mop["v"]] for mop in row["mops"] or ()]
    request = value if row["mops"] is None else mops
    return f"{row['f']} {row['key'] or ''} {orjson.dumps(request).decode()}"

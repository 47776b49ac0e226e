"""Judge: one verdict on a run, from all checkers.

A checker of scope `run` judges everything at once, one of scope `keyspace` each keyspace apart (`results.keyspaces`);
the parts of one checker are combined into its verdict, the verdicts of all checkers into the run's. The local engine
and Spark call the same function and give the same verdict.

Unknown is never good news, with one careful exception. A run has keyspaces, and kinds of objects, of which a checker
has nothing to say, and such a checker answers `unknown` with a reason that begins with "nothing to judge". That answer

- of a keyspace is left out if the same checker judged another one; else the checker's verdict is unknown;
- of a whole checker is left out of the run's verdict only if nobody asked for that checker by name, another one did
  judge, and `observed` (was every node read in the end, was any schema change acknowledged?) says that all is there.

Every other `unknown` counts, and so does a keyspace in which an operation succeeded and nobody judged anything.
A checker that crashes, contradicts itself or does not end makes its own part unknown, and says how.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from harness.errors import PlanError
from harness.protocols import Checker
from harness.records import Records
from harness.registry import load, load_all
from harness.verdict import Verdict
from results.combination import in_order, of_all_checkers, of_all_keyspaces, says_nothing
from results.deadline import Overdue, deadline
from results.engine import Engine, Local, choose, shares
from results.keyspaces import Keyspaces
from results.sources import InMemory, OnDisk, Source, Survey
from results.store import Store, write_table

__all__ = ["judge"]

_UNITS: Final = pa.schema(
    [
        ("unit", pa.int32()),
        ("checker", pa.int32()),  # of scope run: its position
        ("keyspaces", pa.list_(pa.string())),  # of scope keyspace: what every such checker judges; else null
    ]
)
_PARTS: Final = pa.schema([("checker", pa.int32()), ("keyspace", pa.string()), ("verdict", pa.string())])


def judge(
    subject: Store | Records,
    *,
    checkers: Sequence[str | Checker] | None = None,
    engine: str = "auto",
    master: str | None = None,
    limit_s: float = 60,
) -> Verdict:
    """The verdict on a run, or on anybody's records. Its `parts` are the checkers', its anomalies all of theirs.

    `checkers` are registered names or checkers themselves; None: every registered one. `limit_s` is what one checker
    may take (of scope `keyspace`: for all the keyspaces of one task); twice that ends it. A checker that wants INFO
    and DEBUG entries of the nodes' logs names them in an attribute `noted`, a sequence of patterns.
    Raises PlanError for an unknown checker or engine, HistoryError for a run without readable records, EnvironmentLacks if
    Spark is asked for where it cannot start.
    """
    chosen = _chosen(checkers)
    events = subject.event_count() if isinstance(subject, Store) else len(subject.history)
    with ExitStack() as stack:
        carrier = stack.enter_context(choose(engine, events=events, master=master))
        source = _source(subject, chosen, carrier, master, stack)
        survey = source.survey()
        step = _Judging(source, chosen, limit_s)
        found = carrier.carry(step, _units(chosen, survey, carrier.width), _PARTS)
    return _combined(chosen, found, survey, by_name=checkers is not None)


def _chosen(checkers: Sequence[str | Checker] | None) -> tuple[Checker, ...]:
    if checkers is None:
        return tuple(load_all("checkers").values())
    chosen = tuple(load("checkers", checker) if isinstance(checker, str) else checker for checker in checkers)
    names = [checker.name for checker in chosen]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f'checker "{name}" is asked for twice')
    return chosen


def _source(
    subject: Store | Records, checkers: Sequence[Checker], engine: Engine, master: str | None, stack: ExitStack
) -> Source:
    """The records where the engine's tasks can reach them."""
    noted = [pattern for checker in checkers for pattern in getattr(checker, "noted", ())]
    if isinstance(engine, Local):
        return InMemory(subject.records(noted=noted) if isinstance(subject, Store) else subject)
    if isinstance(subject, Store):
        subject.write_analysis("logs", subject.read_logs(noted=noted))
        paths = ("history.parquet", "observations.parquet", "analysis/logs.parquet")
        return OnDisk(*(subject.path(name).resolve() for name in paths))
    if master is not None and not master.startswith("local"):
        raise PlanError("records in memory cannot be sent to a Spark cluster: put them into a store that it can read")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="schemaquake-")))
    tables = {"history": subject.history, "observations": subject.observations, "logs": subject.logs}
    for name, table in tables.items():
        write_table(folder / f"{name}.parquet", table)
    return OnDisk(*(folder / f"{name}.parquet" for name in tables))


# ── the work, shared out ─────────────────────────────────────────────────────────────────────────────────────────────


def _units(checkers: Sequence[Checker], survey: Survey, width: int) -> pa.Table:
    """A unit for each checker of scope `run`, and for each share of the keyspaces."""
    units: list[dict[str, Any]] = [
        {"checker": position, "keyspaces": None} for position, checker in enumerate(checkers) if checker.scope == "run"
    ]
    if len(units) < len(checkers):
        units += [{"checker": None, "keyspaces": share} for share in shares(survey.weights, width)]
    return pa.Table.from_pylist([{"unit": number, **unit} for number, unit in enumerate(units)], schema=_UNITS)


@dataclass(frozen=True, slots=True)
class _Judging:
    """The step: the verdicts of one unit, as `_PARTS`."""

    source: Source
    checkers: tuple[Checker, ...]
    limit_s: float

    def __call__(self, group: pa.Table) -> pa.Table:
        rows = [row for unit in group.to_pylist() for row in self._verdicts(unit)]
        return pa.Table.from_pylist(rows, schema=_PARTS)

    def _verdicts(self, unit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if unit["keyspaces"] is None:
            position = unit["checker"]
            verdict = _verdict(self.checkers[position], self.source.read(None), self.limit_s, self.limit_s)
            yield {"checker": position, "keyspace": None, "verdict": verdict}
            return
        keyspaces = Keyspaces(self.source.read(unit["keyspaces"]))
        left_s = dict.fromkeys(range(len(self.checkers)), self.limit_s)
        for keyspace in unit["keyspaces"]:
            part = keyspaces.part(keyspace)
            for position, checker in enumerate(self.checkers):
                if checker.scope == "keyspace":
                    began = time.monotonic()
                    verdict = _verdict(checker, part, left_s[position], self.limit_s)
                    left_s[position] -= time.monotonic() - began
                    yield {"checker": position, "keyspace": keyspace, "verdict": verdict}


def _verdict(checker: Checker, records: Records, left_s: float, limit_s: float) -> str:
    """One checker's verdict on one part, as JSON; unknown if it fails to give one."""
    if left_s <= 0:
        return _json(_unknown(checker, f"its time limit of {limit_s:g} s had passed before it came to this"))
    try:
        with deadline(limit_s + left_s):
            return _json(_coherent(checker.check(records, limit_s=left_s)))
    except Overdue:
        return _json(
            _unknown(checker, f"it was ended: it did not end by itself within twice its limit of {limit_s:g} s")
        )
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a checker, the others are still to be heard
        return _json(_unknown(checker, f"it crashed, which says nothing about the cluster.\n{_trace(error)}"))


def _trace(error: Exception) -> str:
    """The traceback from the checker on: who called it is the engine's affair."""
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, below)).rstrip()


def _coherent(verdict: Verdict) -> Verdict:
    if verdict.valid is True and verdict.anomalies:
        return replace(verdict, valid="unknown", reason="it contradicts itself: valid, with anomalies")
    if verdict.valid not in {True, False, "unknown"}:
        raise ValueError(f'a verdict is True, False or "unknown", not {verdict.valid!r}')
    return verdict


def _unknown(checker: Checker, reason: str) -> Verdict:
    return Verdict(valid="unknown", checker=checker.name, reason=reason)


def _json(verdict: Verdict) -> str:
    """Through JSON with every engine, so that an anomaly's evidence comes out the same: lists, and plain numbers."""
    return orjson.dumps(verdict.to_json(), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()


# ── the parts, combined ──────────────────────────────────────────────────────────────────────────────────────────────


def _combined(checkers: Sequence[Checker], found: pa.Table, survey: Survey, *, by_name: bool) -> Verdict:
    parts: list[dict[str | None, Verdict]] = [{} for _ in checkers]
    for row in found.sort_by([("checker", "ascending"), ("keyspace", "ascending")]).to_pylist():
        parts[row["checker"]][row["keyspace"]] = Verdict.from_json(orjson.loads(row["verdict"]))
    verdicts = []
    judged: set[str] = set()
    for checker, of_checker in zip(checkers, parts, strict=True):
        if checker.scope == "run":
            verdict = of_checker[None]
            verdicts.append(replace(verdict, anomalies=in_order(verdict.anomalies)))
        else:
            by_keyspace = {keyspace: verdict for keyspace, verdict in of_checker.items() if keyspace is not None}
            judged |= {keyspace for keyspace, verdict in by_keyspace.items() if not says_nothing(verdict)}
            verdicts.append(of_all_keyspaces(checker.name, by_keyspace))
    apart = any(checker.scope == "keyspace" for checker in checkers)
    return of_all_checkers(
        verdicts,
        by_name=by_name,
        unjudged=survey.acknowledged - judged if apart and not by_name else (),
        stats={"events": survey.events, "keyspaces": len(survey.weights)},
    )

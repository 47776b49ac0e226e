"""Judge: one verdict on a run, from all checkers.

A checker of scope `run` judges everything at once, one of scope `keyspace` each keyspace apart (`schemaquake.results.judging.keyspaces`);
the parts of one checker are combined into its verdict, the verdicts of all checkers into the run's. The local engine
and Spark call the same function and give the same verdict.

Unknown is never good news, with one careful exception. A run has keyspaces, and kinds of objects, without any work for a
checker, and such a checker answers `unknown` with doubts of the kind `nothing-to-judge` alone. That answer

- of a keyspace is left out if the same checker judged another one; else the checker's verdict is unknown;
- of a whole checker is left out of the run's verdict only if that checker was not selected by name, one that vouches for
  the cluster (`Checker.vouches`) did judge, and those that do not vouch but look at the run itself (`observed`: was every
  node read in the end, was any schema change acknowledged?) found something to judge.

Every other `unknown` counts, and so does a keyspace with a successful operation that no checker judged. In a run in which
the cluster acknowledged no operation at all nothing is valid: there was nothing to judge. (A history file of another tool
is left to its checkers.)
A check of transactions or registers is more than one task's work: on Spark its pieces are carried (`results.distributed`).
A checker that crashes, contradicts itself or does not end makes its own part unknown, with the reason; so does one that
finds an impossible history (a value that is written twice, say). Damaged records make everything unknown
(`schemaquake.results.judging.damage`). The size of a verdict is limited by `schemaquake.results.judging.bounded`.

Verdicts are stored as they come (`schemaquake.results.judging.kept_verdicts`), so that an interrupted analysis can continue.
"""

from __future__ import annotations

import tempfile
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from schemaquake.harness.compiled import always_compiled, working_time
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.lean_mops import widen
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import HISTORY, LEAN_MOPS, Records, keyspace_of
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.model.verdict import Doubt, DoubtKind, Verdict
from schemaquake.harness.registry import load, load_all
from schemaquake.results.engines.combination import in_order, of_all_checkers, of_all_keyspaces
from schemaquake.results.engines.deadline import Overdue, deadline
from schemaquake.results.engines.engine import Engine, Local, Spark, choose, shares
from schemaquake.results.engines.masters import is_local
from schemaquake.results.judging.admission import admit
from schemaquake.results.judging.bounded import as_json, bounded
from schemaquake.results.judging.damage import places_of_damage, unknown_for_damage
from schemaquake.results.judging.kept_verdicts import KeptVerdicts
from schemaquake.results.judging.keyspaces import Keyspaces
from schemaquake.results.judging.memory import fits_at_once, history_bytes, piece_bytes, pieces
from schemaquake.results.judging.sources import HistoryFile, InMemory, OnDisk, Source, Survey
from schemaquake.results.store.examination import examined_lent
from schemaquake.results.store.regrouping import regroup
from schemaquake.results.store.store import Store, write_table

__all__ = ["judge", "reads_lean"]

_UNITS: Final = pa.schema(
    [
        ("unit", pa.int32()),
        ("checker", pa.int32()),  # scope run: the checker's position
        ("keyspaces", pa.list_(pa.string())),  # scope keyspace: the keyspaces for every such checker; else null
    ]
)
_LONG: Final = 1 << 16
"""Bytes of a history file for which compiled loops are loaded while it is read; a shorter one needs none."""
_OF_PIECES: Final = 1 << 20
"""The unit number of checks whose pieces the engine carries; no other unit has it."""
_PARTS: Final = pa.schema([("checker", pa.int32()), ("keyspace", pa.string()), ("verdict", pa.string())])


def judge(
    subject: Store | HistoryFile | Records,
    *,
    checkers: Sequence[str | Checker] | None = None,
    engine: str = "auto",
    master: str | None = None,
    limit_s: float = 60,
    memory_bytes: int | None = None,
    kept: KeptVerdicts | None = None,
) -> Verdict:
    """Return the verdict on a run, on a history file, or on records. Its `parts` are the checkers', its anomalies all of theirs.

    `checkers` are registered names or checkers themselves; None: every registered one. `limit_s` is the time of one
    checker (of scope `keyspace`: for all the keyspaces of one task); twice that ends it. A checker that needs INFO
    and DEBUG entries of the nodes' logs names them in an attribute `noted`, a sequence of patterns; one that has to load
    data has a method `warm`, which may be called in another thread before the first check (and one `compile_all`, for
    warming, if that is not all it can need). Transactions and registers of
    a history file that does not fit into `memory_bytes` are judged in pieces, from disk. Verdicts in `kept` are not made
    again, and new ones are added to it; its basis must be of these records and this limit.
    Raises PlanError for an unknown checker or engine, HistoryError for a run without readable records, EnvironmentLacks if
    Spark is asked for where it cannot start.
    """
    chosen = _chosen(checkers)
    # Known before anything is read: nothing is loaded here to judge with, and Spark starts at once.
    engine = "spark" if engine == "auto" and master is not None else engine
    at_once = _is_read_at_once(subject, chosen, engine, memory_bytes)
    by_task = _is_read_by_one_task(subject, chosen, engine, master, memory_bytes)
    with ExitStack() as stack:
        if at_once and checkers is not None:  # if all checkers are used, most find nothing to judge
            stack.enter_context(_warming(chosen))
        # A file that another tool made is examined in another process: meanwhile Spark starts, if it is asked for.
        started = stack.enter_context(choose(engine, events=0, master=master)) if engine == "spark" else None
        if places := places_of_damage(subject, hand_over=at_once or by_task):
            return unknown_for_damage(chosen, places)
        events = len(subject.history) if isinstance(subject, Records) else subject.event_count()
        carrier = started or stack.enter_context(
            choose(engine, events=events if _is_shareable(chosen) else 0, master=master)
        )
        fits = False
        if isinstance(subject, HistoryFile) and memory_bytes is not None and not carrier.elsewhere:
            fits, carrier, limit = _within_memory(history_bytes(subject.path, parquet=True), carrier, memory_bytes)
            if not fits:
                subject = _smaller_groups(subject, chosen, limit, stack)
        source = _source(subject, chosen, carrier, master, stack)
        if by_task and fits and isinstance(source, OnDisk):
            source = replace(source, lent=stack.enter_context(examined_lent(source.history)))
        survey = source.survey()
        step = _Judging(source, chosen, limit_s, kept)
        in_pieces = {} if fits else _select_in_pieces(chosen, source, carrier)
        found = carrier.carry(step, _units(chosen, survey, carrier.width, kept, in_pieces.keys()), _PARTS)
        carried = replace(step, checkers=tuple(in_pieces.get(n, checker) for n, checker in enumerate(chosen)))
        found = pa.concat_tables([found, carried.in_pieces(in_pieces.keys())])
    if kept is not None:
        found = pa.concat_tables([found, _earlier(chosen, kept)])
    return _combined(chosen, found, survey, by_name=checkers is not None, history_alone=_is_bare(subject))


def reads_lean(checkers: Sequence[str | Checker] | None, *, engine: str) -> bool:
    """Return True if `judge` gives records to one checker in this process, which reads lean micro-operations, too. Raises PlanError."""
    if checkers is None or len(checkers) != 1 or engine == "spark":
        return False
    (only,) = _chosen(checkers)
    return only.scope == "run" and checker_traits(only).reads_lean


def _within_memory(history: int, engine: Engine, memory_bytes: int) -> tuple[bool, Engine, int]:
    """Return whether a history of so many bytes is judged as a whole, the engine for it, and the memory of one of its tasks.

    Pieces cost about ten times the work of the whole: they pay where memory asks for them, and not before.
    """
    if pieces(history, memory_bytes) == 1:
        return True, Local(memory_bytes=memory_bytes) if isinstance(engine, Local) else engine, memory_bytes
    if isinstance(engine, Local):
        # Checks make two pieces for each task of the engine; for a width of one they make none.
        width = max(2, -(-pieces(history, memory_bytes) // 2))
        return False, Local(width=width, memory_bytes=memory_bytes), memory_bytes
    assert isinstance(engine, Spark)
    limit = memory_bytes // engine.width  # its tasks share this machine
    width = max(engine.width, -(-pieces(history, limit) // 2))
    return False, replace(engine, width=width, memory_bytes=limit), limit


def _is_read_at_once(subject: object, checkers: Sequence[Checker], engine: str, memory_bytes: int | None) -> bool:
    """Return True for a file of some length that this process will read as a whole."""
    is_here = engine == "local" or (engine == "auto" and not _is_shareable(checkers))
    return is_here and _is_long(subject, memory_bytes)


def _is_read_by_one_task(
    subject: object, checkers: Sequence[Checker], engine: str, master: str | None, memory_bytes: int | None
) -> bool:
    """Return True for a file of some length that one task of a Spark on this machine will read as a whole."""
    is_here = engine == "spark" and is_local(master)
    is_whole = memory_bytes is not None and not _is_shareable(checkers)
    return is_here and is_whole and _is_long(subject, memory_bytes)


def _is_long(subject: object, memory_bytes: int | None) -> bool:
    """Return True for a history file of some length that fits into the memory."""
    if not isinstance(subject, HistoryFile):
        return False
    try:
        size = subject.path.stat().st_size
    except OSError:  # its reader says so
        return False
    # Not by its footer, which nobody has examined yet.
    return size >= _LONG and (memory_bytes is None or fits_at_once(size, memory_bytes))


def _smaller_groups(
    subject: HistoryFile, checkers: Sequence[Checker], memory_bytes: int, stack: ExitStack
) -> HistoryFile:
    """Return the history in row groups that fit into the memory, if any checker reads them one at a time."""
    from schemaquake.results.engines.checks import can_be_distributed  # noqa: PLC0415 - as below

    if not any(can_be_distributed(checker) for checker in checkers):
        return subject
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="schemaquake-")))
    return HistoryFile(regroup(subject.path, folder / "history.parquet", piece_bytes(memory_bytes)))


def _is_shareable(checkers: Sequence[Checker]) -> bool:
    """Return True if there is work to share out: a single checker of everything ends long before Spark has started."""
    return len(checkers) > 1 or any(checker.scope == "keyspace" for checker in checkers)


def _chosen(checkers: Sequence[str | Checker] | None) -> tuple[Checker, ...]:
    if checkers is None:
        return tuple(load_all("checkers").values())
    chosen = tuple(load("checkers", checker) if isinstance(checker, str) else checker for checker in checkers)
    names = [checker.name for checker in chosen]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f'checker "{name}" is named twice')
    return chosen


def _source(
    subject: Store | HistoryFile | Records,
    checkers: Sequence[Checker],
    engine: Engine,
    master: str | None,
    stack: ExitStack,
) -> Source:
    """Open the records in a place that the engine's tasks can read."""
    noted = [pattern for checker in checkers for pattern in checker_traits(checker).noted]
    if isinstance(subject, HistoryFile):
        whole = isinstance(engine, Local) and engine.width == 1
        if not whole:
            return OnDisk(subject.path)
        lean = all(checker_traits(checker).reads_lean for checker in checkers)
        return InMemory(Records.of(subject.read_history(lean=lean)))
    if isinstance(engine, Local):
        return InMemory(subject.records(noted=noted) if isinstance(subject, Store) else subject)
    if isinstance(subject, Store):
        subject.write_analysis("logs", subject.read_logs(noted=noted, firsts=True))
        paths = ("history.parquet", "observations.parquet", "analysis/logs.parquet")
        return OnDisk(*(subject.path(name).resolve() for name in paths))
    if subject.history["mops"].type == LEAN_MOPS:  # which is for memory, and not for files
        place = subject.history.schema.get_field_index("mops")
        wide = subject.history.set_column(place, "mops", widen(subject.history["mops"]))
        subject = replace(subject, history=wide)
    if engine.elsewhere or not is_local(master):
        raise PlanError("records in memory cannot be sent to a Spark cluster: put them into a store that it can read")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="schemaquake-")))
    tables = {"history": subject.history, "observations": subject.observations, "logs": subject.logs}
    for name, table in tables.items():
        write_table(folder / f"{name}.parquet", table)
    return OnDisk(*(folder / f"{name}.parquet" for name in tables))


@contextmanager
def _warming(checkers: Sequence[Checker]) -> Iterator[None]:
    """Call the checkers' `warm` meanwhile: Arrow reads without Python's lock."""
    loads = [checker.warm for checker in checkers if hasattr(checker, "warm")]
    if loads:
        always_compiled()

    def warm() -> None:
        for load_it in loads:
            with suppress(Exception):  # the check meets the same error, and reports it
                load_it()

    thread = threading.Thread(target=warm, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# ── the work, shared out ─────────────────────────────────────────────────────────────────────────────────────────────


def _select_in_pieces(checkers: Sequence[Checker], source: Source, engine: Engine) -> Mapping[int, Checker]:
    """Return the checkers whose check of the one history is itself shared out, by position: the engine carries the pieces."""
    if not isinstance(source, OnDisk):
        return {}
    from schemaquake.results.engines.checks import carried  # noqa: PLC0415 - records in memory do not need it

    scratch = source.history.parent if engine.elsewhere else Path(tempfile.gettempdir())
    found = {number: carried(checker, engine, source.history, scratch) for number, checker in enumerate(checkers)}
    return {number: checker for number, checker in found.items() if checker is not None}


def _units(
    checkers: Sequence[Checker], survey: Survey, width: int, kept: KeptVerdicts | None, left_out: Collection[int]
) -> pa.Table:
    """Make a unit for each checker of scope `run`, and for each share of the keyspaces, without those known already."""
    known = frozenset() if kept is None else kept.known
    units: list[dict[str, Any]] = [
        {"checker": position, "keyspaces": None}
        for position, checker in enumerate(checkers)
        if checker.scope == "run" and (checker.name, None) not in known and position not in left_out
    ]
    apart = [checker.name for checker in checkers if checker.scope == "keyspace"]
    left = {
        keyspace: weight
        for keyspace, weight in survey.weights.items()
        if any((name, keyspace) not in known for name in apart)
    }
    units += [{"checker": None, "keyspaces": share} for share in shares(left, width)]
    return pa.Table.from_pylist([{"unit": number, **unit} for number, unit in enumerate(units)], schema=_UNITS)


@dataclass(frozen=True, slots=True)
class _Judging:
    """The step: the verdicts of one unit, as `_PARTS`."""

    source: Source
    checkers: tuple[Checker, ...]
    limit_s: float
    kept: KeptVerdicts | None

    def __call__(self, group: pa.Table) -> pa.Table:
        rows = [row for unit in group.to_pylist() for row in self._verdicts(unit)]
        return pa.Table.from_pylist(rows, schema=_PARTS)

    def in_pieces(self, positions: Collection[int]) -> pa.Table:
        """Return the verdicts of checkers whose own pieces are carried, one check after another; called where there is an engine."""
        nothing = Records.of(HISTORY.empty_table())
        rows: list[dict[str, Any]] = [
            self._verdict(_OF_PIECES + position, position, None, nothing, self.limit_s)
            for position in positions
            if self.kept is None or (self.checkers[position].name, None) not in self.kept.known
        ]
        return pa.Table.from_pylist(rows, schema=_PARTS)

    def _verdicts(self, unit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if unit["keyspaces"] is None:
            position = unit["checker"]
            lean = checker_traits(self.checkers[position]).reads_lean
            yield self._verdict(unit["unit"], position, None, self.source.read(None, lean=lean), self.limit_s)
            return
        known = frozenset() if self.kept is None else self.kept.known
        keyspaces = Keyspaces(self.source.read(unit["keyspaces"]))
        left_s = dict.fromkeys(range(len(self.checkers)), self.limit_s)
        for keyspace in unit["keyspaces"]:
            part = keyspaces.part(keyspace)
            for position, checker in enumerate(self.checkers):
                if checker.scope == "keyspace" and (checker.name, keyspace) not in known:
                    began = working_time()
                    yield self._verdict(unit["unit"], position, keyspace, part, left_s[position])
                    left_s[position] -= working_time() - began

    def _verdict(
        self, unit: int, position: int, keyspace: str | None, records: Records, left_s: float
    ) -> dict[str, Any]:
        """Return one row of `_PARTS`. A verdict of the checker's own is kept."""
        checker = self.checkers[position]
        is_own, verdict = _verdict_of(checker, records, left_s, self.limit_s)
        text = _json(verdict)
        if is_own and self.kept is not None:
            self.kept.keep(unit, checker.name, keyspace, text)
        return {"checker": position, "keyspace": keyspace, "verdict": text}


def _verdict_of(checker: Checker, records: Records, left_s: float, limit_s: float) -> tuple[bool, Verdict]:
    """Return (True if the checker gave it itself, verdict on one part); the verdict is unknown if the checker fails."""
    if left_s <= 0:
        return False, _unknown(checker, "time", f"its time limit of {limit_s:g} s had passed before it came to this")
    try:
        with deadline(limit_s + left_s):
            return True, bounded(_coherent(admit(checker, checker.check(records, limit_s=left_s))))
    except HistoryError as error:  # an answer, too: the checker says why the history cannot be judged
        return True, _unknown(checker, "undecided", str(error))
    except MemoryError:
        return False, _unknown(checker, "memory", "the machine's memory does not suffice for what it has to judge")
    except Overdue:
        text = f"it was ended: it did not end by itself within twice its limit of {limit_s:g} s"
        return False, _unknown(checker, "time", text)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the other checkers still run
        return False, _unknown(
            checker, "crashed", f"it crashed, which says nothing about the cluster.\n{_trace(error)}"
        )


def _trace(error: BaseException) -> str:
    """Render the traceback from the checker on, without the engine's frames."""
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, below)).rstrip()


def _coherent(verdict: Verdict) -> Verdict:
    if verdict.valid is True and verdict.anomalies:
        contradiction = Doubt("crashed", "it contradicts itself: valid, with anomalies")
        return replace(verdict, valid="unknown", doubts=(contradiction, *verdict.doubts))
    return verdict


def _unknown(checker: Checker, kind: DoubtKind, text: str) -> Verdict:
    return bounded(Verdict.unknown(checker.name, Doubt(kind, text)))


def _json(verdict: Verdict) -> str:
    """Convert through JSON with every engine, so that an anomaly's evidence comes out the same: lists, and plain numbers."""
    return as_json(verdict).decode()


def _earlier(checkers: Sequence[Checker], kept: KeptVerdicts) -> pa.Table:
    """Return the kept verdicts of these checkers, as `_PARTS`."""
    positions = {checker.name: position for position, checker in enumerate(checkers)}
    rows = [
        {"checker": positions[name], "keyspace": keyspace, "verdict": verdict}
        for name, keyspace, verdict in kept.earlier()
        if name in positions
    ]
    return pa.Table.from_pylist(rows, schema=_PARTS)


# ── the parts, combined ──────────────────────────────────────────────────────────────────────────────────────────────


def _combined(
    checkers: Sequence[Checker], found: pa.Table, survey: Survey, *, by_name: bool, history_alone: bool
) -> Verdict:
    parts: list[dict[str | None, Verdict]] = [{} for _ in checkers]
    for row in found.sort_by([("checker", "ascending"), ("keyspace", "ascending")]).to_pylist():
        parts[row["checker"]][row["keyspace"]] = Verdict.from_json(orjson.loads(row["verdict"]))
    verdicts = []
    judged: set[str] = set()
    for checker, of_checker in zip(checkers, parts, strict=True):
        if checker.scope == "run":
            verdict = of_checker[None]
            undecided = _undecided_keyspaces(verdict, survey.weights)
            verdicts.append(replace(verdict, anomalies=in_order(verdict.anomalies), undecided=undecided))
        else:
            by_keyspace = {keyspace: verdict for keyspace, verdict in of_checker.items() if keyspace is not None}
            judged |= {keyspace for keyspace, verdict in by_keyspace.items() if not verdict.judged_nothing}
            verdicts.append(of_all_keyspaces(checker.name, by_keyspace))
    if not survey.succeeded and not history_alone:
        verdicts = [_without_evidence(verdict) for verdict in verdicts]
    apart = any(checker.scope == "keyspace" for checker in checkers)
    return of_all_checkers(
        verdicts,
        by_name=by_name,
        vouching=[checker.name for checker in checkers if checker.vouches],
        unjudged=survey.acknowledged - judged if apart and not by_name else (),
        stats={"events": survey.events, "keyspaces": len(survey.weights)},
    )


def _undecided_keyspaces(verdict: Verdict, known: Collection[str]) -> tuple[str, ...] | None:
    """Return the keyspaces that a verdict on the whole run leaves undecided; None for all.

    A doubt about a table leaves the races of other keyspaces decided; a doubt about no object, or about one that is in none of
    these known keyspaces, leaves none.
    """
    if verdict.judged_nothing or any(not doubt.objects for doubt in verdict.doubts):
        return None
    concerned = {keyspace_of(name) for doubt in verdict.doubts for name in doubt.objects}
    return tuple(sorted(map(str, concerned))) if concerned and concerned <= {*known} else None


def _is_bare(subject: Store | Records | HistoryFile) -> bool:
    """Tell if there is a history and nothing else, as other tools write it: no cluster was read."""
    if isinstance(subject, Records):
        return not subject.observations.num_rows and not subject.logs.num_rows
    return isinstance(subject, HistoryFile)


def _without_evidence(verdict: Verdict) -> Verdict:
    """Take a `valid` back: a cluster that acknowledged nothing was not tested. What was found stands."""
    if verdict.valid is not True:
        return verdict
    nothing = Doubt("nothing-to-judge", "no operation of any client was acknowledged")
    return replace(verdict, valid="unknown", doubts=(*verdict.doubts, nothing))

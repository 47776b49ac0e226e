"""Races: conflicting schema changes through different coordinators at once, with acknowledged rows at stake.

A race is a value: a keyspace of its own, base objects, what each side does, and the rows that must survive. A racing
workload only adds the function that makes race number `n`; everything else is here. There are three ways to run one:

- mode `barrier`, on a healthy cluster: a barrier releases all sides, each through its own coordinator, in the same instant, of one race
  or of several (`schemaquake.workloads.races.abreast`);
- mode `partition`, certain wherever coordinators act alone (up to 5.0): side A is cut off, and the second statement
  leaves a moment after the first, whatever its outcome (see `schemaquake.workloads.races.lanes`);
- mode `single`, the control: the same statements, all sides one after another through one coordinator, each with time
  to reach every node (`-O patience`), and rows only once they have. Nothing races, so nothing may break.

These are options (`schemaquake.workloads.races.options`), and the cut is a fault that the workload requests
(`schemaquake.workloads.races.cut`). With `until_poisoned` a canary runs before each race (`schemaquake.workloads.races.canary`): no race runs on a cluster on which an earlier one
has broken all schema changes.

One race a keyspace, so that the damage of one stays out of the others and every object names its race.
Source: seed document 3 (CEP-21), motivation; CASSANDRA-9424, CASSANDRA-10699; each workload names its own tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import permutations
from random import Random
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.foresight import other_workloads
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Meet, Note, Step, Wait
from schemaquake.workloads.one_a_node import share, stands_for_its_node
from schemaquake.workloads.races.abreast import lane_of, lanes_abreast, rounds_abreast
from schemaquake.workloads.races.canary import canary, canary_keyspace, read_canaries, set_up_canaries
from schemaquake.workloads.races.cut import isolated_nodes, requested_cuts
from schemaquake.workloads.races.lanes import RACERS_MAX, rounds, seats
from schemaquake.workloads.races.one_by_one import heard_by_all, one_by_one, rest
from schemaquake.workloads.races.options import Mode, RacingOptions, VariantOptions, racing_options

__all__ = [
    "ALWAYS",
    "NEVER",
    "SINCE_THE_RACE",
    "UNTIL_THE_RACE",
    "WHILE_RACING",
    "Lookup",
    "Race",
    "RacingWorkload",
    "RowPhase",
    "RowProbe",
    "crew",
    "damaging_order",
    "pause_before_a_race",
    "race_keyspace",
    "race_numbers",
    "racers_max",
    "steps",
    "take_turns",
]

RowPhase: TypeAlias = Literal["prepared", "racing", "settled", "restarted"]

ALWAYS: Final[frozenset[RowPhase]] = frozenset(get_args(RowPhase))
SINCE_THE_RACE: Final[frozenset[RowPhase]] = frozenset({"racing", "settled", "restarted"})
UNTIL_THE_RACE: Final[frozenset[RowPhase]] = frozenset({"prepared", "racing"})
WHILE_RACING: Final[frozenset[RowPhase]] = frozenset({"racing"})
NEVER: Final[frozenset[RowPhase]] = frozenset()

HARMLESS: Final = 0
"""A lost race affects no other keyspace."""
POISONS: Final = 1
"""Definitions are left behind that no node can load; other keyspaces can still be changed by pushes."""
STALLS: Final = 2
"""A node may take a minute before it applies the next schema change (5.0: the build of a view whose base is gone)."""
REFUSES: Final = 3
"""The node answers every later schema change, of any keyspace, with an error, and applies it all the same."""

_VIEW_BUILT_S: Final = 1.5
"""Pause after a view of the setup. A node of 5.0 that hears of the next change before its view is built was seen to apply none for minutes."""
_KEYSPACE_NAME_LENGTH_MAX: Final = 48
_SIDES_MAX: Final = 8
_TURNS_MAX: Final = 12
"""Races after which every variant of a workload had its turn."""
_SPREAD: Final = 0.8
_PHASE_DIGITS: Final[dict[str, int]] = {phase: digit for digit, phase in enumerate(get_args(RowPhase), start=1)}

_Variant = TypeVar("_Variant")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProbe:
    """One shape of row in one table: the phases and workers that write such rows, and the columns of the final reads.

    Rows have an integer key of their own each (`key`, the partition key) beside the cells of `row`; reads name exactly
    these columns, so that a column lost elsewhere in the table does not break them.

    `phases` says when rows are written: after the race, only to what is known to be there, or gone as a whole, whichever
    side won. A column that the race adds or drops gets rows while racing and is only read afterwards.
    """

    table: str
    row: tuple[tuple[str, JSON], ...] = (("v", "a row"),)
    key: str = "k"
    phases: frozenset[RowPhase] = ALWAYS
    side: int | None = None
    """While racing, only this side's coordinator writes it; None: every coordinator does."""
    rows: int = 1
    """The number of rows that each writer writes while racing."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a read of these rows names."""
        return (self.key, *(name for name, _ in self.row))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A final read by an index of `table`, or of `table` as a materialized view of `base`: the rows in which `column` has `value`."""

    table: str
    column: str
    value: JSON
    index: str | None = None
    base: str | None = None
    key: str = "k"


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Two or more schema changes that may meet. `sides` come in the damaging order: the first has the older timestamp.

    Side i is carried out by the i-th racer; nodes beyond the sides only write rows, as does a side without statements.
    `setup` makes the base objects in `keyspace` and is agreed upon before anything races.
    """

    workload: str
    variant: str
    number: int
    keyspace: str
    setup: tuple[Invoke, ...]
    sides: tuple[tuple[Invoke | Wait, ...], ...]
    tables: tuple[RowProbe, ...]
    lookups: tuple[Lookup, ...] = ()
    keyspace_exists: bool = True
    """False if the keyspace itself is made by the race."""
    disturbance: int = HARMLESS
    """The effect of a lost race on later ones of the same run: `HARMLESS`, `POISONS`, `STALLS` or `REFUSES`."""


# Not frozen: a type checker takes the attributes of the protocol to be settable, and would refuse it as a Workload.
@dataclass(kw_only=True, eq=False)
class RacingWorkload:
    """A whole `Workload` from a function that makes one race; as many are run as its options say (`VariantOptions`)."""

    name: str
    requires: frozenset[str]
    race: Callable[[int, Random, Context], Race]
    """The function that makes race number n of the run, with a generator of its own."""
    options: RacingOptions = field(default_factory=VariantOptions)

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(racing_options(context.options), context)

    def races(self, context: Context) -> tuple[Race, ...]:
        """Return every race of the run in order."""
        return tuple(self.race(n, context.random(self.name, "race", n), context) for n in race_numbers(context))

    def variants(self, context: Context) -> tuple[str, ...]:
        """Return the names of the variants that races take in turn on a system with the context's features."""
        others = {name: text for name, text in context.options.items() if name != "variant"}
        everything = replace(context, options=others)
        # Variants are what comes of a race's number, so that a plugin's function of a race need not list them.
        races = (self.race(n, context.random(self.name, "race", n), everything) for n in range(_TURNS_MAX))
        return tuple(dict.fromkeys(race.variant for race in races))

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return one worker a node; more where races overlap in mode `partition`.

        Raises PlanError for a single node, and for a variant that no workload of the run has.
        """
        _refuse_unknown_variants(self, context)
        return crew(self.races(context), context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase of every race."""
        return steps(self.races(context), phase, worker, context, phase_label=phase_label)


def race_numbers(context: Context) -> range:
    """Return the numbers of a workload's races in this run."""
    options = racing_options(context.options)
    return range(options.first_race, options.first_race + options.races)


def race_keyspace(context: Context, workload: str, number: int) -> str:
    """Return the keyspace of one race. Raises PlanError if the prefix makes its name too long."""
    keyspace = f"{context.keyspace_prefix}_{workload.replace('-', '_')}_{number:03d}"
    if len(keyspace) > _KEYSPACE_NAME_LENGTH_MAX:
        raise PlanError(
            f"keyspace prefix {context.keyspace_prefix!r} is too long: {keyspace} has {len(keyspace)} characters and "
            f"Cassandra allows {_KEYSPACE_NAME_LENGTH_MAX}"
        )
    return keyspace


def damaging_order(number: int) -> bool:
    """Return True if the race of this number is run, under a partition, with its first side first.

    Four in seven are: the other order is the other half of the matrix. Seven, so that workloads that take two to six
    variants in turn meet each of them in both orders.
    """
    return number % 7 not in {2, 4, 5}


def racers_max(context: Context) -> int:
    """Return the largest number of sides: one a node on a healthy cluster, one against two across a cut."""
    options = racing_options(context.options)
    if options.mode == "partition":
        return min(RACERS_MAX, 1 + len(set(context.nodes) - set(isolated_nodes(options, context))))
    return min(_SIDES_MAX, len(context.nodes))


def pause_before_a_race(context: Context, races: int) -> float:
    """Return the pause between races: under faults they are spread over most of the time limit, else there is none."""
    return _SPREAD * context.time_limit_s / races if context.under_faults else 0.0


def _refuse_unknown_variants(workload: RacingWorkload, context: Context) -> None:
    """Refuse a variant that no workload of the run has, and variants of which this workload has none. Raises PlanError."""
    wanted = configured(VariantOptions(), context.options).variant
    if not wanted:
        return
    own = workload.variants(context)
    racing = [other for other in other_workloads(workload.name, context) if isinstance(other, RacingWorkload)]
    known = {*own, *(variant for other in racing for variant in other.variants(context))}
    unknown = [variant for variant in wanted if variant not in known]
    if unknown or not set(own) & set(wanted):
        near = get_close_matches((unknown or wanted)[0], own, n=1)
        hint = f'. Did you mean "{near[0]}"?' if near else ""
        raise PlanError(
            f"-O variant={','.join(wanted)}: {workload.name} has no variant {', '.join(unknown or wanted)}; "
            f"it has {', '.join(own)}{hint}"
        )


def take_turns(number: int, context: Context, turns: Sequence[tuple[str, _Variant]]) -> tuple[str, _Variant]:
    """Return the name of race `number`'s variant, and the variant: in turn, of all or of those in the option `variant`.

    A variant may stand in `turns` more than once. Raises PlanError if the option lists none of them.
    """
    variants = configured(VariantOptions(), context.options).variant
    mine = [turn for turn in turns if not variants or turn[0] in variants]
    if not mine:
        raise PlanError(
            f"-O variant={','.join(variants)}: this workload has no such variant; it has {', '.join(dict(turns))}"
        )
    return mine[number % len(mine)]


# ── the crew and its phases ──────────────────────────────────────────────────────────────────────────────────────────


def crew(races: Sequence[Race], context: Context) -> Sequence[Worker]:
    """Return worker i on node i; the workers of further lanes follow. Raises PlanError for one node."""
    if len(context.nodes) < 2:
        raise PlanError(f"a race needs two coordinators, and the cluster has {len(context.nodes)} node: give --nodes 3")
    if _mode(context) == "partition":
        return [seat.worker for seat in seats(context, len(races))]
    return [Worker(index, node) for index, node in enumerate(context.nodes * lanes_abreast(context, len(races)))]


def steps(races: Sequence[Race], phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
    """Return one worker's steps in one phase of these races. Only `main` has barriers, and every worker waits at all of them."""
    match phase:
        case "setup":
            return _set_up(races, worker, context)
        case "prepare":
            return _prepare(races, worker, context)
        case "main":
            return _race(races, worker, context)
        case "probe":
            return _probe(races, worker, context, _row_phase(phase_label))
        case "final":
            return _read(races, worker, context, phase_label)


def _set_up(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Create the keyspaces and base objects of every race, by the first worker alone.

    Changes of different keyspaces through three coordinators at once were seen to leave schema versions apart for minutes (5.0.9).
    """
    if worker.index != 0:
        return
    if _has_canaries(context):
        yield from set_up_canaries(context)
    for race in races:
        base = [create_keyspace(race.keyspace, replication_factor=context.replication_factor)]
        for change in (*(base if race.keyspace_exists else ()), *race.setup):
            yield from one_by_one((change,), context)
            if change.f == "create-view":
                yield Wait(_VIEW_BUILT_S)


def _prepare(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Write a row at QUORUM through every coordinator to each table that exists already."""
    if not stands_for_its_node(worker, context):
        return
    for race in races:
        for number, probe in _probes(race, "prepared"):
            yield _row(race, number, probe, "prepared", worker, consistency="QUORUM")


def _probe(races: Sequence[Race], worker: Worker, context: Context, phase: RowPhase) -> Iterator[Step]:
    """Probe whether every coordinator can still write and read every table: write one row, and read the same row."""
    if not stands_for_its_node(worker, context):
        return
    for race in races:
        for number, probe in _probes(race, phase):
            row = _row(race, number, probe, phase, worker, consistency="QUORUM")
            yield row
            yield read_rows(
                race.keyspace,
                probe.table,
                consistency="QUORUM",
                phase=phase,
                columns=probe.columns,
                where={probe.key: row.value["row"][probe.key]},
            )


def _read(races: Sequence[Race], worker: Worker, context: Context, phase_label: str) -> Iterator[Step]:
    """Read all rows at ONE through every coordinator; then at ALL, each race through one coordinator in turn.

    ALL comes last because such a read repairs the replicas it finds behind, and would hide what ONE has to show.
    """
    if not stands_for_its_node(worker, context):
        return
    mine = share(races, worker, context)
    for consistency, some in (("ONE", races), ("ALL", mine)):
        for race in some:
            for table, columns in dict.fromkeys((probe.table, probe.columns) for probe in race.tables):
                yield read_rows(race.keyspace, table, consistency=consistency, phase=phase_label, columns=columns)
    for race in mine:
        for lookup in race.lookups:
            yield _look_up(race, lookup, phase_label)
    if _has_canaries(context):
        heads = races[:: lanes_abreast(context, len(races))]
        yield from read_canaries([_canary_name(r, context) for r in heads], worker, context, phase=phase_label)


def _look_up(race: Race, lookup: Lookup, phase_label: str) -> Invoke:
    return read_rows(
        race.keyspace,
        lookup.table,
        consistency="ALL",
        phase=phase_label,
        columns=[lookup.key, lookup.column],
        where={lookup.column: lookup.value},
        index=lookup.index,
        base=lookup.base,
    )


# ── the main phase ───────────────────────────────────────────────────────────────────────────────────────────────────


def _race(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Return one worker's steps in all races, in the mode of the run."""
    match _mode(context):
        case "barrier":
            return _race_at_once(races, worker, context)
        case "partition":
            return _race_across_the_cut(races, worker, context)
        case "single":
            return _one_after_another(races, worker, context)


def _race_at_once(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Yield round after round, a race in every lane: a barrier, the notes of the races, a barrier, the sides.

    Under faults the rounds are spread over most of the time limit, so that they meet the faults.
    """
    lanes = lanes_abreast(context, len(races))
    lane, node = lane_of(worker, context), worker.index % len(context.nodes)
    every = list(rounds_abreast(races, lanes))
    pause_s = pause_before_a_race(context, len(every))
    until_poisoned = racing_options(context.options).until_poisoned
    for number, some in enumerate(every):
        if pause_s:
            yield Wait(pause_s)
        if until_poisoned:
            name = _canary_name(some[0], context)
            yield from canary(name, number % len(context.nodes), worker, context, races=lanes)
        mine = some[lane] if lane < len(some) else None
        # Before the meeting: nothing may delay what follows it.
        place = _racers(mine, context).index(node) if mine is not None else 0
        yield Meet(f"{some[0].keyspace} ready")
        if worker.index == 0:
            for race in some:
                yield _note(race, context, race.sides[: len(context.nodes)], head=some[0])
            if not until_poisoned:
                yield from rest(context)  # what the canary shows, here only time can bring about
        yield Meet(f"{some[0].keyspace} go")
        if mine is not None:
            yield from _take_part(mine, worker, place if place < len(mine.sides) else None)


def _one_after_another(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Yield race after race: one coordinator, another one each time, carries out all sides; then every worker writes rows.

    A canary through the same coordinator, after its statements, tells that every node has heard of them.
    """
    for race in races:
        alone = race.number % len(context.nodes)
        if worker.index == 0:
            yield _note(race, context, race.sides)
        yield Meet(f"{race.keyspace} go")
        if worker.index == alone:
            for change in _statements(race.sides):
                yield change
                yield from heard_by_all(context)
        yield from canary(_canary_name(race, context), alone, worker, context)
        yield Meet(f"{race.keyspace} heard")
        yield from _rows_while_racing(race, worker, range(len(race.sides)) if worker.index == alone else ())


def _race_across_the_cut(races: Sequence[Race], worker: Worker, context: Context) -> Iterator[Step]:
    """Yield round after round, a race in every lane, the sides an offset apart, without waiting for each other's outcome."""
    table = seats(context, len(races))
    place = table[worker.index].place
    for some in rounds(races, table):
        if worker.index == 0:
            for race in some:
                yield _note(race, context, [race.sides[side] for side in _order(race, context)])
        yield Meet(f"{some[0].keyspace} round")
        if place is None:
            for race in some:
                yield from _take_part(race, worker, None)
        elif place.lane < len(some):
            race = some[place.lane]
            order = _order(race, context)
            yield Wait(place.start_s)
            yield from _take_part(race, worker, order[place.racer] if place.racer < len(order) else None)


def _take_part(race: Race, worker: Worker, side: int | None) -> Iterator[Step]:
    """Yield a side's statements and, without a barrier, rows through the same coordinator; without a side, rows alone."""
    if side is not None:
        yield from race.sides[side]
    yield from _rows_while_racing(race, worker, () if side is None else (side,))


def _rows_while_racing(race: Race, worker: Worker, sides: Collection[int]) -> Iterator[Step]:
    """Yield the rows of these sides, then those that every coordinator writes."""
    probes = list(_probes(race, "racing"))
    for number, probe in [p for p in probes if p[1].side is not None] + [p for p in probes if p[1].side is None]:
        if probe.side is None or probe.side in sides:
            for n in range(probe.rows):
                yield _row(race, number, probe, "racing", worker, consistency="ONE", n=n)


def _racers(race: Race, context: Context) -> list[int]:
    """Return the nodes' indices in the order of the sides they take.

    Every ordered pair of coordinators takes the first two sides once before any does so again.
    """
    everyone = range(len(context.nodes))
    pairs = list(permutations(everyone, 2))
    cycle, place = divmod(race.number, len(pairs))
    context.random(race.workload, "pairs", cycle).shuffle(pairs)
    pair = pairs[place]
    others = [index for index in everyone if index not in pair]
    context.random(race.workload, "others", race.number).shuffle(others)
    return [*pair, *others]


def _order(race: Race, context: Context) -> list[int]:
    """Return the sides that race under a partition, in the order in which they begin."""
    order = list(range(len(race.sides)))
    if not damaging_order(race.number):
        order[:2] = reversed(order[:2])
    return order[: racers_max(context)]


def _statements(sides: Iterable[Sequence[Invoke | Wait]]) -> list[Invoke]:
    return [step for side in sides for step in side if isinstance(step, Invoke)]


def _note(race: Race, context: Context, sides: Sequence[Sequence[Invoke | Wait]], *, head: Race | None = None) -> Note:
    """Return the note that describes the next race; `sides` in the order in which they begin.

    `head` is the first race of its round, whose canary is that of all of them; None if it is released alone.
    """
    facts = {
        "workload": race.workload,
        "variant": race.variant,
        "number": race.number,
        "mode": _mode(context),
        "sides": [[statement(change.f, change.value) for change in _statements([side])] for side in sides if side],
    }
    if _has_canaries(context):
        facts["canary"] = f"{canary_keyspace(context)}.{_canary_name(head or race, context)}"
    return Note("race", race.keyspace, facts)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mode(context: Context) -> Mode:
    return racing_options(context.options).mode


def _has_canaries(context: Context) -> bool:
    options = racing_options(context.options)
    return options.until_poisoned or options.mode == "single"


def _canary_name(race: Race, context: Context) -> str:
    """Return the race's keyspace without the prefix that all keyspaces of the run have."""
    return race.keyspace.removeprefix(f"{context.keyspace_prefix}_")


def _probes(race: Race, phase: RowPhase) -> Iterator[tuple[int, RowProbe]]:
    """Return the race's probes with rows in this phase, each with its number in the race."""
    return ((number, probe) for number, probe in enumerate(race.tables) if phase in probe.phases)


def _row_phase(phase_label: str) -> RowPhase:
    """Return the phase of a probe's rows for its label."""
    match phase_label:
        case "settled" | "restarted":
            return phase_label
    raise PlanError(f'a probe belongs to "settled" or "restarted", not {phase_label!r}')


def _row(
    race: Race, number: int, probe: RowProbe, phase: RowPhase, worker: Worker, *, consistency: str, n: int = 0
) -> Invoke:
    """Return an INSERT of a key that no other row of the race has: phase, probe, worker and row, readable in decimal."""
    assert number < 100
    assert worker.index < 10_000
    assert n < 100
    key = _PHASE_DIGITS[phase] * 100_000_000 + number * 1_000_000 + worker.index * 100 + n
    return insert(race.keyspace, probe.table, {probe.key: key, **dict(probe.row)}, consistency=consistency, phase=phase)

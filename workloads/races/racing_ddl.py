"""Racing DDL: many kinds of race in one run, under one crew and one settle, because booting a cluster costs more than racing.

`--races` races of every workload that this system's features allow; `-O only=create-table,drop-type` picks some.
They take turns, in an order that the seed fixes, and the more a lost race disturbs the others, the later it comes
(`Race.disturbance`): first the harmless ones, then those that poison their keyspace, then DROP TABLE against CREATE
MATERIALIZED VIEW (on 5.0.9 a node was seen to apply no schema change for 90 s afterwards), last CREATE TABLE with
different definitions (from then on 5.0.9 answers every DDL with that table's ConfigurationException).

    Poisoned means that some node cannot build the keyspace from its schema tables (`Unknown type`, `MissingColumns`).
    On 5.0 a push merges only the keyspaces it carries, so on a healthy cluster the other keyspaces go on being changed;
    but a pull carries every keyspace, is written to disk as it comes, and is then rejected as a whole in memory. From
    the first poisoned keyspace on, a node that missed a push can no longer catch up, and the damage seen in a harmless
    race might be the poison's. Up to 2.0 a merge always rebuilds all, and from then on nothing is applied: there any race that
    is lost refuses everything, and none can be put before the others. `--until-poisoned` ends such a run.
    Hence the order. Under a partition it does not help: what crosses the healed cut is one pull with everything in it,
    and after a restart no node may be left to ask. To judge the harmless races apart, pick them with `only`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.options import configured, names, option
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Step
from schemaquake.workloads.races import engine as races
from schemaquake.workloads.races.add_columns import AddColumns
from schemaquake.workloads.races.alter_options import AlterOptions
from schemaquake.workloads.races.alter_type import AlterType
from schemaquake.workloads.races.create_index import CreateIndex
from schemaquake.workloads.races.create_table import CreateTable
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.drop_alter import DropAlter
from schemaquake.workloads.races.drop_function import DropFunction
from schemaquake.workloads.races.drop_keyspace import DropKeyspace
from schemaquake.workloads.races.drop_recreate import DropRecreate
from schemaquake.workloads.races.drop_table_view import DropTableView
from schemaquake.workloads.races.drop_type import DropType
from schemaquake.workloads.races.engine import Race, RacingWorkload, race_numbers
from schemaquake.workloads.races.options import RacingOptions, racing_options

__all__ = ["RACING", "RacingDdl"]

RACING: Final[tuple[RacingWorkload, ...]] = (
    CreateTable(),
    DropKeyspace(),
    DropTableView(),
    DropRecreate(),
    AlterOptions(),
    AddColumns(),
    AlterType(),
    DropType(),
    DropFunction(),
    DropAlter(),
    CreateIndex(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RacingDdlOptions(RacingOptions):
    """Options of many kinds of race in one run."""

    only: tuple[str, ...] = option((), "the racing workloads to run, with commas; by default all that fit", parse=names)

    def check(self, context: Context) -> None:
        """Refuse options that exclude each other, and an unknown name in `only`. Raises PlanError."""
        RacingOptions.check(self, context)
        _refuse_unknown(self.only)


class RacingDdl:
    """Many kinds of race in one run."""

    name = "racing-ddl"
    requires = frozenset({"keyspaces", "tables"})
    sets_up_first = True  # some thirty keyspaces with their objects; of a few races the setup is as long either way
    options = RacingDdlOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(racing_options(context.options), context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return the crew of all races (`schemaquake.workloads.races.engine`). Raises PlanError for an unknown name in `only`."""
        return races.crew(_races(context), context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase of every race."""
        return races.steps(_races(context), phase, worker, context, phase_label=phase_label)


def _races(context: Context) -> tuple[Race, ...]:
    """Return every race of the run in order: the first of each workload, the second of each …, then the poisonous ones."""
    # `variant` belongs to one workload; all the others would refuse it.
    everyone = replace(context, options={k: v for k, v in context.options.items() if k != "variant"})
    chosen = _chosen(context)
    made = {workload.name: workload.races(everyone) for workload in chosen}
    in_order: list[Race] = []
    for place, number in enumerate(race_numbers(context)):
        turn = [made[workload.name][place] for workload in chosen]
        context.random("racing-ddl", number).shuffle(turn)
        in_order += turn
    if "types" not in context.features:
        return tuple(in_order)
    return tuple(sorted(in_order, key=lambda race: race.disturbance))


def _chosen(context: Context) -> list[RacingWorkload]:
    """Return the workloads of this run. Raises PlanError for an unknown name, NotApplicable if none can be run here."""
    only = configured(RacingDdl.options, context.options).only
    _refuse_unknown(only)
    chosen = [workload for workload in RACING if not only or workload.name in only]
    able = [workload for workload in chosen if workload.requires <= context.features]
    lacking = [workload for workload in chosen if workload not in able]
    if not able or (only and lacking):
        missing = frozenset().union(*(workload.requires for workload in lacking)) - context.features
        raise NotApplicable(
            f"{', '.join(workload.name for workload in lacking)} cannot be run here: this system has no "
            f"{', '.join(sorted(missing))}"
        )
    return able


def _refuse_unknown(only: Sequence[str]) -> None:
    known = [workload.name for workload in RACING]
    if unknown := [name for name in only if name not in known]:
        raise PlanError(f"-O only={','.join(only)}: no racing workload {', '.join(unknown)}. Known: {', '.join(known)}")

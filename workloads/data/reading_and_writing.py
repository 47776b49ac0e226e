"""Reading and writing: data workloads, whose histories show whether acknowledged reads and writes are consistent.

A data workload declares its tables, the operations of one worker, and the final reads; everything else is here: the
crew, the pace, and keys that come and go. Old keys are no longer used after a while, so that the history of each stays
short enough to be judged by itself (Jepsen's independent keys), while new ones meet faults in every state. Every operation carries its CQL (`schemaquake.harness.model.queries`), and its key names keyspace, table and row.

Each workload runs alone, or beside schema changes of other keyspaces: `--workload append,schema-churn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, one_of, option, whole_number
from schemaquake.harness.model.protocols import Context, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Require, Step, Wait
from schemaquake.workloads.one_a_node import share, stands_for_its_node

__all__ = [
    "ConsistencyOptions",
    "DataWorkload",
    "KeyOptions",
    "LevelOptions",
    "all_keys",
    "data_keyspace",
    "keys",
    "levels_of_reads",
    "my_keys",
    "read_level",
    "table",
    "unique_values",
    "write_level",
]

_OPERATIONS_A_SECOND = 60.0
_OPERATIONS_A_KEY = 120
_KEYS_A_NODE = 2
_VALUES_A_WORKER = 1_000_000
_SETUP_LIMIT_S = 60.0  # several workloads' tables are made at once, on machines that may be busy

_LEVELS: Final = ("ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM")
"""The consistency levels that reads and writes both have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """Options of a workload that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """Options of a workload whose keys come and go (`keys`)."""

    keys: int | None = option(
        None,
        "the number of keys in use at a time, 1 or more; by default two a node",
        parse=whole_number(least=1),
    )
    """The fewer keys, the more often their operations overlap."""


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """Options of a workload that reads and writes at one consistency level."""

    consistency: str = option(
        "QUORUM", f"the consistency level of writes, one of {', '.join(_LEVELS)}", parse=one_of(*_LEVELS)
    )


@dataclass(frozen=True, kw_only=True)
class ConsistencyOptions(LevelOptions):
    """Options of a workload whose reads may have a consistency level of their own."""

    read_consistency: str | None = option(
        None,
        f"the consistency level of reads, one of {', '.join(_LEVELS)}; by default that of writes",
        parse=one_of(*_LEVELS),
    )


# Not frozen, for the reason of schemaquake.workloads.races.engine.RacingWorkload.
@dataclass(kw_only=True, eq=False)
class DataWorkload:
    """A whole `Workload` from three functions. `operations` never ends; `last_reads` are made in each final phase, by one worker a node."""

    name: str
    requires: frozenset[str]
    tables: Callable[[Context], Sequence[Invoke]]
    """The CREATE TABLEs, in the keyspace that `data_keyspace` names."""
    operations: Callable[[Worker, Context, Random], Iterator[Invoke]]
    last_reads: Callable[[Worker, Context, str], Iterator[Step]]
    """The final reads of a worker; the last argument is the phase label, `settled` or `restarted`."""
    options: Any = NoOptions()
    """The defaults of the options, as `schemaquake.harness.model.options` declares them."""
    endless = True
    keeps_schema = True

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return `context.crew` workers, at least one a node, dealt to the nodes in turn."""
        return [Worker(n, context.nodes[n % len(context.nodes)]) for n in range(_workers(context))]

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase; `main` never ends."""
        match phase:
            case "setup" if worker.index == 0:
                keyspace = data_keyspace(context, self.name)
                base = create_keyspace(
                    keyspace,
                    replication_factor=context.replication_factor,
                    data_centers=context.data_centers.values(),
                )
                for change in (base, *self.tables(context)):
                    yield Require(change, _SETUP_LIMIT_S)
            case "main":
                for operation in self.operations(worker, context, context.random(self.name, worker.index, "main")):
                    if context.rate is None:  # else the harness keeps the pace
                        yield Wait(_workers(context) / _OPERATIONS_A_SECOND)
                    yield operation
            case "final" if stands_for_its_node(worker, context):
                yield from self.last_reads(worker, context, phase_label)


def data_keyspace(context: Context, workload: str) -> str:
    """Return the name of a data workload's keyspace."""
    return f"{context.keyspace_prefix}_{workload.replace('-', '_')}"


def table(keyspace: str, name: str, *columns: tuple[str, str]) -> Invoke:
    """Return the CREATE TABLE with the integer key `k` and these columns."""
    described = [("k", "int", "partition_key"), *((column, cql_type, "regular") for column, cql_type in columns)]
    return create_table(keyspace, name, columns=described)


def keys(context: Context, random: Random) -> Iterator[int]:
    """Yield a key for each operation of one worker: a few at a time, the same for the whole crew, then the next few.

    They end where `all_keys` does and begin again from there, so that a final read can name every one of them.
    """
    at_once = _keys_at_once(context)
    stretch = max(1, _OPERATIONS_A_KEY * at_once // _workers(context))
    everything = len(all_keys(context))
    done = 0
    while True:
        yield (done // stretch * at_once + random.randrange(at_once)) % everything
        done += 1


def all_keys(context: Context) -> range:
    """Return every key that may be used in the time limit, at the pace of the plan."""
    rate = context.rate or _OPERATIONS_A_SECOND
    at_once = _keys_at_once(context)
    stretches = int(context.time_limit_s * rate / (_OPERATIONS_A_KEY * at_once)) + 1
    return range(stretches * at_once)


def my_keys(worker: Worker, context: Context) -> Sequence[int]:
    """Return this worker's share of all keys; the first worker on each node has one."""
    return share(all_keys(context), worker, context)


def unique_values(worker: Worker) -> Iterator[int]:
    """Return increasing positive numbers that no other worker of the crew uses."""
    first = worker.index * _VALUES_A_WORKER
    return iter(range(first + 1, first + _VALUES_A_WORKER))


def write_level(context: Context) -> str:
    """Return the consistency level of writes. Raises PlanError for an unknown one."""
    return configured(ConsistencyOptions(), context.options).consistency


def read_level(context: Context) -> str:
    """Return the consistency level of reads. Raises PlanError for an unknown one."""
    levels = configured(ConsistencyOptions(), context.options)
    return levels.read_consistency or levels.consistency


def levels_of_reads(context: Context) -> Mapping[str, JSON]:
    """Return the value of a read that says at which level it asks, and at which level additions are made, as additions cannot say it."""
    return {"consistency": read_level(context), "additions": write_level(context)}


def _workers(context: Context) -> int:
    return max(context.crew, len(context.nodes))


def _keys_at_once(context: Context) -> int:
    return configured(KeyOptions(), context.options).keys or _KEYS_A_NODE * len(context.nodes)

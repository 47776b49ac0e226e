"""The six protocols: cluster, node, client, workload, nemesis and checker, with their optional extensions.

Nothing inherits from these. Implementations are found through entry points (`schemaquake.harness.registry`), so a package with a
package with `[project.entry-points."schemaquake.workloads"]` has written a workload. What they may have besides is declared
as facts (`schemaquake.harness.model.traits`) and as verbs: the `runtime_checkable` protocols here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol, TypeAlias, runtime_checkable

from schemaquake.harness.model.context import Context
from schemaquake.harness.model.membership import Member, MemberState
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.steps import Invoke, Step
from schemaquake.harness.model.verdict import Verdict

if TYPE_CHECKING:
    from schemaquake.harness.model.plan import Plan
    from schemaquake.harness.model.records import Records  # it imports pyarrow, which a plan can do without

__all__ = [
    "AllowedByOptions",
    "Boot",
    "CatchingUp",
    "Checker",
    "Client",
    "Cluster",
    "Connector",
    "Context",
    "Demands",
    "EventClient",
    "Executed",
    "Fault",
    "FaultRequest",
    "FaultRequesting",
    "Fencing",
    "Forecast",
    "Guarded",
    "HasDataCenters",
    "HealsEverywhere",
    "HistoryFormat",
    "LedgerHealer",
    "MemberListing",
    "Nemesis",
    "Node",
    "OwnLack",
    "OwnersLimits",
    "Phase",
    "PreparesSpares",
    "Provider",
    "Rehearsal",
    "Rehearsing",
    "Shortenable",
    "ShowsOwnership",
    "ShowsUnstarted",
    "StopCondition",
    "TakesDown",
    "TakesOptions",
    "TopologyNemesis",
    "Undo",
    "UndoVerb",
    "Undoable",
    "Worker",
    "Workload",
]

Phase: TypeAlias = Literal["setup", "prepare", "main", "probe", "final"]

UndoVerb: TypeAlias = Literal["start", "resume", "clock"]
"""The verbs by which a node undoes a fault by itself: start its server, resume it, set its clock right."""


# ── the system under test ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Executed:
    """A finished command on a node."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """The end of one start of a node. `first_error` is the node's own first ERROR, with its exception, when it died.

    `ended` is True if its process is known to have ended; null: that is to be seen from `exit_code`.
    """

    node: str
    served: bool
    seconds: float
    exit_code: int | None = None
    first_error: str | None = None
    ended: bool | None = None


class Node(Protocol):
    """One server of the cluster. Faults act through these verbs, wherever the node lives."""

    name: str
    address: str

    def exec(self, argv: Sequence[str], *, timeout_s: float = 30, stdin: str | None = None) -> Executed:
        """Run a command in the node's own network namespace (or on its host) and wait for it; never a shell string."""
        ...

    def upload(self, source: Path, target: str) -> None:
        """Copy a local file to the node."""
        ...

    def download(self, source: str, target: Path) -> None:
        """Copy a file of the node to the harness; raises NodeUnreachable or FileNotFoundError."""
        ...

    def start(self) -> None:
        """Start the server process and return at once; a running one is left alone."""
        ...

    def await_serving(self, *, deadline_s: float) -> Boot:
        """Wait until the node answers clients or its process ends or the deadline passes; says which. Never raises for a dead node."""
        ...

    def stop(self, *, deadline_s: float = 30) -> None:
        """Stop the server cleanly (SIGTERM), then kill it if the deadline passes."""
        ...

    def kill(self) -> None:
        """End the server at once (SIGKILL)."""
        ...

    def pause(self) -> None:
        """Freeze the server (SIGSTOP)."""
        ...

    def resume(self) -> None:
        """Resume a frozen server (SIGCONT); no effect otherwise."""
        ...

    def state(self) -> Literal["running", "paused", "stopped"]:
        """Return the present state of the server's process, read from the system and not remembered."""
        ...

    def skew_clock(self, offset_s: float) -> None:
        """Shift the server's wall clock by `offset_s` from true time; 0 restores it, and releases the helper that keeps it."""
        ...

    def clock_offset(self) -> float:
        """Read back the server's wall clock minus true time, in seconds."""
        ...

    def log_text(self) -> str:
        """Return the server's log up to now."""
        ...

    def data_directories(self) -> Sequence[tuple[str, str, str | None, bool, Sequence[str]]]:
        """Return (keyspace, table, id, live, snapshots) of every table on the node's disk.

        Ids as 32 hex digits, null in a layout whose names bear none; in one without folders, tables that were never flushed are absent.
        """
        ...


class Client(Protocol):
    """One session with one coordinator. Never retries, never waits for schema agreement, never fails over."""

    def invoke(self, operation: Invoke) -> Completion:
        """Carry out one operation. Classifies every error by the table in `schemaquake list errors`; raises nothing."""
        ...

    def observe(self, *, phase: str, sample: int, complete: bool) -> Sequence[Observation]:
        """Read this node's own account of its schema (see `schemaquake.harness.model.observation`).

        `complete` asks for every object; otherwise the changes since this client's last call. `time` is filled in
        with `time.monotonic_ns()`. An unreachable node yields one `version` observation with an error.
        """
        ...

    def close(self) -> None:
        """End the session; may be called twice."""
        ...


@runtime_checkable
class EventClient(Client, Protocol):
    """A client of a simulated cluster: it is asked in one event and answers in a later one.

    `answer` is called exactly once, never before the call that was given it has returned. `invoke` and `observe` wait
    for the answer by running the event heap.
    """

    def submit(self, operation: Invoke, answer: Callable[[Completion], None]) -> None:
        """Begin an `invoke`; `answer` receives its completion."""
        ...

    def look(self, *, phase: str, sample: int, complete: bool, answer: Callable[[Sequence[Observation]], None]) -> None:
        """Begin an `observe`; `answer` receives its observations."""
        ...


class Connector(Protocol):
    """The way from a worker process to the cluster: picklable, and cheap until `connect`."""

    def connect(self, node: str, *, request_timeout_s: float) -> Client:
        """Open a session pinned to one coordinator. Raises NodeUnreachable."""
        ...


class Cluster(Protocol):
    """A running system: nodes, and a way for workers to reach them.

    May declare `schemaquake.harness.model.traits.ClusterTraits`, and be `CatchingUp`, `Guarded` or `MemberListing`.
    """

    nodes: Sequence[Node]
    features: frozenset[str]
    """The features of this system's DDL: keyspaces, tables, columns, options, types, functions, views, indexes, …"""

    def start(self) -> Sequence[Boot]:
        """Create and boot every node; returns once all serve clients. Raises NodeDied, StartTimeout."""
        ...

    def await_whole(self, names: Sequence[str], *, deadline_s: float) -> str | None:
        """Wait until each of these nodes regards all the others as alive; None, or the reason why not at the deadline."""
        ...

    def stop(self) -> None:
        """Tear everything down; idempotent, and safe after a partial start."""
        ...

    def connector(self) -> Connector:
        """Return the connector that worker processes receive."""
        ...

    def missing(self, means: str) -> str | None:
        """Return why this cluster cannot provide `means` (`packets`, `clock`, `signals`, `topology`), or None if it can."""
        ...


@runtime_checkable
class StartsInTwo(Protocol):
    """A cluster whose first node can be started, and given a schema, before the others are; `start` does both at once.

    It is used where the others then take that schema over at once (`ClusterTraits.late_nodes_take_over`).
    """

    def start_first(self) -> Sequence[Boot]:
        """Create every node and boot the first one; returns once it serves clients. Raises NodeDied, StartTimeout."""
        ...

    def start_others(self) -> Sequence[Boot]:
        """Boot the other nodes; returns once the cluster is whole. Raises NodeDied, StartTimeout, ClusterError."""
        ...


@runtime_checkable
class TakesOptions(Protocol):
    """A provider that reads options of the plan."""

    @property
    def takes_options(self) -> Mapping[str, str]:
        """Names as `-O` takes them, or prefixes that end in a dot, each with a noun phrase that says what the value is."""
        ...


@runtime_checkable
class CatchingUp(Protocol):
    """A cluster whose nodes can be made to apply all that was committed before."""

    def catch_up(self, names: Sequence[str]) -> Mapping[str, JSON]:
        """Have these nodes catch up before a final reading; by node `{"passed": bool, "seconds": float, "why": str}`."""
        ...


@runtime_checkable
class MemberListing(Protocol):
    """A cluster whose membership can change. The nodes of any other are members from its start to its end."""

    def members(self) -> Mapping[str, Member]:
        """Read the state of every node in `nodes`, spares included, by name.

        Before `start` it is the plan: spares are absent, all others normal. Read from the system wherever it can say.
        Raises ClusterError if no node can be asked.
        """
        ...


@runtime_checkable
class ShowsOwnership(Protocol):
    """A cluster whose nodes can be asked which replicas each range of a keyspace has."""

    def ownership(self, names: Sequence[str], *, prefix: str) -> Mapping[str, JSON]:
        """Ask these nodes for the ranges of keyspaces named `<prefix>_…`; by node, in the shape of an `ownership` row.

        Empty where no node is asked. Raises ClusterError.
        """
        ...


@runtime_checkable
class PreparesSpares(Protocol):
    """A provider that can prepare nodes which are no members when the run begins (`--spares`)."""

    prepares_spares: bool


@runtime_checkable
class HasDataCenters(Protocol):
    """A provider whose nodes can be in several data centres and racks (`--data-centers`, `--racks`)."""

    has_data_centers: bool


SERVER_DIGEST: Final = "digest of its jars"
"""The name of the fact, of those that a provider's `prepare` returns, by which two builds of one version are told apart."""


class Provider(Protocol):
    """A kind of cluster (`--cluster NAME`), before there is one."""

    name: str

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Fetch distributions, and check tools and memory: everything that needs the network or the machine.

        Returns the facts that the report shows of it. Raises EnvironmentLacks, FetchError.
        """
        ...

    def enclosure(self, folder: Path) -> Sequence[str]:
        """Return the argument vector in front of the run's own process, [] if it needs none; raises EnvironmentLacks."""
        ...

    def create(self, plan: Plan, folder: Path) -> Cluster:
        """Create the cluster of this plan, not yet started; called inside the enclosure."""
        ...

    def heal(self, folder: Path) -> Sequence[str]:
        """Undo the remains of a dead run; idempotent. Returns the actions, a sentence each."""
        ...


@runtime_checkable
class LedgerHealer(Protocol):
    """A provider whose nodes outlive a run, and can be healed from its ledger and the cluster file alone."""

    def heal_ledger(self, ledger: Path, cluster_file: Path) -> Sequence[str]:
        """Undo the faults of a ledger; idempotent. Returns the actions, a sentence each. Raises HealError for those left."""
        ...


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The facts about a cluster's nodes that need no answer of theirs: addresses by name, and how each undoes a verb."""

    addresses: Mapping[str, str]
    undoing: Callable[[str, UndoVerb], Sequence[Undo]]


@runtime_checkable
class Rehearsing(Protocol):
    """A provider whose cluster is described by a file, so that a plan for it can be shown before anything is touched."""

    def rehearsal(self, plan: Plan) -> Rehearsal:
        """Return what is known beforehand. Raises PlanError, FaultNotAllowed as `Provider.prepare` does."""
        ...


@runtime_checkable
class HealsEverywhere(Protocol):
    """A provider whose nodes can undo the faults of every run by themselves, at once and without a ledger."""

    def heal_everywhere(self, cluster_file: Path) -> Sequence[str]:
        """Undo every fault on every node. Returns the actions, a sentence each. Raises HealError for what may be left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The memory that a plan needs and the features of its system, known before anything is fetched or started."""

    memory_mb: int
    """The memory of all nodes together, on this machine."""
    features: frozenset[str]
    """The features of the system, as in `Cluster.features`."""
    when_busy: Mapping[str, str] = field(default_factory=dict)
    """Options (`-O`) with which nodes that are busy lose no message of the schema; empty where none are known."""


@runtime_checkable
class Forecast(Protocol):
    """A provider that knows what a plan demands before anything is started, so that several clusters can share a machine."""

    def demands(self, plan: Plan) -> Demands:
        """Return what the plan demands. Raises PlanError for a system that cannot be had here."""
        ...


@runtime_checkable
class ShowsUnstarted(Protocol):
    """A provider whose clusters know, before anything of them is started or written, what a nemesis lacks on them."""

    def unstarted(self, plan: Plan) -> Cluster:
        """Return the plan's cluster. Raises PlanError for options that it cannot have."""
        ...


# ── workloads ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Worker:
    """One member of a workload's crew: its number, and the coordinator it is pinned to."""

    index: int
    node: str


class Workload(Protocol):
    """The steps of a crew in each phase. Pure: a function of context and worker, so a seed fixes every operation.

    Phases, in order: `setup` (before anything; then the harness waits for schema agreement), `prepare` (rows that the
    main phase starts from), `main` (under faults), heal and settle, `probe` (can every table be written and read through every coordinator?),
    `final` (reads that judge), restart of every node, `final` again.
    `phase_label` is "settled" or "restarted" while in `probe` and `final`.

    May declare `schemaquake.harness.model.traits.WorkloadTraits`: one whose main phase never ends by itself is `endless`.
    """

    name: str
    requires: frozenset[str]
    """Features without which the workload is not applicable."""

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return the workers of this workload, each pinned to a node."""
        ...

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase. In `main` they may be endless: the harness stops them at the time limit."""
        ...


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planned fault: when it begins and ends (s after the main phase began), where, and with what parameters."""

    id: int
    nemesis: str
    begins_s: float
    ends_s: float
    nodes: tuple[str, ...]
    parameters: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRequest:
    """A request for a fault that is in place from before the main phase begins until it has ended."""

    nemesis: str
    nodes: tuple[str, ...]
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    reason: str = ""
    """The argument of the command line that asks for it, for refusals: `--mode partition`."""

    def fault(self, *, id: int, ends_s: float) -> Fault:  # noqa: A002 - as the field of Fault
        """Return it as a planned fault; it ends when the phase does, and `ends_s` is the estimate of that."""
        return Fault(
            id=id, nemesis=self.nemesis, begins_s=0.0, ends_s=ends_s, nodes=self.nodes, parameters=self.parameters
        )


@runtime_checkable
class FaultRequesting(Protocol):
    """A workload that needs faults of its own, beside those of the run's nemeses."""

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the faults that this workload needs during its main phase. Raises PlanError for options that do not fit."""
        ...


class Nemesis(Protocol):
    """A kind of fault. `inject` and `heal` act through `Node` only; the runner writes the ledger before either.

    May declare `schemaquake.harness.model.traits.NemesisTraits` (what it needs, what allows it), and be `OwnLack`,
    `Undoable`, `AllowedByOptions` or `Shortenable`.
    """

    name: str

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan every fault of the run, in order of `begins_s`, ending before `context.time_limit_s`; ids from 0."""
        ...

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Inject the fault and return its effect as read back from the system (rules, pids, offsets), as evidence."""
        ...

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Undo the fault; idempotent, also if it was never injected. Returns the state read back. Raises HealError."""
        ...


@runtime_checkable
class TopologyNemesis(Protocol):
    """A kind of change of the cluster's membership: an operation with an outcome, which is never undone.

    It stands in the history as a pair of events of process −1 with f = `name`, and in the ledger as an entry that its
    outcome closes. May declare `schemaquake.harness.model.traits.NemesisTraits`, and be `OwnLack` or `AllowedByOptions`.
    """

    name: str

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan every operation of the run; see `Nemesis.schedule`.

        An operation begins at `begins_s` or, if one before it takes long, until `ends_s`. Operations of one run follow one
        another, but for those whose parameter `overlaps` is true.
        """
        ...

    def becomes(self, operation: Fault) -> Mapping[str, MemberState]:
        """Return the states to which the operation leads if it is ok, by node; a node that it leaves as it is, is absent."""
        ...

    def operate(self, cluster: Cluster, operation: Fault) -> Completion:
        """Carry it out and wait for its outcome, within a limit of its own. What it raises counts as an unknown outcome."""
        ...


@runtime_checkable
class OwnLack(Protocol):
    """A nemesis that asks for more than the means it declares in `needs`, for example for a tool on the nodes."""

    def missing(self, cluster: Cluster) -> str | None:
        """Say in a sentence what to install or allow for this nemesis to work here; None if nothing is missing.

        Nodes that do not run yet are not asked: before the cluster is started there may be no place to ask.
        """
        ...


@runtime_checkable
class AllowedByOptions(Protocol):
    """A nemesis whose options can make it more than its word (`allowed_by`) allows."""

    def words_for(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Name the further words that these options of the plan need: option (`restart.how`) → word (`kill`)."""
        ...


@runtime_checkable
class Shortenable(Protocol):
    """A nemesis the length of whose faults is an option of its own; that of others follows from `--time-limit`."""

    def shortened(self, limit_s: float, *, node_count: int) -> str:
        """Name the option, as it is typed, that makes its faults no longer than `limit_s`."""
        ...


@dataclass(frozen=True, slots=True)
class Undo:
    """One thing that undoes a fault on one node: a command, or a verb that the node knows how to do by itself.

    May be done before the fault was injected, after it was healed, and twice: it then changes nothing, though it may fail.
    """

    argv: tuple[str, ...] = ()
    verb: UndoVerb | None = None
    whole: tuple[str, ...] = ()
    """A command that reads the node back, changes nothing, and exits with 0 if nothing of the fault is left. `argv` is
    repeated until it does, and the guard goes only then. A verb knows its own. Without one `argv` is repeated a few times
    while it fails."""

    def __post_init__(self) -> None:
        if bool(self.argv) == (self.verb is not None):
            raise ValueError(f"either a command or a verb undoes a fault: {self.argv!r}, {self.verb!r}")
        if self.whole and self.verb is not None:
            raise ValueError(f"the verb {self.verb} is read back in its own way, not by {self.whole!r}")


@runtime_checkable
class Undoable(Protocol):
    """A nemesis whose faults can be undone by each node alone, by commands known beforehand."""

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Return, by node and in order, what undoes exactly this fault, however far its injection got."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A cluster whose nodes outlive the run, so that each carries a dead man's switch for every fault on it."""

    max_fault_s: float
    """A fault that was not healed this long after it was armed is undone by its nodes themselves."""

    def arm(self, fault: Fault, undo: Mapping[str, Sequence[Undo]]) -> None:
        """Have the nodes undo this fault by themselves in `max_fault_s`; returns when all guards stand.

        Raises ClusterError, NodeUnreachable: then some may stand, until `disarm`.
        """
        ...

    def disarm(self, fault: Fault) -> None:
        """End the guards of this fault, which is healed; idempotent.

        Raises ClusterError, NodeUnreachable, and HealError if a node itself does not find that it is whole: then its guard
        stays.
        """
        ...

    def expired(self, fault: Fault) -> Mapping[str, JSON]:
        """Return the actions of this fault's guards so far, by node; empty before any acted and after `disarm`.

        `{"after_s": since arming, "done": [{"argv", "exit_code"}]}`. Raises ClusterError, NodeUnreachable.
        """
        ...


@runtime_checkable
class TakesDown(Protocol):
    """A nemesis that says which nodes its faults take down, where these are not those whose process it takes hold of."""

    def down(self, fault: Fault) -> Sequence[str]:
        """Return the nodes that do not serve, or hear no majority, under this fault."""
        ...


class StopCondition(Protocol):
    """A condition of the owner's under which every fault is undone at once."""

    name: str
    every_s: float

    def ask(self) -> str | None:
        """Return why everything is to be undone now, or None."""
        ...

    def close(self) -> None:
        """End the session by which it is asked, if any; may be called twice."""
        ...


@runtime_checkable
class OwnersLimits(Protocol):
    """A cluster whose owner limits what a run may do at once, and may end its faults."""

    max_nodes_down: int | None
    """The most nodes that faults may take down at once; None: no limit."""

    def stop_conditions(self) -> Sequence[StopCondition]:
        """Return the conditions to be asked while faults are on, not asked yet."""
        ...


@runtime_checkable
class Fencing(Protocol):
    """A `Guarded` cluster whose nodes refuse what belongs to a fault that is not guarded any more."""

    def fenced(self, fault: Fault) -> Cluster:
        """Return the cluster as this fault's injection acts on it.

        Each of its nodes carries a command out only while the fault's guard stands there and its time is not over; else
        it does nothing, and the command raises ClusterError.
        """
        ...

    def refuse_if_taken(self, fault: Fault) -> None:
        """Raise ClusterError if another run has taken one of this fault's nodes over, which then is not to be healed.

        The guards of this fault had undone it before; what is wrong with the node now is the other run's.
        """
        ...

    def abandon(self, fault: Fault) -> None:
        """End the guards of this fault without looking whether the nodes are whole.

        For a fault that was never injected, and for remains that no guard can undo: a server that ends while it starts.
        Idempotent. Raises ClusterError, NodeUnreachable.
        """
        ...


# ── formats ──────────────────────────────────────────────────────────────────────────────────────────────────────


class HistoryFormat(Protocol):
    """A notation in which `schemaquake check` reads histories that came from elsewhere."""

    name: str
    suffixes: tuple[str, ...]
    """Ends of the names of its files, each with its dot."""

    def events(self, file: BinaryIO, name: str) -> Iterator[tuple[int, Mapping[str, JSON]]]:
        """Read the events in their order, each with the line it begins on (`name` is the file's, for errors).

        An event is a map with `type` (invoke, ok, fail, info) and `f`, and as far as the file says it `process`, `time` (ns),
        `index`, `node`, `key`, `value` and `error`; a `value` that is a list of `[f, key, value]` is a transaction.
        Raises HistoryError, with line and reason, for a file that is none of this format.
        """
        ...


# ── checkers ───────────────────────────────────────────────────────────────────────────────────────────────────


class Checker(Protocol):
    """Records in, verdict out; nothing else. `scope` is the part of a run that is judged separately.

    A checker of scope `keyspace` is called once for every keyspace with the history and observations of that keyspace
    and of the run as a whole (null keys); one of scope `run` once, with everything.

    `finds` are the anomaly types that its verdicts may hold, each described in a registered `anomalies.toml`; empty for
    a checker that only counts or doubts.

    `vouches`: a `valid` of this checker is good news about the cluster. That of one which counts operations, or looks
    whether faults were injected and nodes were read, says only that there was something to judge.
    """

    name: str
    scope: Literal["keyspace", "run"]
    finds: tuple[str, ...]
    vouches: bool

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge the records. Returns within about `limit_s`, with an `unknown` and its reason if it cannot decide sooner."""
        ...

"""Plan: everything needed to run a test again, as one value that is written into the run's folder.

The plan and the seed fix every operation and fault; only the cluster's reaction is left to chance.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import schemaquake
from schemaquake.harness.errors import DamagedFile, HistoryError, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.options import CheckedOptions, Configurable, configured, declared
from schemaquake.harness.named_folders import why_no_folder
from schemaquake.harness.registry import load
from schemaquake.harness.sealed_json import load_sealed_object

__all__ = ["Plan", "RestartMode", "upgraded"]

RestartMode = Literal["rolling", "together", "none"]

_NODES_MAX: Final = 250
_PATHS: Final = ("cluster_file", "distribution")
_TRUE: Final = "true"

_OPTIONS_OF_0_1: Final[Mapping[str, Any]] = {"mode": "barrier", "races": 10, "first_race": 0, "until_poisoned": False}
"""Fields of plans of 0.1 that are options of workloads since, and their defaults then."""

CLUSTER_FILE: Final = "cluster.toml"
"""Name of the copy of a deployed cluster's file in a run's folder. It holds no secret, only where each secret is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The system, workloads, nemeses, cluster and limits of one run. Times in seconds."""

    system: str
    workloads: tuple[str, ...]
    cluster: str = "local"
    cluster_file: Path | None = None
    """The file of a deployed cluster: its system, access and allowed faults; `cluster` is then its provider."""
    nodes: int = 3
    spares: int = 0
    """Nodes that are prepared beside `nodes` and are no members when the run begins; nemeses may make them join."""
    data_centers: int = 1
    """Data centres that the nodes and the spares are dealt to in turn: dc1, dc2, …"""
    racks: int = 1
    """Racks that the nodes of each data centre are dealt to in turn: rack1, rack2, …"""
    nemeses: tuple[str, ...] = ()
    seed: int = 1
    time_limit_s: float = 60
    ends_after_s: float | None = None
    """The main phase ends so long after the last operation on the topology has ended, or at its time limit; None: only there."""
    rate: float | None = None
    concurrency: int | None = None
    """Workers of each free-running workload; None: one a node. Racing workloads set their own crew."""
    replication_factor: int | None = None
    keyspace_prefix: str = "sq"
    options: Mapping[str, str] = field(default_factory=dict)
    """`-O name=value`: the options that workloads, nemeses and clusters declare (`schemaquake.harness.model.options`)."""
    request_timeout_s: float = 20
    start_timeout_s: float = 120
    settle_limit_s: float = 20
    restart: RestartMode = "rolling"
    keep_data: bool = False
    distribution: Path | None = None
    schemaquake_version: str = field(default_factory=lambda: schemaquake.__version__)

    def __post_init__(self) -> None:
        """Raise PlanError for a field out of range, by its name."""
        for name in ("time_limit_s", "ends_after_s", "rate", "request_timeout_s", "start_timeout_s", "settle_limit_s"):
            # Every comparison with a NaN is false, so it would pass all the others and never end.
            if not math.isfinite(getattr(self, name) or 0):
                raise PlanError(f"{_option(name)} must be a number, not {getattr(self, name)}")
        for name, least in (
            ("nodes", 1),
            ("spares", 0),
            ("data_centers", 1),
            ("racks", 1),
            ("time_limit_s", 0),
            ("ends_after_s", 0),
            ("settle_limit_s", 0),
            ("start_timeout_s", 1),
            ("request_timeout_s", 0.1),
        ):
            if (value := getattr(self, name)) is not None and value < least:
                raise PlanError(f"{_option(name)} must be at least {least}, not {value}")
        for broken, sentence in self._objections():
            if broken:
                raise PlanError(sentence)

    def _objections(self) -> Sequence[tuple[bool, str]]:
        prefix, factor = self.keyspace_prefix, self.replication_factor
        return (
            (self.nodes > _NODES_MAX, f"--nodes must be at most {_NODES_MAX}, not {self.nodes}"),
            (
                self.nodes + self.spares > _NODES_MAX,
                f"--nodes and --spares must be at most {_NODES_MAX} together, not {self.nodes + self.spares}",
            ),
            (not -(2**63) <= self.seed < 2**63, f"--seed must fit into 64 bits, not {self.seed}"),
            (not self.workloads, "no workload: name at least one with --workload (schemaquake list workloads)"),
            (
                self.restart not in get_args(RestartMode),
                f'--restart is "rolling", "together" or "none", not "{self.restart}"',
            ),
            (
                self.data_centers > self.nodes,
                f"--data-centers must be at most --nodes ({self.nodes}), not {self.data_centers}",
            ),
            (
                self.racks > self._smallest_center,
                f"--racks must be at most the nodes of a data centre ({self._smallest_center}), not {self.racks}",
            ),
            (
                factor is not None and not 1 <= factor <= self._smallest_center,
                f"--replication-factor must be between 1 and --nodes ({self.nodes}), not {factor}"
                if self.data_centers == 1
                else f"--replication-factor must be between 1 and the nodes of a data centre ({self._smallest_center}), not {factor}",
            ),
            (
                self.rate is not None and self.rate <= 0,
                f"--rate must be more than 0 operations a second, not {self.rate}",
            ),
            (
                self.concurrency is not None and self.concurrency < 1,
                f"--concurrency must be at least 1, not {self.concurrency}",
            ),
            (
                re.fullmatch(r"[a-z][a-z0-9_]{0,15}", prefix) is None,
                f'--keyspace-prefix must be a lower-case identifier of at most 16 characters, not "{prefix}"',
            ),
        )

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes' names, n1, n2, … as in Jepsen."""
        return tuple(f"n{number}" for number in range(1, self.nodes + 1))

    @property
    def spare_names(self) -> tuple[str, ...]:
        """The spares' names, counted on from the nodes'."""
        return tuple(f"n{number}" for number in range(self.nodes + 1, self.nodes + self.spares + 1))

    @property
    def locations(self) -> Mapping[str, tuple[str, str]]:
        """The data centre and the rack of every node and spare by its name; empty where there is one of each."""
        if self.data_centers == self.racks == 1:
            return {}
        everybody = (*self.node_names, *self.spare_names)
        return {
            name: (f"dc{place % self.data_centers + 1}", f"rack{place // self.data_centers % self.racks + 1}")
            for place, name in enumerate(everybody)
        }

    def with_nodes(self, nodes: int) -> Plan:
        """Return the plan with another number of nodes, and no more data centres and replicas than there are nodes for."""
        centers = min(self.data_centers, nodes)
        factor = self.replication_factor
        return replace(
            self,
            nodes=nodes,
            data_centers=centers,
            racks=min(self.racks, max(nodes // centers, 1)),
            replication_factor=None if factor is None else min(factor, nodes // centers),
        )

    @property
    def _smallest_center(self) -> int:
        """The number of nodes of the data centre that has the fewest."""
        return max(self.nodes // max(self.data_centers, 1), 1)

    def context(self, features: frozenset[str]) -> Context:
        """Return the facts that workloads and nemeses may use."""
        return Context(
            seed=self.seed,
            nodes=self.node_names,
            spares=self.spare_names,
            workloads=self.workloads,
            schema_changers=tuple(name for name in self.workloads if not _keeps_schema(name)),
            replication_factor=self.replication_factor or min(3, self._smallest_center),
            data_centers={name: center for name, (center, _) in self.locations.items()},
            keyspace_prefix=self.keyspace_prefix,
            features=features,
            crew=self.concurrency or self.nodes,
            time_limit_s=self.time_limit_s,
            rate=self.rate,
            nemeses=self.nemeses,
            under_faults=bool(self.nemeses),
            options=dict(self.options),
        )

    def check_options(self) -> None:
        """Refuse options that do not fit the workloads that declare them. Raises PlanError, also for an unknown workload."""
        context = self.context(frozenset())
        for name in self.workloads:
            workload = load("workloads", name)
            if isinstance(workload, Configurable):
                options = configured(workload.options, self.options)
                if isinstance(options, CheckedOptions):
                    options.check(context)

    def command_line(self) -> list[str]:
        """Return the `schemaquake run …` that repeats this plan, without arguments that equal the defaults."""
        argv = ["schemaquake", "run", "--system", self.system, "--workload", ",".join(self.workloads)]
        argv += ["--nemesis", ",".join(self.nemeses) or "none", "--seed", str(self.seed)]
        defaults = {f.name: f.default for f in fields(self)}
        if self.cluster_file is not None:
            argv += ["--cluster", str(self.cluster_file)]
        elif self.cluster != defaults["cluster"]:
            argv += ["--cluster", self.cluster]
        shorthands = self._shorthands()
        for name in ("nodes", "spares", "data_centers", "racks"):
            if getattr(self, name) != defaults[name]:
                argv += [_option(name), str(getattr(self, name))]
        argv += [word for name, text in shorthands.items() if text != _TRUE for word in (f"--{name}", text)]
        for name in (
            "time_limit_s",
            "ends_after_s",
            "rate",
            "concurrency",
            "replication_factor",
            "keyspace_prefix",
            "request_timeout_s",
            "start_timeout_s",
            "settle_limit_s",
            "restart",
            "distribution",
        ):
            value = getattr(self, name)
            if value != defaults[name]:
                argv += [_option(name), _shortest(value) if isinstance(value, float) else str(value)]
        argv += [f"--{name}" for name, text in shorthands.items() if text == _TRUE]
        argv += ["--keep-data"] if self.keep_data else []
        for name, value in sorted(self.options.items()):
            if name not in shorthands:
                argv += ["-O", f"{name}={value}"]
        return argv

    def _shorthands(self) -> dict[str, str]:
        """Return the given options that `schemaquake run` has under a name of their own, in the order of their declaration."""
        found: dict[str, str] = {}
        for name in self.workloads:
            try:
                workload = load("workloads", name)
            except PlanError:
                continue  # not installed here: its options are written with -O
            if isinstance(workload, Configurable):
                named = [each.name for each in declared(workload.options) if each.shorthand]
                found |= {each: self.options[each] for each in named if each in self.options}
        return found

    def command(self) -> str:
        """Return the command line as one line for a shell."""
        return shlex.join(self.command_line())

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plan.json holds it."""
        document = asdict(self)
        for name in _PATHS:
            document[name] = None if document[name] is None else str(document[name])
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """Read back what `to_json` wrote, also in 0.1 (`upgraded`).

        Raises PlanError for a field that no plan has, and for a missing one that every plan has.
        """
        document = upgraded(document)
        known = {f.name for f in fields(cls)}
        unknown = document.keys() - known
        if unknown:
            raise PlanError(f"the plan has fields this version does not know: {', '.join(sorted(unknown))}")
        lacking = {
            f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING
        } - document.keys()
        if lacking:
            raise PlanError(f"the plan lacks: {', '.join(sorted(lacking))}")
        for field_ in fields(cls):
            if field_.name in document and not _FITS[str(field_.type)](document[field_.name]):
                raise PlanError(f"the plan's {field_.name} must be {field_.type}, not {document[field_.name]!r}")
        values = dict(document)
        for name in ("workloads", "nemeses"):
            values[name] = tuple(values.get(name, ()))
        for name in _PATHS:
            values[name] = None if values.get(name) is None else Path(values[name])
        return cls(**values)

    @classmethod
    def read(cls, folder: Path, *, keep_going: bool = False) -> Plan:
        """Read the plan of a run's folder.

        Raises HistoryError if it is missing, and DamagedFile if it is not what was written; with `keep_going` only if
        it cannot be read at all, so that a run with such a plan can still be healed.
        """
        path = folder / "plan.json"
        try:
            document = load_sealed_object(path.read_bytes(), keep_going=keep_going)
        except OSError as error:
            why = why_no_folder(folder)
            if why is None and not isinstance(error, FileNotFoundError):
                raise
            raise HistoryError(f"{folder} is not a run's folder: {why or 'it has no plan.json'}") from error
        except ValueError as error:
            raise DamagedFile(f"{path} is damaged: {error}", path) from error
        return cls.from_json(document)


def _is_number(value: object) -> bool:
    return type(value) in {int, float}


def _is_text(value: object) -> bool:
    return type(value) is str


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": _is_text,
    "RestartMode": _is_text,
    "int": lambda value: type(value) is int,
    "float": _is_number,
    "bool": lambda value: type(value) is bool,
    "int | None": lambda value: value is None or type(value) is int,
    "float | None": lambda value: value is None or _is_number(value),
    "Path | None": lambda value: value is None or _is_text(value),
    "tuple[str, ...]": lambda value: type(value) in {list, tuple} and all(map(_is_text, value)),
    "Mapping[str, str]": lambda value: type(value) is dict and all(map(_is_text, value.values())),
}
"""Whether a JSON value fits a field of that type; a file may have been written by anybody."""


def upgraded(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a plan.json of 0.1 as it is written today; a present one is returned as it is.

    0.1 had four fields that only workloads made of races knew: `mode`, `races`, `first_race` and `until_poisoned`. They
    become entries of `options`, but for those that had their default of 0.1, which is still the option's.
    """
    if not _OPTIONS_OF_0_1.keys() & document.keys():
        return document
    moved = {
        name.replace("_", "-"): str(document[name]).lower()
        for name, default in _OPTIONS_OF_0_1.items()
        if document.get(name, default) != default
    }
    kept = {name: value for name, value in document.items() if name not in _OPTIONS_OF_0_1}
    return {**kept, "options": {**document.get("options", {}), **moved}}


def _keeps_schema(workload: str) -> bool:
    """Return the trait of that name; `schemaquake.harness.model.traits` itself builds on this module."""
    try:
        return getattr(load("workloads", workload), "keeps_schema", False) is True
    except PlanError:
        return False  # not installed here: nothing is known of it


def _option(name: str) -> str:
    return "--" + name.removesuffix("_s").replace("_", "-")


def _shortest(number: float) -> str:
    """Render a number in its shortest form that is read back as the same number."""
    text = f"{number:g}"
    return text if float(text) == number else repr(number)

"""Options that several commands have: one wording each, and one word for the kind of value.

`limit: Limit = 120` in the signature of a command. Options whose default is said differently are functions:
`nodes: Annotated[int | None, number_of_nodes(default="3")] = None`; `default` is shown where the signature has None.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schemaquake.harness.cli.completion import complete_names, complete_systems
from schemaquake.harness.cli.sections import CLUSTER, FAULTS, OUTPUT, TIME, WORKLOADS

__all__ = [
    "FILE",
    "FOLDER",
    "MIB",
    "MINUTES",
    "NAME",
    "NAMES",
    "NUMBER",
    "ONE_RUN",
    "PATH",
    "RUNS",
    "RUNS_BELOW",
    "SECONDS",
    "SYSTEM",
    "URL",
    "AsJson",
    "Curated",
    "Engine",
    "JudgeAgain",
    "KeepData",
    "Limit",
    "Master",
    "Nemesis",
    "Options",
    "OptionsOfSimulation",
    "OwnDistribution",
    "ResumeAnalysis",
    "Runs",
    "Verbose",
    "Workload",
    "clusters_at_once",
    "end_after_operations",
    "kind_of_cluster",
    "number_of_nodes",
    "number_of_races",
    "number_of_spares",
    "random_seed",
    "restart_of_nodes",
    "settling_limit",
    "systems_to_compare",
    "time_budget_of",
    "time_of_main_phase",
]

# ── kinds of values ──────────────────────────────────────────────────────────────────────────────────────────────────

FILE: Final = "FILE"
FOLDER: Final = "FOLDER"
PATH: Final = "PATH"
URL: Final = "URL"
NAME: Final = "NAME"
NAMES: Final = "NAME[,NAME]"
NUMBER: Final = "N"
MIB: Final = "MIB"
SECONDS: Final = "SECONDS"
MINUTES: Final = "MINUTES"
SYSTEM: Final = "SYSTEM"
ONE_RUN: Final = "RUN"
RUNS: Final = "RUN..."
RUNS_BELOW: Final = (
    "Folders of runs, or folders in which runs are, at any depth; runs that a run made are not among them."
)
"""The help of an argument that `schemaquake.results.store.run_folders.find_runs` reads."""

# ── output ───────────────────────────────────────────────────────────────────────────────────────────────────────────

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.", rich_help_panel=OUTPUT)
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every step.", rich_help_panel=OUTPUT)]
Runs = Annotated[
    Path,
    typer.Option(
        "--runs", metavar=FOLDER, help="Folder in which the results get a new folder.", rich_help_panel=OUTPUT
    ),
]
KeepData = Annotated[
    bool, typer.Option("--keep-data", help="Keep the nodes' data directories.", rich_help_panel=OUTPUT)
]
Curated = Annotated[
    Path | None,
    typer.Option(metavar=FILE, help="TOML file of names, tickets, merged findings and versions said to be fixed."),
]

# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Limit = Annotated[
    float,
    typer.Option(
        "--limit",
        metavar=SECONDS,
        help="Time limit of each checker; beyond it, the verdict is unknown.",
        rich_help_panel=OUTPUT,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Where the records are analysed: local, spark, or auto (by their size).",
        rich_help_panel=OUTPUT,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(metavar=URL, help="Spark master, such as spark://host:7077 or local[4].", rich_help_panel=OUTPUT),
]
ResumeAnalysis = Annotated[
    bool, typer.Option("--resume-analysis", help="Continue an interrupted analysis of the same records.")
]
JudgeAgain = Annotated[
    bool,
    typer.Option(
        "--judge-again",
        help="With --resume: judge all recorded runs again and redraw the page, without starting a run.",
    ),
]

# ── systems and clusters ─────────────────────────────────────────────────────────────────────────────────────────────


def systems_to_compare(default: str) -> Any:
    """Return the option that names systems, and says which are compared if it is not given."""
    return typer.Option(
        "--system",
        metavar=SYSTEM,
        help="System to compare (schemaquake list systems); may be repeated.",
        show_default=default,
        autocompletion=complete_systems,
        rich_help_panel=CLUSTER,
    )


OwnDistribution = Annotated[
    Path | None,
    typer.Option(
        metavar=PATH,
        help="Tarball (apache-cassandra-VERSION-bin.tar.gz) or unpacked folder to use instead of fetched jars.",
        rich_help_panel=CLUSTER,
    ),
]


def kind_of_cluster() -> Any:
    """Return the option `--cluster` of commands that start several clusters."""
    return typer.Option(
        metavar="KIND",
        help="Kind of cluster (schemaquake list clusters).",
        show_default="that of the systems: local or simulated",
        rich_help_panel=CLUSTER,
    )


def number_of_nodes(default: str | bool = True) -> Any:
    """Return the option `--nodes`."""
    return typer.Option(
        metavar=NUMBER, help="Number of nodes of the cluster.", show_default=default, rich_help_panel=CLUSTER
    )


def number_of_spares(default: str | bool = True) -> Any:
    """Return the option `--spares`."""
    return typer.Option(
        metavar=NUMBER,
        help="Number of further nodes, prepared for topology nemeses to make them join.",
        show_default=default,
        rich_help_panel=CLUSTER,
    )


# ── workloads and faults ─────────────────────────────────────────────────────────────────────────────────────────────

Workload = Annotated[
    str,
    typer.Option(
        metavar=NAMES,
        help="One or more workloads (schemaquake list workloads).",
        autocompletion=complete_names("workloads", many=True),
        rich_help_panel=WORKLOADS,
    ),
]
Nemesis = Annotated[
    str,
    typer.Option(
        metavar=NAMES,
        help="One or more nemeses (schemaquake list nemeses), or none.",
        autocompletion=complete_names("nemeses", "none", many=True),
        rich_help_panel=FAULTS,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-O",
        metavar="NAME=VALUE",
        help="Option of a workload, a nemesis or the cluster (schemaquake list options); may be repeated.",
        rich_help_panel=WORKLOADS,
    ),
]
OptionsOfSimulation = Annotated[
    list[str] | None,
    typer.Option(
        "-O",
        metavar="NAME=VALUE",
        help="Option of the simulation, such as bug=NAME (schemaquake list options); may be repeated.",
    ),
]


def random_seed(default: str | bool = True) -> Any:
    """Return the option `--seed`."""
    return typer.Option(
        metavar=NUMBER,
        help="Seed of all random choices: operations, races, faults.",
        show_default=default,
        rich_help_panel=WORKLOADS,
    )


def number_of_races(default: str | bool = True) -> Any:
    """Return the option `--races`."""
    return typer.Option(
        metavar=NUMBER,
        help="Number of races of each kind in a run.",
        show_default=default,
        rich_help_panel=WORKLOADS,
    )


def restart_of_nodes(default: str | bool = True) -> Any:
    """Return the option `--restart`."""
    return typer.Option(
        metavar="MODE",
        help="Restart of every node before the last readings: rolling, together or none.",
        show_default=default,
        rich_help_panel=FAULTS,
    )


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def time_of_main_phase(default: str | bool = True) -> Any:
    """Return the option `--time-limit`."""
    return typer.Option(
        metavar=SECONDS,
        help="Length of the main phase, for faults and for workloads without an end.",
        show_default=default,
        rich_help_panel=TIME,
    )


def end_after_operations() -> Any:
    """Return the option `--ends-after`."""
    return typer.Option(
        metavar=SECONDS,
        help="End the main phase this long after the last operation on the topology, if that is earlier.",
        rich_help_panel=TIME,
    )


def settling_limit(default: str | bool = True) -> Any:
    """Return the option `--settle-limit`."""
    return typer.Option(
        metavar=SECONDS,
        help="Time to wait for schema agreement; a disagreement after that counts.",
        show_default=default,
        rich_help_panel=TIME,
    )


def time_budget_of(default: str | bool = True) -> Any:
    """Return the option `--time-budget`."""
    return typer.Option(
        metavar=MINUTES, help="Time after which nothing new is started.", show_default=default, rich_help_panel=TIME
    )


def clusters_at_once(default: str | bool = True) -> Any:
    """Return the option `--jobs`."""
    return typer.Option(
        metavar=NUMBER,
        help="Number of clusters at the same time, limited by memory.",
        show_default=default,
        rich_help_panel=CLUSTER,
    )

"""Cluster choice: the cluster of a run, from `--cluster`, the options beside it and the cluster file.

The file is authoritative: an option that agrees with it is accepted, one that contradicts it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemaquake.harness.errors import PlanError

__all__ = ["ClusterChoice", "choose_cluster", "usual_cluster"]

_NODES: Final = 3
_PREFIX: Final = "sq"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The fields of a plan that a cluster file may set."""

    cluster: str
    cluster_file: Path | None
    system: str
    nodes: int
    keyspace_prefix: str


def choose_cluster(
    cluster: str | None, *, system: str | None, nodes: int | None, keyspace_prefix: str | None
) -> ClusterChoice:
    """Choose from the options as typed (None: not given).

    Raises PlanError for every error of the file, for every option that contradicts it, and without any system.
    """
    path = Path(cluster) if cluster is not None and cluster.endswith(".toml") else None
    file = None
    if path is not None:
        from schemaquake.clusters.cluster_file.parse import read_cluster_file  # noqa: PLC0415 - the checks take long to import

        file = read_cluster_file(path)
        settings = (
            ("--system", system, file.system),
            ("--nodes", nodes, file.node_count),
            ("--keyspace-prefix", keyspace_prefix, file.keyspace_prefix),
        )
        _refuse_contradictions(str(path), settings)
        system, nodes, keyspace_prefix = system or file.system, file.node_count or nodes, file.keyspace_prefix
    if system is None:
        place = "" if file is None else f', or write it into {path}: system = "cassandra:5.0.9"'
        raise PlanError(f"no system: name one with --system cassandra:VERSION{place}")
    return ClusterChoice(
        cluster=file.provider if file is not None else cluster or usual_cluster([system]),
        cluster_file=path,
        system=system,
        nodes=_NODES if nodes is None else nodes,
        keyspace_prefix=_PREFIX if keyspace_prefix is None else keyspace_prefix,
    )


def usual_cluster(systems: Iterable[str]) -> str:
    """Return the kind of cluster that the systems run on where none is named.

    Raises PlanError for what is no system, and for systems that do not share one kind.
    """
    from schemaquake.clusters.systems.system import parse_system  # noqa: PLC0415 - a command's help would wait for it

    kinds = {parse_system(system).cluster: system for system in systems}
    if len(kinds) > 1:
        named = " and ".join(f"{system} on {kind}" for kind, system in kinds.items())
        raise PlanError(f"systems of different kinds of cluster cannot share a plan: {named}")
    return next(iter(kinds))


def _refuse_contradictions(path: str, settings: tuple[tuple[str, Any, Any], ...]) -> None:
    refused = [
        f"{option} {typed} contradicts {path}, which says {written}: leave the option out, or change the file"
        for option, typed, written in settings
        if typed is not None and written is not None and typed != written
    ]
    if refused:
        raise PlanError("\n".join(refused))

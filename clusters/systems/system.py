"""System: what is known of one version of one product, as a value that is handed to all who need to know it.

A product is registered under its name in the entry point group `schemaquake.systems`. A package outside the tree adds
one without an edit here:

    [project.entry-points."schemaquake.systems"]
    quakedb = "quakedb_plugin.system:QuakeDb"

    class QuakeDb:                                     # a SystemFamily
        title = "QuakeDB"
        known_versions = ("1.0",)

        def parse(self, text: str) -> System:          # "quakedb:1.0"; raises PlanError
            product, version, _ = split_system(text)
            return replace(parse_system("cassandra:5.0.9"), product=product, version=version)

Every field of `System` may differ: a fork of Cassandra replaces its names and features, a system with tables of its own
brings a `SchemaReading` in its `CqlDialect`. Fields are values, module-level functions, or instances of module-level
classes, because a system is pickled into the workers' processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from schemaquake.clusters.systems.dialect import Authority, CqlDialect
from schemaquake.clusters.systems.gossip import Gossip, Membership
from schemaquake.clusters.systems.recipe import Layout, Recipe
from schemaquake.clusters.systems.topology import ToolCommand, Topology
from schemaquake.clusters.systems.upgrades import Upgrade
from schemaquake.harness.errors import PlanError
from schemaquake.harness.registry import load, names

__all__ = [
    "AfterFirstBoot",
    "Container",
    "System",
    "SystemFamily",
    "nothing_after_first_boot",
    "parse_system",
    "recipe_for",
    "split_system",
]

_GOSSIP: Final = Gossip()
_HERE: Final = "local"
"""The kind of cluster that is started on this machine."""
_SYSTEM: Final = re.compile(r"(?P<product>[a-z][a-z0-9-]*):(?P<version>(?P<major>\d+)\.(?P<minor>\d+)[\w.+-]*)")

Launch: TypeAlias = Callable[[Collection[str]], Recipe]
"""From the features that workloads require to the recipe by which a node is started with them."""


AfterFirstBoot: TypeAlias = Callable[[int], Sequence[ToolCommand]]
"""From the number of nodes of a new cluster to what is then carried out on its first node, in order."""


def nothing_after_first_boot(nodes: int) -> Sequence[ToolCommand]:  # noqa: ARG001 - others depend on it
    """Leave a new cluster as it is."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The command and folders with which a server other than Cassandra is started in a container."""

    image: str
    """The image that its makers publish, without its tag, which is the version."""
    data: str
    """The folder of its data."""
    command: Callable[[str, str, int], Sequence[str]]
    """From its own address, the seeds' addresses, joined by commas, and the container's MB to its argument vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One version of one product. The facts of a line of releases are explained at the head of `recipes.toml`."""

    product: str
    version: str
    era: str
    """The label under which pages group versions; nothing is decided by it."""
    features: frozenset[str]
    authority: Authority
    cql: CqlDialect | None
    """How CQL clients speak to it; None for a system that speaks Thrift, whose servers name their interface themselves."""
    start: Literal["together", "first-alone"]
    layout: Layout
    memory_mb: int
    pull_delay_s: float
    topology: Topology
    line: tuple[int, int] = (0, 0)
    """Major and minor version."""
    upgrade: Upgrade | None = None
    """The way from older lines to this one; None where none is known."""
    applies_in_order: bool = False
    """True where a node applies one schema change after the other, each of several steps between which a kill can fall."""
    membership: Membership = _GOSSIP
    after_first_boot: AfterFirstBoot = nothing_after_first_boot
    launch: Launch | None = None
    """How it is started on this machine; None if it is not."""
    jars: str | None = None
    """The version of Cassandra whose jars it is started from; None if it is not started here."""
    cluster: str = _HERE
    """The kind of cluster that it runs on where none is named: a name of the entry point group `schemaquake.clusters`."""
    container: Container | None = None
    """How it is started in a container where that is not by the image's own command, as Cassandra's are."""

    def __str__(self) -> str:
        return f"{self.product}:{self.version}"

    @property
    def client(self) -> Literal["cql", "thrift"]:
        """The protocol that its clients speak."""
        return "thrift" if self.cql is None else "cql"

    def facts(self) -> Mapping[str, str | int]:
        """List era, client, Java, MB of memory a node and the features of its DDL, as `schemaquake list systems` shows them."""
        java = "-"
        if self.launch is not None:
            first, last = self.launch(()).java
            java = f"{first}" if first == last else f"{first} to {last}"
        return {
            "era": self.era,
            "client": "Thrift" if self.cql is None else f"CQL v{self.cql.protocol_version}",
            "java": java,
            "MB a node": self.memory_mb,
            "features": " ".join(sorted(self.features)),
        }


class SystemFamily(Protocol):
    """All versions of one product: what an entry point of the group `schemaquake.systems` names (a class or an object)."""

    title: str
    """The product's name as people write it."""
    known_versions: Sequence[str]
    """Versions that were seen to work, or one of each line, oldest first; a hint for users, not a limit."""

    def parse(self, text: str) -> System:
        """Make the system of `product:version`. Raises PlanError for a version of which nothing is known."""
        ...


def split_system(text: str) -> tuple[str, str, tuple[int, int]]:
    """Split `cassandra:5.0.9` into product, version and (major, minor). Raises PlanError if it is no such text."""
    match = _SYSTEM.fullmatch(text)
    if match is None:
        raise PlanError(f'"{text}" is not a system; write product:version, for example cassandra:5.0.9')
    return match["product"], match["version"], (int(match["major"]), int(match["minor"]))


def parse_system(text: str) -> System:
    """Find the system of `product:version`. Raises PlanError for an unknown product, and for an unknown line of it."""
    product, colon, _ = text.partition(":")
    if not colon or not product:
        split_system(text)  # says how a system is written
    known = names("systems")
    if product not in known:
        raise PlanError(f'Schemaquake knows the products {" and ".join(known)}, not "{product}"')
    family: SystemFamily = load("systems", product)
    return family.parse(text)


def recipe_for(system: System, *, wanted: Collection[str] = ()) -> Recipe:
    """Make the recipe by which the system is started here, with the features in `wanted` that are off by default.

    Raises PlanError for a system that is not started here, saying where it runs.
    """
    if system.launch is None:
        if system.cluster != _HERE:
            raise PlanError(f"{system} is not started here: it runs on --cluster {system.cluster}")
        image = "" if system.container is None else f" with the image {system.container.image}:{system.version}"
        raise PlanError(
            f"{system} is not started here: it runs on deployed clusters (--cluster FILE.toml) and in containers{image} "
            "(--cluster docker)"
        )
    return system.launch(wanted)

"""Design: how a line of Cassandra stores its schema, and what follows for its readers and for a new cluster."""

from __future__ import annotations

from dataclasses import dataclass

from schemaquake.clusters.systems.dialect import Authority, RingReading, SchemaReading
from schemaquake.clusters.systems.system import AfterFirstBoot, nothing_after_first_boot

__all__ = ["Design"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One schema-storage design; each has a module beside this one. The fields are those of `System`."""

    authority: Authority
    schema: SchemaReading | None
    """How it is read by CQL; None for lines that speak Thrift, whose client reads them by the authority."""
    ring: RingReading | None = None
    """How the members are read by CQL; None where they are not."""
    applies_in_order: bool = False
    after_first_boot: AfterFirstBoot = nothing_after_first_boot

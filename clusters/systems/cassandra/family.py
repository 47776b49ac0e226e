"""Cassandra: the lines of releases in `recipes.toml`, each with the design by which it stores its schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from schemaquake.clusters.systems.cassandra import (
    merged_rows,
    metadata_log,
    ordered_migrations,
    schema_tables,
    system_schema,
)
from schemaquake.clusters.systems.cassandra.design import Design
from schemaquake.clusters.systems.cassandra.topology import topology_of
from schemaquake.clusters.systems.cassandra.upgrades import upgrade_to
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.dialect import CqlDialect
from schemaquake.clusters.systems.recipe import launch_recipe
from schemaquake.clusters.systems.system import System, split_system

__all__ = ["Cassandra"]

_DESIGNS: Final[Mapping[str, Design]] = {
    "migrations": ordered_migrations.DESIGN,
    "merged-rows": merged_rows.DESIGN,
    "schema-tables": schema_tables.DESIGN,
    "system_schema": system_schema.DESIGN,
    "tcm": metadata_log.DESIGN,
}
"""Designs by the era that `recipes.toml` gives a line."""


class Cassandra:
    """The family `cassandra`."""

    title = "Cassandra"
    known_versions = KNOWN_VERSIONS

    def parse(self, text: str) -> System:
        """Make the system of `cassandra:5.0.9`. Raises PlanError for a line without a launch recipe."""
        product, version, line = split_system(text)
        launch = partial(launch_recipe, text, line)
        recipe = launch()
        design = _DESIGNS[recipe.era]
        dialect = None
        if design.schema is not None and recipe.protocol_version is not None:
            dialect = CqlDialect(
                protocol_version=recipe.protocol_version,
                schema=design.schema,
                authority=design.authority,
                ring=design.ring,
            )
        return System(
            product=product,
            version=version,
            era=recipe.era,
            features=recipe.features,
            authority=design.authority,
            cql=dialect,
            start=recipe.start,
            layout=recipe.layout,
            memory_mb=recipe.memory_mb,
            pull_delay_s=recipe.pull_delay_s,
            applies_in_order=design.applies_in_order,
            after_first_boot=design.after_first_boot,
            topology=topology_of(line),
            line=line,
            upgrade=upgrade_to(line),
            launch=launch,
            jars=version,
        )

"""CQL queries: a data workload's operation as the driver's statement."""

from __future__ import annotations

from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement

from schemaquake.harness.model.queries import Query

__all__ = ["prepared"]


def prepared(query: Query) -> SimpleStatement:
    """Build the statement with its levels of consistency. Raises KeyError for a level that the driver does not know."""
    return SimpleStatement(
        query.text,
        consistency_level=ConsistencyLevel.name_to_value[query.consistency],
        serial_consistency_level=None
        if query.serial_consistency is None
        else ConsistencyLevel.name_to_value[query.serial_consistency],
        fetch_size=None,
    )

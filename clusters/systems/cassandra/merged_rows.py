"""Merged rows (1.1): the schema is rows of column families that merge in any order; its version is their digest.

Clients speak Thrift, and can read the rows. Source: CASSANDRA-1391.
"""

from __future__ import annotations

from typing import Final

from schemaquake.clusters.systems.cassandra.design import Design

__all__ = ["DESIGN"]

DESIGN: Final = Design(authority="disk", schema=None)

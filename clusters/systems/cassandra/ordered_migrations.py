"""Ordered migrations (0.7 to 1.0): the schema is the last of a chain of migrations, each applied after the one before it.

A migration is stored, then applied, then becomes the node's version: a node that is killed in between starts halfway.
Definitions are stored as Avro records that no client can read, so what a node remembers stands for its schema.
Source: seed document 1 (Cassandra 0.7, live schema updates).
"""

from __future__ import annotations

from typing import Final

from schemaquake.clusters.systems.cassandra.design import Design

__all__ = ["DESIGN"]

DESIGN: Final = Design(authority="memory", schema=None, applies_in_order=True)

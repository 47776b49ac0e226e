"""Cycle names: every kind of cycle that a finding may name. Apart from the models, which take longer to load."""

from __future__ import annotations

from typing import Final

__all__ = ["CYCLE_ANOMALIES"]

CYCLE_ANOMALIES: Final = (
    "G0",
    "G0-process",
    "G0-realtime",
    "G1c",
    "G1c-process",
    "G1c-realtime",
    "G-single-item",
    "G-single-item-process",
    "G-single-item-realtime",
    "G-nonadjacent-item",
    "G-nonadjacent-item-process",
    "G-nonadjacent-item-realtime",
    "G2-item",
    "G2-item-process",
    "G2-item-realtime",
    "PL-SI-cycle-exists",
    "strong-session-snapshot-isolation-cycle-exists",
    "strong-snapshot-isolation-cycle-exists",
)
"""Every kind of cycle that a finding may name; the last three are for components too large to be distinguished further in time."""

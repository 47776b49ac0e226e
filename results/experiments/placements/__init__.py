"""Placements: the tables of `quorums` and `placements`, the tools of CEP-21's test plan."""

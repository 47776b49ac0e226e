"""Experiments that are not runs: a table of crashes, one node at a time."""

"""Crash table: a node of the ordered-migrations era killed at every step of a schema change."""

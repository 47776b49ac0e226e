"""Crash table: a node killed at every step of a schema change, for the ordered-migrations era."""

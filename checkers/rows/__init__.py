"""Checkers of rows: what was acknowledged, what was read, what can be written."""

"""Checkers of the schema that nodes have in the end."""

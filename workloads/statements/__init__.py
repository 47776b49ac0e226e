"""Statements of schema changes, described by the objects they need, make, remove and name; and how two of them meet."""

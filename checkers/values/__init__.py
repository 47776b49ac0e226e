"""Checkers of data workloads, one kind of value each."""

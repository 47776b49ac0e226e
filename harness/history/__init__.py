"""Histories: journals, their merging, and operations paired from events."""

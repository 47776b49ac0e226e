"""Formats: anybody's histories as our Arrow table, by file format."""

"""Formats: external histories as Schemaquake's Arrow table, by file format."""

"""Findings that checkers report: the catalogue of anomalies, arguments, tallies and limits."""

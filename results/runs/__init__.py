"""Runs: carried out, judged, compared."""

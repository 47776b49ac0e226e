"""Shrinking: from a run that failed to the least that still fails."""

"""Shrinking: from a failing run to the smallest scenario that still fails."""

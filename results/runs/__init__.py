"""Runs: their execution, judging and comparison."""

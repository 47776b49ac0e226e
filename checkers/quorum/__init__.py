"""Checkers of quorum reads and writes, and of logged batches."""

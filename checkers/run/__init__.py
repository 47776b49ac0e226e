"""Checkers of the run itself: restarts, logs, availability, faults."""

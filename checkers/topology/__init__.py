"""Checkers of the topology: members, placements, and the log of the changes of both."""

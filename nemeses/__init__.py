"""Nemeses: partitions, kills, pauses, clock skew, packet loss."""

"""Clusters on this machine, one network namespace per node."""

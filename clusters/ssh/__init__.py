"""Clusters of hosts that are reached by SSH."""

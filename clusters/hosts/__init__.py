"""Clusters of hosts that are there already, reached by SSH (`--cluster ssh`)."""

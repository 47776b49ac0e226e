"""Clusters that are somebody's: hosts reached by SSH, containers reached through their engine."""

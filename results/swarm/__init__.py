"""Swarm: many seeds on simulated clusters, each with another subset of features (Groce et al. 2012), as a job on an engine.

`drawing` makes a plan of a seed, `one_seed` carries it out and judges it in memory, `table` is what is kept of it, `sweep` does so
for a range of seeds, and `reducing` leaves features out of a failing one.
"""

"""Simulated systems: which real system each is a model of, and the flaws that it has."""

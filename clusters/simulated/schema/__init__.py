"""The schema of simulated nodes: definitions in memory, rows on disk, and the way from either to the other."""

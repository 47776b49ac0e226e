"""Data workloads: reads and writes whose results are checked."""

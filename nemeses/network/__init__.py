"""Network faults: partitions and packet loss."""

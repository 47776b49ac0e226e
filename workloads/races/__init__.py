"""Racing workloads: conflicting schema changes at the same time."""

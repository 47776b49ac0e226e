"""ScyllaDB: its lines of releases, group 0, read barriers, and what its errors prove."""

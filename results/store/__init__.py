"""The store: a run's folder, its files, and how Parquet is written and read."""

"""The store: a run's folder and its files, and the reading and writing of Parquet."""

"""The store, the Spark pipeline, reports, comparison."""

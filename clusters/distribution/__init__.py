"""Distributions of Cassandra, and the Java that they run on: fetched, verified and cached."""

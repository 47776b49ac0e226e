"""Distributions of Cassandra, and a Java to run them: fetched, verified and cached."""

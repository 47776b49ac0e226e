"""The Thrift client for Cassandra 0.7 to 1.1."""

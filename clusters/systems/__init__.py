"""Systems under test: what is known of each version of a product, and how Cassandra's are configured and started."""

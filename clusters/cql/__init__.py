"""The CQL client, the meaning of its errors, and the reading of a node's schema."""

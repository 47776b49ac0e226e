"""The CQL client, what its errors mean, and how a node's schema is read through it."""

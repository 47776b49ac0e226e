"""Schema changes and row operations as values, and their CQL."""

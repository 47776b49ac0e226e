"""Evidence that checkers read from a run: paired operations, schema changes, readings, notes."""

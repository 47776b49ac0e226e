"""Pure functions from a run's records to a verdict."""

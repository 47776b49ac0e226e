"""Tables derived from a run, for reports and for readers."""

"""Clock faults."""

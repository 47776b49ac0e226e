"""Schema churn: random schema changes beside reads and writes."""

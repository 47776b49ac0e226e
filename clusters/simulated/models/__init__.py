"""Models: one module a design by which schema changes spread."""

"""Summary: one run in one small document, and the cells for pages of many runs."""

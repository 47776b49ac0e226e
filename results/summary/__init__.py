"""Summary: one run in one small document, and the cells of pages of many runs."""

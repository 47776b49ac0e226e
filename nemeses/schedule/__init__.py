"""Parts that nemeses share: timetables, targets, options."""

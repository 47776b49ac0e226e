"""What nemeses share: timetables, targets, options."""

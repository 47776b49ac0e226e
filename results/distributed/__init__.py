"""Distribution of single checks: one history, one checker, many tasks that are told where their rows lie."""

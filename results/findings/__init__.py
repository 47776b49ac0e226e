"""Findings: one for each cause, with its symptoms, its rate, and what is known of it."""

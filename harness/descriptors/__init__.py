"""Rows that are pure functions of a seed and a position, so that millions of them need no history of their own."""

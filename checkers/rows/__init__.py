"""Checkers of rows: acknowledged rows are read, and tables can be written and read."""

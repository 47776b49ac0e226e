"""Explore: all orders of the messages of a few schema changes, design beside design."""

"""Judging: from records to one verdict."""

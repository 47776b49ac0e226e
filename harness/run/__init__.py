"""A run: its process, its phases, its workers and its observer."""

"""Summary: what pages of many runs are made from."""

"""Bundle: one run as one file that a stranger can check: hashes, provenance, and everything judged again."""

"""Weak isolation: whether transactions keep read committed, read atomic or causal consistency, by the published axioms."""

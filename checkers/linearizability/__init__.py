"""Linearizability: whether the operations on one object took effect one after another, each within its own interval."""

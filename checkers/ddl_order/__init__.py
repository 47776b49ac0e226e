"""Schema linearizability: whether schema changes have one order that explains every reading."""

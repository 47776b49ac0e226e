"""The cluster file: a deployed cluster as its owner describes it."""

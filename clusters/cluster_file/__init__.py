"""The cluster file: the owner's description of a deployed cluster, and what may be done to it."""

"""The doctor: the checks of a deployed cluster before a run."""

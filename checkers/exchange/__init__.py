"""Exchange: how the steps of a check that is made piece by piece hand rows and messages to each other."""

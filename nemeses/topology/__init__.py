"""Changes of the cluster's membership: operations with an outcome, which nothing undoes."""

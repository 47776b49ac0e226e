"""The kernel: operations, history, protocols, workers, schedule, runner, fault ledger, registry, command line."""

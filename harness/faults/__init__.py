"""Faults: the fault ledger, injection, and healing after a crash."""

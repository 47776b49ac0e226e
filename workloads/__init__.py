"""Workloads: racing DDL, reads and writes, and the reads that checkers judge them by."""

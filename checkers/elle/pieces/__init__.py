"""Transactions judged piece by piece: by ranges of the history, by shares of the keys, by groups of equal A."""

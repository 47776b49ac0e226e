"""Placements: which nodes have the replicas of a token range, and how that changes in steps (CEP-21); pure functions.

`ring` is nodes with their tokens, racks and data centres, `strategies` the replicas of each range, `changes` the steps in
which a node joins, leaves, moves or is replaced, `intersections` the quorums that miss each other between them, and `walk` a
random history of such changes with its invariants.
"""

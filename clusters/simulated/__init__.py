"""Simulated clusters: models of schema protocols in virtual time, from one seed, behind the protocols of real clusters.

`kernel` runs processes on nodes, `network`, `clock` and `draws` are what they run on, `schema` what they change, `data`
what clients read and write, and `models` the protocols themselves, each with its steps numbered as its source numbers
them. Nothing here reads a clock, a random generator or an environment, and nothing iterates over a set: one seed gives
one run, byte for byte.
"""

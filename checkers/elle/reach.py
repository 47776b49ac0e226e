"""Reach: for every transaction the latest invocation of all on which it depends, and where that proves an order broken.

Transactions a, b are ordered in real time if a completes before b is invoked. Let A(v) be the latest invocation of all
that reach v by dependencies, v included.

**Theorem.** Dependencies and real time together have a cycle if and only if dependencies alone have one, or A(v) is later than
the completion of some v. *If*: with u the one invoked last of those that reach v, u → … → v, and v is before u in real time.
*Only if*: of the edges of real time on the cycle take the one whose head w was invoked last, and follow dependencies from w
to the tail v of the next such edge, with head w'. Then A(v) ≥ invoked(w) ≥ invoked(w') > completed(v).

A never decreases along an edge, so all transactions of a cycle of dependencies have the same.

Where real time counts, what a transaction hands on is *clipped* to its completion: min(A, completed). Some v is late if
and only if one was, but one very stale read no longer marks everything that depends on it. Then, too,

- every cycle of dependencies has one A, unless some of its transactions are late;
- let (completed(v), A(v)] be the *span* of a late v. The transactions of a cycle of dependencies and real time are each
  under way, [invoked, completed], at some time of one stretch of such spans that overlap or touch. For let m be
  the one of its component invoked last, z the one completed first, and p any time between the two. On a way from m to z
  let y be the first that completed before p, and x the last one before y that was invoked after p. Between them
  all were under way at p, so no step from x to y is one of real time, y depends on x, and what x was invoked at is
  clipped on the way to no less than p: p is in the span of y. So all from z's completion to m's invocation is in
  spans, and every transaction of the component was invoked before the end and completed after the beginning of that.

A is found by sweeps over the edges, those of a part of the graph at a time: what is known of sources that lie elsewhere is
given, and what changes is handed on, until nothing does. A sweep is linear in the edges; in the order of the components,
one settles nearly all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemaquake.checkers.elle.arrays import Longs, Mask
from schemaquake.checkers.elle.graphs import ORDER, PASS, RW, WR, WW, bit, graph, traverse
from schemaquake.harness.compiled import compiled

__all__ = ["Reach", "along_the_edges", "relaxed", "stretches"]


@dataclass(frozen=True, slots=True)
class Reach:
    """A of some nodes; `clipped` where less is handed on, which is then `handed`."""

    latest: Longs
    handed: Longs
    clipped: Mask


def along_the_edges(nodes: int, source: Longs, target: Longs) -> Longs:
    """Put the edges of a graph into an order in which the first sweep settles nearly all: along the edges, by components."""
    edges = np.full(len(source), WW, np.int8)
    whole = graph(nodes, nodes, source.astype(np.int32), target.astype(np.int32), edges)
    everything = bit(WW, WR, RW, ORDER, PASS)
    # Components are numbered against the direction of the edges.
    numbers, _ = traverse(whole.start, whole.target, whole.kind, everything, np.arange(nodes, dtype=np.int32))
    order: Longs = np.argsort(-numbers[source], kind="stable")
    return order


def relaxed(begins: Longs, ends: Longs, source: Longs, target: Longs) -> Reach:
    """Compute A of every node of a graph. `begins` is what is known of it: its invocation, or what it was handed; −1: nothing.

    `ends` is the greatest it hands on: its completion, or, without clipping, the greatest number there is. Edges may be in
    any order, which only decides how many sweeps it takes: few in that of `along_the_edges`.
    """
    latest = begins.copy()
    while _sweep(latest, ends, source, target):
        pass
    handed = np.minimum(latest, ends)
    return Reach(latest, handed, handed < latest)


@compiled
def _sweep(latest: Longs, ends: Longs, source: Longs, target: Longs) -> bool:
    """Hand on what every source knows; whether that changed anything."""
    changed = False
    for edge in range(len(source)):
        known = min(latest[source[edge]], ends[source[edge]])
        if known > latest[target[edge]]:
            latest[target[edge]] = known
            changed = True
    return changed


def stretches(begins: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """Spans that overlap or touch, joined: (begins, ends), in order."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
    new = np.ones(len(begins), np.bool_)
    new[1:] = begins[1:] > ends[:-1]
    last = np.append(new[1:], True) if len(new) else new
    return begins[new], ends[last]

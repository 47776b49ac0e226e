"""Ports of loopback that no client is given: below the range from which the kernel takes ports for connections."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _PER_PROCESS, _PROCESSES = 12_000, 60, 300
_numbers = itertools.cycle(range(_PER_PROCESS))


def next_port() -> int:
    """Find a port on which nothing listens; two calls in one process give different ones."""
    first = _FIRST + os.getpid() % _PROCESSES * _PER_PROCESS
    for number in itertools.islice(_numbers, _PER_PROCESS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", first + number))
            except OSError:
                continue
            return first + number
    raise AssertionError(f"all {_PER_PROCESS} ports from {first} on are taken")

"""ScyllaDB in a container: the server itself is started, for its image's entrypoint starts a supervisor.

A supervisor would start the server again whenever it ends, and a kill would be no fault that lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.clusters.systems.system import Container

__all__ = ["CONTAINER"]

_BESIDE_ITS_MEMORY_MB: Final = 200
"""Memory that the server takes beside what it is given."""


def server_command(address: str, seeds: str, memory_mb: int) -> Sequence[str]:
    """Make the arguments that the image's entrypoint makes of its own, for a small server that shares its cores."""
    return [
        "/usr/bin/scylla",
        *("--log-to-syslog", "0", "--log-to-stdout", "1", "--default-log-level", "info"),
        *("--network-stack", "posix", "--developer-mode", "1", "--overprovisioned", "--smp", "1"),
        *("--memory", f"{memory_mb - _BESIDE_ITS_MEMORY_MB}M"),
        *("--listen-address", address, "--rpc-address", address, "--api-address", address),
        *("--seed-provider-parameters", f"seeds={seeds}"),
    ]


CONTAINER: Final = Container(image="scylladb/scylla", data="/var/lib/scylla/data", command=server_command)

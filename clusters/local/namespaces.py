"""Namespaces: a private network for a local cluster, one network namespace and one address a node.

Everything lives inside an *enclosure*: a process tree with a network, mount and (where allowed) process namespace of its
own, entered by `unshare`. Inside it the harness is root over its own network, outside it nothing was touched: two runs
cannot collide, and when the enclosure's last process ends, so do bridge, veth pairs, namespaces and packet filters.
An ordinary user gets the same through a user namespace, where the kernel allows it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from schemaquake.clusters.local.tools import run_tool
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.limited_command import run_within

__all__ = ["SUBNET", "address_of", "change_address", "enclosure", "in_namespace", "lay_network", "open_enclosure"]

SUBNET: Final = "10.77.0"
"""The cluster's /24 network, private to the enclosure, so that every run may use it."""

_HARNESS_ADDRESS: Final = f"{SUBNET}.254"
_PROBED_WITHIN_S: Final = 30.0
"""The limit of one attempt at an enclosure, which takes milliseconds."""

_run = partial(run_tool, failure="the cluster's private network could not be made")


def enclosure() -> list[str]:
    """Build the argument vector that runs a command inside a fresh enclosure.

    Two variants are tried: with a process namespace, so that SIGKILL of the harness ends every node, then without,
    because not every machine allows one. Raises EnvironmentLacks with the kernel's messages if neither works.
    """
    for tool, package in (
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
        ("ip", "iproute2"),
        ("nsenter", "util-linux"),
    ):
        if shutil.which(tool) is None:
            raise EnvironmentLacks(f'the local cluster needs "{tool}": install it (Debian: apt-get install {package})')
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    refusals = []
    for process in (["--pid", "--mount-proc"], []):
        attempt = ["unshare", *user, "--mount", "--net", *process, "--fork", "--kill-child=SIGKILL"]
        probing = "mount -t tmpfs tmpfs /run && ip link add sqprobe type bridge && ip netns add sqprobe"
        try:
            probe = run_within([*attempt, "sh", "-c", probing], limit_s=_PROBED_WITHIN_S)
        except TimeoutExpired:
            refusals.append(f"{' '.join(attempt)}: `{probing}` did not end within {_PROBED_WITHIN_S:g} s")
            continue
        if probe.returncode == 0:
            # setpriv: when the command that started the enclosure dies, however it dies, the enclosure dies with it.
            return ["setpriv", "--pdeathsig", "KILL", *attempt]
        refusals.append(f"{' '.join(attempt)}: {probe.stderr.strip() or f'exit code {probe.returncode}'}")
    raise EnvironmentLacks(_why_not(refusals))


def _why_not(refusals: Sequence[str]) -> str:
    hints = []
    for setting, wanted in (
        ("/proc/sys/kernel/unprivileged_userns_clone", "1"),
        ("/proc/sys/user/max_user_namespaces", None),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0"),
    ):
        path = Path(setting)
        if path.exists():
            value = path.read_text(encoding="ascii").strip()
            if (wanted is not None and value != wanted) or (wanted is None and value == "0"):
                hints.append(f"{setting} is {value}")
    reason = f" ({'; '.join(hints)})" if hints else ""
    return (
        f"the local cluster cannot make network namespaces here{reason}. Run as root, or allow user namespaces. "
        "Tried: " + " | ".join(refusals)
    )


def open_enclosure() -> None:
    """Mount a private /run, for `ip netns` and lock files, and bring the loopback up, inside a fresh enclosure."""
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    _run("ip", "link", "set", "lo", "up")


def lay_network(names: Sequence[str]) -> None:
    """Make a bridge for the harness, and for every node a namespace of its name with `eth0` at its address."""
    _run("ip", "link", "add", "sq0", "type", "bridge")
    _run("ip", "addr", "add", f"{_HARNESS_ADDRESS}/24", "dev", "sq0")
    _run("ip", "link", "set", "sq0", "up")
    for number, name in enumerate(names, 1):
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", f"v{name}", "master", "sq0", "up")
        _run("ip", "-n", name, "addr", "add", f"{address_of(number)}/24", "dev", "eth0")
        _run("ip", "-n", name, "link", "set", "eth0", "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")


def address_of(number: int) -> str:
    """Return the address of node `number`, counted from 1."""
    return f"{SUBNET}.{number}"


def change_address(name: str, old: str, new: str) -> None:
    """Have a node speak from another address of the network; it is still reached at the old one. Raises ClusterError."""
    _run("ip", "-n", name, "addr", "del", f"{old}/24", "dev", "eth0")
    _run("ip", "-n", name, "addr", "add", f"{new}/24", "dev", "eth0")
    # Without a network of its own: packets to others leave under the address whose network it is.
    _run("ip", "-n", name, "addr", "add", f"{old}/32", "dev", "eth0")


def in_namespace(name: str) -> list[str]:
    """Return the argument vector to put before a command that is to run in the network of node `name`."""
    return ["nsenter", f"--net=/run/netns/{name}"]

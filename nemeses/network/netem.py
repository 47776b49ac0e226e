"""netem: lose and delay packets that a node *sends* to chosen peers, with the kernel's network emulator.

On the device towards the peers stands a `prio` qdisc with one band more than usual. Filters lead into that band, and netem
stands at its end, so all other traffic of the node goes its usual way. The emulator's handle is ours (7371, "sq");
the root's contains the fault's id. A device with a root qdisc of its own is left alone: tc refuses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Executed, Node, Undo
from schemaquake.nemeses.network.drops import STORAGE_PORTS, ip_version
from schemaquake.nemeses.network.routes import route_to
from schemaquake.nemeses.schedule.commands import describe_failure, run

__all__ = ["Impairment", "impair", "refusal", "restore", "undo"]

_EMULATOR: Final = "7371:"
_USUAL_PRIORITIES: Final = "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"
_QUEUE_PACKETS: Final = 20_000

# A root that is not ours has another handle, and a missing one has none, so the devices need not be known.
_RESTORE: Final = (
    "tc qdisc show | while read -r _ _ handle _ device parent _; do "
    'if [ "$handle $parent" = "$1 root" ]; then tc qdisc del dev "$device" root handle "$1"; fi; done'
)

_GONE: Final = (
    'command -v tc > /dev/null || exit 0; shown=$(tc qdisc show) || exit 1; case $shown in *" $1 dev "*) exit 1 ;; esac'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impairment:
    """The loss and delay of outgoing packets; `ports` as in `schemaquake.nemeses.network.drops.Drop`."""

    fault_id: int
    tag: str = ""
    """The run's tag, as in `schemaquake.nemeses.network.drops.Drop`."""
    ports: tuple[int, ...] = STORAGE_PORTS
    loss: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0

    @property
    def root(self) -> str:
        """Handle of the root qdisc, below the range from which the kernel numbers its own, and never the emulator's."""
        return f"{0x1000 + (int(self.tag or '0', 16) + self.fault_id) % 0x6000:x}:"

    @property
    def band(self) -> str:
        """Class id of the band in which the emulator stands."""
        return f"{self.root}4"


def refusal(node: Node) -> str | None:
    """Return why the node's kernel has no emulator, None if it has. Tries the loopback of a short-lived namespace."""
    batch = _batch("lo", ["192.0.2.1"], Impairment(fault_id=0, delay_ms=1))
    try:
        tried = node.exec(["unshare", "--net", "tc", "-batch", "-"], stdin=batch)
    except FileNotFoundError as error:
        tried = Executed(127, "", str(error))
    return None if tried.exit_code == 0 else f"netem: {describe_failure(tried)}"


def impair(node: Node, peers: Sequence[str], impairment: Impairment) -> list[str]:
    """Impair packets from this node to these addresses, and return the emulators as read back. Raises ClusterError."""
    ways: dict[str, list[str]] = {}
    for peer in peers:
        ways.setdefault(route_to(node, peer).device, []).append(peer)
    for device, behind in ways.items():
        done = node.exec(["tc", "-batch", "-"], stdin=_batch(device, behind, impairment))
        if done.exit_code != 0:
            raise ClusterError(f"tc failed on {node.name}, device {device}: {describe_failure(done)}")
    emulators = [json.dumps(emulator["options"]) for emulator in _emulators(node, impairment)]
    if len(emulators) != len(ways):
        raise ClusterError(f"{node.name} has {len(emulators)} emulators where {len(ways)} were made: {emulators}")
    return emulators


def undo(impairment: Impairment) -> list[Undo]:
    """Return commands that remove this fault's emulators. They are harmless where there are none."""
    return [Undo(("sh", "-c", _RESTORE, "sh", impairment.root), whole=("sh", "-c", _GONE, "sh", impairment.root))]


def restore(node: Node, impairment: Impairment) -> dict[str, JSON] | None:
    """Remove this fault's emulators, and return their counters in the shape of `Filter.remove`; None if there were none.

    `packets` counts the affected ones: the lost ones, and with a delay all. Raises HealError if the emulators stay.
    """
    emulators = _emulators(node, impairment)
    for step in undo(impairment):
        run(node, *step.argv)
        if (left := run(node, *step.whole)).exit_code != 0:
            raise HealError(f"a network emulator may still be there on {node.name}: {describe_failure(left)}")
    if not emulators:
        return None
    return {
        "means": "netem",
        "rules": [json.dumps(emulator["options"]) for emulator in emulators],
        "packets": sum(emulator["drops"] + _delayed(emulator) for emulator in emulators),
        "bytes": sum(emulator["bytes"] for emulator in emulators),
    }


def _delayed(emulator: dict[str, Any]) -> int:
    return int(emulator["packets"]) if emulator["options"].get("delay", {}).get("delay", 0) else 0


def _emulators(node: Node, impairment: Impairment) -> list[dict[str, Any]]:
    """Return the emulators of one fault, with their statistics; none where there is no tc."""
    listed = run(node, "tc", "-j", "-s", "qdisc", "show")
    if listed.exit_code != 0:
        return []
    return [
        qdisc
        for qdisc in json.loads(listed.stdout or "[]")
        if (qdisc.get("kind"), qdisc.get("handle"), qdisc.get("parent")) == ("netem", _EMULATOR, impairment.band)
    ]


def _batch(device: str, peers: Sequence[str], impairment: Impairment) -> str:
    loss = f" loss random {100 * impairment.loss:.4f}%" if impairment.loss else ""
    jitter = f" {impairment.jitter_ms:g}ms" if impairment.jitter_ms else ""
    delay = f" delay {impairment.delay_ms:g}ms{jitter}" if impairment.delay_ms else ""
    lines = [
        f"qdisc add dev {device} root handle {impairment.root} prio bands 4 priomap {_USUAL_PRIORITIES}",
        f"qdisc add dev {device} parent {impairment.band} handle {_EMULATOR} netem limit {_QUEUE_PACKETS}{delay}{loss}",
    ]
    for peer in peers:
        family, protocol, length = ("ip", "ip", 32) if ip_version(peer) == 4 else ("ip6", "ipv6", 128)
        ports = [
            f" match {family} protocol 6 0xff match {family} {end} {port} 0xffff"
            for port in impairment.ports
            for end in ("sport", "dport")
        ]
        # Filters of different protocols must not share a priority.
        lines += [
            f"filter add dev {device} parent {impairment.root} protocol {protocol} prio {1 if length == 32 else 2} "
            f"u32 match {family} dst {peer}/{length}{match} flowid {impairment.band}"
            for match in ports or [""]
        ]
    return "\n".join(lines) + "\n"

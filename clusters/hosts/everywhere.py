"""Everywhere: the guards of every run on every host of a cluster file undo their faults now, without a ledger.

For an owner who does not know whose run it is, or whose machine that began it is gone. Only guards act, each on the fault
that it was armed for; leases, keyspaces and files of the runs are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from schemaquake.clusters.cluster_file.parse import read_cluster_file
from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.guard import Guard
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import ClusterError, HealError

__all__ = ["fire_everywhere", "fire_on"]

_LIST_RUNS: Final = (
    'for guard in "$1"/*/guard.sh; do [ ! -e "$guard" ] || { run=${guard%/guard.sh}; echo "${run##*/}"; }; done'
)
_LISTS_WITHIN_S: Final = 30.0


def fire_everywhere(
    cluster_file: Path, *, transports: Callable[[str], Transport], names: Sequence[str]
) -> Sequence[str]:
    """Fire every guard on all hosts at the same time. Returns a sentence for each fault that was undone.

    `transports` act as root. Raises HealError with what was undone, and every host and fault that may be left.
    """
    state = read_cluster_file(cluster_file).paths.state
    found: dict[str, Sequence[str]] = {}
    left: dict[str, Sequence[str]] = {}

    def fire(name: str) -> None:
        transport = transports(name)
        try:
            found[name], left[name] = fire_on(name, transport, state)
        except (ClusterError, OSError) as error:
            found.setdefault(name, [])
            left[name] = [f"node {name}: {error}"]
        finally:
            transport.close()

    on_every(names, fire)
    done = _in_order(found, names)
    if remains := _in_order(left, names):
        before = f" Done: {'; '.join(done)}." if done else ""
        raise HealError(f"not everything is undone: {'; '.join(remains)}.{before} Mend that, and say it again")
    return done


def fire_on(name: str, transport: Transport, state: str) -> tuple[Sequence[str], Sequence[str]]:
    """Fire every guard on one host. Returns a sentence for each fault that was undone, and for each that may be left.

    Raises ClusterError, NodeUnreachable if the runs there cannot be listed.
    """
    listed = transport.run(["sh", "-c", _LIST_RUNS, "sh", state], timeout_s=_LISTS_WITHIN_S)
    if listed.exit_code != 0:
        raise ClusterError(f"the runs in {state} cannot be listed: {listed.stderr.strip()}")
    done, left = [], []
    for run in listed.stdout.splitlines():
        guard = Guard(transport, state=state, run=run, verbs=lambda _: ())
        for fault_id in guard.known():
            what = f"node {name}: fault {fault_id} of run {run}"
            try:
                fired = guard.fire(fault_id)
            except ClusterError as error:
                left.append(f"{what}: {error}")
                continue
            if fired is not None and not fired.ended:
                left.append(
                    f"{what}: " + (f"`{' '.join(fired.left)}` does not find it whole" if fired.left else "it goes on")
                )
            else:
                done.append(f"{what}: undone by its guard" if fired is not None else f"{what}: it was undone already")
    return done, left


def _in_order(sentences: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    return [sentence for name in names for sentence in sentences.get(name, ())]

"""Ledger healer: what a dead run left on nodes that outlived it is undone, from any machine that has the run's ledger.

Everything is tried on every node, and nothing counts as undone that was not read back. What is left is reported and
stays in the ledger for the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schemaquake.clusters.nodes import keyspaces
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.harness.errors import ClusterError, HealError, SchemaquakeError
from schemaquake.harness.faults.healing import close_ledger, heal_open
from schemaquake.harness.faults.ledger import Ledger

__all__ = ["heal_by_ledger"]


def heal_by_ledger(cluster: DeployedCluster, ledger_file: Path, *, keep_data: bool) -> Sequence[str]:
    """Undo open faults, disarm guards, drop the run's keyspaces and remove its files. Returns a sentence for each.

    Idempotent. The run's keyspaces are known from its journals, if they lie beside the ledger; without them none is
    dropped. Raises HealError with what was done and what is left, if anything is.
    """
    done: list[str] = []
    left: list[str] = []
    try:
        cluster.lease_to_heal()
    except ClusterError as error:
        cluster.close()
        raise HealError(f"nothing is undone, because it would disturb another run: {error}") from error
    if ledger_file.exists():
        ledger = Ledger(ledger_file)
        try:
            healed = heal_open(cluster, ledger)
        finally:
            unwritten = close_ledger(ledger)
        done += [*healed.done, *unwritten]
        left += healed.left
        if healed.unread and not left:
            _undo_unnamed(cluster, ledger.fault_ids, healed.unread, done, left)
    if not left:
        for step in (
            cluster.end_guards,
            *([] if keep_data else [lambda: _drop_keyspaces(cluster, ledger_file.parent)]),
            cluster.clean,
            cluster.end_leases,
        ):
            try:
                done += step()
            except (SchemaquakeError, OSError) as error:
                left.append(str(error))
    cluster.close()
    if left:
        before = f" Done: {'; '.join(done)}." if done else ""
        raise HealError(f"not everything is undone: {'; '.join(left)}.{before} Mend that, and heal the run again")
    return done


def _undo_unnamed(
    cluster: DeployedCluster, named: frozenset[int], unread: Sequence[str], done: list[str], left: list[str]
) -> None:
    """Undo what a damaged ledger may no longer name, by the guards: nothing was injected without one that knows its undo."""
    try:
        undone = cluster.fire_guards_but(named)
    except (SchemaquakeError, OSError) as error:
        left += [f"{place}; it may name a fault that is still in place, and the guards could not be asked: {error}" for place in unread]  # fmt: skip
        return
    done += [*(f"{place}; no guard of another fault is left on any node" for place in unread), *undone]


def _drop_keyspaces(cluster: DeployedCluster, folder: Path) -> Sequence[str]:
    made = keyspaces.made_by(folder)
    if not made:
        return []
    dropped, _ = cluster.drop(made)
    return [f"keyspace {name}: dropped" for name in dropped]

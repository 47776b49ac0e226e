"""Mending: what a dead run left on nodes that outlived it is undone, from any machine that has the run's ledger.

Everything is tried on every node, and nothing counts as mended that was not read back: what is left is told, and stays
in the ledger for the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schemaquake.clusters.nodes import keyspaces
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.harness.errors import HealError, SchemaquakeError
from schemaquake.harness.faults.healing import heal_open
from schemaquake.harness.faults.ledger import Ledger

__all__ = ["mend"]


def mend(cluster: DeployedCluster, ledger_file: Path, *, keep_data: bool) -> Sequence[str]:
    """Undo open faults, end the guards, drop the run's keyspaces and remove its files; a sentence each. Idempotent.

    Which keyspaces the run made is known where its journals lie beside the ledger; otherwise none are dropped. Raises HealError with what was done and what is left, if anything is.
    """
    done: list[str] = []
    left: list[str] = []
    if ledger_file.exists():
        ledger = Ledger(ledger_file)
        try:
            mended = heal_open(cluster, ledger)
        finally:
            ledger.close()
        done += mended.done
        left += mended.left
    if not left:
        for step in (
            cluster.end_guards,
            *([] if keep_data else [lambda: _dropped(cluster, ledger_file.parent)]),
            cluster.clean,
        ):
            try:
                done += step()
            except (SchemaquakeError, OSError) as error:
                left.append(str(error))
    cluster.close()
    if left:
        before = f" Done: {'; '.join(done)}." if done else ""
        raise HealError(f"not everything is undone: {'; '.join(left)}.{before} Try again when that is mended")
    return done


def _dropped(cluster: DeployedCluster, folder: Path) -> Sequence[str]:
    made = keyspaces.made_by(folder)
    if not made:
        return []
    dropped, _ = cluster.drop(made)
    return [f"keyspace {name}: dropped" for name in dropped]

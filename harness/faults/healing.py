"""Healing after a crash: the undoing of a dead run's remains, from its folder alone."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemaquake.harness.errors import ClusterError, JournalError, PlanError
from schemaquake.harness.faults.executor import nothing_is_left
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Cluster, Fencing, Guarded, HealsEverywhere, LedgerHealer, Provider
from schemaquake.harness.named_files import read_named_text
from schemaquake.harness.registry import load
from schemaquake.harness.run_folder import own_folder
from schemaquake.harness.run_process import still_running

__all__ = ["Mended", "close_ledger", "close_operations", "heal", "heal_everywhere", "heal_ledger", "heal_open"]


@dataclass(frozen=True, slots=True)
class Mended:
    """The actions of a healing, and the failures that the next one will try again; a sentence each.

    `unread` are the places of the ledger that cannot be read, each of which may name a fault that is still in place.
    """

    done: Sequence[str]
    left: Sequence[str]
    unread: Sequence[str] = ()


def heal(folder: Path) -> Sequence[str]:
    """Undo every open fault and end every left-over process of the run; idempotent. Returns a sentence for each thing done.

    Raises HistoryError if `folder` is not one that a run made, or a link, PlanError if the run is still going on, HealError if something resists.
    """
    plan = Plan.read(folder, keep_going=True)
    folder = own_folder(folder)
    pid = still_running(folder)
    if pid is not None:
        raise PlanError(
            f"this run is still going on (process {pid}): interrupt it first (kill -TERM {pid}), it heals by itself"
        )
    provider: Provider = load("clusters", plan.cluster)
    done = list(provider.heal(folder))
    if not (folder / FILE_NAME).exists():
        return done
    ledger = Ledger(folder / FILE_NAME)
    done += close_operations(ledger)
    for entry in ledger.open_faults():
        assert entry.fault is not None, "open_faults lists nothing else"
        ledger.healing(entry.id)
        ledger.healed(entry.id, {"by": "schemaquake heal"})
        nodes = ", ".join(entry.fault.nodes) or "the network"
        done.append(f"{entry.fault.nemesis} of {nodes}: gone, and marked as healed in the ledger")
    done += [f"{ledger.path}, {damage}; what it named is gone as well" for damage in ledger.damage]
    return [*done, *close_ledger(ledger)]


def heal_ledger(ledger: Path, cluster_file: Path) -> Sequence[str]:
    """Undo every open fault on a cluster that outlives its runs, from a run's ledger and the cluster file alone.

    Raises PlanError for a file that is no such cluster's, HealError if something resists or cannot be read.
    """
    if not ledger.is_file():
        raise PlanError(f"there is no ledger {ledger}; it is {FILE_NAME} in the run's folder")
    kind, provider = _provider_of(cluster_file)
    if not isinstance(provider, LedgerHealer):
        raise PlanError(f"a run on a {kind} cluster is healed from its folder: schemaquake heal RUN")
    return provider.heal_ledger(ledger, cluster_file)


def heal_everywhere(cluster_file: Path) -> Sequence[str]:
    """Undo the faults of every run on every node of a cluster that outlives its runs, at once and without a ledger.

    Raises PlanError for a file that is no such cluster's, HealError for what may be left.
    """
    kind, provider = _provider_of(cluster_file)
    if not isinstance(provider, HealsEverywhere):
        raise PlanError(
            f"nodes of a {kind} cluster end with their run, which is healed from its folder: schemaquake heal RUN"
        )
    return provider.heal_everywhere(cluster_file)


def _provider_of(cluster_file: Path) -> tuple[str, Provider]:
    try:
        kind = tomllib.loads(read_named_text(cluster_file)).get("provider")
    except OSError as error:
        raise PlanError(f"the cluster file {cluster_file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise PlanError(f"{cluster_file} is no cluster file: {error}") from error
    if not isinstance(kind, str):
        raise PlanError(f'{cluster_file} is no cluster file: it has no line such as provider = "ssh"')
    provider: Provider = load("clusters", kind)
    return kind, provider


def close_ledger(ledger: Ledger) -> list[str]:
    """Close the ledger after a healing. Returns a sentence if it could not be written: nothing of it undoes the healing."""
    try:
        ledger.close()
    except JournalError as error:
        return [str(error)]
    return []


def close_operations(ledger: Ledger) -> list[str]:
    """Close the operations on the topology that a dead run left without an outcome: it is unknown, and nothing is undone."""
    done = []
    for entry in ledger.open_operations():
        assert entry.fault is not None, "open_operations lists nothing else"
        ledger.concluded(entry.id, "info", {"by": "schemaquake heal"})
        nodes = ", ".join(entry.fault.nodes) or "the cluster"
        done.append(f"{entry.fault.nemesis} of {nodes}: its outcome is unknown, and it is not undone")
    return done


def heal_open(cluster: Cluster, ledger: Ledger) -> Mended:
    """Undo the open faults of a dead run on nodes that outlived it, the latest first; all are tried.

    Only what its nemesis has undone, and read back, is marked as healed; then its guards go. A server that was started
    and does not serve is a finding: nothing is left that another healing would undo.
    """
    done = close_operations(ledger)
    left: list[str] = []
    for entry in reversed(ledger.open_faults()):
        fault = entry.fault
        assert fault is not None, "open_faults lists nothing else"
        what = f"{fault.nemesis} of {', '.join(fault.nodes)} (fault {fault.id})"
        ledger.healing(entry.id)
        finding = ""
        try:
            effect: JSON
            try:
                effect = load("nemeses", fault.nemesis).heal(cluster, fault)
            except ClusterError as error:
                if not nothing_is_left(error):
                    raise
                effect, finding = {"error": str(error)}, f", but {error}"
            if finding and isinstance(cluster, Fencing):
                cluster.abandon(fault)
            elif isinstance(cluster, Guarded):
                cluster.disarm(fault)
        except (ClusterError, OSError) as error:
            ledger.failed(entry.id, str(error))
            left.append(f"{what} may still be in place: {error}")
            continue
        ledger.healed(entry.id, effect)
        done.append(f"{what}: undone, read back, and marked as healed in the ledger{finding}")
    return Mended(done, left, [f"{ledger.path}, {damage}" for damage in ledger.damage])

"""Dry run: the schedule of a plan by time and node, with its commands, printed instead of carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemaquake.harness.errors import PlanError
from schemaquake.harness.faults.rehearsal import RehearsedFault, rehearse
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Rehearsing, Undo, UndoVerb
from schemaquake.harness.registry import load

__all__ = ["dry_run", "lines_of"]


def dry_run(plan: Plan) -> Sequence[RehearsedFault]:
    """Check the plan as far as that needs no node, and rehearse its faults.

    Raises PlanError, and FaultNotAllowed for what the owner of the cluster does not allow.
    """
    for name in plan.workloads:
        load("workloads", name)
    plan.check_options()
    provider = load("clusters", plan.cluster)
    if isinstance(provider, Rehearsing):
        stage = provider.rehearsal(plan)
        return rehearse(plan, addresses=stage.addresses, undoing=stage.undoing)
    # Nodes that are yet to be made have no addresses: those of examples (RFC 5737) stand for them.
    names = (*plan.node_names, *plan.spare_names)
    addresses = {name: f"192.0.2.{number}" for number, name in enumerate(names, 1)}
    return rehearse(plan, addresses=addresses, undoing=_unknown)


def _unknown(name: str, verb: UndoVerb) -> Sequence[Undo]:
    raise PlanError(f"{name} knows how to {verb} when it is there")


def lines_of(plan: Plan, faults: Sequence[RehearsedFault]) -> Iterator[str]:
    """Render a rehearsal as text."""
    yield f"{plan.system}  {', '.join(plan.workloads)}  seed {plan.seed}: {len(faults)} faults; nothing is touched"
    for fault in faults:
        yield ""
        yield f"{fault.begins_s:8.1f} s to {fault.ends_s:.1f} s  {fault.nemesis}  {', '.join(fault.nodes)}"
        for name, commands in fault.injected.items():
            yield from (f"  {name}  {command}" for command in commands)
        if fault.incomplete is not None:
            yield "  …  further commands follow from what the nodes answer"
        for name, commands in fault.undone.items():
            yield from (f"  {name}  undo: {command}" for command in commands)
    if plan.restart != "none":
        yield ""
        yield f"after the main phase  restart of every node ({plan.restart})"

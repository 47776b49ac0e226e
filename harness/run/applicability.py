"""Applicability: whether a system has what a workload or a nemesis requires, known before anything is started."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace

from schemaquake.harness.errors import EnvironmentLacks, FaultNotAllowed, NotApplicable, PlanError
from schemaquake.harness.faults.requests import nemeses_of
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Cluster, Forecast, ShowsUnstarted, Workload
from schemaquake.harness.model.traits import lack
from schemaquake.harness.registry import load, names

__all__ = ["refuse_inapplicable", "refuse_lacking", "refuse_unfit_options", "why_impossible", "why_inapplicable"]


def why_inapplicable(workload: str, system: str, features: AbstractSet[str]) -> str | None:
    """Say which features the workload requires that the system does not have; None if it has them all."""
    loaded: Workload = load("workloads", workload)
    lacking = sorted(loaded.requires - features)
    return f'workload "{workload}" is not applicable to {system}: it has no {", ".join(lacking)}' if lacking else None


def refuse_lacking(plan: Plan, features: AbstractSet[str]) -> None:
    """Raise NotApplicable for a workload of the plan that requires more than these features."""
    for name in plan.workloads:
        why = why_inapplicable(name, plan.system, features)
        if why is not None:
            raise NotApplicable(why)


def refuse_inapplicable(plan: Plan) -> None:
    """Refuse workloads, nemeses and options of which the plan's provider knows in advance that its system cannot have them.

    Raises NotApplicable, which names what is applicable, and PlanError as the provider does.
    """
    provider = load("clusters", plan.cluster)
    features = _features_of(provider, plan)
    if features is not None:
        try:
            refuse_lacking(plan, features)
        except NotApplicable as error:
            able = [name for name in names("workloads") if _is_able(name, features)]
            raise NotApplicable(f"{error}. Applicable: {', '.join(able)}.") from error
        _assemble_crews(plan, features)
    why = why_impossible(plan)
    if why is not None:
        raise NotApplicable(why)


def refuse_unfit_options(plan: Plan) -> None:
    """Refuse options that a workload refuses on a system with these features, if the provider knows them in advance.

    Raises PlanError; not NotApplicable, which is the outcome of a run.
    """
    features = _features_of(load("clusters", plan.cluster), plan)
    if features is None or any(why_inapplicable(name, plan.system, features) for name in plan.workloads):
        return
    with suppress(NotApplicable):
        _assemble_crews(plan, features)


def _assemble_crews(plan: Plan, features: AbstractSet[str]) -> None:
    """Have every workload choose its crew, for which it reads all its options. Raises PlanError, NotApplicable."""
    context = plan.context(frozenset(features))
    for name in plan.workloads:
        loaded: Workload = load("workloads", name)
        loaded.crew(context)


def why_impossible(plan: Plan) -> str | None:
    """Say which nemesis of the plan its cluster cannot carry out, and which ones it can; None if that is not known in advance.

    Raises PlanError as the provider does.
    """
    provider = load("clusters", plan.cluster)
    if not isinstance(provider, ShowsUnstarted):
        return None
    cluster = provider.unstarted(plan)
    for name in nemeses_of(plan):
        why = lack(load("nemeses", name), cluster)
        if why is not None:
            able = [
                each for each in names("nemeses") if _is_possible(each, cluster) and _is_allowed(each, provider, plan)
            ]
            return (
                f'nemesis "{name}" is not applicable to {plan.system} on --cluster {plan.cluster}: {why}. '
                f"Applicable: {', '.join(able)}."
            )
    return None


def _features_of(provider: object, plan: Plan) -> AbstractSet[str] | None:
    """Return the features of the plan's system; None if the provider does not know them in advance."""
    if isinstance(provider, Forecast):
        return provider.demands(plan).features
    return provider.unstarted(plan).features if isinstance(provider, ShowsUnstarted) else None


def _is_able(workload: str, features: AbstractSet[str]) -> bool:
    try:
        loaded: Workload = load("workloads", workload)
    except (EnvironmentLacks, PlanError):
        return False  # a plugin that cannot be loaded is not to be recommended
    return loaded.requires <= features


def _is_possible(nemesis: str, cluster: Cluster) -> bool:
    try:
        return lack(load("nemeses", nemesis), cluster) is None
    except (EnvironmentLacks, PlanError):
        return False


def _is_allowed(nemesis: str, provider: ShowsUnstarted, plan: Plan) -> bool:
    """Return False for a nemesis that the owner of the plan's cluster does not allow."""
    if plan.cluster_file is None:
        return True
    try:
        provider.unstarted(replace(plan, nemeses=(nemesis,)))
    except FaultNotAllowed:
        return False
    except PlanError:
        return True  # it lacks an option, which is said when it is asked for
    return True

"""Options of every workload made of races: their number, their mode, and the nodes that are cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import configured, names, one_of, option, seconds, truth, whole_number
from schemaquake.harness.model.protocols import Context

__all__ = ["CutOptions", "Mode", "RacingOptions", "VariantOptions", "racing_options"]

Mode: TypeAlias = Literal["barrier", "partition", "single"]
"""The mode of races: all sides in one instant; across a cut; or, as the control, all sides in turn through one coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOptions:
    """Options of a workload that can be run across a cut."""

    mode: Mode = option(
        "barrier",
        '"barrier" (clients are released together), "partition" (on both sides of a cut), '
        'or "single" (one after another, through one coordinator)',
        parse=one_of(*get_args(Mode)),
        shorthand=True,
    )
    isolated: tuple[str, ...] = option(
        (), "the nodes that mode partition cuts off, with commas; by default one that the seed draws", parse=names
    )

    def check(self, context: Context) -> None:
        """Refuse a cut without two sides, and company in mode `single`. Raises PlanError."""
        if self.mode == "partition" and len(context.nodes) == 1:
            raise PlanError("--mode partition needs at least two nodes")
        if self.mode == "single":
            _refuse_company(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class RacingOptions(CutOptions):
    """Options of a workload that is made of races."""

    races: int = option(10, "the number of races of each kind, 1 or more", parse=whole_number(least=1), shorthand=True)
    first_race: int = option(0, "the number of the first race, 0 or more", parse=whole_number(least=0), shorthand=True)
    """A run with the same seed on a fresh cluster can continue where another run ended."""
    until_poisoned: bool = option(
        False,
        "true to race no further on a cluster that takes no schema change any more, or false",
        parse=truth,
        shorthand=True,
    )
    """A canary runs before each race; its failure within the limit ends the main phase."""
    lanes: int | None = option(
        None,
        "the number of races in flight at once, 1 or more; by default one in mode barrier, and some across a cut",
        parse=whole_number(least=1),
    )
    patience: float = option(1.0, "the seconds between two statements of mode single, such as 1", parse=seconds)
    """Drivers and manuals ask a single client to wait for agreement before the next change; an idle peer agrees long before."""

    def check(self, context: Context) -> None:
        """Refuse options that exclude each other. Raises PlanError."""
        CutOptions.check(self, context)
        if self.until_poisoned:
            if self.mode == "partition" or context.under_faults:
                raise PlanError(
                    "--until-poisoned cannot distinguish a fault from a poisoned cluster: leave out --nemesis and --mode partition"
                )
            _refuse_company(context)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOptions(RacingOptions):
    """Options of a workload of one kind of race, which may have several variants."""

    variant: tuple[str, ...] = option((), "the variants to race, with commas; by default all in turn", parse=names)


def racing_options(given: Mapping[str, str]) -> RacingOptions:
    """Read the options of a plan or a context. Raises PlanError for a value that does not fit."""
    return configured(RacingOptions(), given)


def _refuse_company(context: Context) -> None:
    """Refuse a second workload that changes the schema. Raises PlanError."""
    if len(context.schema_changers) > 1:
        raise PlanError(
            f"{' and '.join(context.schema_changers)}, and their canaries, would race each other: with --mode single or --until-poisoned "
            "give one of them"
        )

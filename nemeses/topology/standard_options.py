"""Options that every nemesis of the topology has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import option, truth

__all__ = ["TopologyOptions", "after_failure", "at", "count", "how", "limit", "node", "step", "words_for_aim"]


@dataclass(frozen=True, kw_only=True)
class TopologyOptions:
    """Options that every nemesis of the topology reads, written without a nemesis' name."""

    overlap: bool = option(
        False, "true if an operation on the topology may begin while another one goes on", parse=truth
    )
    aim: str = option(
        "",
        "a fault at a step: `NEMESIS@STEP` hits the operation's own node, `NEMESIS@STEP:peer` another member; nemeses kill, "
        "pause and partition, steps PREPARE, START and MID (6.0), under-way and stream (5.0), `any`: the seed draws",
    )
    aim_s: float = option(10.0, "how long the fault that is aimed at a step lasts, in seconds")


def words_for_aim(_nemesis: object, options: Mapping[str, str]) -> Mapping[str, str]:
    """Name the word that allows the fault of `-O aim=`, its nemesis' own; serves as an `AllowedByOptions.words_for`. Raises PlanError."""
    aim = options.get("aim", "")
    if aim == "any":
        raise PlanError(
            "-O aim=any: where an owner allows faults by their words, name the nemesis, for example kill@stream"
        )
    return {"aim": aim.partition("@")[0]} if aim else {}


def node(description: str) -> str:
    """Declare the option that fixes the node of the operation."""
    return option("any", f"the node {description}; `any`: the seed chooses")


def at() -> float:
    """Declare the option that fixes when the operation begins."""
    return option(-1.0, "the second of the main phase in which it begins; negative: the seed chooses")


def count(apart: str = "") -> int:
    """Declare the option that repeats the operation; `apart` says which nodes the others concern."""
    return option(1, f"how many of these operations follow one another in the main phase{apart}")


def limit() -> float:
    """Declare the option that bounds one attempt."""
    return option(300.0, "the limit in seconds for one attempt; an operation that has not ended then hangs")


def after_failure(ways: tuple[str, ...]) -> str:
    """Declare the option that fixes what is done after a failure."""
    return option("any", f"what is done when it fails: {', '.join(ways)}, or `any`, of which the seed draws one")


def step() -> str:
    """Declare the option that fixes the step at which an operation is cancelled."""
    return option("any", "the step at which it is cancelled, as of `aim`, or a later one; `any`: the seed draws")


def how() -> str:
    """Declare the option that fixes how a node is taken down which is to be dead."""
    return option("kill", "how the node is taken down before: `kill` (SIGKILL) or `stop` (SIGTERM)")

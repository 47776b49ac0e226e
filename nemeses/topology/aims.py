"""Aims: the faults that are injected when an operation reaches a step, from `-O aim=`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.aim import STEPS, Aim
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Context
from schemaquake.nemeses.network.grudges import split, to_json

__all__ = ["aim_at"]

_ANY: Final = "any"
_NEMESES: Final = ("kill", "pause", "partition")
_VICTIMS: Final = ("self", "peer")
_AIM: Final = re.compile(r"(?P<nemesis>[a-z]+)@(?P<step>[A-Za-z-]+)(?::(?P<victim>[a-z0-9]+))?")


def aim_at(
    text: str,
    nodes: Sequence[str],
    context: Context,
    random: Random,
    *,
    hold_s: float,
    steps: Sequence[str] = STEPS,
) -> Aim:
    """Parse `kill@START`, `pause@stream:peer`, `partition@MID:n2`; of `any` the seed draws every part.

    `nodes` are those of the operation: `self` is the last of them, which joins, leaves or moves, and `peer` a drawn member
    that is none of them. `steps` are those that the operation has. Raises PlanError.
    """
    match = _AIM.fullmatch(text)
    if text != _ANY and match is None:
        raise PlanError(f"-O aim={text}: write NEMESIS@STEP or NEMESIS@STEP:peer, for example kill@stream:peer")
    nemesis, step, victim = (None, None, None) if match is None else match.group("nemesis", "step", "victim")
    nemesis = nemesis or random.choice(_NEMESES)
    step = step or random.choice(steps)
    victim = victim or ("self" if match is not None else random.choice(_VICTIMS))
    _refuse_unknown(text, nemesis, _NEMESES)
    _refuse_unknown(text, step, steps)
    name = _find_victim(text, victim, nodes, context, random)
    everybody = [*context.nodes, *(node for node in nodes if node not in context.nodes)]
    parameters: Mapping[str, JSON] = {}
    hit: tuple[str, ...] = (name,)
    if nemesis == "partition":
        grudge = to_json(split([name], [other for other in everybody if other != name]))
        parameters, hit = {"target": "one", "grudge": grudge, "ports": "storage"}, tuple(sorted(everybody))
    return Aim(nemesis=nemesis, step=step, nodes=hit, parameters=parameters, hold_s=hold_s)


def _find_victim(text: str, victim: str, nodes: Sequence[str], context: Context, random: Random) -> str:
    everybody = (*context.nodes, *context.spares)
    if victim == "self" and nodes:
        return nodes[-1]
    if victim in {"self", "peer"}:
        others = [name for name in context.nodes if name not in nodes]
        if not others:
            raise PlanError(f"-O aim={text}: there is no other node")
        return random.choice(others)
    _refuse_unknown(text, victim, (*_VICTIMS, *everybody))
    return victim


def _refuse_unknown(text: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise PlanError(f'-O aim={text}: there is no "{word}"; known are {", ".join(known)}')

"""Comparison: the cells of a recorded grid, raced on a simulated system.

A cell *agrees* if both broke and share an anomaly, or if neither broke. `other anomalies`: both broke, and share none. `server worse`:
the server alone broke. `model worse`: the model alone did, in one of its races; where a server raced a cell once, that need not be a
difference. `undecided`: the server's race was. `not modelled`: the model lacks a feature that the cell needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

__all__ = ["KINDS", "Compared", "Kind", "ModelRaces", "compare", "render_comparison"]

Kind: TypeAlias = Literal["agrees", "other anomalies", "server worse", "model worse", "undecided", "not modelled"]
KINDS: Final[tuple[Kind, ...]] = (
    "other anomalies", "server worse", "model worse", "undecided", "not modelled", "agrees",
)  # fmt: skip
"""All kinds, those first that say something of the model or the server."""

_EVERYWHERE: Final = frozenset({"non-linearizable-ddl", "unexpected-log-error"})
"""Anomalies that come with nearly all others, and say nothing of the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRaces:
    """The races of one cell on a simulated system: one race a run."""

    tried: int
    broken: int
    anomalies: tuple[tuple[str, int], ...] = ()
    """(type, runs), the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One cell in one mode on both."""

    system: str
    mode: str
    cell: str
    kind: Kind
    server_broken: int
    server_tried: int
    server_anomalies: tuple[str, ...]
    model: ModelRaces | None
    """None: it is not modelled."""


def compare(recorded: pa.Table, system: str, *, race: Callable[[str, str], ModelRaces | None]) -> Sequence[Compared]:
    """Compare every cell that the grid raced on a system; `race` races (mode, cell) on the model, None: it cannot."""
    found = []
    for row in recorded.to_pylist():
        if row["system"] != system or row["state"] in {"not run", "not applicable"}:
            continue
        model = race(row["mode"], row["cell"])
        found.append(
            Compared(
                system=system,
                mode=row["mode"],
                cell=row["cell"],
                kind=_kind(row, model),
                server_broken=row["broken"],
                server_tried=row["tried"],
                server_anomalies=tuple(row["anomalies"]),
                model=model,
            )
        )
    return found


def _kind(row: Mapping[str, Any], model: ModelRaces | None) -> Kind:
    if model is None:
        return "not modelled"
    if row["state"] == "unknown":
        return "undecided"
    if not row["broken"]:
        return "model worse" if model.broken else "agrees"
    if not model.broken:
        return "server worse"
    shown = {name for name, _ in model.anomalies}
    causes = set(row["anomalies"]) - _EVERYWHERE or set(row["anomalies"])
    return "agrees" if causes & shown else "other anomalies"


def render_comparison(cells: Sequence[Compared], models: Mapping[str, str]) -> str:
    """Render the comparison as Markdown: how often both agree, and every cell where they do not. `models` maps systems to theirs."""
    lines = [
        "| system | model | cells | " + " | ".join(reversed(KINDS)) + " |",
        "|---|---|" + "---|" * (len(KINDS) + 1),
    ]
    for system, model in models.items():
        counts = Counter(one.kind for one in cells if one.system == system)
        numbers = " | ".join(str(counts[kind]) for kind in reversed(KINDS))
        lines.append(f"| `{system}` | `{model}` | {sum(counts.values())} | {numbers} |")
    for kind in KINDS[:3]:
        some = [one for one in cells if one.kind == kind]
        if some:
            lines += ["", f"## {kind[0].upper()}{kind[1:]}", "", *_rows(some)]
    return "\n".join(lines) + "\n"


def _rows(cells: Iterable[Compared]) -> Iterable[str]:
    yield "| system | mode | cell | server | model |"
    yield "|---|---|---|---|---|"
    for one in cells:
        server = f"{one.server_broken}/{one.server_tried} {_codes(one.server_anomalies)}"
        assert one.model is not None
        model = f"{one.model.broken}/{one.model.tried} {_codes(name for name, _ in one.model.anomalies)}"
        yield f"| `{one.system}` | {one.mode} | `{one.cell}` | {server.strip()} | {model.strip()} |"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

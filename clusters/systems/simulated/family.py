"""The family `simulated`: `simulated:cassandra-5.0` is a model of that system, with the flaws that it has (`systems.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, Literal

from schemaquake.clusters.systems.cassandra.ring import PeersRing
from schemaquake.clusters.systems.system import System, parse_system
from schemaquake.harness.errors import PlanError

__all__ = [
    "Blueprint",
    "Flaw",
    "Promise",
    "Simulated",
    "blueprint_of",
    "flaws_of",
    "known_flaws",
    "list_flaws",
    "promises_of",
]

_PRODUCT: Final = "simulated"
_NOT_MODELLED: Final = frozenset({"conditional-writes", "collections", "counters", "batches", "accord", "sai"})
"""Features of the real systems that no model has yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """One simulated system."""

    name: str
    like: str
    """The real system whose features, client and schema tables it has."""
    model: str
    pull_delay_s: float
    start: Literal["together", "first-alone", ""] = ""
    """How its nodes are started where that is not as the real system's are."""
    release: Mapping[str, bool] = field(default_factory=dict)
    """What its model does otherwise in this line of releases."""
    without: tuple[str, ...] = ()
    """Features of the real system that its model does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One switch: a defect of a real system, and the anomalies that it must be reported as."""

    name: str
    models: tuple[str, ...]
    """The models that have such a switch."""
    ticket: str
    text: str
    gives: tuple[str, ...]
    needs: frozenset[str]
    """Flaws without which it does no harm."""
    systems: frozenset[str]
    """Simulated systems that have it by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise of a design, as its source makes it."""

    name: str
    source: str
    text: str
    systems: frozenset[str]
    """Simulated systems that make it."""
    broken_by: tuple[str, ...]
    """The anomalies of which each breaks it."""


class Simulated:
    """Models of systems, in virtual time."""

    title = "Simulated"

    @property
    def known_versions(self) -> tuple[str, ...]:
        """The simulated systems."""
        return tuple(_document()["system"])

    def parse(self, text: str) -> System:
        """Make the system of `simulated:cassandra-5.0`. Raises PlanError."""
        blueprint = blueprint_of(text)
        real = parse_system(blueprint.like)
        cql = real.cql
        if cql is not None and cql.ring is None:
            cql = replace(cql, ring=PeersRing())  # where clients of the real system do not ask, simulated nodes answer
        return replace(
            real,
            cql=cql,
            product=_PRODUCT,
            version=blueprint.name,
            cluster=_PRODUCT,
            features=real.features - _NOT_MODELLED - frozenset(blueprint.without),
            memory_mb=0,
            pull_delay_s=blueprint.pull_delay_s,
            launch=None,
            jars=None,
            container=None,
            start=blueprint.start or real.start,
        )


def blueprint_of(text: str) -> Blueprint:
    """Return the blueprint of a simulated system. Raises PlanError for any other."""
    product, _, name = text.partition(":")
    systems = _document()["system"]
    if product != _PRODUCT or name not in systems:
        known = ", ".join(f"{_PRODUCT}:{each}" for each in systems)
        raise PlanError(f'"{text}" is not a simulated system. Known: {known}.')
    return Blueprint(name=name, **systems[name])


@cache
def known_flaws() -> Mapping[str, Flaw]:
    """Return all flaws by name."""
    return {
        name: Flaw(
            name=name,
            models=tuple(each["models"]),
            ticket=each["ticket"],
            text=each["text"],
            gives=tuple(each["gives"]),
            needs=frozenset(each.get("needs", ())),
            systems=frozenset(each["systems"]),
        )
        for name, each in _document()["flaw"].items()
    }


def promises_of(blueprint: Blueprint) -> tuple[Promise, ...]:
    """Return what a simulated system's design promises."""
    return tuple(
        Promise(
            name=name,
            source=each["source"],
            text=each["text"],
            systems=frozenset(each["systems"]),
            broken_by=tuple(each["broken_by"]),
        )
        for name, each in _document()["promise"].items()
        if blueprint.name in each["systems"]
    )


def list_flaws() -> Mapping[str, Mapping[str, str]]:
    """Describe every flaw: its source, the systems that have it by default, what it is reported as, and what it is."""
    return {
        flaw.name: {
            "source": flaw.ticket,
            "models": " ".join(flaw.models),
            "default": " ".join(sorted(flaw.systems)) or "-",
            "gives": " ".join(flaw.gives),
            "about": flaw.text,
        }
        for flaw in known_flaws().values()
    }


def flaws_of(blueprint: Blueprint, options: Mapping[str, str]) -> frozenset[str]:
    """Return the flaws that are switched on, by `-O bugs=…` or `-O bug=…`. Raises PlanError for an unknown one."""
    default = frozenset(flaw.name for flaw in known_flaws().values() if blueprint.name in flaw.systems)
    named = partial(_flaw_of, blueprint)
    if "bug" in options:
        name = named(options["bug"])
        return frozenset({name, *known_flaws()[name].needs})
    flaws = default
    for word in filter(None, options.get("bugs", "default").split(",")):
        match word[0]:
            case "+":
                flaws |= {named(word[1:])}
            case "-":
                flaws -= {named(word[1:])}
            case _ if word == "default":
                flaws = default
            case _ if word == "none":
                flaws = frozenset()
            case _:
                flaws = (frozenset() if flaws is default else flaws) | {named(word)}
    return flaws


def _flaw_of(blueprint: Blueprint, name: str) -> str:
    """Return the name of a flaw that this model has a switch for. Raises PlanError for another."""
    flaw = known_flaws().get(name)
    if flaw is not None and blueprint.model in flaw.models:
        return name
    here = f"{_PRODUCT}:{blueprint.name}"
    own = (
        f"{here} can have: {', '.join(each.name for each in known_flaws().values() if blueprint.model in each.models)}."
    )
    if flaw is None:
        raise PlanError(f'there is no flaw "{name}". {own}')
    with_it = [f"{_PRODUCT}:{each}" for each, system in _document()["system"].items() if system["model"] in flaw.models]
    raise PlanError(
        f'{here} cannot have the flaw "{name}". Choose one that can with --system: {", ".join(with_it)}. {own}'
    )


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("systems.toml").read_text(encoding="utf-8"))

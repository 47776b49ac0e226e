"""Jars: the comparison of what a run's servers ran with what was published under the same names.

Checksums of the known versions are in the repository. Those of every other version have to be asked of a Maven repository, which is
done only if wanted (`verify --fetch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.systems.checksums import are_known, differing, published
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.errors import EnvironmentLacks, FetchError, HistoryError, PlanError

__all__ = ["ComparedJars", "compare_jars", "fetched_checksums", "jars_of"]

Checksums: TypeAlias = Callable[[str], Mapping[str, str]]
"""The SHA-256 of each jar of a version of Cassandra, by the jar's name. Raises FetchError, EnvironmentLacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJars:
    """The result for the jars of one system."""

    differences: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()
    """Reasons for which some jars were compared with nothing."""


def jars_of(local: Mapping[str, Any], system: str) -> Mapping[str, Mapping[str, str]]:
    """Return the SHA-256 of each jar by its name, for each system that the run had servers of: `system` and those it was upgraded to.

    A system whose jars were noted by one digest of them all, as 0.1 did, has an empty list. `local`: the run's `local.json`.
    Raises HistoryError if it has something else in these places.
    """
    others = local.get("others", {})
    documents = {system: local, **(others if isinstance(others, dict) else {"others": others})}
    return {str(name): _list_of(str(name), document) for name, document in documents.items()}


def _list_of(system: str, document: Any) -> Mapping[str, str]:
    jars = document.get("jars", {}) if isinstance(document, dict) else None
    if not isinstance(jars, dict):
        raise HistoryError(f"local.json has no list of jars of {system}")
    return {str(name): str(digest) for name, digest in jars.items()}


def fetched_checksums(version: str) -> Mapping[str, str]:
    """Return the checksums of a version's jars as this machine's cache or a Maven repository has them. Raises FetchError, EnvironmentLacks."""
    return fetch(version).checksums


def compare_jars(system: str, jars: Mapping[str, str], ask: Checksums | None = None) -> ComparedJars:
    """Compare the jars of a system with the published ones, and with those that `ask` returns.

    Two resolvers may choose other versions of a library, so a jar that the other list lacks is uncompared; Cassandra's own may not be missing.
    """
    try:
        version = parse_system(system).jars
    except PlanError as error:
        return ComparedJars(differences=(str(error),))
    if version is None:
        return ComparedJars(differences=(f"{system} has no jars",) if jars else ())
    if not jars:
        return ComparedJars(uncompared=(f"the run has no list of the jars of {system}",))
    wrong = list(differing(version, jars))
    if f"cassandra-all-{version}.jar" not in jars and f"apache-cassandra-{version}.jar" not in jars:
        wrong.append(f"Cassandra's own jar is not among those of {system}")
    known: Mapping[str, str] = published()
    if ask is not None:
        try:
            fetched = ask(version)
        except (FetchError, EnvironmentLacks) as error:
            return ComparedJars(differences=tuple(wrong), uncompared=(str(error),))
        wrong += _others(jars, {name: fetched[name] for name in fetched.keys() - known.keys()})
        known = {**fetched, **known}
    return ComparedJars(differences=tuple(wrong), uncompared=tuple(_uncompared(version, jars, known, ask)))


def _others(jars: Mapping[str, str], fetched: Mapping[str, str]) -> Iterator[str]:
    for name, digest in jars.items():
        if name in fetched and fetched[name] != digest:
            yield f"{name} has SHA-256 {digest}, and the one that was fetched has {fetched[name]}"


def _uncompared(
    version: str, jars: Mapping[str, str], known: Mapping[str, str], ask: Checksums | None
) -> Iterator[str]:
    missing = sorted(jars.keys() - known.keys())
    if not missing or are_known(version):  # of a known version an unknown jar differs
        return
    if ask is None:
        yield f"no checksums of {version} are known here; --fetch asks a Maven repository for its {len(missing)} jars"
    else:
        yield f"{', '.join(missing)}: fetching {version} here does not bring them"

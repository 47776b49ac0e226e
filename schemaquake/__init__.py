"""Schemaquake: fault injection for the schema and topology of Cassandra-family clusters.

The rooms `harness`, `clusters`, `workloads`, `nemeses`, `checkers` and `results` are folders at the top of the repository;
here they are links, so that everything is imported as `schemaquake.…` and nothing generic is installed beside it.
"""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Look the version up in the installed distribution; pyproject.toml is the only place that states it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - takes 30 ms that most commands do not need

    found = globals()[name] = version("schemaquake")  # from now on no lookup: every plan has it
    return found

"""QuakeDB: a fork of Cassandra 5.0, which starts from its jars and has lost its views and functions."""

from dataclasses import replace

from schemaquake.api import PlanError, System, parse_system, split_system

_LOST = frozenset({"views", "functions", "aggregates"})


class QuakeDb:
    """`--system quakedb:1.0`."""

    title = "QuakeDB"
    known_versions = ("1.0",)

    def parse(self, text: str) -> System:
        """Make the system of a version. Raises PlanError for one that was never released."""
        product, version, line = split_system(text)
        if line != (1, 0):
            raise PlanError(f"there is no {text}; QuakeDB has one release, 1.0")
        original = parse_system("cassandra:5.0.9")
        return replace(original, product=product, version=version, features=original.features - _LOST)

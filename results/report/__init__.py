"""Reports of a finished run: a page for a person, Markdown for an issue, JUnit for a build server, a script to repeat it."""

from schemaquake.results.report.from_store import material_of, write_all

__all__ = ["material_of", "write_all"]

"""Reports of a finished run: an HTML page, Markdown for an issue, JUnit XML for a build server and a script that repeats the run."""

from schemaquake.results.report.from_store import material_of, write_all

__all__ = ["material_of", "write_all"]

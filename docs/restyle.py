"""Gives the stored pages of matrices and grids today's styles and scripts: `python docs/restyle.py`.

What a page says stays as it was published: most of it was made from runs of which only the tables beside it are kept.
"""

from __future__ import annotations

from pathlib import Path

from schemaquake.results.report.html import restyled

_DOCS = Path(__file__).parent


def restyle(folder: Path = _DOCS) -> list[Path]:
    """Write the pages in the folders of this one anew, and return those that changed."""
    changed = []
    for more in ("matrix", "grid"):
        for path in sorted(folder.glob(f"*/{more}.html")):
            stored = path.read_text(encoding="utf-8")
            page = restyled(stored, more=more)
            if page != stored:
                path.write_text(page, encoding="utf-8")
                changed.append(path)
    return changed


if __name__ == "__main__":
    restyle()

"""The page docs/soundness.md: its opening as it stands, then the score and the lists of classes."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import orjson
from lies import Lie, NotThereError
from soundness import RUNS, Judge, clean_run

__all__ = ["CLASSES", "PAGE", "SCORE", "entry", "every_fact", "is_hard", "one_of_each", "page", "scored", "verdict_on"]

FOLDER = Path(__file__).parents[1] / "soundness"
PAGE = Path(__file__).parents[2] / "docs" / "soundness.md"
SCORE = FOLDER / "score.json"
CLASSES: Mapping[str, Any] = tomllib.loads((FOLDER / "classes.toml").read_text(encoding="utf-8"))
MARK = "<!-- From here on written by `python tests/support/soundness_page.py`. -->\n"
COLUMNS = ("invalid", "unknown", "may stay valid", "slipped")


def one_of_each(name: str) -> Sequence[Lie]:
    """One lie of each class in each place."""
    found: dict[tuple[str, str], Lie] = {}
    for lie in clean_run(name).facts():
        found.setdefault((lie.kind, lie.place), lie)
    return list(found.values())


def every_fact(name: str) -> Sequence[Sequence[Lie]]:
    """The lies about each fact, one for each of its places, in an order drawn by the seed."""
    random = Random(f"every fact of {name} {CLASSES['seed']}")
    found: dict[tuple[str, str], list[Lie]] = {}
    for lie in clean_run(name).facts():
        found.setdefault((lie.kind, lie.text), []).append(lie)
    return [random.sample(lies, len(lies)) for lies in found.values()]


def is_hard(lie: Lie) -> bool:
    """True for a lie that all nodes tell in all readings, or that has no nodes: only the history can contradict it."""
    return lie.place.partition(",")[0] not in {"one", "majority"} and lie.place not in {
        "all, settled",
        "all, restarted",
    }


def entry(of: str, lie: Lie, name: str) -> Mapping[str, Any] | None:
    """The entry of a list of classes that this lie belongs to."""
    for listed in CLASSES[of]:
        here = name in listed.get("runs", RUNS) and lie.place in listed.get("places", [lie.place])
        if here and any(fnmatchcase(lie.kind, pattern) for pattern in listed["classes"]):
            return dict(listed)
    return None


def verdict_on(lie: Lie, name: str, decide: Judge) -> str | None:
    """One of COLUMNS; None if the lie cannot be told."""
    try:
        valid = decide.valid(lie)
    except NotThereError:
        return None
    if valid is not True:
        return "invalid" if valid is False else "unknown"
    return "slipped" if entry("may-stay-valid", lie, name) is None else "may stay valid"


def group(kind: str) -> str:
    """The row of the table that a class is counted in."""
    subject, _, part = kind.partition(": ")
    if subject.startswith("question"):
        return subject.rpartition(" ")[0]
    subject = subject.partition(" ")[0] if subject.startswith(("running", "note")) else subject
    if not subject.startswith("disk"):
        return subject
    return f"{subject}: {part.partition('.')[0].partition(' ')[0]}"


def scored(name: str, lies: Sequence[Lie]) -> Mapping[str, Mapping[str, int]]:
    """Judge the hard ones of these lies, and count the verdicts by group."""
    decide = Judge()
    counts: dict[str, dict[str, int]] = {}
    for lie in filter(is_hard, lies):
        column = verdict_on(lie, name, decide)
        if column is not None:
            row = counts.setdefault(group(lie.kind), dict.fromkeys(COLUMNS, 0))
            row[column] += 1
    return dict(sorted(counts.items()))


def page() -> str:
    """The whole page."""
    opening = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return opening + MARK + "\n".join(_parts(orjson.loads(SCORE.read_bytes()))) + "\n"


def _parts(score: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    for name, rows in score.items():
        total = {column: sum(row[column] for row in rows.values()) for column in COLUMNS}
        planted, caught = sum(total.values()), total["invalid"] + total["unknown"]
        yield f"\n## {name}\n"
        yield (
            f"{planted} falsifications: {total['invalid']} made the run invalid, {total['unknown']} unknown, "
            f"{total['may stay valid']} may stay valid, {total['slipped']} slipped through "
            f"({100 * caught / max(1, planted - total['may stay valid']):.1f} % of those that must be caught were).\n"
        )
        yield f"| what was falsified | {' | '.join(COLUMNS)} |"
        yield f"|---|{'---|' * len(COLUMNS)}"
        yield from (
            f"| {row} | {' | '.join(str(found[column]) for column in COLUMNS)} |" for row, found in rows.items()
        )
    for of, title in (("may-stay-valid", "May stay valid"), ("known-to-slip", "Known to slip through")):
        yield f"\n## {title}\n"
        if not CLASSES[of]:
            yield "No falsification that the tests try."
        for listed in CLASSES[of]:
            places = f" ({'; '.join(listed['places'])})" if "places" in listed else ""
            yield f"- {', '.join(f'`{pattern}`' for pattern in listed['classes'])}{places}. {listed['reason']}"


if __name__ == "__main__":
    before = orjson.loads(SCORE.read_bytes())
    score = {name: scored(name, one_of_each(name)) for name in sys.argv[1:] or RUNS}
    score = {name: score.get(name, before.get(name)) for name in RUNS if name in score or name in before}
    SCORE.write_bytes(orjson.dumps(score, option=orjson.OPT_INDENT_2) + b"\n")
    PAGE.write_text(page(), encoding="utf-8")

"""Building: from records of runs to the files of a site. Equal runs give equal bytes; what is the same already is not written again.

Pages of findings, versions and lists are rendered from values alone. The index is written last, so that whoever opens it finds what it links to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import orjson

import schemaquake
from schemaquake.checkers.findings.catalogue import CATALOGUE, prominence_of
from schemaquake.harness.errors import PlanError
from schemaquake.harness.named_folders import make_wanted_folder, why_no_folder
from schemaquake.results.corpus.reading import is_corpus
from schemaquake.results.findings.curation import NOTHING_CURATED, Curation
from schemaquake.results.findings.description import (
    describe_cause,
    describe_otherwise,
    describe_rate,
    describe_standing,
    title_of,
)
from schemaquake.results.findings.finding import Rate
from schemaquake.results.findings.lifecycle import FollowedFinding, follow_findings
from schemaquake.results.findings.tracking import Observation
from schemaquake.results.site.analysis import render_analysis
from schemaquake.results.site.answers import ANSWERS, ANSWERS_PAGE, Answered, answer_pages, answers_of
from schemaquake.results.site.collecting import Collected, collect, find_bundles, write_if_changed
from schemaquake.results.site.comparing import compare_versions, summarise
from schemaquake.results.site.examples import Example, examples_of
from schemaquake.results.site.feed import FeedEntry, render_badge, render_feed
from schemaquake.results.site.overviews import Overview, overviews_of
from schemaquake.results.site.records import RunRow, file_name, system_file_name
from schemaquake.results.site.rendering import icon, render, script, shard, styles
from schemaquake.results.store.progress import working_alone
from schemaquake.results.store.run_folders import find_runs
from schemaquake.results.wording import counted, days_of, system_name, verdict_name

__all__ = ["NoRuns", "Published", "make_site_folder", "publish", "refuse_other_folders"]

CACHE: Final = ".schemaquake"
_SHARD: Final = 2_000  # runs
_ROWS_SHOWN: Final = 200
_RUNS_SHOWN: Final = 100
_POINTS_MOST: Final = 60
_PAGES_ARE_MADE_BY: Final = (
    "site/templates/*", "site/*.py", "findings/*", "report/templates/*", "report/*.py", "summary/*.py", "*.py"
)  # fmt: skip
"""Files of `results` of which pages are made, beside records."""
_PAIRS_OF_MOST: Final = 16
"""Versions of which every pair has a page."""
_HEIGHT: Final = 24
_STAGES: Final = (
    ("new", "seen, and not in the list of known findings"),
    ("known", "seen, and in that list: it has a ticket, or a page in the documentation"),
    ("fixed", "said to be fixed in a version; the runs do not show it yet"),
    ("verified", "so many tries held that the old rate would have shown it with 95 %"),
    ("regressed", "seen again after that, or on a version that was said to be free of it"),
    ("invalid", "decided to be no defect"),
)


class NoRuns(PlanError):
    """There is nothing to make a site of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A site that was built."""

    index: Path
    runs: int
    findings: int
    written: int
    """Files that changed."""
    files: int
    unread: Sequence[tuple[str, str]]
    folders: Mapping[str, Path]
    """The folder of each run, by the name of its page."""


def publish(
    paths: Iterable[Path], site: Path, *, curation: Curation = NOTHING_CURATED, address: str = "", docs: str = ""
) -> Published:
    """Build or renew the site of the runs at and below some paths.

    `address` is where it will be, for the feed; `docs` the address of the folder of the documentation, with a slash at its end,
    to which findings that it describes lead (empty: its page is named, without a link).

    Raises NoRuns if there are no runs, and PlanError if the folder holds something else than a site, or another process is building it.
    """
    refuse_other_folders(site)
    named = list(paths)
    corpora = [path.resolve() for path in named if is_corpus(path)]
    others = [path for path in named if not is_corpus(path)]
    folders, bundles = find_runs(others), find_bundles(others)
    if not folders and not bundles and not corpora:
        raise NoRuns(
            f"there is no run at or below {', '.join(map(str, named))}: name runs' folders, folders of runs, bundles, or the tables of a corpus"
        )
    make_site_folder(site)
    with working_alone(site / CACHE / "lock"):
        return _publish(folders, bundles, corpora, others, site, curation, address, docs)


def _publish(
    folders: Sequence[Path],
    bundles: Sequence[Path],
    corpora: Sequence[Path],
    others: Sequence[Path],
    site: Path,
    curation: Curation,
    address: str,
    docs: str,
) -> Published:
    collected = collect(folders, site, site / CACHE, version=_version(), bundles=bundles, corpora=corpora)
    systems = sorted({record.row.system for record in collected.records}, key=_order_of)
    findings = sorted(
        follow_findings((record.judged for record in collected.records), systems, curation), key=_worst_first
    )
    examples = examples_of(findings, collected, site, site / CACHE, version=_version())
    written, kept = 0, {f"runs/{record.row.page}.html" for record in collected.records}
    pages_of_runs = {record.row.page for record in collected.records}
    ids = {name for one in findings for name in {one.id, *one.ids}}
    overviews, undrawn = overviews_of(others, pages_of_runs, ids)
    answered, unasked = answers_of(corpora, site / CACHE)
    undrawn += unasked
    for name, content in _pages(collected, systems, findings, examples, overviews, answered, undrawn, address, docs):
        kept.add(name)
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        written += write_if_changed(path, content)
    kept |= {f"reports/{example.report}.html" for example in examples.values() if example.report}
    _remove_others(site, kept)
    return Published(
        index=site / "index.html",
        runs=len(collected.records),
        findings=len(findings),
        written=written + len(collected.made),
        files=len(kept),
        unread=[*collected.unread, *undrawn],
        folders={
            record.row.page: folder
            for record in collected.records
            if (folder := collected.folders.get(record.row.run)) is not None
        },
    )


def _worst_first(one: FollowedFinding) -> tuple[bool, int, int, str]:
    """Sort as in the report of a run: known causes first, then by the worst symptom, then by the races that broke."""
    seen = [each.finding for each in one.observations if each.finding is not None]
    worst = max(prominence_of(symptom.type) for finding in seen for symptom in finding.symptoms)
    return not one.tracked.example.cause.known, -worst, -sum(each.broken for each in one.observations), one.id


def _version() -> str:
    """Return what pages depend on beside the runs: the version, the templates, the catalogue of known findings."""
    digest = blake2b(digest_size=16)
    here = Path(__file__).parent
    for path in sorted(path for pattern in _PAGES_ARE_MADE_BY for path in here.parent.glob(pattern)):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return f"{schemaquake.__version__} {digest.hexdigest()}"


def make_site_folder(site: Path) -> None:
    """Make the folder of a site, unless it is there. Raises PlanError if that fails."""
    make_wanted_folder(site / CACHE)


def refuse_other_folders(site: Path) -> None:
    """Raise PlanError for a folder with other files: a site removes pages that it no longer has."""
    if (site.exists() or site.is_symlink()) and (why := why_no_folder(site)) is not None:
        raise PlanError(f"{site} cannot be the folder of the site: {why}")
    if site.is_dir() and any(site.iterdir()) and not (site / CACHE).is_dir():
        raise PlanError(f"{site} has files that no site of this harness wrote: name another folder, or an empty one")


def _remove_others(site: Path, kept: set[str]) -> None:
    """Remove pages of runs and findings that are gone."""
    for folder in ("runs", "findings", "versions", "compare", "reports", "badges", "data", "overviews", ANSWERS):
        for path in (site / folder).glob("*"):
            if path.is_file() and f"{folder}/{path.name}" not in kept:
                path.unlink()
    if ANSWERS_PAGE not in kept:
        (site / ANSWERS_PAGE).unlink(missing_ok=True)


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pages(
    collected: Collected,
    systems: Sequence[str],
    findings: Sequence[FollowedFinding],
    examples: Mapping[str, Example],
    overviews: Sequence[Overview],
    answered: Sequence[Answered],
    undrawn: Sequence[tuple[str, str]],
    address: str,
    docs: str,
) -> Iterator[tuple[str, bytes]]:
    """Yield every page but those of runs, with its name; the index last."""
    rows = [record.row for record in collected.records]
    by_run = {row.run: row for row in rows}
    views = {one.id: _finding_view(one) | {"docs_address": docs} for one in findings}
    versions = [_version_view(system, rows, findings) for system in systems]
    yield "assets/site.css", styles()
    yield "assets/site.js", script()
    yield "assets/served.js", b"// Empty: this folder is not served by `schemaquake serve`.\n"
    yield "assets/icon.svg", icon()
    for one in findings:
        yield from _finding_pages(one, views[one.id], by_run, examples.get(one.id))
    for version in versions:
        yield from _version_pages(version, versions, findings, views)
    yield from _lists(rows, versions, findings, views)
    yield from ((one.path, one.content) for one in overviews)
    yield from answer_pages(
        answered, pages_of_runs={row.page for row in rows}, findings=views.keys(), systems=systems
    )  # fmt: skip
    entries = [FeedEntry(one.id, views[one.id]["title"], event) for one in findings for event in one.life.events]
    yield "feed.xml", render_feed(entries, address=address)
    affected = sum(view["stage"] not in {"verified", "invalid"} for view in views.values())
    yield "badges/findings.svg", render_badge("findings", str(affected), "fail" if affected else "ok")
    yield "findings.json", _json([one.to_json() for one in findings])
    yield (
        "index.html",
        render(
            "index.html.j2", depth=0, here="index", findings=list(views.values()), runs=len(rows), systems=systems,
            unread=[*collected.unread, *undrawn], overviews=overviews, answered=bool(answered),
        ).encode(),
    )  # fmt: skip


def _finding_pages(
    one: FollowedFinding, view: Mapping[str, Any], by_run: Mapping[str, RunRow], example: Example | None
) -> Iterator[tuple[str, bytes]]:
    tried = [by_run[observation.run] for observation in one.observations if observation.run in by_run]
    analysis = render_analysis(one, tried, example.ticket if example else None)
    seen = [observation for observation in reversed(one.observations) if observation.finding is not None]
    page = render(
        "finding.html.j2",
        depth=1,
        here="index",
        one=view,
        ticket=example.ticket if example else None,
        example=example,
        analysis=analysis,
        events=[asdict(event) | {"page": file_name(event.run)} for event in one.life.events],
        shown=[_seen(observation) for observation in seen[:_RUNS_SHOWN]],
        more=max(0, len(seen) - _RUNS_SHOWN),
    )
    yield f"findings/{one.id}.html", page.encode()
    yield f"findings/{one.id}.md", analysis.encode()
    yield f"findings/{one.id}.json", _json(one.to_json())
    for other in view["others"]:
        yield f"findings/{other}.html", render("redirect.html.j2", depth=1, to=one.id).encode()


def _seen(observation: Observation) -> dict[str, Any]:
    assert observation.finding is not None
    return {
        "run": observation.run,
        "page": file_name(observation.run),
        "id": observation.finding.id,
        "broken": observation.broken,
        "tried": observation.tried,
    }


def _version_pages(
    version: Mapping[str, Any],
    versions: Sequence[Mapping[str, Any]],
    findings: Sequence[FollowedFinding],
    views: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, bytes]]:
    place = next(number for number, one in enumerate(versions) if one is version)
    rows = [{**view["sightings"][place], **_in_list(view)} for one in findings if (view := views[one.id])]
    paired = len(versions) <= _PAIRS_OF_MOST
    others = [
        {"name": other["name"], "pair": f"{version['page']}--{other['page']}"}
        for other in versions
        if other is not version and paired
    ]
    page = render("version.html.j2", depth=1, here="versions", one=version, rows=rows, others=others)
    yield f"versions/{version['page']}.html", page.encode()
    style = "fail" if version["affected"] else "ok" if version["held"] else "other"
    yield f"badges/{version['page']}.svg", render_badge(version["name"], version["badge"], style)


def _lists(
    rows: Sequence[RunRow],
    versions: Sequence[Mapping[str, Any]],
    findings: Sequence[FollowedFinding],
    views: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, bytes]]:
    """Yield the pages of versions, comparisons, runs and trends."""
    yield "versions.html", render("versions.html.j2", depth=0, here="versions", versions=versions).encode()
    listed = versions if len(versions) <= _PAIRS_OF_MOST else []
    yield "compare.html", render("compare.html.j2", depth=0, here="compare", versions=listed).encode()
    for one, other in permutations(range(len(listed)), 2):
        yield _pair_page(one, other, versions, views)
    latest = list(reversed(rows))
    shards = [latest[start : start + _SHARD] for start in range(0, len(latest), _SHARD)]
    for number, some in enumerate(shards):
        yield f"data/runs-{number:03}.js", shard("runs", number, _columns(some))
    page = render(
        "runs.html.j2", depth=0, here="runs", rows=latest[:_ROWS_SHOWN], total=len(rows), shards=len(shards)
    )  # fmt: skip
    yield "runs.html", page.encode()
    trends = [_trends(version, findings, views) for version in versions]
    yield "trends.html", render("trends.html.j2", depth=0, here="trends", versions=trends).encode()
    days = [row.started[:10] for row in rows if row.started]
    page = render(
        "method.html.j2", depth=0, here="method", stages=_STAGES, runs=len(rows),
        systems=versions, first=min(days, default=None), last=max(days, default=None),
    )  # fmt: skip
    yield "method.html", page.encode()


def _pair_page(
    one: int, other: int, versions: Sequence[Mapping[str, Any]], views: Mapping[str, Mapping[str, Any]]
) -> tuple[str, bytes]:
    pairs = ((_in_list(view), view["sightings"][one], view["sightings"][other]) for view in views.values())
    first, second = versions[one], versions[other]
    groups = summarise(compare_versions(pairs))
    page = render("pair.html.j2", depth=1, here="compare", one=first, other=second, groups=groups)
    return f"compare/{first['page']}--{second['page']}.html", page.encode()


# ── values for templates ─────────────────────────────────────────────────────────────────────────────────────────────


def _finding_view(one: FollowedFinding) -> dict[str, Any]:
    """Prepare a finding: texts, and one entry for each version in order."""
    finding, curated = one.tracked.example, one.curated
    title = curated.title if curated and curated.title else title_of(finding)
    statements = describe_cause(finding.cause)
    tickets = [*(curated.tickets if curated else ()), *(finding.known.tickets if finding.known else ())]
    symptoms = {symptom.type: symptom for each in one.observations if each.finding for symptom in each.finding.symptoms}
    worst_first = sorted(symptoms.values(), key=lambda symptom: -prominence_of(symptom.type))
    shown = [_symptom_view(symptom.type, symptom.mechanism) for symptom in worst_first]
    runs = [observation.run for observation in one.observations if observation.finding is not None]
    sightings = [_sighting_view(one, sighting.system) for sighting in one.tracked.sightings]
    return {
        "id": one.id,
        "others": [other for other in one.ids if other != one.id],
        "title": title,
        "stage": one.life.stage,
        "standing": describe_standing(finding).removeprefix("known: "),
        "invalid": curated.invalid if curated else None,
        "docs": finding.known.page if finding.known else None,
        "statements": "" if statements == title else statements,
        "shapes": " × ".join(map(str, finding.cause.statements)),
        "tickets": list(dict.fromkeys(tickets)),
        "seen": days_of(one.tracked.first_seen, one.tracked.last_seen, one.tracked.affected),
        "sightings": sightings,
        "symptoms": shown,
        "worst": shown[0]["title"] if shown and not title.startswith(shown[0]["title"]) else "",
        "text": " ".join(
            [*one.ids, title, statements, one.life.stage, *symptoms, *tickets, *(each["system"] for each in sightings if each["state"] != "not tried"), finding.cause.era, *sorted({run.rpartition("Z-")[2] for run in runs[:50]})]
        ),
    }  # fmt: skip


def _in_list(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a finding from others in a list: several have one title, for other statements."""
    return {name: view[name] for name in ("id", "title", "statements", "worst", "tickets")}


def _sighting_view(one: FollowedFinding, system: str) -> dict[str, Any]:
    sighting, life = one.tracked.on(system), one.life.on(system)
    stage = life.stage if life else "not tried"
    since = "–"
    if life is not None and life.needed is not None:
        since = (
            f"{life.held_since} of the {life.needed} tries that would show it gone"
            if stage != "verified"
            else counted(life.held_since, "try", "tries")
        )
    return {
        "system": system,
        "name": system_name(system),
        "page": system_file_name(system),
        "state": sighting.state,
        "broken": sighting.rate.broken,
        "tried": sighting.rate.tried,
        "unit": sighting.rate.unit,
        "stage": stage,
        "otherwise": describe_otherwise(one.tracked, sighting),
        "needed": life.needed if life else None,
        "rate": describe_rate(sighting.rate) if sighting.rate.tried else "",
        "since": since,
        "seen": days_of(sighting.first_seen, sighting.last_seen, [system] if sighting.state == "affected" else ()),
        "points": [
            _point(observation.started or observation.run, observation.broken, observation.tried)
            for observation in [each for each in one.observations if each.system == system and each.tried][
                -_POINTS_MOST:
            ]
        ],
    }


def _symptom_view(kind: str, mechanism: str | None) -> dict[str, Any]:
    known = CATALOGUE.get(kind)
    return {
        "type": kind,
        "mechanism": mechanism,
        "title": known.title if known else kind,
        "worst": known.worst if known else "",
    }


def _version_view(system: str, rows: Sequence[RunRow], findings: Sequence[FollowedFinding]) -> dict[str, Any]:
    mine = [row for row in rows if row.system == system]
    states = [one.tracked.on(system).state for one in findings]
    verdicts = [verdict_name(row.valid) for row in mine]
    affected, held = states.count("affected"), states.count("held")
    return {
        "system": system,
        "name": system_name(system),
        "page": system_file_name(system),
        "affected": affected,
        "held": held,
        "untried": states.count("not tried"),
        "runs": len(mine),
        **{name: verdicts.count(name) for name in ("valid", "invalid", "unknown")},
        "last": days_of(
            None, max((row.started for row in mine if row.started), default=None), [system] if mine else ()
        ),
        "badge": f"{counted(affected, 'finding')}, {held} not seen",
    }


def _trends(
    version: Mapping[str, Any], findings: Sequence[FollowedFinding], views: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Add up the tries of each finding by day on one version."""
    system = version["system"]
    mine = {one.id: [each for each in one.observations if each.system == system and _day_of(each)] for one in findings}
    units = {one.id: one.tracked.example.rate.unit for one in findings}
    days = sorted({_day_of(each) for some in mine.values() for each in some})[-_POINTS_MOST:]
    rows = []
    for name, observations in mine.items():
        if not any(each.broken for each in observations):
            continue
        by_day = {day: [0, 0] for day in days}
        for each in observations:
            if (day := _day_of(each)) in by_day:
                by_day[day][0] += each.broken
                by_day[day][1] += each.tried
        points = [_point(day, broken, tried) for day, (broken, tried) in by_day.items()]
        total = Rate(sum(each.broken for each in observations), sum(each.tried for each in observations), units[name])
        rows.append(
            {
                "id": name,
                "title": views[name]["title"],
                "statements": views[name]["statements"],
                "points": points,
                "rate": describe_rate(total),
            }
        )
    return {**version, "days": days, "rows": rows}


def _day_of(observation: Observation) -> str:
    """Return the day of a run; all runs of a simulated system have one."""
    return days_of(None, observation.started, [observation.system])


def _point(label: str, broken: int, tried: int) -> dict[str, Any]:
    height = round(broken / tried * (_HEIGHT - 3)) + 3 if tried else 2
    style = "none" if not tried else "fail" if broken else "ok"
    return {"label": f"{label[:19]}: {broken} of {tried}", "height": height, "style": style}


def _columns(rows: Sequence[RunRow]) -> dict[str, list[Any]]:
    return {
        "run": [row.run for row in rows],
        "page": [row.page for row in rows],
        "key": [row.system for row in rows],
        "system": [system_name(row.system) for row in rows],
        "workloads": [", ".join(row.workloads) for row in rows],
        "nemeses": [", ".join(row.nemeses) for row in rows],
        "seed": [row.seed for row in rows],
        "verdict": [verdict_name(row.valid) for row in rows],
        "findings": [" ".join(row.findings) for row in rows],
        "found": [len(row.findings) for row in rows],
        "races": [row.races for row in rows],
        "broken": [row.broken for row in rows],
    }


def _order_of(system: str) -> tuple[str, list[tuple[int, Any]]]:
    """Sort versions of one product as people count."""
    product, _, version = system.partition(":")
    parts = "".join(c if c.isalnum() else " " for c in version).split()
    return product, [(0, int(part)) if part.isdigit() and part.isascii() else (1, part) for part in parts]


def _json(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

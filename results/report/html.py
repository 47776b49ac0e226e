"""report.html: one self-contained file. It needs no network and no server, and treats all text from the cluster as untrusted.

Templates escape everything. The charts' data is JSON with every `<` escaped. A content security policy allows only the
scripts that this module embeds, by their hashes, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.harness.standard_streams import printable
from schemaquake.results.findings.description import describe_cause, describe_rate
from schemaquake.results.findings.finding import Finding
from schemaquake.results.mode import mode_of
from schemaquake.results.report.addresses import Addresses, relative_address
from schemaquake.results.report.charts import chart_data
from schemaquake.results.report.cycle_picture import CyclePicture, cycle_picture
from schemaquake.results.report.findings import (
    Reference,
    ReportedFinding,
    ReportedSymptom,
    WorkloadSummary,
    headline,
    races_begun,
    reasons_of,
    report_findings,
    summarise_workloads,
)
from schemaquake.results.report.material import Material, checkers_of, counts, races_of
from schemaquake.results.report.overview import Overview, disagreement_s, draw_overview
from schemaquake.results.report.recipe import Recipe
from schemaquake.results.report.reproduce import command_line, command_lines
from schemaquake.results.report.scene import Scene, draw_scenes
from schemaquake.results.report.ticket import render_ticket
from schemaquake.results.report.trail import Cited, cite_operations
from schemaquake.results.tables.chronicle import NodeOperation
from schemaquake.results.tables.meetings import Coverage
from schemaquake.results.wording import (
    VERDICT_MARK,
    counted,
    first_of,
    joined,
    length_of_run,
    length_of_time,
    nemesis_names,
    repeats_as,
    shortened,
    size_in_words,
    system_name,
    verdict_name,
    verdict_word,
)

__all__ = [
    "CheckerView",
    "FindingView",
    "Scripts",
    "checker_view",
    "finding_views",
    "render",
    "render_report_html",
    "safe_json",
]

_HERE: Final = Path(__file__).parent
ANOMALIES_SHOWN: Final = 10
"""Maximum number of anomalies per type shown with explanation and evidence; verdict.json has all of them."""
EVIDENCE_LIMIT: Final = 20_000
"""Letters of an anomaly's evidence that are shown."""
LOG_ENTRIES_SHOWN: Final = 8
"""Maximum number of kinds of log entries shown per node."""
_OPERATIONS_NAMED: Final = 8
"""Maximum number of operations that an anomaly links to."""
LOG_ENTRIES_READ: Final = 10_000
"""Maximum number of log entries read per node to find their kinds: a failing node can repeat an entry a million times."""
_OUTCOMES: Final = {
    "ok": ("ok", "✓ ok"),
    "fail": ("info", "refused"),
    "info": ("fail", "? unknown"),
    "": ("fail", "no outcome"),
}
"""The style and the word of an operation's outcome."""
_ANSWER_MOST: Final = 300
_STYLES: Final = {"valid": "ok", "unknown": "info", "invalid": "fail"}
"""CSS classes by the name of a verdict."""
_STYLES_OF_LEVELS: Final = {"FATAL": "fail", "ERROR": "fail", "WARN": "info"}
"""CSS classes by the level of a log entry."""


def render_report_html(material: Material, addresses: Addresses | None = None) -> str:
    """Render the whole page, below 1.5 MB for an ordinary run. With `addresses` it leads back to the pages of a site."""
    page = _page(material)
    return render(
        "report.html.j2",
        page=page,
        addresses=addresses,
        chart_json=safe_json(page.charts) if page.charts else "",
        charts=bool(page.charts),
    )


# ── rendering ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of a page, and the policy that allows only these. `more` is specific to one kind of page."""

    uplot: str
    charts: str
    page: str
    more: str = ""

    def policy(self, *, charts: bool) -> str:
        """Return the Content-Security-Policy: these scripts by hash; no connection, image, frame or form."""
        allowed = [*((self.uplot, self.charts) if charts else ()), self.page, *((self.more,) if self.more else ())]
        hashes = " ".join(f"'sha256-{_digest(script)}'" for script in allowed)
        return (
            f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'; form-action 'none'"
        )


def render(template: str, *, charts: bool, more: str | None = None, **values: Any) -> str:
    """Render a page from its template, with styles and scripts inlined. Every value is escaped unless it is `Markup`.

    `more` is the stem of a style sheet and a script that are specific to this kind of page.
    """
    scripts = _scripts(more)
    return (
        _environment()
        .get_template(template)
        .render(
            styles=Markup(_styles(more, charts=charts)),  # noqa: S704 - our own files, checked by a test to hold no "</style"
            uplot=Markup(scripts.uplot),  # noqa: S704 - vendored, its hash is under test
            charts_script=Markup(scripts.charts),  # noqa: S704 - our own file
            page_script=Markup(scripts.page),  # noqa: S704 - our own file
            more_script=Markup(scripts.more),  # noqa: S704 - our own file
            policy=scripts.policy(charts=charts),
            **values,
        )
    )


def restyled(page: str, *, more: str) -> str:
    """Return a stored page without charts with today's styles, scripts and policy. Raises ValueError for a page without them."""
    scripts = _scripts(more)
    policy = Markup.escape(scripts.policy(charts=False))
    parts = (
        (r'(<meta http-equiv="Content-Security-Policy" content=")[^"]*(")', [policy]),
        (r"(<style>).*?(</style>)", [_styles(more, charts=False)]),
        (r"(<script>).*?(</script>)", [scripts.page, scripts.more]),
    )
    for pattern, texts in parts:
        remaining = iter(texts)
        page, count = re.subn(pattern, lambda found: f"{found[1]}{next(remaining)}{found[2]}", page, flags=re.DOTALL)  # noqa: B023 - used at once
        if count != len(texts):
            raise ValueError(f"{count} of {len(texts)} places for {pattern}")
    return page


def safe_json(document: Any) -> Markup:
    """Serialise JSON that is safe inside a `<script>`: it cannot end the element or begin a comment."""
    text = orjson.dumps(document).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped just above


def code_spans(text: str) -> Markup:
    """Escape text and turn its `backticks` into code elements."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick: leave the text as it is
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup.escape(part)
        for number, part in enumerate(parts)
    )


def whole_options(command: str) -> Markup:
    """Escape a command, and keep the name of each option on one line: a browser breaks `--seed` after its hyphens."""
    return Markup("").join(
        Markup('<span class="nowrap">{}</span>').format(word) if _OPTION.fullmatch(word) else Markup.escape(word)
        for word in re.split(r"(\s+)", str(command))
    )


def breakable(name: str) -> Markup:
    """Escape a long name, and let a narrow column break it between its parts, such as `rolling-upgrade:` and `to=`."""
    return Markup("<wbr>").join(map(Markup.escape, re.split(r"(?<=[:=@])", str(name))))


_OPTION: Final = re.compile(r"--?[a-z][a-z-]{0,24}", re.IGNORECASE)


def _printable(value: Any) -> Any:
    """Return a text with what a browser would hide or obey written out: a change of direction shows one name as another."""
    if isinstance(value, Markup):
        return Markup(printable(value))  # noqa: S704 - what is written out are a backslash, letters and digits
    return printable(value) if isinstance(value, str) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "breakable": breakable,
        "code_spans": code_spans,
        "whole_options": whole_options,
        "anchor": _anchor,
        "relative": relative_address,
        "shortened": shortened,
    }
    return environment


@cache
def _scripts(more: str | None) -> Scripts:
    return Scripts(
        uplot=(_HERE / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8"),
        charts=_template_file("charts.js"),
        page=_template_file("page.js"),
        more=_template_file(f"{more}.js") if more else "",
    )


def _styles(more: str | None, *, charts: bool) -> str:
    own = _template_file("report.css") + (_template_file(f"{more}.css") if more else "")
    return (_HERE / "vendor" / "uPlot.min.css").read_text(encoding="utf-8") + own if charts else own


def _template_file(name: str) -> str:
    return (_HERE / "templates" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# ── what the template is given ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnomalyView:
    """One anomaly: what it concerns, in words, and its proof."""

    where: str
    """The objects and nodes that it concerns; empty if it names none."""
    explanation: str
    evidence: str
    """The evidence as indented JSON; empty if there is none."""
    cycle: CyclePicture | None
    ops: Sequence[int]
    """The first operations that it cites."""
    further_ops: int
    keyspaces: Sequence[str]
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SymptomView:
    """All anomalies of one type and mechanism in a finding."""

    type: str
    anchor: str
    title: str
    mechanism: str
    how_often: str
    follows_from: Sequence[str]
    description: str
    worst: str
    shown: Sequence[_AnomalyView]
    left_out: int
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One finding, prepared for the template."""

    id: str
    anchor: str
    title: str
    statements: str
    """Its contested statements in words, if the title does not say them."""
    standing: str
    style: str
    """CSS class of the standing."""
    how_often: str
    seen: str
    """When it was first and last seen; empty if that is not known."""
    squares: Sequence[bool]
    """One for each race of the same statements: whether the finding broke it."""
    symptoms: Sequence[_SymptomView]
    recipe: Recipe | None
    reproducer: str
    """How often the recipe broke the cluster when it was run; empty if just that was never run."""
    tickets: Sequence[Reference]
    page: str
    ticket: str
    """The text of an issue; empty on pages of history files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkedType:
    """A type of anomaly, and the element of the page to which it leads."""

    type: str
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _SummaryView:
    """The races of one workload in one mode, and the outcomes of its operations."""

    workload: str
    mode: str
    standing: str
    squares: Sequence[bool]
    """One for each race: whether it broke."""
    broken: int
    tried: int
    broke: Sequence[tuple[_LinkedType, int]]
    """How many races each type broke."""
    ok: int
    info: int
    fail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerView:
    """One checker's verdict, prepared for the template."""

    name: str
    verdict: str
    mark: str
    style: str
    anomalies: int
    reason: str
    stats: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogEntry:
    """The first log entry of its kind."""

    level: str
    style: str
    """CSS class of the level."""
    boot: int
    """The number of the start in whose log it stands, from 0."""
    line: int
    timestamp: str
    times: int
    """How many entries of this kind there are."""
    text: str
    rest: str
    """The stack behind its first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeLog:
    """The errors of one node's logs, or its warnings if there are none."""

    name: str
    count: str
    """How many there are, in words."""
    entries: Sequence[_LogEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """All that the template shows of a run; texts are ready to be read, and not escaped yet."""

    name: str
    """The name of the verdict: valid, invalid or unknown."""
    word: str
    """The verdict in a word for readers."""
    mark: str
    """The sign of the verdict."""
    version: str
    run: str
    run_quoted: str
    """The path of the run's folder as a shell takes it."""
    system: str
    workloads: str
    headline: str
    facts: Sequence[tuple[str, str]]
    findings: Sequence[FindingView]
    nothing_found: str
    """What a page without findings says in their place."""
    reasons: Sequence[str]
    summaries: Sequence[_SummaryView]
    coverage: Coverage | None
    overview: Overview | None
    disagreement: str
    """For how long nodes had different schema versions."""
    undecided: bool
    scenes: Sequence[Scene]
    scenes_left_out: int
    cited: Sequence[Cited]
    cited_left_out: int
    cited_indices: frozenset[int]
    drawn: Mapping[str, int]
    """Keyspace → the number of its picture."""
    logged: frozenset[str]
    """Nodes with a part in the section of logs."""
    charts: Mapping[str, Any] | None
    checkers: Sequence[CheckerView]
    logs: Sequence[_NodeLog]
    phases: Sequence[Mapping[str, str]]
    starts: Sequence[Mapping[str, Any]]
    faults: Sequence[str]
    operations: Sequence[Mapping[str, Any]]
    environment: Sequence[tuple[str, str]]
    files: Sequence[Mapping[str, str]]
    command: str
    repeats_as: str
    command_line: str


def _operation_view(operation: NodeOperation) -> Mapping[str, Any]:
    style, word = _OUTCOMES.get(operation.outcome, ("info", operation.outcome))
    return {
        "name": operation.name,
        "nodes": joined(operation.nodes),
        "begins": f"{operation.begins / 1e9:.1f} s",
        "took": operation.took,
        "style": style,
        "word": word,
        "commands": [shortened(command, _ANSWER_MOST) for command in operation.commands],
        "answer": shortened(" ".join(operation.answer.split()), _ANSWER_MOST),
    }


def _page(material: Material) -> _Page:
    plan, name = material.plan, verdict_name(material.verdict.valid)
    scenes, left_out = draw_scenes(material)
    chronicle = material.chronicle
    findings, logs = finding_views(material), _logs(material)
    cited, cited_left_out = cite_operations(material, _citations(findings))
    return _Page(
        name=name,
        word=verdict_word(material.verdict.valid),
        mark=VERDICT_MARK[name],
        version=str(plan.get("schemaquake_version", "")),
        run=material.run,
        run_quoted=shlex.quote(f"runs/{material.run}"),
        system=system_name(str(plan.get("system", ""))),
        workloads=joined(plan.get("workloads", ())),
        headline=headline(material),
        facts=_facts(material),
        findings=findings,
        nothing_found=_nothing_found(material),
        reasons=reasons_of(material),
        summaries=[_summary_view(summary, material.grouped.findings) for summary in summarise_workloads(material)],
        coverage=material.coverage,
        overview=draw_overview(material),
        disagreement=length_of_time(disagreement_s(material)),
        undecided=bool(reasons_of(material)) or material.verdict.valid == "unknown",
        scenes=scenes,
        scenes_left_out=left_out,
        cited=cited,
        cited_left_out=cited_left_out,
        cited_indices=frozenset(one.index for one in cited),
        drawn={scene.keyspace: number for number, scene in enumerate(scenes, 1)},
        logged=frozenset(node.name for node in logs),
        charts=chart_data(material) if material.operations.num_rows else None,
        checkers=[checker_view(part, counts=counts(material.verdict, part)) for part in checkers_of(material.verdict)],
        logs=logs,
        phases=[
            {
                "name": phase.name,
                "note": phase.note,
                "begins": f"{phase.begins / 1e9:.2f} s",
                "took": length_of_time(phase.seconds),
            }
            for phase in chronicle.phases
        ],
        starts=[
            {
                "node": start.boot.node,
                "phase": start.phase,
                "served": start.boot.served,
                "took": length_of_time(start.boot.seconds),
                "error": start.boot.first_error or "",
            }
            for start in chronicle.starts
        ],
        faults=[fault.title() for fault in chronicle.faults],
        operations=[_operation_view(one) for one in chronicle.operations],
        environment=list(material.environment.items()),
        files=[
            {"path": file.path, "size": "" if file.size is None else size_in_words(file.size), "meaning": file.meaning}
            for file in material.files
        ],
        command=command_lines(plan),
        repeats_as=repeats_as(str(plan.get("system", ""))),
        command_line=shlex.join(command_line(plan)),
    )


def _facts(material: Material) -> list[tuple[str, str]]:
    plan, chronicle = material.plan, material.chronicle
    settling = chronicle.settling("settled")
    facts = [
        ("System", system_name(str(plan.get("system", "")))),
        ("Nodes", f"{plan.get('nodes')}, {plan.get('cluster')}"),
        ("Workload", ", ".join(plan.get("workloads", ()))),
        ("Mode", mode_of(plan)),
        ("Nemesis", nemesis_names(plan)),
        ("Seed", str(plan.get("seed"))),
        *([("Races", races)] if (races := races_begun(material)) else []),
        ("Operations", f"{material.operations.num_rows:,}"),
    ]
    if settling is not None:
        word = length_of_time(settling.seconds)
        facts.append(("Time to agreement", word if settling.agreed else f"not within {word}"))
    if material.started is not None:
        facts.append(("Started", f"{material.started:%Y-%m-%d %H:%M:%S} UTC"))
    return [*facts, ("Lasted", length_of_run(material.duration / 1e9, str(plan.get("system"))))]


def _nothing_found(material: Material) -> str:
    if material.verdict.valid is True:
        return "Every checker judged this run, and none found an anomaly."
    if material.verdict.valid == "unknown":
        return "No anomaly was proven, but this run cannot be called valid: some checks could not decide."
    return "The run is invalid, but no checker described an anomaly; see the checkers below."


def finding_views(material: Material) -> list[FindingView]:
    """Prepare a run's findings for the template macro `finding`."""
    return [_finding_view(material, reported) for reported in report_findings(material)]


def _finding_view(material: Material, reported: ReportedFinding) -> FindingView:
    finding = reported.finding
    cause = describe_cause(finding.cause)
    shapes = material.grouped.contested
    comparable = [race for race in races_of(material.races) if shapes.get(race.keyspace) in finding.sides]
    broken = {race.keyspace for race in reported.races}
    return FindingView(
        id=reported.id,
        anchor=reported.id,
        title=reported.title,
        statements="" if cause == reported.title else cause,
        standing=reported.standing,
        style="other" if finding.known is not None else "fail" if finding.cause.known else "info",
        how_often=reported.how_often,
        seen=_seen(finding),
        squares=[race.keyspace in broken for race in comparable],
        symptoms=[_symptom_view(reported, symptom) for symptom in reported.symptoms],
        recipe=reported.recipe,
        reproducer=_describe_reproducer(reported),
        tickets=reported.tickets,
        page="" if reported.page is None else f"docs/{reported.page}",
        ticket=render_ticket(material, reported) if material.plan else "",
    )


def _citations(findings: Iterable[FindingView]) -> dict[int, list[tuple[str, str]]]:
    """Collect the operations that shown anomalies cite, each with anchor and type of the symptoms."""
    cited: dict[int, list[tuple[str, str]]] = {}
    for finding in findings:
        for symptom in finding.symptoms:
            for anomaly in symptom.shown:
                for op in anomaly.ops:
                    cited.setdefault(op, []).append((symptom.anchor, symptom.type))
    return cited


def _seen(finding: Finding) -> str:
    """Describe when the finding was first and last seen; empty if the start of the run is not known."""
    first, last = finding.first_seen, finding.last_seen
    if first is None or last is None:
        return ""
    readable = [f"{time[:10]} {time[11:19]}" for time in (first, last)]
    return f"{readable[0]} UTC" if first == last else f"first {readable[0]}, last {readable[1]} UTC"


def _describe_reproducer(reported: ReportedFinding) -> str:
    reproducer = reported.reproducer
    if reproducer is None:
        return ""
    return describe_rate(reproducer.rate) + (" of shrunk/reproduce.sh" if reproducer.shrunk else "")


def _symptom_view(reported: ReportedFinding, symptom: ReportedSymptom) -> _SymptomView:
    return _SymptomView(
        type=symptom.type,
        anchor=f"{reported.id}-{_anchor(symptom.type)}",
        title=symptom.title,
        mechanism=symptom.symptom.mechanism or "",
        how_often=symptom.how_often,
        follows_from=symptom.symptom.follows_from,
        description=symptom.description,
        worst=symptom.worst,
        shown=[_anomaly_view(anomaly) for anomaly in symptom.anomalies[:ANOMALIES_SHOWN]],
        left_out=max(0, len(symptom.anomalies) - ANOMALIES_SHOWN),
        references=symptom.references,
    )


def _anomaly_view(anomaly: Anomaly) -> _AnomalyView:
    where = [
        f"On {first_of(anomaly.objects, 4)}" if anomaly.objects else "",
        f"seen on {joined(anomaly.nodes)}" if anomaly.nodes else "",
    ]
    return _AnomalyView(
        where="; ".join(part for part in where if part),
        explanation=anomaly.explanation,
        evidence=_pretty(anomaly.evidence),
        cycle=cycle_picture(anomaly),
        ops=anomaly.ops[:_OPERATIONS_NAMED],
        further_ops=max(0, len(anomaly.ops) - _OPERATIONS_NAMED),
        keyspaces=tuple(dict.fromkeys(name for one in anomaly.objects if (name := keyspace_of(one)) is not None)),
        nodes=anomaly.nodes,
    )


def _pretty(evidence: Any) -> str:
    if evidence is None:
        return ""
    text = orjson.dumps(evidence, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode()
    return text if len(text) <= EVIDENCE_LIMIT else f"{text[:EVIDENCE_LIMIT]}\n… cut here; the rest is in verdict.json"


def _summary_view(summary: WorkloadSummary, findings: Sequence[Finding]) -> _SummaryView:
    mine = {race.keyspace for race in summary.races}
    anchors = {
        symptom.type: f"{finding.id}-{_anchor(symptom.type)}"
        for finding in reversed(findings)
        for symptom in finding.symptoms
        if mine.intersection(symptom.races)
    }
    return _SummaryView(
        workload=summary.workload,
        mode=summary.mode,
        standing=summary.standing,
        squares=[race.broken for race in summary.races],
        broken=len(summary.broken),
        tried=len(summary.races),
        broke=[
            (_LinkedType(type=kind, anchor=anchors.get(kind, "broke")), count) for kind, count in summary.broke.items()
        ],
        ok=summary.ok,
        info=summary.info,
        fail=summary.fail,
    )


def _anchor(kind: str) -> str:
    """Return a part of an element id for a type, from letters that need no escaping in an address."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in kind)


def checker_view(verdict: Verdict, *, counts: bool) -> CheckerView:
    """Prepare a checker's row. `counts` is False if it had nothing to judge."""
    name = verdict_name(verdict.valid)
    return CheckerView(
        name=verdict.checker,
        verdict=name if counts else "nothing to judge",
        mark=VERDICT_MARK[name] if counts else "–",
        style=_STYLES[name] if counts else "other",
        anomalies=len(verdict.anomalies),
        reason=verdict.reason or "",
        stats=shortened(", ".join(f"{_spaced(key)} {_brief(value)}" for key, value in verdict.figures.items()), 600),
    )


def _brief(value: Any) -> str:
    """Render a statistic in words; nested values stand in brackets."""
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case Mapping():
            return (
                "(" + ", ".join(f"{_spaced(key)} {_brief(entry)}" for key, entry in value.items() if entry != {}) + ")"
            )
        case list() | tuple():
            return "(" + ", ".join(map(_brief, value)) + ")"
    return str(value)


def _spaced(name: Any) -> str:
    return str(name).replace("_", " ")


def _logs(material: Material) -> list[_NodeLog]:
    """Collect the first entry of every kind of error, node by node; warnings only for a node without errors."""
    logs = plain(material.logs)
    found = []
    for node in material.nodes:
        entries = logs.filter(pc.equal(logs.column("node"), node))
        errors = entries.filter(pc.is_in(entries.column("level"), value_set=pa.array(["ERROR", "FATAL"])))
        warnings = entries.filter(pc.equal(entries.column("level"), "WARN"))
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for row in (errors if errors.num_rows else warnings).slice(0, LOG_ENTRIES_READ).to_pylist():
            kinds.setdefault(_kind_of_entry(row), []).append(row)
        if kinds:
            hidden = len(kinds) - LOG_ENTRIES_SHOWN
            count = f"{counted(errors.num_rows, 'error')}, {counted(warnings.num_rows, 'warning')}"
            more = f"; {counted(hidden, 'more kind')} not shown" if hidden > 0 else ""
            shown = list(kinds.values())[:LOG_ENTRIES_SHOWN]
            found.append(_NodeLog(name=node, count=count + more, entries=[_log_entry(rows) for rows in shown]))
    return found


def _kind_of_entry(row: Mapping[str, Any]) -> str:
    """Return the kind of a log entry: its text without names, numbers and addresses."""
    exception = (row["stack"] or "").split("\n", 1)[0]
    return re.sub(r"[0-9a-f]*\d[\w.:/-]*", "…", f"{row['level']} {row['message']} {exception}")


def _log_entry(rows: Sequence[Mapping[str, Any]]) -> _LogEntry:
    row = rows[0]
    thread = f"[{row['thread']}] " if row["thread"] else ""
    exception, _, rest = (row["stack"] or "").partition("\n")
    return _LogEntry(
        level=row["level"],
        style=_STYLES_OF_LEVELS.get(row["level"], "other"),
        boot=row["boot"],
        line=row["line"],
        timestamp=row["timestamp"] or "no time",
        times=len(rows),
        text=shortened(f"{thread}{row['message']}\n{exception}".rstrip(), 1_000),
        rest=shortened(rest, 4_000),
    )

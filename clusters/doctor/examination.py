"""Examination: checks as data, run on all nodes at once, with their findings as a table and as JSON.

A check is a question about one node, or about all of them together. One that depends on another (root on a host depends
on reaching it) is left out where that one failed, so that one cause is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from rich.table import Table
from rich.text import Text

from schemaquake.harness.errors import SchemaquakeError

__all__ = ["Check", "Examination", "Finding", "JointCheck", "Seen", "examine"]

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a check: pass or not, a detail of a few words, and the remedy for a failure."""

    ok: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[P]):
    """One question about one node. `look` may raise a SchemaquakeError, which counts as a failure."""

    name: str
    look: Callable[[P], Seen]
    after: tuple[str, ...] = ()
    """The checks that must have passed before this one is run."""
    allowances: frozenset[str] = frozenset()
    """The words of `allow` that need this check; empty for a check that is always needed."""
    of_a_running_server: bool = False
    """It passes only while the node's server runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointCheck(Generic[P]):
    """One question about all nodes together, asked about those on which the checks before it passed."""

    name: str
    look: Callable[[Mapping[str, P]], Mapping[str, Seen]]
    after: tuple[str, ...] = ()
    allowances: frozenset[str] = frozenset()
    of_a_running_server: bool = False


AnyCheck: TypeAlias = Check[P] | JointCheck[P]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on one node; `seen` is None where the check was left out."""

    node: str
    check: str
    seen: Seen | None


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings, in the order of the checks and, within a check, of the nodes."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if every check was run on every node and passed; False without any finding."""
        return bool(self.findings) and all(f.seen is not None and f.seen.ok for f in self.findings)

    @property
    def missing(self) -> Sequence[str]:
        """List a sentence for every failure, with its remedy. The same failure on several nodes is one sentence."""
        causes: dict[tuple[str, str, str], list[str]] = {}
        for finding in self.findings:
            if finding.seen is not None and not finding.seen.ok:
                causes.setdefault((finding.check, finding.seen.detail, finding.seen.remedy), []).append(finding.node)
        return [
            f"{', '.join(nodes)}: {check}: {detail}" + (f": {remedy}" if remedy else "")
            for (check, detail, remedy), nodes in causes.items()
        ]

    def document(self) -> dict[str, Any]:
        """Make the document of `--json`: `{"ok", "checks": {check: {node: {"ok": true | false | null, "said", "remedy"}}}}`."""
        checks: dict[str, dict[str, Any]] = {}
        for finding in self.findings:
            seen = finding.seen
            checks.setdefault(finding.check, {})[finding.node] = {
                "ok": None if seen is None else seen.ok,
                "said": "" if seen is None else seen.detail,
                "remedy": "" if seen is None else seen.remedy,
            }
        return {"ok": self.ok, "checks": checks}

    def table(self) -> Table:
        """Make a table with checks as rows and nodes as columns; `missing` explains its failures."""
        nodes = list(dict.fromkeys(finding.node for finding in self.findings))
        table = Table("", *nodes, box=None, pad_edge=False, header_style="dim")
        rows: dict[str, dict[str, Seen | None]] = {}
        for finding in self.findings:
            rows.setdefault(finding.check, {})[finding.node] = finding.seen
        for check, seen in rows.items():
            table.add_row(check, *(_cell(seen.get(node)) for node in nodes))
        return table


def _cell(seen: Seen | None) -> Text:
    if seen is None:
        return Text("not asked", style="dim")
    if not seen.ok:
        return Text("missing", style="bold red")
    return Text("ok").append(f"  {seen.detail}" if seen.detail else "", style="dim")


def examine(probes: Mapping[str, P], checks: Sequence[AnyCheck[P]]) -> Examination:
    """Run the checks in their order, those of single nodes on all nodes at the same time."""
    findings: dict[tuple[str, str], Seen | None] = {}

    def stands(check: AnyCheck[P], node: str) -> bool:
        below = [findings.get((name, node)) for name in check.after]
        return all(seen is not None and seen.ok for seen in below)

    with ThreadPoolExecutor(max_workers=max(1, len(probes))) as pool:
        for check in checks:
            asked = {node: probe for node, probe in probes.items() if stands(check, node)}
            if isinstance(check, JointCheck):
                found = dict(_jointly(check, asked)) if asked else {}
            else:
                found = dict(
                    zip(asked, pool.map(lambda probe, one=check: _look(one, probe), asked.values()), strict=True)
                )
            findings |= {(check.name, node): found.get(node) for node in probes}
    return Examination(tuple(Finding(node, check, seen) for (check, node), seen in findings.items()))


def _look(check: Check[P], probe: P) -> Seen:
    try:
        return check.look(probe)
    except SchemaquakeError as error:
        return Seen(False, str(error))


def _jointly(check: JointCheck[P], probes: Mapping[str, P]) -> Mapping[str, Seen]:
    try:
        return check.look(probes)
    except SchemaquakeError as error:
        return dict.fromkeys(probes, Seen(False, str(error)))

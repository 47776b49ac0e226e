"""pytest plugin: race schema changes on a real cluster from a test, and assert on the verdict.

    def test_dropping_a_type_in_use_is_refused(schemaquake):
        assert schemaquake.run(workload="drop-type", system="cassandra:6.0-alpha2")

A failed test's report names the anomalies and the run's own report. A machine that cannot run the cluster skips, with
the reason; `--schemaquake-require` makes that a failure. pytest loads this module in every session if Schemaquake is
installed, so it imports nothing but pytest until a fixture is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from schemaquake.harness.model.plan import Plan
    from schemaquake.harness.model.verdict import Anomaly, Validity, Verdict

__all__ = ["Judgement", "Run", "Schemaquake"]

_CURRENT: Final = pytest.StashKey[pytest.Item]()
_RUNS: Final = pytest.StashKey[list["Run"]]()
_MARKER: Final = (
    "schemaquake(**plan): the defaults of every `schemaquake.run` of this test, for example system=…, nodes=…"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The checkers' verdict on a history."""

    verdict: Verdict

    @property
    def valid(self) -> Validity:
        """True, False or "unknown"."""
        return self.verdict.valid

    @property
    def anomalies(self) -> Sequence[Anomaly]:
        """Every anomaly of the verdict and of its parts, each once."""
        found: list[Anomaly] = []
        remaining = deque([self.verdict])
        while remaining:
            verdict = remaining.popleft()
            found += [anomaly for anomaly in verdict.anomalies if anomaly not in found]
            remaining.extend(verdict.parts)
        return found

    def __bool__(self) -> bool:
        """Return True if it is valid. Raises TypeError for unknown, which is neither a pass nor a failure."""
        if self.verdict.valid == "unknown":
            raise TypeError(f"the verdict is unknown, neither valid nor invalid: {self._reason()}")
        return self.verdict.valid

    def describe(self) -> str:
        """Describe validity and the titles of the anomalies, a line each."""
        valid = "valid" if self.valid is True else "INVALID" if self.valid is False else f"unknown: {self._reason()}"
        return "\n".join([valid, *(f"  {anomaly.type}: {anomaly.title}" for anomaly in self.anomalies)])

    def _reason(self) -> str:
        from schemaquake.harness.model.verdict import render_doubts  # noqa: PLC0415 - as the module says

        of_parts = (replace(doubt, checker=part.checker) for part in self.verdict.parts for doubt in part.doubts)
        return render_doubts(dict.fromkeys((*self.verdict.doubts, *of_parts))) or "no reason given"


@dataclass(frozen=True, slots=True)
class Run(Judgement):
    """One run: its verdict, its folder (plan, history, observations, logs), its report, and the command that repeats it."""

    folder: Path
    report: Path
    """The path of the report page."""
    command: str

    def describe(self) -> str:
        """Describe the verdict, and the path of the report."""
        return f"{Judgement.describe(self)}\nreport: {self.report}\nrepeat: {self.command}"


class Schemaquake:
    """The fixture `schemaquake`."""

    def __init__(self, config: pytest.Config, runs: Path) -> None:
        self._config = config
        self._runs = runs

    def run(self, workload: str | Sequence[str] | None = None, *, runs: Path | None = None, **plan: Any) -> Run:
        """Run a workload on a cluster of its own, judge it, and write its report; takes a minute or more.

        `plan` takes the fields of `schemaquake.harness.model.plan.Plan` (system, nodes, nemesis, mode, seed, races, time_limit, …; times
        in seconds); others come from the marker `schemaquake`, then from the command line of pytest.
        `runs` is the parent of the run's folder. Skips the test if this machine cannot run the plan.
        Raises PlanError, FetchError, ClusterError.
        """
        item = self._config.stash.get(_CURRENT, None)
        marked = item.get_closest_marker("schemaquake") if item else None
        arguments = plan if workload is None else {**plan, "workload": workload}
        chosen = _plan({**_defaults(self._config), **(marked.kwargs if marked else {}), **arguments})
        self._require(chosen)
        document = run_command([*chosen.command_line()[1:], "--runs", str(runs or self._runs)])
        run = Run(_verdict(document), Path(document["run"]), Path(document["report"]), document["command"])
        if item:
            item.stash.setdefault(_RUNS, []).append(run)
        return run

    def _require(self, plan: Plan) -> None:
        from schemaquake.harness.errors import EnvironmentLacks, FetchError  # noqa: PLC0415  # see the module's docstring

        try:
            prepare(plan)
        except FetchError:
            raise  # a mistyped version must not look like a machine that is too small
        except EnvironmentLacks as lack:
            if self._config.getoption("schemaquake_require"):
                raise
            pytest.skip(f"this machine cannot run {plan.system}: {lack}")


def prepare(plan: Plan) -> None:
    """Check that this machine can run the plan, and fetch its system. Raises EnvironmentLacks, FetchError."""
    from schemaquake.harness.registry import load  # noqa: PLC0415

    provider = load("clusters", plan.cluster)
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        provider.prepare(plan, Path(folder))
        provider.enclosure(Path(folder))


def command() -> list[str]:
    """Return the command line of this very installation."""
    return [sys.executable, "-m", "schemaquake.harness.cli.command_line"]


def run_command(arguments: Sequence[str]) -> Mapping[str, Any]:
    """Run `schemaquake … --json` and return its document; its progress goes to standard error as it comes.

    It runs in a process of its own, because a local cluster lives in namespaces of its own. Raises PlanError for bad
    arguments, ClusterError with the last lines of output for any other failure before a verdict.
    """
    from schemaquake.harness.errors import ClusterError, ExitCode, PlanError  # noqa: PLC0415

    last_lines: deque[str] = deque(maxlen=20)
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            [*command(), *arguments, "--json"], stdout=output, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                last_lines.append(line)
                sys.stderr.write(line)
            exit_code = process.wait()
        except BaseException:
            process.terminate()  # the command heals its faults and tears its cluster down before it exits
            process.wait()
            raise
        output.seek(0)
        text = output.read()
    if text:  # a run that was not completed prints a document, too, and its verdict is never valid
        document: Mapping[str, Any] = json.loads(text)
        return document
    kind = PlanError if exit_code == ExitCode.BAD_ARGUMENTS else ClusterError
    raise kind(
        f"schemaquake {arguments[0]} gave no verdict (exit code {exit_code}). Its last output:\n{''.join(last_lines)}"
    )


# ── fixtures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def schemaquake(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Schemaquake:
    """Run workloads on clusters of their own: `schemaquake.run(workload="drop-type", system="cassandra:5.0.9")`."""
    chosen = pytestconfig.getoption("schemaquake_runs")
    runs = Path(chosen).absolute() if chosen else tmp_path_factory.mktemp("schemaquake-runs")
    return Schemaquake(pytestconfig, runs)


@pytest.fixture(scope="session")
def schemaquake_check() -> Callable[..., Judgement]:
    """Judge a history file, also one of Jepsen's: `schemaquake_check(path, checker="table-ids")`.

    Every other keyword is an option of `schemaquake check`.
    """

    def check(history: str | os.PathLike[str], **options: Any) -> Judgement:
        arguments = ["check", os.fspath(history)]
        for name, value in options.items():
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return Judgement(_verdict(run_command(arguments)))

    return check


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--schemaquake-…`."""
    group = parser.getgroup("schemaquake", "races of schema changes on real clusters")
    group.addoption(
        "--schemaquake-system", metavar="SYSTEM", help="the system of runs that name none (cassandra:5.0.9)"
    )
    group.addoption(
        "--schemaquake-runs", metavar="DIR", help="the parent folder of the runs (default: a temporary folder)"
    )
    group.addoption("--schemaquake-seed", metavar="SEED", type=int, help="the seed of runs that name none (1)")
    group.addoption(
        "--schemaquake-require", action="store_true", help="fail instead of skip if this machine cannot run a cluster"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember the running test, for a fixture that outlives it."""
    item.config.stash[_CURRENT] = item
    try:
        return (yield)
    finally:
        del item.config.stash[_CURRENT]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the runs' anomalies and the paths of their reports to a failed test."""
    report = yield
    if report.failed:
        given = [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Run)]
        runs = {run.folder: run for run in (*item.stash.get(_RUNS, []), *given)}
        report.sections += [(f"schemaquake: {folder.name}", run.describe()) for folder, run in runs.items()]
    return report


# ── from what a test says to a plan, and back ────────────────────────────────────────────────────────────────────────


def _defaults(config: pytest.Config) -> dict[str, Any]:
    chosen = {"system": config.getoption("schemaquake_system"), "seed": config.getoption("schemaquake_seed")}
    standing = {"workload": "drop-type", "system": "cassandra:5.0.9"}
    return {**standing, **{name: value for name, value in chosen.items() if value is not None}}


def _plan(arguments: Mapping[str, Any]) -> Plan:
    """Build a plan from the arguments of the command line: `workload="a,b"` or a sequence, `nemesis=…`, `time_limit=60`."""
    from schemaquake.harness.errors import PlanError  # noqa: PLC0415
    from schemaquake.harness.installed_options import refuse_undeclared  # noqa: PLC0415
    from schemaquake.harness.model.plan import Plan  # noqa: PLC0415
    from schemaquake.results.runs.cluster_choice import usual_cluster  # noqa: PLC0415
    from schemaquake.results.runs.option_lists import declared_names, with_shorthands  # noqa: PLC0415

    known = {field.name for field in fields(Plan)}
    plural = {"workload": "workloads", "nemesis": "nemeses"}
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for argument, value in arguments.items():
        name = plural.get(argument, argument if argument in known else f"{argument}_s")
        if name not in known:
            options[argument.replace("_", "-")] = value
        else:
            values[name] = tuple(value.split(",") if isinstance(value, str) else value) if argument in plural else value
    if options:
        unknown = sorted(options.keys() - declared_names(values["workloads"]))
        if unknown:
            argument = unknown[0].replace("-", "_")
            raise PlanError(
                f'a run has no "{argument}"; it has {", ".join(sorted(known))}, and its workloads\' options'
            )
        values["options"] = with_shorthands(values["workloads"], values.get("options", {}), options)
    if values.get("cluster_file") is None:
        values.setdefault("cluster", usual_cluster([values["system"]]))
    plan = Plan(**values)
    refuse_undeclared(plan.options, workloads=plan.workloads, nemeses=plan.nemeses, cluster=plan.cluster)
    return plan


def _verdict(document: Mapping[str, Any]) -> Verdict:
    from schemaquake.harness.model.verdict import Verdict  # noqa: PLC0415

    return Verdict.from_json(document)

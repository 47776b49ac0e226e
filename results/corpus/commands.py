"""Command: corpus — runs as tables, and questions about them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FOLDER, NAME, NUMBER, RUNS, AsJson, Master, Verbose
from schemaquake.harness.cli.sections import PUBLISH, add_command
from schemaquake.harness.console import configure_logging, stderr, write_line
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.results.wording import counted

if TYPE_CHECKING:
    from schemaquake.results.corpus.asking import Question

__all__ = ["register"]

_HOUR_MS = 3_600_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        _corpus,
        "corpus",
        PUBLISH,
        "schemaquake corpus runs --to corpus",
        "schemaquake corpus --to corpus --query rates",
        "schemaquake corpus --to corpus --query list",
        page="docs/corpus.md",
        interrupted="batches that were committed are kept; the same command goes on",
        computes=True,
    )


def _corpus(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar=RUNS, help="Runs, folders or globs in which runs, bundles or sweeps are: here, s3a://…, hdfs://…"
        ),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar=FOLDER, help="Folder of the tables, on any file system; runs that are in it are not read again."
        ),
    ],
    master: Master = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge runs on this machine that have no summary, first.")
    ] = False,
    batch: Annotated[
        int, typer.Option(metavar=NUMBER, help="Number of runs that are committed together.", min=1)
    ] = 10_000,
    compact: Annotated[bool, typer.Option("--compact", help="Write all rows into few files.")] = False,
    vacuum: Annotated[
        float | None,
        typer.Option(metavar="HOURS", help="Delete files that belong to no table and are older than this.", min=0),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar=NAME, help="Answer a shipped question; `list` names them.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="With --query new: a date, UTC.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Turn many runs into tables with Spark, and ask questions about them."""
    configure_logging(verbose=verbose)
    from schemaquake.results.corpus.asking import ask, questions  # noqa: PLC0415 - every other command would wait for it
    from schemaquake.results.corpus.building import Corpus  # noqa: PLC0415 - as above
    from schemaquake.results.corpus.files import address_of  # noqa: PLC0415 - as above
    from schemaquake.results.engines.spark_session import spark_session  # noqa: PLC0415 - as above

    known = questions()
    if query == "list":
        for one in known.values():
            write_line(f"{one.name:14}{one.about}")
        return
    if query is not None and query not in known:
        raise PlanError(f"--query is one of {', '.join(known)}, not {query}")
    if not runs and query is None and not compact and vacuum is None:
        raise PlanError("name the runs, or ask something: --query, --compact, --vacuum")
    _refuse_stray(judge=judge and not runs, since=since, question=None if query is None else known[query])
    document: dict[str, Any] = {"tables": to}
    if judge:
        document |= _judge(runs or [])
    with spark_session(master) as session:
        corpus = Corpus(session, address_of(to))
        if runs:
            document |= _add(corpus, runs, batch)
        document |= _tidy(corpus, compact=compact, vacuum=vacuum)
        if query is not None:
            document["rows"] = ask(corpus.frames(), query, since=since)
    if as_json:
        print_json(document)
    elif query is not None:
        _print(document["rows"])
    raise typer.Exit(ExitCode.VALID)


def _refuse_stray(*, judge: bool, since: str | None, question: Question | None) -> None:
    """Refuse options without what they are for, which would be ignored otherwise. `judge`: it was asked for, without runs. Raises PlanError."""
    if judge:
        raise PlanError("--judge is for runs that are named")
    if since is None:
        return
    if question is None or not question.takes_since:
        raise PlanError("--since is for --query new")
    try:
        datetime.fromisoformat(since)
    except ValueError:
        raise PlanError(f"--since is a date such as 2026-11-01, not {since}") from None


def _judge(runs: list[str]) -> dict[str, Any]:
    """Judge the runs without a verdict, and print which could not be judged."""
    from schemaquake.results.corpus.judging import judge_runs  # noqa: PLC0415 - as above

    console = stderr()
    judged, failed = 0, []
    for folder, reason in judge_runs(runs):
        judged += reason is None
        if reason is not None:
            failed.append({"place": str(folder), "reason": reason})
            console.print(f"not judged: {folder}: {reason}", markup=False, style="yellow")
    console.print(f"{counted(judged, 'run')} judged", markup=False)
    return {"judged": judged, "not_judged": failed}


def _add(corpus: Any, runs: list[str], batch: int) -> dict[str, Any]:
    """Add runs, and say what came of each batch."""
    console = stderr()
    batches, added, unread = [], 0, []
    for one in corpus.add(runs, batch=batch):
        batches.append(one.commit.batch)
        added += one.commit.runs
        unread += one.unread
        console.print(
            f"{counted(one.commit.runs, 'run')}, {counted(one.commit.rows['operations'], 'operation')} committed",
            markup=False,
        )
        for place, reason in one.unread[:20]:
            console.print(f"not whole: {place}: {reason}", markup=False, style="yellow")
    if not batches:
        console.print("nothing new", markup=False)
    return {
        "batches": batches,
        "runs": added,
        "unread": [{"place": place, "reason": reason} for place, reason in unread],
    }


def _tidy(corpus: Any, *, compact: bool, vacuum: float | None) -> dict[str, Any]:
    """Compact and clean the tables, as far as that is asked for."""
    document: dict[str, Any] = {}
    if compact:
        made = corpus.compact()
        document["compacted"] = None if made is None else made.batch
        stderr().print(
            "one commit already" if made is None else f"{counted(made.runs, 'run')} in one commit", markup=False
        )
    if vacuum is not None:
        document["deleted"] = corpus.vacuum(int(vacuum * _HOUR_MS), int(time.time() * 1000))
        stderr().print(f"{len(document['deleted'])} folders and commits deleted", markup=False)
    return document


def _print(rows: list[dict[str, Any]]) -> None:
    """Print an answer as a table of columns between tabs, for people and for other programs."""
    if not rows:
        stderr().print("no rows", markup=False)
        return
    write_line("\t".join(rows[0]))
    for row in rows:
        write_line("\t".join(_cell(value) for value in row.values()))


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split())

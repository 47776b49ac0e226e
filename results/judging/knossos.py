"""Knossos as a second opinion: its jar judges the same history, and a disagreement is reported prominently.

One subprocess a key, `java -jar JAR --model MODEL FILE`: EDN is written to a temporary file, and the verdict read from the
line `FILE<TAB>true|false|unknown`, as the command lines of knossos and elle-cli print it. An executable that is not a
jar is run with the same arguments.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.child_environment import JAVA, child_environment
from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.verdict import Doubt, Stat, Validity, Verdict, make_stats
from schemaquake.results.formats.edn_writing import edn_lines

__all__ = ["KNOSSOS_MODELS", "ask_knossos", "with_second_opinion"]

KNOSSOS_MODELS: Final = ("register", "cas-register", "multi-register", "mutex", "set", "fifo-queue", "unordered-queue")
"""The models that both Knossos and Schemaquake know."""

_ANSWER: Final = re.compile(r"^\S.*\t(true|false|unknown|:unknown)\s*$", re.MULTILINE)
_OUTPUT_MOST: Final = 2000  # characters of Knossos' output in place of a verdict


def with_second_opinion(
    verdict: Verdict, history: pa.Table, *, model: str, knossos: Path, limit_s: float, initial: str | None = None
) -> Verdict:
    """Add Knossos' verdict to the statistics; the verdict is unknown if the two contradict each other.

    Raises EnvironmentLacks if Knossos cannot be run, PlanError for a model that it does not know, or an initial value other
    than null, which its command line does not take.
    """
    if initial not in {None, "null"}:
        raise PlanError("--knossos starts with nil: it takes no --initial value")
    knossos_validity, reason = ask_knossos(history, model=model, knossos=knossos, limit_s=limit_s)
    stats = {**verdict.stats, "knossos": Stat(knossos_validity)}
    if "unknown" in {knossos_validity, verdict.valid}:
        more = () if reason is None else (Doubt("undecided", reason, checker="knossos"),)
        return replace(verdict, stats=stats, doubts=(*verdict.doubts, *more))
    if knossos_validity is verdict.valid:
        return replace(verdict, stats=stats)
    text = (
        f"DISAGREEMENT: ours is {str(verdict.valid).lower()}, knossos says {str(knossos_validity).lower()}. One of the two is wrong: "
        f"keep the history, and report it"
    )
    stats |= make_stats({"disagreement": True, "ours": verdict.valid})
    return replace(verdict, valid="unknown", stats=stats, doubts=(Doubt("undecided", text), *verdict.doubts))


def ask_knossos(history: pa.Table, *, model: str, knossos: Path, limit_s: float) -> tuple[Validity, str | None]:
    """Return (Knossos' verdict on all keys together, its reason if unknown). Raises EnvironmentLacks, PlanError."""
    if model not in KNOSSOS_MODELS:
        raise PlanError(f'knossos knows no model "{model}"; it knows {", ".join(KNOSSOS_MODELS)}')
    launcher = _launcher(knossos)
    answers: list[Validity] = []
    reasons: list[str] = []
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as folder:
        for number, events in enumerate(_split_by_key(history)):
            path = Path(folder) / f"{number}.edn"
            path.write_text("\n".join(edn_lines(events)) + "\n", encoding="utf-8")
            answer, reason = _ask_one(launcher, path, model, limit_s)
            answers.append(answer)
            reasons += [reason] if reason is not None else []
            if answer is False:
                return False, None
    if not answers:
        return "unknown", "there was nothing to ask about"
    if "unknown" in answers:
        return "unknown", reasons[0] if reasons else "it could not decide"
    return True, None


def _split_by_key(history: pa.Table) -> Iterator[pa.Table]:
    keys: Sequence[str | None] = pc.unique(history["key"]).to_pylist()
    clients = history.filter(pc.greater_equal(history["process"], 0))
    for key in keys:
        of_key = clients.filter(pc.is_null(clients["key"]) if key is None else pc.equal(clients["key"], key))
        if len(of_key):
            yield of_key


def _launcher(knossos: Path) -> Sequence[str]:
    """Return the command without its arguments."""
    if not knossos.is_file():
        raise EnvironmentLacks(f"{knossos} does not exist: --knossos needs knossos' jar, or a launcher of it")
    if knossos.suffix != ".jar" and os.access(knossos, os.X_OK):
        return [str(knossos.resolve())]
    java = shutil.which("java")
    if java is None:
        raise EnvironmentLacks("--knossos needs java on the PATH")
    return [java, "-jar", str(knossos.resolve())]


def _ask_one(launcher: Sequence[str], path: Path, model: str, limit_s: float) -> tuple[Validity, str | None]:
    command = [*launcher, "--model", model, str(path)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
            env=child_environment(*JAVA),
        )
    except subprocess.TimeoutExpired:
        return "unknown", f"no answer within {limit_s:g} s"
    except OSError as error:
        raise EnvironmentLacks(f"{launcher[0]} cannot be run: {error.strerror or error}") from error
    answers = _ANSWER.findall(done.stdout)
    if not answers:
        output = (done.stderr.strip() or done.stdout.strip() or "nothing")[-_OUTPUT_MOST:]
        return "unknown", f"it ended with {done.returncode} and printed {output}"
    validities: dict[str, Literal[True, False, "unknown"]] = {"true": True, "false": False}
    return validities.get(answers[-1], "unknown"), None

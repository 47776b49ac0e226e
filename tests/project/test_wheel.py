"""The wheel: it holds `schemaquake` and nothing else, with every file, and works where no extra is installed."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import recorded
from light_environment import build_wheel, light_environment
from places import ROOT

ROOMS = ("harness", "clusters", "workloads", "nemeses", "checkers", "results")
LOST_UPDATE = """
{:index 0 :type :invoke :process 0 :f :txn :value [[:append 1 1] [:r 2 nil]]}
{:index 1 :type :invoke :process 1 :f :txn :value [[:append 2 1] [:r 1 nil]]}
{:index 2 :type :ok :process 0 :f :txn :value [[:append 1 1] [:r 2 []]]}
{:index 3 :type :ok :process 1 :f :txn :value [[:append 2 1] [:r 1 []]]}
{:index 4 :type :invoke :process 0 :f :txn :value [[:r 1 nil] [:r 2 nil]]}
{:index 5 :type :ok :process 0 :f :txn :value [[:r 1 [1]] [:r 2 [1]]]}
"""
"""Two transactions that do not see each other: write skew, which is not serializable."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return light_environment(tmp_path_factory.mktemp("light") / "venv", wheel)


def test_it_holds_one_package_with_every_file_of_every_room(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in held} == {"schemaquake"}
    here = {
        f"schemaquake/{path.relative_to(ROOT)}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here <= held, sorted(here - held)


def run(programs: Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(programs / "schemaquake"), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder)},
    )


def test_nothing_generic_is_importable_beside_it(programs: Path, tmp_path: Path) -> None:
    program = "import importlib.util as u; print([r for r in %r if u.find_spec(r)])" % (ROOMS,)  # noqa: UP031
    done = subprocess.run(
        [str(programs / "python"), "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers", "anomalies"])
def test_it_lists_what_it_has(programs: Path, tmp_path: Path, kind: str) -> None:
    done = run(programs, tmp_path, "list", kind, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) >= 8


def test_it_judges_anybodys_history(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(LOST_UPDATE)
    asked = ("check", "history.edn", "--model", "list-append", "--json", "--consistency-models")
    broken = run(programs, tmp_path, *asked, "serializable")
    assert (broken.returncode, verdict_of(broken)["valid"]) == (1, False), broken.stderr
    legal = run(programs, tmp_path, *asked, "read-committed")
    assert (legal.returncode, verdict_of(legal)["valid"]) == (0, True), legal.stderr


def verdict_of(done: subprocess.CompletedProcess[str]) -> Any:
    document = json.loads(done.stdout)
    return document.get("verdict", document)


def test_it_judges_and_reports_a_stored_run(programs: Path, tmp_path: Path) -> None:
    stored = recorded.laid_out(tmp_path)
    judged = run(programs, tmp_path, "check", stored)
    assert judged.returncode == 1, judged.stderr
    reported = run(programs, tmp_path, "report", stored)
    assert reported.returncode in {0, 1}, reported.stderr
    assert "dangling-type" in (stored / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "--system", "cassandra:5.0.9", "--workload", "drop-type"), "cassandra"),
        (("run", "--cluster", "docker", "--system", "cassandra:5.0.9", "--workload", "drop-type"), "docker|cassandra"),
        (("check", "history.edn", "--model", "list-append", "--engine", "spark"), "spark"),
    ],
    ids=["local", "docker", "spark"],
)
def test_what_needs_an_extra_names_it(programs: Path, tmp_path: Path, arguments: tuple[str, ...], extra: str) -> None:
    (tmp_path / "history.edn").write_text(LOST_UPDATE)
    done = run(programs, tmp_path, *arguments)
    assert done.returncode == 254, done.stderr
    assert any(f"pip install 'schemaquake[{name}]'" in done.stderr for name in extra.split("|")), done.stderr

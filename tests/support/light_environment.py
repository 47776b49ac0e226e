"""A virtual environment with Schemaquake's wheel and nothing but what the wheel requires without any extra.

What is required is linked from the environment that runs the tests, so nothing is downloaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

__all__ = ["build_wheel", "light_environment"]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of a copy of the working tree into `folder` with the tools that are installed."""
    source = folder / "source"
    source.mkdir()
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"):
        shutil.copy(path, source)
    rooms = [path.name for path in (ROOT / "schemaquake").iterdir() if path.is_symlink()]
    for name in (*rooms, "schemaquake"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("schemaquake-*.whl")
    return wheel


def light_environment(folder: Path, wheel: Path) -> Path:
    """Make the environment in `folder`; returns its folder of programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    programs = folder / "bin"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in sorted(_required(wheel)):
        _link(name, packages)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(programs / "python"),
            "install",
            "--quiet",
            "--no-deps",
            str(wheel),
        ],
        check=True,
    )
    return programs


def _required(wheel: Path) -> set[str]:
    """Names of all distributions that the wheel requires without extras, directly or through others."""
    found: set[str] = set()
    waiting = list(_without_extras(_requirements_in(wheel)))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _without_extras(distribution(name).requires or [])
    return found


def _requirements_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or []


def _without_extras(requirements: list[str]) -> Iterator[str]:
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _link(name: str, packages: Path) -> None:
    """Link the top-level files and folders of an installed distribution into another folder of packages."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(found.locate_file(top))).resolve())

"""Extras and the lock: what errors name is what pyproject.toml offers, and what is locked is what it asks for."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

from schemaquake.harness.errors import ExitCode
from schemaquake.harness.extras import EXTRAS, lacking_extra

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONAL = DOCUMENT["project"]["optional-dependencies"]
DISTRIBUTIONS = {"cassandra": "cassandra-driver"}
"""Packages whose distribution has another name."""


def test_every_package_of_an_extra_is_known_to_the_error() -> None:
    offered = {
        (canonicalize_name(Requirement(text).name), extra)
        for extra, texts in OPTIONAL.items()
        if extra != "all"
        for text in texts
    }
    assert {(DISTRIBUTIONS.get(package, package), extra) for package, (extra, _) in EXTRAS.items()} == offered
    assert Requirement(OPTIONAL["all"][0]).extras == set(OPTIONAL) - {"all"}


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_answered_with_the_extra_that_brings_it(package: str) -> None:
    lack = lacking_extra(ModuleNotFoundError(f"No module named '{package}.x'", name=f"{package}.x"))
    assert lack is not None
    assert lack.exit_code == ExitCode.BAD_ARGUMENTS
    assert f"schemaquake[{EXTRAS[package][0]}]" in str(lack)


def test_a_package_that_no_extra_brings_is_somebody_elses_error() -> None:
    assert lacking_extra(ModuleNotFoundError("No module named 'nonesuch'", name="nonesuch")) is None


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-further.lock"])
def test_the_lock_satisfies_every_range_and_hashes_every_file(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\\n]+)?((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})*)", text, re.MULTILINE
    )
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    assert all(hashes for _, _, hashes in entries)
    groups = DOCUMENT["dependency-groups"]
    asked = [*DOCUMENT["project"]["dependencies"], *groups["dev"]]
    asked += [text for extra, texts in OPTIONAL.items() if extra != "all" for text in texts]
    if lock == "requirements-further.lock":
        asked = groups["further"]
    for requirement in map(Requirement, asked):
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}: make lock"
    assert "://" not in text, "a lock names packages, never where they come from"

"""Supply chain: the bill of materials holds every file that is installed or fetched, and an audit that failed is not a pass."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def bill() -> str:
    return subprocess.run([sys.executable, ROOT / "scripts/sbom"], capture_output=True, text=True, check=True).stdout


def test_the_bill_of_materials_holds_every_locked_package_and_every_jar_with_its_hash():
    text = bill()
    document = json.loads(text)
    assert document["bomFormat"] == "CycloneDX"
    names = {component["bom-ref"] for component in document["components"]}
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\\s]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(locked) > 50
    assert {f"pkg:pypi/{name.lower()}@{version}" for name, version in locked} <= names
    jars = (ROOT / "clusters/systems/jars.sha256").read_text().splitlines()
    assert {f"jar:{line.split()[1]}" for line in jars} <= names
    assert all(component["hashes"] for component in document["components"])
    assert len(names) == len(document["components"])
    assert text == bill()


@pytest.mark.parametrize(
    ("said", "code", "exit_code", "expected"),
    [
        ("No known vulnerabilities found", 0, 0, "no known vulnerability"),
        ("Found 2 known vulnerabilities in 1 package\nevil 1.0 PYSEC-1", 1, 1, "PYSEC-1"),
        ("ConnectionError: no route to host", 1, 0, "NOT AUDITED"),
        ("", 2, 0, "NOT AUDITED"),
    ],
    ids=["clean", "affected", "no network", "a broken tool"],
)
def test_an_audit_says_whether_it_took_place(tmp_path, said, code, exit_code, expected):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/audit", tmp_path / "scripts/audit")
    tool = tmp_path / ".venv/bin/uv"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' '{said}'\nexit {code}\n")
    tool.chmod(0o755)
    done = subprocess.run([tmp_path / "scripts/audit"], capture_output=True, text=True, check=False)
    assert done.returncode == exit_code
    assert expected in done.stdout

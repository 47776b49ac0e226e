"""Carried tools: a tool of this machine that hangs is named, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemaquake.clusters.docker import carried_tools
from schemaquake.harness.errors import EnvironmentLacks


def test_an_ldd_that_hangs_is_named_with_the_program_it_was_asked_about(tmp_path, monkeypatch):
    ldd = tmp_path / "ldd"
    ldd.write_text("#!/bin/sh\nsleep 600\n")
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(carried_tools, "_LINKS_WITHIN_S", 0.5)
    with pytest.raises(EnvironmentLacks, match=r"`ldd /bin/sh`.* did not end within 0\.5 s\. Install sh anew, or"):
        carried_tools._libraries(Path("/bin/sh"))

"""Volumes: a file system of its own for what a local node's server keeps.

In memory, of fixed size, and mounted inside the enclosure: nobody outside sees it, and it ends with the enclosure's last process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from schemaquake.clusters.local.tools import run_tool

__all__ = ["SMALL_VOLUME_MB", "VOLUME", "make_volume", "remove_volume"]

VOLUME: Final = "volume"
"""The folder, in a node's own, where its file system is mounted."""
SMALL_VOLUME_MB: Final = 512
"""The size of one that is to be filled."""

_run = partial(run_tool, failure="a node's file system could not be made or ended")


def make_volume(folder: Path, names: Sequence[str], *, size_mb: int = SMALL_VOLUME_MB) -> None:
    """Mount a file system of this size, and its folders of these names in the places of those of the node. Raises ClusterError."""
    volume = folder / VOLUME
    volume.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=755", "tmpfs", str(volume))
    for name in names:
        for place in (volume / name, folder / name):
            place.mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(volume / name), str(folder / name))


def remove_volume(folder: Path, names: Sequence[str]) -> None:
    """Unmount what `make_volume` mounted, with everything in it; harmless where nothing is mounted."""
    for place in (*(folder / name for name in names), folder / VOLUME):
        if place.is_mount():
            _run("umount", "--lazy", str(place))
    if (folder / VOLUME).is_dir():
        (folder / VOLUME).rmdir()

"""Carried tools: what an image lacks, taken from this machine into the container, with every library it needs.

A program is started by its own loader, with its own libraries, from a folder of its own, and does not depend on the
image's C library. So a guard in the container can use the packet filter when the harness is gone. libfaketime is loaded
into the server, so it must work with the server's C library.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.transport import Transport
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.limited_command import run_limited

__all__ = ["FOLDER", "Unpack", "carry_clock_library", "carry_packet_filter", "program_archive"]

Unpack = Callable[[bytes], None]
"""The call that unpacks an archive at the root of the container."""

FOLDER: Final = "/opt/schemaquake"
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(?P<path>/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LOADER: Final = re.compile(r"^ld-linux.*\.so\.\d+$|^ld-musl.*\.so\.\d+$|^ld64\.so\.\d+$")
_PLUGINS: Final = "/usr/lib/*/xtables"
_PROBES: Final[Mapping[str, Sequence[str]]] = {
    "iptables": ("iptables", "-w", "5", "-S", "INPUT"),
    "nft": ("nft", "list", "tables"),
}
_COMPANIONS: Final[Mapping[str, Sequence[str]]] = {"iptables": ("iptables", "ip6tables"), "nft": ("nft",)}
_NOT_FOUND: Final = 127
_YEAR_S: Final = 365 * 86400
_LINKS_WITHIN_S: Final = 30.0
"""The limit of `ldd`, which takes milliseconds; it starts the loader of the program that it is asked about."""
_CLOCK_PLACES: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)


def carry_packet_filter(transport: Transport, unpack: Unpack) -> str | None:
    """Give the container a packet filter that works, and return what was carried there; None if it had one.

    Raises EnvironmentLacks with the result of each attempt if none works.
    """
    refusals: list[str] = []
    for name, probe in _PROBES.items():
        asked = transport.run(probe)
        if asked.exit_code == 0:
            return None
        refusals.append(f"{name} of the image: {_words(asked.stderr or asked.stdout, asked.exit_code)}")
    for name, probe in _PROBES.items():
        programs = [tool for tool in _COMPANIONS[name] if shutil.which(tool, path=_path()) is not None]
        if name not in programs:
            refusals.append(f"{name} of this machine: there is none")
            continue
        unpack(program_archive(programs, _folder_on_path(transport)))
        asked = transport.run(probe)
        if asked.exit_code == 0:
            return ", ".join(programs)
        refusals.append(f"{name} of this machine: {_words(asked.stderr or asked.stdout, asked.exit_code)}")
    raise EnvironmentLacks(
        f"{transport.described()} has no packet filter that works ({'; '.join(refusals)}). Use an image with iptables or "
        "nftables in it, or install one on this machine (Debian: apt-get install iptables): it is carried into the container"
    )


def carry_clock_library(transport: Transport, unpack: Unpack) -> str:
    """Find a libfaketime that works in the container, the image's or this machine's, carried there; return its path.

    Raises EnvironmentLacks if there is none, or if this machine's does not get along with the image's C library.
    """
    for place in _CLOCK_PLACES:
        if transport.run(["test", "-e", place]).exit_code == 0 and _shifts_time(transport, place):
            return place
    ours = libfaketime.find_library()
    if ours is None:
        raise EnvironmentLacks(
            f"{transport.described()} has no libfaketime, nor has this machine: install it here (Debian: apt-get install "
            "libfaketime), or use an image with it"
        )
    place = f"{FOLDER}/{ours.name}"
    unpack(_archive({place: (ours.read_bytes(), 0o755)}))
    if not _shifts_time(transport, place):
        raise EnvironmentLacks(
            f"{transport.described()} has no libfaketime, and this machine's ({ours}) does not work with the C library of "
            "the image: use an image with libfaketime in it"
        )
    return place


def _shifts_time(transport: Transport, library: str) -> bool:
    """Return True if a process in the container sees another time under that library."""
    plain = transport.run(["date", "+%s"])
    ahead = f"+{_YEAR_S}s"
    shifted = transport.run(["env", f"LD_PRELOAD={library}", f"FAKETIME={ahead}", "date", "+%s"])
    if plain.exit_code or shifted.exit_code:
        return False
    true, seen = plain.stdout.strip(), shifted.stdout.strip()
    return true.isdigit() and seen.isdigit() and int(seen) - int(true) > _YEAR_S // 2


# ── programs with all they need ──────────────────────────────────────────────────────────────────────────────────────


def program_archive(programs: Sequence[str], target: str) -> bytes:
    """Pack programs of this machine into an archive to unpack at a root: `target/NAME` starts each.

    Raises EnvironmentLacks for one that is not here.
    """
    contents: dict[str, tuple[bytes, int]] = {}
    loader = ""
    for name in programs:
        found = shutil.which(name, path=_path())
        if found is None:
            raise EnvironmentLacks(f"there is no {name} on this machine to carry into a container")
        real = Path(found).resolve()
        plugins = list(Path("/").glob(_PLUGINS[1:] + "/*.so")) if "tables" in name else []
        for library in {path for file in (real, *plugins) for path in _libraries(file)}:
            contents[f"{FOLDER}/lib/{library.name}"] = (library.read_bytes(), 0o755)
            if _LOADER.match(library.name):
                loader = library.name
        contents |= {f"{FOLDER}/xtables/{path.name}": (path.read_bytes(), 0o644) for path in plugins}
        # Under its own name: some programs are several, and ask what they are called.
        contents[f"{FOLDER}/bin/{name}"] = (real.read_bytes(), 0o755)
        contents[f"{target}/{name}"] = (_starter(name, loader).encode(), 0o755)
    return _archive(contents)


def _starter(name: str, loader: str) -> str:
    if not loader:  # nothing is linked to it
        return f'#!/bin/sh\nexec {FOLDER}/bin/{name} "$@"\n'
    return (
        f"#!/bin/sh\nXTABLES_LIBDIR={FOLDER}/xtables exec {FOLDER}/lib/{loader} --library-path {FOLDER}/lib "
        f'{FOLDER}/bin/{name} "$@"\n'
    )


def _libraries(program: Path) -> list[Path]:
    """List the shared libraries of a program, the loader among them; none for a static program.

    Raises EnvironmentLacks if `ldd` hangs.
    """
    advice = f"Install {program.name} anew, or use an image that has a packet filter in it"
    linked = run_limited(["ldd", program], limit_s=_LINKS_WITHIN_S, advice=advice).stdout
    return [Path(match["path"]) for match in _LIBRARY.finditer(linked)]


def _archive(contents: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Pack a tar archive from a mapping of paths to content and mode."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, (content, mode) in contents.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _folder_on_path(transport: Transport) -> str:
    """Find a folder on the container's PATH. Raises EnvironmentLacks if none is usable."""
    folders = transport.run(["printenv", "PATH"]).stdout.strip().split(":")
    for folder in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        if folder in folders:
            return folder
    raise EnvironmentLacks(f"{transport.described()} has the PATH {':'.join(folders)}, in which nothing can be put")


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


def _words(said: str, exit_code: int) -> str:
    if exit_code == _NOT_FOUND:
        return "there is none"
    return (said.strip().splitlines() or [f"exit code {exit_code}"])[0]

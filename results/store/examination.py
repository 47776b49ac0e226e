"""Examination: a Parquet file that anybody may have made is read in a process of its own before it is read in this one.

Arrow raises for nearly every damage to a file, but a footer that contradicts itself can end the whole process, or ask for
all the machine's memory. The child reads everything there is, within limits of memory and time: if the file ends it,
that is an answer. A file with our seal is what we wrote, and is spared that.

What the child decoded can be handed over, in memory that both share, so that a long history is not decoded twice. And it can
begin before it is asked for: while this process still imports what it will judge with.

`python -m schemaquake.results.store.examination FILE MEMORY SECONDS [DESCRIPTOR]` is the child; it prints why the file is refused, or
nothing, and writes the table as Arrow's stream to the file with that descriptor.
"""

from __future__ import annotations

import atexit
import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from schemaquake.harness.errors import HistoryError
from schemaquake.results.store.seal import refuse_damage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["begin_examination", "examine", "examined_lent", "read_lent", "take_examined"]

_MEMORY_LEAST: Final = 4 << 30
_MEMORY_FACTOR: Final = 50
"""Bytes of memory for each byte of the file, at most: what repeats is stored once."""
_SECONDS_LEAST: Final = 60
_BYTES_A_SECOND: Final = 1 << 20
_PATIENCE: Final = 4
"""The multiple of its processor time that the child may take on a busy machine."""
_ROWS: Final = 1 << 16
_LEFT_OUT: Final = frozenset({"node", "key", "value", "error"})
"""Columns of a history that are left out where they are empty, as they are in those of other tools."""
_HANDED_FROM: Final = 1 << 20
"""Bytes of a file whose decoding is worth handing over."""


_State = tuple[Path, int, int, int]
"""A file as it is: its path, inode, size and time of modification."""


@dataclass(frozen=True, slots=True)
class _Child:
    """A child that examines a file. `descriptor` is that of the memory to which it writes the table, if it does."""

    process: subprocess.Popen[bytes]
    descriptor: int | None
    seconds: int

    def end(self) -> None:
        """Kill the child unless it has ended, and give up what it decoded."""
        self.process.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process.wait()
        if self.descriptor is not None:
            os.close(self.descriptor)


_begun: dict[_State, _Child] = {}
"""Examinations that nobody has asked for yet; one at most."""
_handed: dict[_State, int] = {}
"""Files in memory with what was decoded and is not taken yet, by their descriptors; one at most."""


def begin_examination(path: Path, *, hand_over: bool = False) -> None:
    """Begin to examine a file, for which `examine` then waits. Nothing is begun for one with our seal, or that cannot be opened."""
    with suppress(OSError, HistoryError):  # its reader raises the same
        if refuse_damage(path):
            return
        state = _state(path)
        _abandon()
        _begun[state] = _start(state, hand_over=hand_over and state[2] >= _HANDED_FROM)


@atexit.register
def _abandon() -> None:
    """End examinations whose result was not asked for."""
    while _begun:
        _begun.popitem()[1].end()


def examine(path: Path, *, hand_over: bool = False) -> None:
    """Raise HistoryError for a file that a process cannot survive reading. Each state of a file is examined once.

    With `hand_over`, what was decoded waits for `take_examined`. What a reader merely raises for is left to the reader.
    Raises FileNotFoundError.
    """
    state = _state(path)
    why = _fate_handed_over(state) if hand_over and state[2] >= _HANDED_FROM else _fate(state)
    if why is not None:
        from schemaquake.results.store.parquet_footer import not_whole  # noqa: PLC0415 - Arrow, before which a child can begin

        raise not_whole(path, why)


def take_examined(path: Path) -> pa.Table | None:
    """Return the table of a file as an examination decoded it, once; None if none did, or the file is another one by now.

    Its micro-operations are lean (`schemaquake.harness.model.records.LEAN_MOPS`) if they can be.
    """
    descriptor = _handed.pop(_state(path), None) if _handed else None
    if descriptor is None:
        return None
    try:
        return _mapped(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def examined_lent(path: Path) -> Iterator[Path | None]:
    """Provide a place where another process of this machine and user can read (`read_lent`) what `take_examined` would return.

    None if no examination decoded the file, or it is another one by now. The place is gone when the block ends.
    """
    descriptor = _handed.pop(_state(path), None) if _handed else None
    if descriptor is None:
        yield None
        return
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    finally:
        os.close(descriptor)


def read_lent(place: Path) -> pa.Table | None:
    """Return the table at a place of `examined_lent`; None if it cannot be read, and the file has to be."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _mapped(descriptor)
    finally:
        os.close(descriptor)


def _mapped(descriptor: int) -> pa.Table | None:
    """Return the table of Arrow's stream in a file, which the table keeps mapped; None if there is none."""
    import pyarrow as pa  # noqa: PLC0415 - the child may not need it

    try:
        shared = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        with pa.ipc.open_stream(pa.py_buffer(shared)) as stream:
            return stream.read_all()
    except (pa.ArrowException, OSError, ValueError):
        return None


def _state(path: Path) -> _State:
    status = path.stat()
    return path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns


def _fate_handed_over(state: _State) -> str | None:
    """Examine a file, and keep what was decoded in the place of what any other file left."""
    while _handed:
        os.close(_handed.popitem()[1])
    child = _begun.pop(state, None) or _start(state, hand_over=True)
    try:
        why = _fate_of(child)
        if why is None and child.descriptor is not None and os.fstat(child.descriptor).st_size:
            _handed[state] = os.dup(child.descriptor)
    finally:
        child.end()
    return why


@lru_cache(maxsize=64)
def _fate(state: _State) -> str | None:
    child = _begun.pop(state, None) or _start(state, hand_over=False)
    try:
        return _fate_of(child)
    finally:
        child.end()


def _start(state: _State, *, hand_over: bool) -> _Child:
    """Start a child that reads the file, and writes what it read to memory of its own if that is to be handed over."""
    path, _, size, _ = state
    seconds = _SECONDS_LEAST + size // _BYTES_A_SECOND
    memory = max(_MEMORY_LEAST, _MEMORY_FACTOR * size)
    argv = [sys.executable, "-P", "-m", "schemaquake.results.store.examination", str(path), str(memory), str(seconds)]
    descriptor = os.memfd_create("history", os.MFD_CLOEXEC) if hand_over else None
    argv += [] if descriptor is None else [str(descriptor)]
    # Threads of libraries would each reserve addresses, which count as memory here. With Arrow's own allocator the child takes
    # more processor time by half, most of it the kernel's.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            pass_fds=() if descriptor is None else (descriptor,),
        )
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    return _Child(process, descriptor, seconds)


def _fate_of(child: _Child) -> str | None:
    """Wait for a child's end. Returns what became of it; None if it survived."""
    try:
        said, _ = child.process.communicate(timeout=_PATIENCE * child.seconds)
    except subprocess.TimeoutExpired:
        return f"it is not read within {_PATIENCE * child.seconds} s"
    code = child.process.returncode
    if code == 0:
        return said.decode(errors="replace").strip() or None
    ended = Signals(-code).name if code < 0 else f"exit code {code}"
    return f"its footer contradicts itself: reading it ends a process ({ended})"


def _read_all(path: str, memory: int, seconds: int, descriptor: int | None = None) -> str:
    """Read a file to its end within the limits. Returns the reason for refusing it, empty if there is none."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - the parent does not need it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))  # what is handed over is memory, too
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                for column in range(file.metadata.num_columns):
                    str(file.metadata.row_group(group).column(column))
            if descriptor is None:
                for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
                    batch.validate(full=True)
            else:
                _hand_over(Path(path), file, descriptor)
    except MemoryError:
        return f"it asks for more than {memory >> 20} MiB of memory"
    except Exception:  # noqa: BLE001 - the reader raises the same, and says it better
        if descriptor is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
        return ""
    return ""


def _hand_over(path: Path, file: pq.ParquetFile, descriptor: int) -> None:
    """Decode all row groups, and write them to a descriptor as Arrow's stream, lean if all of them can be."""
    if "mops" in file.schema_arrow.names:
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

        paths = [file.schema.column(number).path for number in range(file.metadata.num_columns)]
        # Names of micro-operations repeat, and need not be decoded one by one.
        options = {"read_dictionary": [name for name in paths if name.startswith("mops.") and name.endswith(".f")]}
        with pq.ParquetFile(path, metadata=file.metadata, pre_buffer=False, **options) as coded:
            if _is_written(path, coded, descriptor, lean=True, **options):
                return
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    _is_written(path, file, descriptor, lean=False)


def _is_written(path: Path, file: pq.ParquetFile, descriptor: int, *, lean: bool, **options: Any) -> bool:
    """Write all row groups. False if they were to be lean and one cannot be: then some of them are written.

    `options` are those with which the file was opened.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    from schemaquake.harness.history.lean_arrow import lean_arrow  # noqa: PLC0415 - as above
    from schemaquake.harness.history.lean_mops import narrow  # noqa: PLC0415 - as above
    from schemaquake.harness.model.records import LEAN_MOPS  # noqa: PLC0415 - as above
    from schemaquake.results.store.groups import read_stretches  # noqa: PLC0415 - as above

    lean_arrow()
    schema = file.schema_arrow
    empty: list[str] = []
    if lean:
        place = schema.get_field_index("mops")
        schema = schema.set(place, schema.field(place).with_type(LEAN_MOPS))
        empty = _said_to_be_empty(file)
        schema = pa.schema([field for field in schema if field.name not in empty], schema.metadata)
    stretches = [[number] for number in range(file.num_row_groups)]
    with os.fdopen(descriptor, "wb", closefd=False) as out, pa.ipc.new_stream(pa.PythonFile(out), schema) as stream:
        for part in read_stretches(path, file, stretches, file.schema_arrow.names, pre_buffer=False, **options):
            part.validate(full=True)
            if lean:
                mops = narrow(part["mops"])
                if mops is None or any(part[name].null_count < len(part) for name in empty):
                    return False
                columns = [mops if name == "mops" else part[name] for name in schema.names]
                part = pa.Table.from_arrays(columns, schema=schema)  # noqa: PLW2901 - the wide one is let go
            stream.write_table(part)
    return True


def _said_to_be_empty(file: pq.ParquetFile) -> list[str]:
    """List the flat columns of which the footer says that all is null. They are not handed over: their reader makes nulls itself."""
    rows = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    empty = []
    for number, name in enumerate(file.schema.column(n).path for n in range(file.metadata.num_columns)):
        said = [(group.num_rows, group.column(number).statistics) for group in rows]
        if all(found is not None and found.has_null_count and found.null_count == count for count, found in said):
            empty.append(name)
    return [name for name in empty if name in _LEFT_OUT]


if __name__ == "__main__":
    sys.stdout.write(_read_all(sys.argv[1], *map(int, sys.argv[2:])))

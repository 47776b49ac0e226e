"""Compiled loops: the one place that knows the compiler.

A loop is compiled where Python or NumPy was measured to be too slow, once, and kept on disk beside its module. Handing
arrays on to another function costs more than a step of a loop does (their references are counted). So the parts of a
long loop are phases: functions of their own to read, and compiled into the loop that calls them.

Compiled loops run without Python's lock. So a long one whose turns do not depend on each other is called once for each core
(`in_parts`), and so are two that do not depend on each other (`abreast`).

The compiler takes longer to import, and what it kept to load, than a small history takes to judge. So each loop is its
own twin: it runs as the Python that it is while its arrays are small and few such calls were made, and compiled from
then on in the whole process. A loop whose work does not follow from the size of its arrays asks `is_plain` for its share first.

On a machine that has not compiled a loop before, its first call waits seconds for the compiler. So what has a time limit looks at
`working_time`, a clock that stands still meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, update_wrapper
from itertools import pairwise
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from schemaquake.harness.unneeded import without

__all__ = [
    "abreast",
    "always_compiled",
    "always_plain",
    "compiled",
    "in_parts",
    "is_plain",
    "loops",
    "phase",
    "working_time",
]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_LIGHT: Final = 1 << 14
"""Elements of all arrays of a call that is not compiled. As Python, a loop takes about a microsecond for each."""
_LIGHT_TOGETHER: Final = 1 << 17
"""The same of all calls: beyond it, the compiler is worth its start."""
_SHARED_FROM: Final = 1 << 17
"""Turns of a loop for which threads are worth their start. So many are never run as Python unless all loops are."""
_THREADS: Final = min(4, os.cpu_count() or 1)


class _Mode:
    """The way in which the loops of this process run: compiled or as Python; None while that depends on their arrays."""

    def __init__(self) -> None:
        self.plain: bool | None = None
        self.left = _LIGHT_TOGETHER


class _Inside(threading.local):
    """True in a thread while it runs a loop as Python: what that calls runs so, too."""

    plain = False


class _Compiling:
    """The time that the compiler has taken in this process. It is notified of every compilation, and those may be nested."""

    def __init__(self) -> None:
        self._depth = 0
        self._since: tuple[float, float | None] = 0.0, None
        """Seconds until now, and when (time.monotonic) a compilation began that is under way. One value, for other threads read it."""

    def begin(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._since = self._since[0], time.monotonic()

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._since = self.seconds(time.monotonic()), None

    def seconds(self, now: float) -> float:
        spent, began = self._since
        return spent if began is None else spent + now - began


_mode = _Mode()
_inside = _Inside()
_compiling = _Compiling()
_loops: list[_Loop[..., Any]] = []


class _Loop(Generic[P, R]):
    """A function that is compiled when that pays."""

    def __init__(self, function: Callable[P, R], *, inline: bool) -> None:
        update_wrapper(self, function)
        self.function = function
        self._inline = inline
        self._dispatcher: Callable[P, R] | None = None
        _loops.append(self)

    @property
    def is_ready(self) -> bool:
        """True once it was compiled, or loaded, for some arguments, or compiled into others only."""
        return self._inline or bool(getattr(self._dispatcher, "signatures", ()))

    @property
    def dispatcher(self) -> Callable[P, R]:
        """The compiled function; it is compiled, or loaded, when it is first called."""
        if self._dispatcher is None:
            self._dispatcher = _compiler()(self.function, self._inline)
        return self._dispatcher

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if _inside.plain:
            return self.function(*args, **kwargs)
        if not is_plain(_size(args)):
            return self.dispatcher(*args, **kwargs)
        _inside.plain = True
        try:
            with np.errstate(over="ignore"):  # compiled, numbers wrap around without a word
                return self.function(*args, **kwargs)
        finally:
            _inside.plain = False


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code, for large arrays. Only for functions of NumPy arrays and numbers."""
    return _Loop(function, inline=False)


def phase(function: Callable[P, R]) -> Callable[P, R]:
    """Compile one part of a loop into every loop that calls it."""
    return _Loop(function, inline=True)


def is_plain(elements: int) -> bool:
    """Tell whether a loop that looks at so many elements runs as Python. These are then used up; if not, all are compiled from now on."""
    if _mode.plain is None:
        if elements > min(_LIGHT, _mode.left):
            _mode.plain = False
        else:
            _mode.left -= elements
    return _mode.plain is not False


def in_parts(starts: np.ndarray[Any, Any], run: Callable[[int, int], R]) -> list[R]:
    """Return what `run(begin, end)` returns of stretches that make up `range(len(starts) - 1)`, in their order: one for each core if that pays.

    What belongs to n are the turns of a loop from `starts[n]` to `starts[n + 1]`; each stretch has about as many as any other.
    However they are cut, the calls together must do the same: none of them looks at what another one writes.
    """
    count, turns = len(starts) - 1, int(starts[-1])
    parts = _THREADS if turns >= _SHARED_FROM else 1
    inner = [int(np.searchsorted(starts, turns * part // parts)) for part in range(1, parts)]
    cuts = [0, *inner, count]
    return list(abreast(turns, *(partial(run, begin, end) for begin, end in pairwise(cuts))))


@overload
def abreast(turns: int, one: Callable[[], R], other: Callable[[], S], /) -> tuple[R, S]: ...
@overload
def abreast(turns: int, /, *calls: Callable[[], R]) -> tuple[R, ...]: ...
def abreast(turns: int, /, *calls: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what some calls return, in their order: each made in a thread of its own if their loops have so many turns that that pays.

    If some raise, what the first of them raises is raised, once all have ended.
    """
    if len(calls) < 2 or turns < _SHARED_FROM or _mode.plain or _inside.plain:
        return tuple(call() for call in calls)
    with ThreadPoolExecutor(len(calls) - 1, thread_name_prefix="loops") as pool:
        others = [pool.submit(call) for call in calls[1:]]
        first = calls[0]()
        return first, *(other.result() for other in others)


def loops() -> tuple[_Loop[..., Any], ...]:
    """List the loops of all modules that were imported so far."""
    return tuple(_loops)


def working_time() -> float:
    """Read a clock (s, as time.monotonic) that stands still while this process compiles: limits of time are limits of work."""
    now = time.monotonic()
    return now - _compiling.seconds(now)


def always_compiled() -> None:
    """Compile every loop from now on, in this process, however small its arrays are."""
    _mode.plain = False


@contextmanager
def always_plain() -> Iterator[None]:
    """Run every loop as Python meanwhile, however large its arrays are."""
    before, _mode.plain = _mode.plain, True
    try:
        yield
    finally:
        _mode.plain = before


def _size(arguments: Iterable[Any]) -> int:
    """Count the elements of all arrays among the arguments, and in tuples among these."""
    size = 0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            size += argument.size
        elif isinstance(argument, tuple):
            size += _size(argument)
    return size


@cache
def _compiler() -> Callable[[Callable[P, R], bool], Callable[P, R]]:
    """Load the compiler, and show it that a loop called by a loop is the compiled one."""
    with without("coverage"):  # Numba reports to it what it compiled, and would load it for that
        import numba  # noqa: PLC0415 - a sixth of a second
    from numba.core import event  # noqa: PLC0415
    from numba.core.caching import FunctionCache  # noqa: PLC0415
    from numba.core.runtime.nrt import rtsys  # noqa: PLC0415
    from numba.extending import typeof_impl  # noqa: PLC0415

    class Clock(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:  # noqa: ARG002
            _compiling.begin()

        def on_end(self, event: object) -> None:  # noqa: ARG002
            _compiling.end()

    event.register("numba:compile", Clock())

    class Kept(FunctionCache):  # type: ignore[misc]
        """Compiled code that was kept. Numba loads all that it compiles with before it looks here: half of the time that loading takes."""

        def load_overload(self, sig: object, target_context: object) -> object:
            rtsys.initialize(target_context)  # what runs needs this alone; a compilation loads the rest itself
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)

    @typeof_impl.register(_Loop)  # type: ignore[untyped-decorator]
    def type_of(loop: _Loop[..., Any], _context: object) -> Any:
        return numba.types.Dispatcher(loop.dispatcher)

    def compile_it(function: Callable[P, R], inline: bool) -> Callable[P, R]:
        options: dict[str, bool] = {"forceinline": True} if inline else {}
        dispatcher = numba.njit(nogil=True, **options)(function)
        dispatcher._cache = Kept(function)  # noqa: SLF001 - as `cache=True` does it
        return cast("Callable[P, R]", dispatcher)

    return compile_it

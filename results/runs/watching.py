"""Watching: a thread beside a run that tells what is visibly broken as soon as it is, and writes it down for the live page."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from schemaquake.harness.errors import SchemaquakeError
from schemaquake.harness.history import merge
from schemaquake.results.judging.provisional import EarlyJudge, ProvisionalAnomaly, write_provisional

__all__ = ["watched"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_NICENESS: Final = 10
_REST: Final = 9
"""The multiple of a look's processor time that passes before the next."""


@contextmanager
def watched(folder: Path, tell: Callable[[ProvisionalAnomaly], None]) -> Iterator[None]:
    """Look at the run in `folder` once a second while the block runs, and call `tell`, in another thread, for each new anomaly.

    Whatever goes wrong in it ends the watch, never the run.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder, tell, ended), name="watch", daemon=True)
    merging = logging.getLogger(merge.__name__)
    merging.addFilter(_elsewhere)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        merging.removeFilter(_elsewhere)


def _elsewhere(record: logging.LogRecord) -> bool:
    """Return False for records of the watch: a journal that is being written ends in the middle of a line or a reading."""
    return record.threadName != "watch"


def _watch(folder: Path, tell: Callable[[ProvisionalAnomaly], None], ended: threading.Event) -> None:
    with suppress(OSError):
        # The cluster comes first: on Linux this is the priority of this thread alone.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    judge, told = EarlyJudge(folder), list[ProvisionalAnomaly]()
    rest_s = _LOOK_EVERY_S
    while not ended.wait(rest_s):
        began = time.thread_time()
        try:
            if new := judge.look():
                told += new
                write_provisional(folder, told)
                for one in new:
                    tell(one)
        except SchemaquakeError as error:  # journals that are not there yet, or a reading cut in half
            log.debug("nothing can be told yet", extra={"reason": str(error)})
        except Exception:  # the verdict comes from the whole records in any case
            log.warning("the run is no longer watched", exc_info=True)
            return
        # A long run takes longer to read, and the cluster needs the cores; time of the processor, since others may be at work, too.
        rest_s = max(_LOOK_EVERY_S, _REST * (time.thread_time() - began))

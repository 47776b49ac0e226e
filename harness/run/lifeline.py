"""Lifeline: a process that the conductor spawned ends when the conductor does, even after SIGKILL.

In a process namespace the kernel ends it. Without one, a worker with endless work would go on for ever,
against nodes that belong to no run any more.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """Watch the parent process from now on, and end this one at once, without cleaning up, when the parent is gone.

    Journals lose nothing by it: every event is written when it happens.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for processes of multiprocessing"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()

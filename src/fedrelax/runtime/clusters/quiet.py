"""Workers on this machine are started so that they disturb nobody."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def leaving_ctrl_c() -> Iterator[None]:
    """Start processes that leave Ctrl-C to this one.

    A terminal sends it to all processes of a command; those that are started while it is ignored go
    on ignoring it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def importing_no_script() -> Iterator[None]:
    """Start processes that do not run the user's script again to find its names.

    Python's own way of starting a process does, and asks scripts for ``if __name__ == "__main__"``.
    Here nothing is needed of the script: what it defines travels by value.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script

"""Starting workers on this machine without side effects on the terminal or the user's script."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def leaving_ctrl_c() -> Iterator[None]:
    """Let processes started inside ignore Ctrl-C, so that only this one handles it.

    A terminal sends it to all processes of a command; those started while it is ignored keep ignoring it.
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
    """Let processes started inside not run the user's script again to find its names.

    Python's ``multiprocessing`` does run it, which is why scripts need ``if __name__ == "__main__"``.
    Here nothing of the script is needed: what it defines is pickled by value.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script

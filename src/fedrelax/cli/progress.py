"""The rounds as a person sees them: a bar with the numbers, and Ctrl-C that keeps the result."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.progress import Progress

from fedrelax.runtime import Callback, Record

AGAIN = "Ctrl-C again stops at once and keeps nothing\n"
STOPPING = f"\nnote: stopping after this round and keeping the result; {AGAIN}"
SETTLING = f"\nnote: ending the search after this trial and taking the best so far; {AGAIN}"
STOPPED = "stopped by Ctrl-C"


class Watch(Callback):
    """Shows loss and GTV of every round, and stops after the round in which Ctrl-C was pressed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._line = progress.add_task(
            "Training", total=None, numbers="each node alone", start=True
        )
        self._begun = self._choosing = self._interrupted = False

    def choosing(self, done: int, total: int) -> str | None:
        """Show how many candidates have been tried; words end the search."""
        self._choosing = True
        numbers = "alpha, wiring and rounds"
        self._progress.update(
            self._line, completed=done, total=total, description="Choosing", numbers=numbers
        )
        if not self._interrupted:
            return None
        self._interrupted = False  # the rounds to come are run
        return STOPPED

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Show how many rounds there are at most."""
        self._begun = True
        self._progress.reset(self._line, total=max(rounds, 1), description="Rounds", numbers="")

    def after_round(self, record: Record) -> str | None:
        """Show the numbers; words end the run."""
        numbers = f"loss {record.local_loss:.4g}  GTV {record.gtv:.4g}"
        self._progress.update(self._line, completed=record.round, numbers=numbers)
        return STOPPED if self._interrupted else None

    @contextmanager
    def catching_ctrl_c(self) -> Iterator[None]:
        """Within, the first Ctrl-C asks to stop after the round; the second stops at once.

        While settings are chosen, the first one ends the search. Before the first trial or round there
        is nothing to keep, so there it stops at once, too.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask_to_stop(signum: int, frame: FrameType | None) -> None:
            if self._interrupted or not (self._begun or self._choosing):
                raise KeyboardInterrupt
            self._interrupted = True
            note = STOPPING if self._begun else SETTLING
            os.write(2, note.encode())  # printing through buffers is not safe in a handler

        before = signal.signal(signal.SIGINT, ask_to_stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def start_workers(jobs: int, backend: str | None = None) -> None:
    """Start worker processes, unless others do the work, that leave Ctrl-C to this one.

    A terminal sends Ctrl-C to all processes of a command. Workers inherit that it is ignored if
    they are started while it is, and joblib keeps them for the rounds to come. Their warnings
    would come once per fit, uncounted, so they are silent.
    """
    from fedrelax.runtime import Workers

    idle = jobs == 1 or backend not in (None, "processes")
    if idle or threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        workers = Workers(jobs, threads=False)
        with workers.open() as crew:
            crew.run(int, [(0,)] * workers.n_jobs)
    finally:
        signal.signal(signal.SIGINT, before)

"""The rounds as the user sees them: a bar with the numbers, and Ctrl-C that keeps the result."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fedrelax.cli.activity import Activity
from fedrelax.runtime import Callback, Record
from fedrelax.storage import Checkpoint

AGAIN = "Ctrl-C again stops at once and keeps nothing\n"
STOPPING = f"\nnote: stopping after this round and keeping the result; {AGAIN}"
SETTLING = f"\nnote: ending the search after this trial and taking the best so far; {AGAIN}"
KEEPING = "\nnote: stopping once this round is done and saved; a second time stops at once\n"
ALL_ROWS = "all rows"
STOPPED = "stopped by Ctrl-C"


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived where there is no round to finish first."""


def stop_at_once(signum: int, frame: FrameType | None) -> None:
    """Stop at once, as Ctrl-C does."""
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


class Watch(Callback):
    """Shows loss and GTV of every round, and stops after the round in which Ctrl-C was pressed.

    ``where`` says on which rows the models train.
    """

    def __init__(
        self, activity: Activity, checkpoint: Checkpoint | None = None, where: str = "training rows"
    ) -> None:
        self._activity, self._checkpoint, self._where = activity, checkpoint, where
        self._rounds = 0
        self._begun = self._choosing = self._interrupted = False

    def choosing(self, done: int, total: int) -> str | None:
        """Show how many candidates have been tried; a returned reason ends the search."""
        self._choosing = True
        what = f"Choosing settings: {done} of {total} trials"
        self._activity.doing(what, step="choosing", done=done, total=total)
        if not self._interrupted or self._checkpoint is not None:
            return None
        self._interrupted = False  # the rounds that follow are run
        return STOPPED

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Show the maximum number of rounds."""
        self._begun = True
        self._rounds = max(rounds, 1)
        self._activity.doing(f"Training on {self._where}: each node alone", step=self._where)

    def after_round(self, record: Record) -> str | None:
        """Show the numbers; a returned reason ends the run."""
        self._activity.doing(
            f"Round {record.round} on {self._where}, loss {record.local_loss:.3g}, GTV {record.gtv:.3g}",
            step=self._where,
            done=record.round,
            total=self._rounds,
        )
        return STOPPED if self._interrupted and self._checkpoint is None else None

    @contextmanager
    def catching_ctrl_c(self) -> Iterator[None]:
        """Within, the first Ctrl-C asks to stop after the round; the second stops at once.

        While settings are chosen, the first one ends the search. Before the first trial or round there
        is nothing to keep, so it stops at once, too. With a checkpoint, Ctrl-C and SIGTERM end the run
        once the round or trial is done and saved.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask_to_stop(signum: int, frame: FrameType | None) -> None:
            if self._interrupted or not (self._begun or self._choosing):
                stop_at_once(signum, frame)
            self._interrupted = True
            note = STOPPING if self._begun else SETTLING
            if self._checkpoint is not None:
                self._checkpoint.stopping = signal.Signals(signum).name
                note = KEEPING
            os.write(2, note.encode())  # printing through buffers is not safe in a handler

        caught = [signal.SIGINT] if self._checkpoint is None else [signal.SIGINT, signal.SIGTERM]
        before = {number: signal.signal(number, ask_to_stop) for number in caught}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def start_workers(jobs: int, backend: str | None = None) -> None:
    """Start worker processes that leave Ctrl-C to this one, unless another backend does the work.

    A terminal sends Ctrl-C to all processes of a command. Workers started while it is ignored
    keep ignoring it, and joblib keeps them for the rounds to come. Their warnings would appear
    once per fit, uncounted, so they are silenced.
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

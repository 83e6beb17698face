"""How a run is watched and ended: its rounds in the progress bar, and what Ctrl-C and SIGTERM do."""

from __future__ import annotations

import os
import signal
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Self

from fedrelax.cli.console import INTERRUPTED, Activity, Stopped
from fedrelax.runtime import Callback, Record
from fedrelax.storage import Checkpoint
from fedrelax.storage.checkpoints import Interrupted

TERMINATED = 128 + signal.SIGTERM
CAUSES = {"SIGINT": "stopped by Ctrl-C", "SIGTERM": "stopped by SIGTERM"}
"""Signals by name, and the reason that a result names."""
AGAIN = "; a second time stops at once and keeps nothing"
WORKING = f"stopping as soon as there are models, which are measured and saved{AGAIN}"
SAVING = f"the result is being saved{AGAIN}"
TO_ROUND = "stopping once this round is done and saved; a second time stops at once"


class Terminated(KeyboardInterrupt):
    """SIGTERM, where the step ends at once."""


class Interruption:
    """Turns signals into a request to end the present step, and remembers that one came."""

    def __init__(self) -> None:
        self._note, self._pending, self._over = "", "", False
        self._checkpoint: Checkpoint | None = None
        self.cause = ""
        """Which signal has ended a step early; "" for none."""
        self.stopped: Callable[[int], Stopped] = partial(
            Stopped, "interrupted; nothing was written"
        )
        """Makes the error with which the command ends, from the exit code."""

    @contextmanager
    def caught(self) -> Iterator[Self]:
        """Within, a signal ends the step; a second one, or one that finds no models, the command.

        After it signals are ignored until ``speaking``, around it, has said how the command ended.
        """
        if threading.current_thread() is threading.main_thread():
            for name in CAUSES:
                signal.signal(signal.Signals[name], self._receive)
        try:
            yield self
        except (Interrupted, KeyboardInterrupt) as stop:
            self.ignore()  # a second signal is not to cut the sentence off
            terminated = isinstance(stop, Terminated) or str(stop) == "SIGTERM"
            raise self.stopped(TERMINATED if terminated else INTERRUPTED) from stop
        finally:
            self.ignore()

    def enter(self, note: str = "", checkpoint: Checkpoint | None = None) -> None:
        """Begin a step, which a first signal ends at once unless it is answered with the ``note``.

        A ``checkpoint`` saves the state of the step and then ends it.
        """
        self._note, self._checkpoint, self._over = note, checkpoint, False
        if checkpoint is not None:
            self._note, checkpoint.stopping = TO_ROUND, self._pending

    def ignore(self) -> None:
        """Ignore signals: the result is complete, or the command is about to say why there is none."""
        self._over = True

    def take(self) -> str:
        """Return why to end the present step, "" to go on; with a checkpoint, that ends it instead."""
        if not self._pending or self._checkpoint is not None:
            return ""
        self.cause, self._pending = CAUSES[self._pending], ""
        return self.cause

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._over:
            return
        again, self._pending = bool(self._pending), signal.Signals(number).name
        if again or not self._note:
            self._over = True
            raise Terminated if self._pending == "SIGTERM" else KeyboardInterrupt
        if self._checkpoint is not None:
            self._checkpoint.stopping = self._pending
        text = f"\nnote: {self._note}\n"
        if os.isatty(2):  # there it takes the place of the bar
            lines = textwrap.fill(f"note: {self._note}", os.get_terminal_size(2).columns)
            text = f"\r\033[2K{lines}\n"
        os.write(2, text.encode())  # buffers are not safe in a handler


ALL_ROWS = "all rows"


class Watch(Callback):
    """Shows loss and GTV of every round, and stops after the round in which a signal came.

    ``where`` says on which rows the models train.
    """

    def __init__(self, activity: Activity, interruption: Interruption, where: str) -> None:
        self._activity, self._interruption, self._where = activity, interruption, where
        self._rounds = 0

    def choosing(self, done: int, total: int) -> str | None:
        """Show how many candidates have been tried; a returned reason ends the search."""
        what = f"Choosing settings: {done} of {total} trials"
        self._activity.doing(what, done=done, total=total)
        return self._interruption.take() or None

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Show the maximum number of rounds."""
        self._rounds = max(rounds, 1)
        self._activity.doing(f"Training on {self._where}: each node alone")

    def after_round(self, record: Record) -> str | None:
        """Show the numbers; a returned reason ends the run, but not before the nodes have shared once."""
        self._activity.doing(
            f"Round {record.round} on {self._where}, loss {record.local_loss:.3g}, GTV {record.gtv:.3g}",
            done=record.round,
            total=self._rounds,
        )
        return self._interruption.take() or None if record.round else None


def start_workers(jobs: int, backend: str | None = None) -> None:
    """Start worker processes that leave Ctrl-C to this one, unless another backend does the work.

    A terminal sends Ctrl-C to all processes of a command. Workers started while it is ignored
    keep ignoring it, and joblib keeps them for the rounds to come. Their warnings would appear
    once per fit, uncounted, so they are silenced.
    """
    from fedrelax.runtime import Workers
    from fedrelax.runtime.workers import ignoring_ctrl_c

    if jobs == 1 or backend not in (None, "processes"):
        return
    os.environ["PYTHONWARNINGS"] = "ignore"
    workers = Workers(jobs, threads=False)
    with ignoring_ctrl_c(), workers.open() as run:
        run(int, [(0,)] * workers.n_jobs)

"""The rounds as the user sees them: a bar with the numbers, and a way to end them early."""

from __future__ import annotations

import os
import signal
import threading

from fedrelax.cli.activity import Activity
from fedrelax.cli.interruption import Interruption
from fedrelax.runtime import Callback, Record

ALL_ROWS = "all rows"


class Watch(Callback):
    """Shows loss and GTV of every round, and stops after the round in which a signal came.

    ``where`` says on which rows the models train.
    """

    def __init__(
        self, activity: Activity, interruption: Interruption, where: str = "training rows"
    ) -> None:
        self._activity, self._interruption, self._where = activity, interruption, where
        self._rounds = 0

    def choosing(self, done: int, total: int) -> str | None:
        """Show how many candidates have been tried; a returned reason ends the search."""
        self._interruption.tried()
        what = f"Choosing settings: {done} of {total} trials"
        self._activity.doing(what, step="choosing", done=done, total=total)
        return self._interruption.take() or None

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Show the maximum number of rounds."""
        self._interruption.begun()
        self._rounds = max(rounds, 1)
        self._activity.doing(f"Training on {self._where}: each node alone", step=self._where)

    def after_round(self, record: Record) -> str | None:
        """Show the numbers; a returned reason ends the run, but not before the nodes have shared once."""
        self._activity.doing(
            f"Round {record.round} on {self._where}, loss {record.local_loss:.3g}, GTV {record.gtv:.3g}",
            step=self._where,
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

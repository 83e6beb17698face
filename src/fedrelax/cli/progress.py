"""What a command is doing, as a bar in a terminal; elsewhere nothing is shown."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column


class Activity:
    """One line about what is being done, from its first word until results are printed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._hidden = not (console.is_interactive and console.file.isatty())
        self._progress: Progress | None = None
        self._total = 0

    def doing(self, what: str, *, done: int = 0, total: int = 0) -> None:
        """Show what is being done from now on: ``done`` of ``total``, which is 0 if nobody knows."""
        if self._progress is None:
            self._progress = Progress(
                TextColumn(
                    "{task.description}",
                    markup=False,
                    table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
                ),
                BarColumn(bar_width=16),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                expand=True,
                redirect_stdout=False,  # results go where the user wants them
                redirect_stderr=False,
                disable=self._hidden,
            )
            self._progress.add_task(what, total=None)
            self._progress.start()
        task = self._progress.task_ids[0]
        if total != self._total:  # another pace
            self._progress.reset(task)
            self._total = total
        what = " ".join(what.split())
        self._progress.update(task, description=what, completed=done, total=total or None)

    def pause(self) -> None:
        """Take the line away, until there is something to do again."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = None

"""What a command is doing, and for how long: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

SOON, REDRAW = 0.3, 0.125
"""Seconds after which a bar appears, and between two drawings of it."""
FIRST, NEXT = 10.0, 20.0
"""Without a terminal: seconds before the first line, and between two lines."""
LONGEST = 100
"""The most letters of what is being done."""
DOUBT = 0.1
"""Share of the plan that an estimate takes to have gone at the usual pace, before the first second."""
NARROW, WIDE = 8, 24
"""The least and the most columns of a bar."""


def time_left(spent: float, done: float, planned: float) -> float:
    """Return the seconds left of a plan: what is not done yet, at the pace of this run so far.

    >>> time_left(0.0, 0.0, 40.0), time_left(22.0, 5.0, 20.0)
    (40.0, 51.42857142857143)
    """
    usual = DOUBT * planned
    return (planned - done) * (usual + spent) / (usual + done)


class Activity:
    """One line about what is being done, kept up to date by a thread until results are printed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._steps: Mapping[str, float] = {}
        self._step, self._since, self._part = "", self._begun, 0.0
        self._what, self._share = "Starting", 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def plan(self, steps: Mapping[str, float]) -> None:
        """Set the steps in their order, with the seconds that each takes with a small table."""
        self._steps = steps

    def doing(self, what: str, *, step: str = "", done: float = 0, total: float = 0) -> None:
        """Show what is being done from now on: ``done`` of ``total``, in a step of the plan."""
        self._what = "".join(c if c.isprintable() else "?" for c in what[:LONGEST])
        if step and step != self._step:
            self._step, self._since = step, time.monotonic()
        self._part = done / total if total else 0.0
        if self._thread is None:
            self._ended.clear()
            thread = threading.Thread(target=self._show, daemon=True)
            thread.start()
            self._thread = thread

    def pause(self) -> None:
        """Take the line away, until there is something to do again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def _show(self) -> None:
        with suppress(OSError, ValueError):  # nobody looks any more
            if self._console.is_interactive and self._console.file.isatty():
                self._draw()
            else:
                self._write()

    def _draw(self) -> None:
        if self._ended.wait(SOON):
            return
        with Live(
            self,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,  # results go where the user wants them
        ) as live:
            live.refresh()  # what is first drawn as it ends would stay
            while not self._ended.wait(REDRAW):
                live.refresh()

    def _write(self) -> None:
        wait = FIRST
        while not self._ended.wait(wait):
            self._console.print(f"{self._what}: {self._times()}", markup=False, soft_wrap=True)
            wait = NEXT

    def _times(self) -> str:
        now = time.monotonic()
        spent = now - self._begun
        if self._step not in self._steps:
            return clock(spent)
        names, usual = list(self._steps), self._steps[self._step]
        here = now - self._since
        # what takes longer than usual may go on for a while
        part = self._part or here / (here + usual)
        done = sum(self._steps[name] for name in names[: names.index(self._step)]) + part * usual
        left = time_left(spent, done, sum(self._steps.values()))
        self._share = max(self._share, spent / max(spent + left, 1e-9))  # a bar never goes back
        return f"{clock(spent)}, about {clock(max(left, 1.0))} left"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        times, width = self._times(), options.max_width - 2  # the terminal may add ^C
        room = width - len(times) - NARROW - 2
        what = self._what
        if cell_len(what) > room:
            what = set_cell_size(what, max(room - 3, 0)).rstrip() + "..."
        bar = ProgressBar(
            total=1.0,
            completed=self._share,
            width=min(WIDE, width - cell_len(what) - len(times) - 2),
        )
        line = Text(no_wrap=True, overflow="crop", end="")
        line.append(f"{what} ")
        for part in console.render(bar, options):
            line.append(part.text, part.style)
        yield line.append(f" {times}")


def clock(seconds: float) -> str:
    """Return seconds as a clock shows them.

    >>> clock(5.2), clock(3661)
    ('0:05', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

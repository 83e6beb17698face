"""What a person sees while a command runs: notes and progress on stderr, results on stdout."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column

from fedrelax.cli.settings import in_flags
from fedrelax.errors import STEERING, FedRelaxError, FedRelaxWarning, in_one_line, visible

BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130
LONGEST_WORD = 300
"""Longer words of an error, such as paths, are cut."""


class Stopped(Exception):  # noqa: N818 - not an error
    """A run was stopped from outside; the text says how to resume it, and ``code`` is the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class SafeConsole(Console):
    """Prints no character of anybody's text that would steer the terminal, or that it cannot show."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as usual, with such characters written out."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                text = visible(segment.text)
                if not self.encoding.startswith("utf"):
                    text = text.replace("…", "...")
                    text = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
                segment = segment._replace(text=text)
            yield segment


class Activity:
    """A bar in a terminal that says what is being done, until results are printed; elsewhere nothing."""

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


class Talk:
    """The output of one command. ``quiet`` keeps stdout for a single JSON object."""

    def __init__(self, quiet: bool = False) -> None:
        self.out = SafeConsole(highlight=False, quiet=quiet, soft_wrap=False)
        self.err = SafeConsole(stderr=True, highlight=False)
        self.activity = Activity(self.err)
        self.notes: list[str] = []
        self.warned: Counter[tuple[str, str]] = Counter()
        """Warnings of the models' libraries, by kind and text, that no note has counted yet."""

    def note(self, text: str) -> None:
        """Print a note on stderr, each text only once."""
        text = in_flags(text)
        if text not in self.notes:
            self.notes.append(text)
            self.aside(f"note: {text}", style="dim")

    def aside(self, text: str, style: str = "") -> None:
        """Print text on stderr; see ``plain``."""
        self.err.print(text, markup=False, style=style, soft_wrap=not self.err.is_terminal)

    def address(self, text: str) -> None:
        """Print text on stderr in one line, however long, so that it can be copied."""
        self.activity.pause()
        self.err.print(text, markup=False, soft_wrap=True)

    def note_warnings(self) -> None:
        """Sum up the warnings so far, in one note for each kind and text."""
        while self.warned:
            (kind, text), times = self.warned.popitem()
            many = "once" if times == 1 else f"{times} times"
            self.note(f"{kind}, {many}: {text}")

    def say(self, *what: RenderableType, **how: Any) -> None:
        """Print a result; results come after the notes."""
        self.activity.pause()
        self.note_warnings()
        self.out.print(*what, **how)

    def plain(self, text: str) -> None:
        """Print text: in a terminal broken between words, elsewhere on one line however long."""
        self.say(text, markup=False, soft_wrap=not self.out.is_terminal)

    def command(self, text: str) -> None:
        """Print a command, so that it can be copied: where a terminal's line ends, it goes on."""
        room = self.out.width - 6 if self.out.is_terminal else len(text)
        line, *words = re.findall(r"(?:'[^']*'|\S)+", text)
        lines = [line]
        for word in words:
            if len(lines[-1]) + 1 + len(word) > room:
                lines.append(word)
            else:
                lines[-1] += f" {word}"
        self.say("  " + " \\\n    ".join(lines), markup=False, soft_wrap=True)

    def json(self, answer: Mapping[str, Any]) -> None:
        """Print one JSON object, also if ``quiet``; what is no number is null."""
        from fedrelax.storage.saving import plain

        self.activity.pause()
        self.note_warnings()
        in_ascii = not (sys.stdout.encoding or "utf").lower().startswith("utf")
        text = json.dumps(plain(answer), indent=2, ensure_ascii=in_ascii, allow_nan=False)
        typer.echo(STEERING.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text))


@contextmanager
def speaking(debug: bool, quiet: bool = False) -> Iterator[Talk]:
    """Run a command: errors become one sentence, with ``debug`` after a traceback, and warnings notes."""
    talk = Talk(quiet)
    talk.activity.doing("Starting")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _warnings_as_notes(talk):
            yield talk
    except typer.Exit:
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(UNEXPECTED) from None
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, Stopped):
            before = {}  # signals stay ignored: the process is about to end
        talk.activity.pause()
        if debug:
            talk.err.print(traceback.format_exc(), markup=False, soft_wrap=True)
        text, code = _ending(error)
        text = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:60]}...", text)
        talk.aside(f"error: {text}", style="red")
        raise typer.Exit(code) from None
    finally:
        talk.activity.pause()
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _ending(error: BaseException) -> tuple[str, int]:
    """Return the sentence and the exit code with which a command ends after an error."""
    if isinstance(error, FedRelaxError):
        return in_flags(str(error)), BAD_INPUT
    if isinstance(error, Stopped):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing was written", INTERRUPTED
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer rows or --jobs 1", UNEXPECTED
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        path = str(error.filename)
        return f"give a shorter path; one of {len(path):,} letters is too long: {path}", BAD_INPUT
    what = in_one_line(error).removesuffix(": ")
    return f"unexpected {what}; run again with --debug", UNEXPECTED


@contextmanager
def _warnings_as_notes(talk: Talk) -> Iterator[None]:
    """Show our own warnings once, and sum up those of the models' libraries in one counted note each."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text, kind = " ".join(str(message).split()), category.__name__
        if issubclass(category, FedRelaxWarning):
            talk.note(f"{text}.")
        else:
            talk.warned[kind, text[:200]] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        try:
            yield
        finally:
            talk.note_warnings()

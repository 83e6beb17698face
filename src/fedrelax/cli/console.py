"""What a person sees while a command runs: notes and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from fedrelax.cli.activity import Activity
from fedrelax.cli.flags import in_flags
from fedrelax.errors import FedRelaxError, FedRelaxWarning

START = 1.5
"""Seconds until what a command needs is imported."""
BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130


class Stopped(Exception):  # noqa: N818 - not an error
    """A run was stopped from outside; the text says how to resume it, and ``code`` is the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Talk:
    """The output of one command. ``quiet`` keeps stdout for a single JSON object."""

    def __init__(self, quiet: bool = False) -> None:
        self.out = Console(highlight=False, quiet=quiet, soft_wrap=False)
        self.err = Console(stderr=True, highlight=False)
        self.activity = Activity(self.err)
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Print a note on stderr, each text only once."""
        text = in_flags(text)
        if text not in self.notes:
            self.notes.append(text)
            self.aside(f"note: {text}", style="dim")

    def aside(self, text: str, style: str = "") -> None:
        """Print text on stderr; see ``plain``."""
        self.err.print(text, markup=False, style=style, soft_wrap=not self.err.is_terminal)

    def say(self, *what: Any) -> None:
        """Print a result."""
        self.activity.pause()
        self.out.print(*what)

    def plain(self, text: str) -> None:
        """Print text: in a terminal broken between words, elsewhere on one line however long."""
        self.activity.pause()
        self.out.print(text, markup=False, soft_wrap=not self.out.is_terminal)

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
        self.activity.pause()
        self.out.print("  " + " \\\n    ".join(lines), markup=False, soft_wrap=True)

    def json(self, answer: Any) -> None:
        """Print one JSON object, also if ``quiet``; what is no number is null."""
        from fedrelax.storage.saving import plain

        self.activity.pause()
        typer.echo(json.dumps(plain(answer), indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def speaking(
    debug: bool, quiet: bool = False, steps: Mapping[str, float] | None = None
) -> Iterator[Talk]:
    """Run a command: errors become one sentence, with ``debug`` after a traceback, and warnings notes.

    ``steps`` come after the start, in this order, and take so many seconds with a small table.
    """
    talk = Talk(quiet)
    talk.activity.plan({"start": START, **(steps or {})})
    talk.activity.doing("Starting", step="start")
    try:
        with _warnings_as_notes(talk):
            yield talk
    except FedRelaxError as error:
        _fail(talk, in_flags(str(error)), debug, BAD_INPUT)
    except Stopped as stopped:
        _fail(talk, str(stopped), debug, stopped.code)
    except KeyboardInterrupt:
        _fail(talk, "interrupted; nothing was written", debug, INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(UNEXPECTED) from None
    except MemoryError:
        _fail(talk, "not enough memory; use fewer rows or --jobs 1", debug, UNEXPECTED)
    except Exception as error:
        text = " ".join(str(error).split())
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        _fail(talk, f"unexpected {what}; run again with --debug", debug, UNEXPECTED)
    finally:
        talk.activity.pause()


def _fail(talk: Talk, text: str, debug: bool, code: int) -> None:
    talk.activity.pause()
    if debug:
        talk.err.print(traceback.format_exc(), markup=False, soft_wrap=True)
    talk.aside(f"error: {text}", style="red")
    raise typer.Exit(code) from None


@contextmanager
def _warnings_as_notes(talk: Talk) -> Iterator[None]:
    """Show our own warnings once, and sum up those of the models' libraries in one counted note each."""
    counted: Counter[tuple[str, str]] = Counter()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, FedRelaxWarning):
            talk.note(f"{text}.")
        elif category.__name__ == "ConvergenceWarning":
            counted[category.__name__, ""] += 1
        else:
            counted[category.__name__, text[:200]] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        try:
            yield
        finally:
            for (kind, text), times in counted.items():
                talk.note(_counted(kind, text, times))


def _counted(kind: str, text: str, times: int) -> str:
    many = "once" if times == 1 else f"{times} times"
    if kind == "ConvergenceWarning":
        return (
            f"{many}, a model stopped before it had converged (scikit-learn's "
            "ConvergenceWarning); its predictions are used as they are."
        )
    return f"{kind}, {many}: {text}"

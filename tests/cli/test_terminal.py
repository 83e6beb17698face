"""What a person sees: bars and whole words in a terminal, and no bar elsewhere."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest
from rich.console import Console

from fedrelax.cli.console import Activity
from tests.terminal import Shown, Terminal

from .runs import FIT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_paper_is_computed_in_a_terminal(terminal):
    words = ("--runs", "2", "--noise", "0,5", "--alpha", "0,0.05", "--out", "paper")
    shown = terminal("reproduce", "fig1b", *words)
    shown.check()
    assert any("of 8 runs" in bar for bar in shown.bars), shown.raw


@pytest.mark.slow
def test_speed_is_measured_in_a_terminal():
    shown = Terminal(ROOT)("linear", "--nodes", "300", module="benchmarks.speed")
    shown.check()
    assert any("Measuring" in bar for bar in shown.bars), shown.raw


@pytest.mark.slow
def test_what_is_measured_and_saved_is_shown_in_a_narrow_terminal(table, run):
    shown = Terminal(run.home, columns=60)(
        *FIT, "--model", "linear", "--quick", "--out", "a directory with a long name"
    )
    shown.check()
    assert all(len(line) <= 60 for line in shown.screen)
    after = shown.screen[shown.screen.index("Next:") + 1 :]
    assert shlex.split("".join(line.removesuffix("\\") for line in after[:2])) == [
        *("fedrelax", "predict", "a directory with a long name", "NEW_ROWS.csv"),
        *("--out", "predictions.csv"),
    ]


@pytest.mark.slow
def test_a_long_error_is_broken_between_words_in_a_terminal_only(run, table, terminal):
    words = (*FIT, "--out", "out", "--graph", "knn:latitude,lon:3")
    shown = terminal(*words)
    assert shown.code == 2 and shown.broken == []
    error = [line for line in shown.screen if line]
    assert len(error) > 1 and max(map(len, error)) <= 80
    run(*words)
    told = [line for line in run.output.splitlines() if line.startswith("error: ")]
    assert told == [" ".join(error)] and run.stdout == ""


def test_without_a_terminal_no_bar_is_drawn():
    file = io.StringIO()
    shown = Activity(Console(file=file, width=20))
    shown.doing("Choosing settings: 0 of 10 trials", done=0, total=10)
    shown.pause()
    assert file.getvalue() == ""


def test_the_screen_is_that_of_a_terminal():
    bar = "Reading ━━━━ 0:00:01 0:00:02"
    shown = Shown(0, f"note: ab\r\n{bar}\r\x1b[2K{bar}\r\n\x1b[1A\x1b[2Kdone\r\n", columns=40)
    assert shown.bars == [bar, bar]
    assert shown.screen == ["note: ab", "done", ""] and shown.broken == []
    assert Shown(0, "abc de", columns=5).broken == ["abc d|e"]
    assert Shown(0, "abc de", columns=4).broken == []

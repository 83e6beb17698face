"""A clean directory to run commands in, and a table in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from .runs import Run, towns


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Run(tmp_path)
    for number, handler in before.items():  # a command that was stopped leaves them ignored
        signal.signal(number, handler)


@pytest.fixture
def table(run: Run) -> pd.DataFrame:
    """The towns, also as towns.csv in the current directory."""
    frame = towns()
    frame.to_csv("towns.csv", index=False)
    return frame

"""A clean directory to run commands in, and a table in it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from .runs import Run, towns


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Run(tmp_path)


@pytest.fixture
def table(run: Run) -> pd.DataFrame:
    """The towns, also as towns.csv in the current directory."""
    frame = towns()
    frame.to_csv("towns.csv", index=False)
    return frame

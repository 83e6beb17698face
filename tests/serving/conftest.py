"""Results to serve, each fitted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app

from ..cli.runs import towns
from ..schema.tables import mixed


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def fit(home: Path, table: pd.DataFrame, *words: str) -> Path:
    """Write a table and train on it; both lie in ``home``."""
    table.to_csv(home / "rows.csv", index=False)
    quick = ("--alpha", "0.3", "--rounds", "2", "--out", home / "result")
    run("fit", home / "rows.csv", *words, *quick)
    return home


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four towns, columns of numbers."""
    words = ("--node", "town", "--target", "power", "--features", "wind,sun", "--model", "linear")
    return fit(tmp_path_factory.mktemp("numbers"), towns(), *words)


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four towns, two classes; Narvik is in the graph and has no rows."""
    home = tmp_path_factory.mktemp("classes")
    pairs = [("Oslo", "Hamar"), ("Hamar", "Dombås"), ("Dombås", "Bodø"), ("Bodø", "Narvik")]
    pd.DataFrame(pairs, columns=["source", "target"]).to_csv(home / "edges.csv", index=False)
    words = ("--node", "town", "--target", "alarm", "--features", "wind,sun", "--model", "logistic")
    return fit(home, towns(), *words, "--graph", f"edges:{home / 'edges.csv'}")


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six sites with text, categories, true and false, dates and gaps; one lacks a column."""
    table, y = mixed()
    rng = np.random.default_rng(1)
    words = ["corner", "shop", "north", "south", "blue", "kiosk", "mall", "old"]
    table["note"] = [f"{' '.join(rng.choice(words, 3))} {k}" for k in range(len(table))]
    table["size"] = table["size"].round(3)
    table["day"] = table["day"].dt.date.astype(str)
    table["load"] = y.round(3)
    table.loc[table["site"] == "s5", "size"] = np.nan
    home = tmp_path_factory.mktemp("kinds")
    return fit(home, table, "--node", "site", "--target", "load", "--model", "ridge")

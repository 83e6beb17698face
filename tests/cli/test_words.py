"""What commands say is true: which way won, counts with their nouns, and no digit that means nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


def clinics(apart: bool, rows: int = 12) -> pd.DataFrame:
    """Eight clinics with one linear rule for all or, ``apart``, with rules that have nothing in common."""
    rng = np.random.default_rng(1 if apart else 8)
    X, place = rng.normal(size=(8 * rows, 2)), np.repeat(np.arange(8), rows)
    rules = 30 * rng.normal(size=(8, 3)) if apart else np.tile([1.0, -2.0, 0.0], (8, 1))
    y = (np.column_stack([X, np.ones(len(X))]) * rules[place]).sum(axis=1)
    names = np.array([f"clinic {k}" for k in range(8)])[place]
    noise = (0.1 if apart else 0.5) * rng.normal(size=len(X))
    return pd.DataFrame({"clinic": names, "a": X[:, 0], "b": X[:, 1], "y": y + noise})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("apart", "way", "words"),
    [(False, "pooled", "One model for all"), (True, "alone", "Each node stayed alone")],
)
def test_what_was_chosen_is_what_terminal_page_and_numbers_say(run, apart, way, words):
    clinics(apart, rows=30 if apart else 12).to_csv("clinics.csv", index=False)
    table = ("clinics.csv", "--node", "clinic", "--target", "y", "--quick")
    said = run("fit", *table, "--out", "out")
    assert run.code == 0, run.output
    assert words in said and "Learning together" not in said
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert metrics["way"] == way and words in metrics["verdict"] and words in metrics["headline"]
    shown = run("info", "out")
    assert words in shown and "1 round," in shown and "1e+09" not in shown
    if Path("out/report.html").exists():
        page = Path("out/report.html").read_text().partition("<main>")[2].partition("</main>")[0]
        assert f'">{metrics["headline"]}</h1>' in page
        assert "Learning together" not in page and "1e+09" not in page


def test_partial_pooling_is_said_in_shares_and_not_as_an_alpha(run):
    table = clinics(apart=False)
    own = table["clinic"].map({name: 20.0 * k for k, name in enumerate(table["clinic"].unique())})
    slope = table["clinic"].map({name: k % 3 for k, name in enumerate(table["clinic"].unique())})
    table.assign(y=table["y"] + own + 0.5 * slope * table["a"]).to_csv("c.csv", index=False)
    run("fit", "c.csv", "--node", "clinic", "--target", "y", "--quick", "--out", "out")
    shown = run("info", "out")
    shares = re.search(r"shared slopes / levels: (\d+) / (\d+) %", shown)
    assert shares and int(shares[1]) > 20 > int(shares[2]) and "alpha" not in shown


def test_an_update_of_one_node_has_its_noun_and_no_empty_digits(run, table):
    run("fit", "towns.csv", "--node", "town", "--target", "power", "--alpha", "0", "--model", "ridge",
        "--features", "wind,sun", "--graph", "complete", "--out", "out")  # fmt: skip
    table[table["town"] == "Oslo"].head(1).to_csv("new.csv", index=False)
    said = run("update", "out", "new.csv", "--table", "towns.csv", "--tol", "0.5", "--out", "next")
    assert run.code == 0, run.output
    assert "Learned 1 new row of 'Oslo'." in said and "Refitted 1 node in" in said
    assert "predictions changed by at most" in said
    assert "1 row; 1 node refitted" in run("info", "next")
    said = run("unplug", "out", "Hamar", "--table", "towns.csv", "--out", "smaller")
    assert "predictions did not change." in said  # nobody listened to it

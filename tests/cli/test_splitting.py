"""``--split-by`` and ``--test-from``: what is held out, for testing and where something is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedrelax.storage import read_result

TOWNS, DAYS = 12, 20
FIT = ("fit", "days.csv", "--node", "town", "--target", "load", "--quick")


def table(dates=False, seed=0):
    """All towns have the day's own shock in common, which a random split gives away."""
    rng = np.random.default_rng(seed)
    town, day = np.repeat(np.arange(TOWNS), DAYS), np.tile(np.arange(DAYS), TOWNS)
    shock, weather = 3.0 * rng.normal(size=DAYS), rng.normal(size=DAYS)
    temp = weather[day] + 0.01 * rng.normal(size=len(day))
    load = temp + shock[day] + 0.1 * rng.normal(size=len(day))
    frame = pd.DataFrame({"town": town, "day": day, "temp": temp, "load": load})
    if dates:
        frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    return frame


@pytest.fixture
def days(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("days.csv", index=False)


def errors(out="out"):
    found = json.loads(Path(out, "metrics.json").read_text())
    return found, found["errors"]["together"]


def test_a_random_split_is_warned_of_and_whole_days_are_honest(run, days):
    """Towns of one day differ by 0.1; the day itself, which nobody has seen, by 3."""
    run(*FIT, "--features", "temp,day", "--out", "random")
    assert "Nodes have rows of the same 'day'" in run.output and "--split-by day" in run.output
    run(*FIT, "--split-by", "day", "--out", "out")
    assert run.code == 0 and "Nodes have rows of the same" not in run.output
    found, promised = errors()
    assert found["split_by"] == "day" and read_result("out").about["feature_names"] == ["temp"]
    again = table(seed=1)  # other days of the same towns
    run("predict", "out", "days.csv", "--out", "seen.csv")
    again.to_csv("new.csv", index=False)
    run("predict", "out", "new.csv", "--out", "p.csv")
    new = np.sqrt(np.mean((pd.read_csv("p.csv")["prediction"] - again["load"]) ** 2))
    assert promised > 1.5
    assert new == pytest.approx(promised, rel=0.5)


@pytest.mark.slow
def test_dates_that_nodes_share_are_split_by_unless_told_otherwise(run, days):
    table(dates=True).to_csv("days.csv", index=False)
    run(*FIT, "--out", "out")
    assert "whole moments are held out (--split-by day)" in run.output
    found, honest = errors()
    assert found["split_by"] == "day"
    assert (pd.read_csv("out/nodes.csv")["test_rows"] == DAYS // 5).all()
    run(*FIT, "--split-by", "none", "--out", "blind")
    assert errors("blind")[0]["split_by"] is None
    saved = Path("out/config.toml").read_text()
    assert "split-by" not in saved  # nobody asked; a rerun decides the same
    run("fit", "--config", "out/config.toml", "--out", "again")
    assert errors("again")[1] == honest


@pytest.mark.parametrize("dates", [True, False])
def test_the_future_is_the_test(run, days, dates):
    table(dates).to_csv("days.csv", index=False)
    start = "2024-01-16" if dates else "15"
    by = () if dates else ("--split-by", "day")
    run(*FIT, *by, "--test-from", start, "--out", "out")
    assert run.code == 0, run.output
    nodes = pd.read_csv("out/nodes.csv")
    assert (nodes["rows"] == 15).all() and (nodes["test_rows"] == 5).all()


def test_folds_follow_the_same_rule(run, days, monkeypatch):
    from fedrelax import FedRelaxRegressor

    heard = {}
    fit = FedRelaxRegressor.fit

    def listening(self, X, y, nodes=None, groups=None, times=None):
        heard.update(groups=groups, times=times)
        return fit(self, X, y, nodes, groups, times)

    monkeypatch.setattr(FedRelaxRegressor, "fit", listening)
    run(*FIT, "--split-by", "day", "--out", "out")
    assert len(np.unique(heard["groups"])) == 16 and heard["times"] is None
    run(*FIT, "--split-by", "day", "--test-from", "15", "--out", "out2")
    assert heard["groups"] is None and heard["times"].max() == 14


def test_compare_holds_out_whole_values_too(run, days):
    words = ("--splits", "2", "--ways", "pooled", "--json", "--features", "temp", "--model", "linear",
             "--alpha", "0.1", "--rounds", "3")  # fmt: skip
    run("compare", *FIT[1:], *words, "--split-by", "day")
    honest = json.loads(run.stdout)["ways"]
    run("compare", *FIT[1:], *words, "--split-by", "none", "--features", "temp,day")
    assert run.code == 0
    assert min(line["error"] for line in honest) > 1.5


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--split-by", "town"), ["--split-by names the node column 'town'"]),
        (("--split-by", "dya"), ["no column 'dya'", "day"]),
        (("--test-from", "2024-01-05"), ["no column holds dates", "--split-by COLUMN"]),
        (("--split-by", "day", "--test-from", "99"), ["--test-from leaves no row from then on"]),
        (
            ("--split-by", "day", "--test-from", "soon"),
            ["--test-from 'soon' does not fit column 'day', which holds numbers"],
        ),
        (("--split-by", "none", "--test-from", "3"), ["contradict each other"]),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(run, days, words, parts):
    text = run.refused(*FIT, *words, "--out", "out")
    assert all(part in text for part in parts), text
    assert not Path("out").exists()


def test_a_node_with_one_day_is_left_out_of_the_test(run, days):
    frame = table()
    frame = frame[(frame["town"] != 3) | (frame["day"] == 19)]
    frame.to_csv("days.csv", index=False)
    run(*FIT, "--split-by", "day", "--test-from", "15", "--out", "out")
    assert (
        run.code == 0 and "No row before --test-from in 'day', so not measured: '3'" in run.output
    )

"""``info``, ``demo``, ``--help``, ``--version``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrelax.cli import demo
from fedrelax.cli.graphs import parse_graph
from fedrelax.storage import read_result

from .runs import FIT, QUICK


def test_version_and_help(run):
    assert run("--version").startswith("fedrelax ")
    for command in ("fit", "predict", "info", "demo"):
        text = run(command, "--help")
        assert run.code == 0 and "Example:" in text
    text = run("fit", "--help")
    for group in ("Data", "Models", "Learning together", "Running and output"):
        assert group in text


def test_info_says_what_is_there_and_what_left_the_nodes(run, table):
    run(*FIT, *QUICK, "--model-for", "Oslo=tree")
    text = run("info", "out")
    assert run.code == 0
    for part in (
        *("regression of power", "wind, sun", "4 with a model", "3 x linear, 1 x tree"),
        *("6 edges", "alpha 0.3, 2 rounds", "needs --trust nothing", "not a privacy guarantee"),
        "Predictions on 200 public rows, 3 times: 4.8 kB from each node to each neighbour",
    ):
        assert part in text


def test_graph_texts_read_back():
    for text in ("complete", "knn:lat,lon:3", "knn:x:1"):
        assert str(parse_graph(text)) == text
    assert str(parse_graph("knn:a, b")) == "knn:a,b:5"


@pytest.mark.slow
def test_demo_trains_a_mixed_network(run, terminal):
    shown = terminal("demo", "--out", "demo-result")
    shown.check()
    text = "\n".join(shown.screen)
    assert "note: " not in text.partition("\nNext:\n")[2]
    assert "Learning together lowered the error rate" in text
    saved = read_result("demo-result")
    assert saved.nodes["model"].nunique() >= 6 and len(saved.models) == 14
    run("predict", "demo-result", "demo-result/example.csv", "--out", "p.csv")
    assert run.code == 0


@pytest.mark.slow
def test_demo_replaces_only_results(run, table, monkeypatch):
    monkeypatch.setattr(demo, "KINDS", ("ridge", "tree", "knn", "logistic"))
    monkeypatch.setattr(demo, "STRENGTHS", (1.0,))
    monkeypatch.setattr(demo, "ROUNDS", 1)
    run.made(*FIT, *QUICK)
    run("demo", "--jobs", "1", "--out", "out")
    assert run.code == 0 and read_result("out").about["target_column"] == "digit"
    Path("mine").mkdir()
    Path("mine/file").write_text("")
    assert "never replaced" in run.refused("demo", "--out", "mine")


def test_the_demo_keeps_labelled_public_and_test_images_apart():
    inputs = demo.digits_inputs()
    assert inputs.train.sum() == 14 * demo.LABELLED
    assert len(inputs.public) == 14 * demo.PUBLIC
    rows = {row.tobytes() for row in np.round(inputs.X, 9)}
    shared = [row for row in np.round(inputs.public, 9) if row.tobytes() in rows]
    assert len(inputs.X) + len(inputs.public) == 1797 and len(shared) < 5


def test_predictions_are_printed_without_a_file(run, table):
    run(*FIT, *QUICK)
    run("predict", "out", "towns.csv", "--out", "p.csv")
    run("predict", "out", "towns.csv")
    assert run.stdout == (run.home / "p.csv").read_text(encoding="utf-8")

"""``--wiring`` on the command line, and what it leaves in a result."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedrelax.datasets import clustered
from fedrelax.storage import load_result

from .runs import Run


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Two kinds of towns that nobody has told apart."""
    monkeypatch.chdir(tmp_path)
    data = clustered((8, 8), m=12, d=6, sigma=0.1, random_state=3)
    n, m, d = data.X.shape
    frame = pd.DataFrame(data.X.reshape(n * m, d), columns=[f"x{k}" for k in range(d)])
    frame["town"] = np.repeat([f"town {i}" for i in range(n)], m)
    frame["load"] = data.y.ravel()
    frame.to_csv("towns.csv", index=False)
    edges = [(f"town {u}", f"town {v}") for u, v, _ in data.graph.edges()]
    pd.DataFrame(edges, columns=["source", "target"]).to_csv("edges.csv", index=False)
    return data


def kinds(label):
    return int(label.split()[1]) // 8


@pytest.mark.slow
@pytest.mark.parametrize("wiring", ["rewire", "auto"])
def test_fit_rewires_and_says_so(table, tmp_path, wiring):
    run = Run(tmp_path)
    words = ("fit", "towns.csv", "--node", "town", "--target", "load", "--out", "result")
    text = run(*words, "--wiring", wiring, "--graph", "edges:edges.csv")
    assert run.code == 0, run.output
    assert "edges, which form" in text
    edges = pd.read_csv("result/edges.csv")
    kept = edges[edges["used"] > 0]
    assert 0 < len(kept) < len(edges) == table.graph.n_edges
    assert all(kinds(u) == kinds(v) for u, v in zip(kept["source"], kept["target"], strict=True))
    nodes = pd.read_csv("result/nodes.csv")
    assert set(nodes["model"]) == {"ridge"}  # what was found, not "auto"
    assert (nodes["node"].map(kinds).groupby(nodes["cluster"]).nunique() == 1).all()
    metrics = json.loads((tmp_path / "result" / "metrics.json").read_text())
    about = json.loads((tmp_path / "result" / "result.json").read_text())
    assert about["wiring"] == "rewire"
    assert metrics["kept_edges"] == len(kept)
    assert sum(metrics["clusters"]) == 16
    loaded = load_result("result")
    assert loaded.result_.kept.n_edges == len(kept)
    assert [len(group) for group in loaded.result_.clusters] == metrics["clusters"]


def test_without_a_graph_neighbours_are_discovered(table, tmp_path):
    run = Run(tmp_path)
    words = ("fit", "towns.csv", "--node", "town", "--target", "load", "--out", "result")
    run(*words, "--wiring", "discover", "--alpha", "0.1")
    assert run.code == 0, run.output
    nodes = pd.read_csv("result/nodes.csv")
    assert (nodes["node"].map(kinds).groupby(nodes["cluster"]).nunique() == 1).all()


@pytest.mark.slow
def test_compare_tries_wirings_too(table, tmp_path):
    run = Run(tmp_path)
    words = ("compare", "towns.csv", "--node", "town", "--target", "load", "--splits", "2")
    run(*words, "--wiring", "auto", "--ways", "pooled", "--model", "ridge", "--out", "found")
    assert run.code == 0, run.output
    table = pd.read_csv("found/comparison.csv")
    chosen = table[table["way"] == "together"]
    assert chosen.astype(str).apply(lambda line: "wiring" in " ".join(line), axis=1).all()


def test_an_unknown_wiring_is_refused(table, tmp_path):
    words = ("fit", "towns.csv", "--node", "town", "--target", "load", "--out", "out")
    assert "--wiring: 'rewird' is not one of" in Run(tmp_path).refused(*words, "--wiring", "rewird")

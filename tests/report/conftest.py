"""Saved results to make pages of, and a browser to open them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.evaluation import evaluate
from fedrelax.storage import load_result, read_result, save_result
from tests.browser import Browser, Page

HOSTILE = (
    "<script>window.harmed = 1</script>",
    "</script><img src=x onerror='window.harmed = 2'>",
    '"><svg onload=window.harmed=3>',
    "<a href='javascript:window.harmed=4'>x</a>",
    "{{data}} &lt;b&gt; %{x}",
    "  ",
    "🌲 Ålesund\u2028\u2029'\"\\",
)


def save_network(directory: Path, graph: Graph, rows: int = 8, **settings: object) -> Path:
    """Train a ridge model at every node of a graph, measure on half of the rows, and save it all."""
    rng = np.random.default_rng(3)
    n = len(graph)
    X = rng.normal(size=(n * rows, 2))
    shift = np.repeat(np.linspace(0.0, 1.0, n), rows)
    y = X @ [1.0, -1.0] + shift + 0.5 * rng.normal(size=len(X))
    nodes = np.empty(len(X), dtype=object)
    nodes[:] = [label for label in graph.labels for _ in range(rows)]
    train = np.arange(len(X)) % 2 == 0
    chosen = {"alpha": 0.3, "rounds": 3, "random_state": 0, **settings}
    fitted = FedRelaxRegressor(Ridge(), graph, **chosen)
    own = (X[train], y[train], nodes[train])
    fitted.fit(*own[:2], nodes=own[2])
    found = evaluate(fitted, own, (X[~train], y[~train], nodes[~train]))
    save_result(directory, fitted, evaluation=found, target="<b>load</b>")
    return directory


def ring(labels: list[str], near: int = 2) -> Graph:
    """Return a ring in which everybody is joined to the nearest on both sides."""
    n = len(labels)
    pairs = [(labels[i], labels[(i + k) % n]) for i in range(n) for k in range(1, near + 1)]
    return Graph.from_edges(pairs, labels=labels)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of twelve nodes on a ring, rewired."""
    graph = ring([f"site {k:02d}" for k in range(12)], near=3)
    return save_network(tmp_path_factory.mktemp("small") / "out", graph, rows=12, wiring="rewire")


@pytest.fixture(scope="session")
def federated(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result as a federation's hub writes it: errors at the sites, and no pooled model."""
    fitted, saved = load_result(small), read_result(small)
    lines = saved.nodes[["node", "model", "rows", "test_rows", "alone", "together", "gain"]]
    errors = {way: float(lines[way].mean()) for way in ("alone", "together")}
    told = {"measure": "RMSE", **errors, "missed": {}, "notes": [],
            "most_bytes_per_edge_and_round": 1000}  # fmt: skip
    directory = tmp_path_factory.mktemp("federated") / "out"
    missed = ["1-3, 7", *[""] * (len(lines) - 1)]
    save_result(directory, fitted, nodes=lines.assign(missed=missed), metrics={"federation": told})
    return directory


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result whose nodes are called what no page should run."""
    return save_network(tmp_path_factory.mktemp("hostile") / "out", ring(list(HOSTILE)))


@pytest.fixture
def opened(browser: Browser) -> Callable[[Path], Page]:
    """Open a page in a tab of its own, 1200 pixels wide."""

    def open_page(file: Path, dark: bool = False) -> Page:
        page = Page(browser)
        page.size(1200, 900)
        page.dark(dark)
        page.open(file)
        return page

    return open_page

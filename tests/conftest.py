"""What several test files need."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from fedrelax import Graph, Network
from tests.browser import Browser, find_program, running
from tests.terminal import Terminal

settings.register_profile("steady", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("steady")

SHARED = Path(__file__).resolve().parents[2] / "shared"
TARGETS = Path(__file__).resolve().parent / "data" / "targets"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark thorough files, and let long ones go first, so that no worker is left alone with one at the end.

    A worker runs a whole file, whose tests share what they have computed.
    """
    for item in items:
        if item.path.as_posix().endswith(THOROUGH):
            item.add_marker("thorough")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path.name not in LONG, -slow[item.path]))


LONG = (
    "test_documents.py",
    "test_linear_figures.py",
    "test_benchmark_figure.py",
    "test_frameworks.py",
)
"""Files that take minutes."""

THOROUGH = (
    "baselines/test_baselines.py",
    "cli/test_compare.py",
    "cli/test_frameworks.py",
    "cli/test_resume.py",
    "comparison/test_advice.py",
    "comparison/test_ways.py",
    "engines/sites/test_batched_nets.py",
    "pooling/test_estimator.py",
    "federation/test_equality.py",
    "federation/test_wirings.py",
    "learned/test_graphs.py",
    "live/test_live.py",
    "models/test_keras.py",
    "report/test_page.py",
    "reproduction/test_nets.py",
    "schema/test_estimators_of_tables.py",
    "schema/test_units.py",
    "serving/test_command.py",
    "solvers/test_fixed_point.py",
    "storage/test_boosted_files.py",
    "storage/test_formats.py",
    "storage/test_results.py",
    "/tests/test_faults.py",
    "/tests/test_frameworks.py",
    "/tests/test_groups.py",
    "/tests/test_site.py",
)
"""Files with many cases of one promise: every framework's files, pages in a browser, each setting of a
federation against one process. Other files test the same promises on one or two cases."""

PACKAGES = {
    "torch-mlp": ("torch", "fedrelax.models.torch"),
    "torch-linear": ("torch", "fedrelax.models.torch"),
    "keras-mlp": ("keras",),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
}
"""What the models of some names need."""


def skip_without_packages(name: str) -> None:
    """Skip a test of a named model where its extra is not installed."""
    for package in PACKAGES.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the model {name} needs {package}, which is not installed")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_program()
    if program is None:
        pytest.skip("needs Chromium or Chrome, and none is installed")
    with running(program) as found:
        yield found


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Runs commands in an empty directory, in a terminal of 80 columns."""
    return Terminal(tmp_path)


@pytest.fixture
def weather_file() -> Path:
    path = SHARED / "data" / "fmi_hourly.csv"
    if not path.exists():
        pytest.skip(f"needs the weather measurements, which are not at {path}")
    return path


@pytest.fixture(scope="session")
def tree_targets() -> Path:
    return TARGETS / "trees.csv"


@pytest.fixture(scope="session")
def linear_targets() -> Path:
    return TARGETS / "linear.csv"


def random_graph(
    rng: np.random.Generator, n: int, share: float = 0.5, connected: bool = True
) -> Graph:
    """A weighted graph; a chain keeps it connected if asked for."""
    A = np.triu(rng.uniform(0.2, 2.0, (n, n)) * (rng.random((n, n)) < share), 1)
    if connected:
        A[np.arange(n - 1), np.arange(1, n)] = rng.uniform(0.5, 1.5, n - 1)
    return Graph.from_matrix(A + A.T)


def regression_network(
    rng: np.random.Generator,
    model,
    n: int = 5,
    d: int = 3,
    common: bool = True,
    outputs: int = 1,
    graph: Graph | None = None,
    m_pub: int = 12,
) -> Network:
    """Nodes with 4 to 9 rows of noisy linear data; ``model`` is one for all or a function of i."""
    graph = random_graph(rng, n) if graph is None else graph
    network = Network(graph, public=rng.normal(size=(m_pub, d)) if common else None)
    shared = rng.normal(size=(d, outputs))
    for i, label in enumerate(graph.labels):
        rows = int(rng.integers(4, 10))
        X = rng.normal(size=(rows, d))
        y = X @ (shared + 0.5 * rng.normal(size=(d, outputs))) + 0.3 * rng.normal(
            size=(rows, outputs)
        )
        public = None if common else rng.normal(size=(m_pub + i, d))
        chosen = model(i) if callable(model) and not hasattr(model, "fit") else model
        network.add(label, X, y[:, 0] if outputs == 1 else y, chosen, public=public)
    return network


def classification_network(
    rng: np.random.Generator, model, n: int = 4, d: int = 3, k: int = 3, rows: int = 12
) -> Network:
    """Nodes with a noisy linear class rule; node 0 never sees the last class."""
    graph = random_graph(rng, n)
    network = Network(graph, "classification", public=rng.normal(size=(15, d)))
    rule = rng.normal(size=(d, k)) * 2
    names = np.array(["ash", "birch", "cedar", "elm"])[:k]
    for i, label in enumerate(graph.labels):
        X = rng.normal(size=(rows, d))
        score = X @ rule + rng.gumbel(size=(rows, k))
        y = score[:, : k - 1 if i == 0 else k].argmax(axis=1)
        y[:2] = [0, 1]
        chosen = model(i) if callable(model) and not hasattr(model, "fit") else model
        network.add(label, X, names[y], chosen)
    return network


def refused(engine: str, network: Network, settings) -> str | None:
    """Return why an engine does not serve the network, found cheaply or on the way, or None."""
    from fedrelax.engines import UnsupportedNetworkError, prepare

    try:
        prepare(engine, network, settings)
    except UnsupportedNetworkError as unsuited:
        return unsuited.reason
    return None

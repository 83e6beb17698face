"""Nodes on the workers of Dask and Ray: the same result."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge, SGDRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.errors import NodeFitError
from fedrelax.runtime import Distillation
from fedrelax.runtime.workers import ClusterError, using_backend
from fedrelax.solvers import FedRelax

pytestmark = pytest.mark.cluster

NODES, ROWS, WIDTH = 9, 30, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NODES * ROWS, WIDTH))
Y = X[:, 0] + RNG.normal(size=len(X))
LABELS = np.repeat(np.arange(NODES), ROWS)
RING = Graph.from_edges([(i, (i + k) % NODES) for i in range(NODES) for k in (1, 2)])


def model_for(label: int) -> BaseEstimator:
    kinds = [
        DecisionTreeRegressor(max_depth=3),
        RandomForestRegressor(5, max_depth=3),
        SVR(),
        KNeighborsRegressor(3),
        Ridge(),
    ]
    return kinds[label % len(kinds)]


@pytest.fixture(scope="module", params=["dask", "ray"])
def backend(request) -> Iterator[str]:
    """Keep one cluster of two workers for all tests; what is compared with runs in threads."""
    package = {"dask": "distributed", "ray": "ray"}[request.param]
    library = pytest.importorskip(package, reason=f"needs {package}, which is not installed")
    with cluster_of(request.param, library, workers=2), using_backend(request.param):
        yield request.param


@contextmanager
def cluster_of(name: str, library: Any, workers: int) -> Iterator[None]:
    """Start a cluster on this machine."""
    if name == "dask":
        here = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
        with (
            library.LocalCluster(n_workers=workers, threads_per_worker=1, **here) as cluster,
            library.Client(cluster),
        ):
            yield
        return
    library.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        library.shutdown()


def fitted(models=model_for, graph=RING, solver=None, rounds=2, **settings) -> FedRelaxRegressor:
    solver = FedRelax(engine="sites", tol=0.0) if solver is None else solver
    made = FedRelaxRegressor(
        models, graph, alpha=0.3, rounds=rounds, public_rows=20, solver=solver, **settings
    )
    return made.fit(X, Y, nodes=LABELS)


def public_of_each() -> dict[int, np.ndarray]:
    return {label: RNG.normal(size=(10 + label, WIDTH)) for label in range(NODES)}


WAYS = {
    "mixed models": {},
    "public rows of each node's own": {"public": public_of_each()},
    "validation and patience": {
        "validation_share": 0.2,
        "solver": FedRelax(engine="sites", tol=0.0, patience=1),
    },
    "models that go on, and their own echo": {
        "models": lambda label: SGDRegressor(max_iter=20, tol=None, warm_start=True),
        "solver": FedRelax(
            engine="sites", tol=0.0, continued=True, distillation=Distillation(rows=10)
        ),
    },
    "one after the other": {
        "solver": FedRelax(engine="sites", tol=0.0, order="sequential", objective="gtvmin"),
        "rounds": 1,
    },
    "rewired": {"wiring": "rewire", "rounds": 8},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_cluster_gives_what_threads_give(backend, way):
    there = fitted(**WAYS[way])
    with using_backend("threads"):
        here = fitted(n_jobs=2, **WAYS[way])
    assert there.n_rounds_ == here.n_rounds_
    for one, two in zip(there.history_.records, here.history_.records, strict=True):
        assert np.array_equal(one.node_local_loss, two.node_local_loss)
        assert one.gtv == two.gtv
    assert np.array_equal(there.predict(X, nodes=LABELS), here.predict(X, nodes=LABELS))
    alone = [[run.result_.alone[k].predict(X) for k in range(NODES)] for run in (there, here)]
    assert np.array_equal(*alone)
    assert type(there.result_.local_models[2]) is type(here.result_.local_models[2])


def test_what_is_chosen_on_folds_is_the_same(backend):
    settings = {"level": 1.0, "wiring": "fixed", "quick": True, "minutes": 10, "n_jobs": 2}

    def chosen():
        made = FedRelaxRegressor(SVR(), RING, alpha=[0.1, 1.0], rounds=2, **settings)
        return made.fit(X, Y, nodes=LABELS)

    there = chosen()
    with using_backend("threads"):
        here = chosen()
    assert there.alpha_ == here.alpha_
    assert np.array_equal(there.predict(X, nodes=LABELS), here.predict(X, nodes=LABELS))


class Fails(RegressorMixin, BaseEstimator):
    """A model that cannot be fitted."""

    def fit(self, X, y, sample_weight=None):
        raise ZeroDivisionError("nothing to divide")

    def predict(self, X):
        return np.zeros(len(X))


def test_a_model_that_fails_is_named_as_it_is_here(backend):
    models = {label: Fails() if label == 3 else SVR() for label in range(NODES)}
    sentence = "node 3: fit of Fails failed on 30 rows .ZeroDivisionError: nothing to divide"
    with pytest.raises(NodeFitError, match=sentence):
        fitted(models)
    fitted(lambda label: SVR(), rounds=1)  # the cluster is as good as before


class Deadly(Fails):
    """A model that takes its worker with it."""

    def fit(self, X, y, sample_weight=None):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_ends_is_told_in_one_sentence(backend):
    with pytest.raises(ClusterError, match="the cluster lost some of the nodes"):
        fitted(lambda label: Deadly())


def test_a_cluster_at_an_address_is_joined_and_left_as_it_was():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        fitted(lambda label: SVR(), backend="dask", address=cluster.scheduler_address, n_jobs=2)
        assert len(cluster.workers) == 1 and cluster.status.name == "running"

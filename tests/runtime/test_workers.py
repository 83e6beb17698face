"""Who does the fits of a round, and what is refused before any are done."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.svm import SVR

from fedrelax import FedRelaxRegressor
from fedrelax.errors import FedRelaxError
from fedrelax.runtime import Workers
from fedrelax.runtime.workers import using_backend

RNG = np.random.default_rng(0)
X, NODES = RNG.normal(size=(40, 2)), np.repeat(["a", "b", "c", "d"], 10)
Y = X[:, 0] + RNG.normal(size=40)


def fitted(**settings) -> FedRelaxRegressor:
    return FedRelaxRegressor(SVR(), alpha=0.3, rounds=1, public_rows=10, **settings).fit(
        X, Y, nodes=NODES
    )


@pytest.mark.parametrize("name", ["threading", "loky"])
@pytest.mark.parametrize("suits_threads", [True, False])
def test_a_backend_that_joblib_was_told_is_taken(name, suits_threads):
    with joblib.parallel_config(name, n_jobs=2):
        workers = Workers(None, threads=suits_threads)
        assert (workers.backend, workers.n_jobs) == (name, 2)


@pytest.mark.parametrize(("suits_threads", "usual"), [(True, "threading"), (False, "loky")])
def test_else_it_is_what_suits_the_models(suits_threads, usual):
    assert Workers(2, threads=suits_threads).backend == usual
    with joblib.parallel_config(n_jobs=2):
        assert Workers(None, threads=suits_threads).backend == usual


@pytest.mark.parametrize(("asked", "name"), [("threads", "threading"), ("processes", "loky")])
def test_what_is_asked_for_wins(asked, name):
    with joblib.parallel_config("multiprocessing", n_jobs=2), using_backend(asked):
        assert Workers(None, threads=asked == "processes").backend == name


@pytest.mark.parametrize("name", ["threading", "loky", "multiprocessing"])
def test_the_result_is_the_same_on_every_backend(name):
    one = fitted().predict(X, nodes=NODES)
    with joblib.parallel_config(name, n_jobs=2):
        assert np.array_equal(fitted().predict(X, nodes=NODES), one)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"backend": "thread"}, "backend='thread' must be None or one of threads, processes, dask"),
        (
            {"address": "10.0.0.1:1"},
            "address='10.0.0.1:1' is for clusters only; give backend='dask'",
        ),
        ({"backend": "dask", "address": 7}, "address=7 must be a string"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, sentence):
    with pytest.raises(FedRelaxError, match=sentence):
        fitted(**settings)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_named_with_its_extra(backend, package):
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(FedRelaxError, match=rf"needs {package}.*fedrelax\[{backend}\]"):
        fitted(backend=backend)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
@pytest.mark.parametrize("address", ["127.0.0.1:9", "tcp://127.0.0.1:9", "nonsense"])
def test_an_address_where_nobody_answers_is_refused_at_once(backend, package, address):
    if find_spec(package) is None:
        pytest.skip(f"needs {package}, which is not installed")
    begun = time.monotonic()
    with pytest.raises(FedRelaxError, match=f"{address}': no cluster could be joined"):
        fitted(backend=backend, address=address)
    assert time.monotonic() - begun < 30


def test_without_an_address_a_cluster_must_have_been_joined():
    pytest.importorskip("distributed", reason="needs distributed, which is not installed")
    with pytest.raises(FedRelaxError, match="no cluster could be joined.*give the address="):
        fitted(backend="dask")


def test_ray_at_another_address_than_the_one_joined_is_refused(monkeypatch):
    joined = SimpleNamespace(
        is_initialized=lambda: True,
        get_runtime_context=lambda: SimpleNamespace(gcs_address="10.0.0.5:6379"),
    )
    monkeypatch.setitem(sys.modules, "ray", joined)
    monkeypatch.setattr("fedrelax.runtime.workers.find_spec", lambda name: name)
    with (
        pytest.raises(FedRelaxError, match="already joined another Ray cluster"),
        using_backend("ray", "10.0.0.5:6380"),
    ):
        pass

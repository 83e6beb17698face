"""Without a number of rounds, linear models go straight to where the rounds lead."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelax, Network
from fedrelax.runtime import Callback
from fedrelax.solvers import GradientFedRelax
from fedrelax.wiring import Rewire
from tests.conftest import random_graph, regression_network


def largest_gap(one, other) -> float:
    X = np.random.default_rng(5).normal(size=(20, next(iter(one.models.values())).n_features_in_))
    gaps = [one.models[k].predict(X) - other.models[k].predict(X) for k in one.models]
    return float(np.abs(gaps).max())


@pytest.mark.parametrize("objective", ["paper", "gtvmin"])
@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
def test_all_updates_lead_to_one_fixed_point(objective, common):
    network = regression_network(np.random.default_rng(3), LinearRegression(), common=common, d=2)
    settings = {"alpha": 0.4, "objective": objective}
    exact = FedRelax(**settings, rounds=5000, tol=1e-14).solve(network)
    steps = GradientFedRelax(**settings, step="plain", rate=0.02, rounds=20_000, tol=1e-13)
    fast = FedRelax(**settings, rounds=None, tol=1e-13).solve(network)
    usual = FedRelax(**settings, rounds=None).solve(network)
    assert fast.reason == usual.reason == "predictions converged"
    assert usual.n_rounds <= fast.n_rounds < exact.n_rounds / 2
    for other in (steps.solve(network), fast, usual):
        assert largest_gap(other, exact) < (1e-7 if other is usual else 1e-8)
    assert list(fast.discrepancies.values()) == pytest.approx(
        list(exact.discrepancies.values()), rel=1e-6
    )
    for name in ("objective", "gtv", "local_loss", "node_gtv"):
        assert fast.history[name][-1] == pytest.approx(exact.history[name][-1], rel=1e-7)
        assert fast.history[name][0] == pytest.approx(exact.history[name][0], rel=1e-9)


@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
def test_where_all_rows_together_leave_weights_open_it_ends_where_the_rounds_end(common):
    """Four rows in all for six weights: the fixed point depends on where one starts."""
    rng = np.random.default_rng(1)
    network = Network(random_graph(rng, 4), public=rng.normal(size=(9, 5)) if common else None)
    for label in range(4):
        own = None if common else rng.normal(size=(9, 5))
        network.add(
            label, rng.normal(size=(1, 5)), rng.normal(size=1), LinearRegression(), public=own
        )
    exact = FedRelax(alpha=0.7, rounds=20_000, tol=1e-15).solve(network)
    fast = FedRelax(alpha=0.7, rounds=None, tol=1e-12).solve(network)
    assert exact.engine == fast.engine == "linear" and fast.n_rounds < exact.n_rounds
    assert largest_gap(fast, exact) < 1e-8


def test_the_history_holds_the_first_and_the_last_round():
    seen = []

    class Watch(Callback):
        def after_round(self, record):
            seen.append(record.round)

    network = regression_network(np.random.default_rng(3), LinearRegression(), common=False)
    result = FedRelax(rounds=None, tol=1e-9).solve(network, [Watch()])
    assert seen == [0, result.n_rounds] == result.history["round"].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {"rounds": 30},
        {"damping": 0.2},
        {"order": "sequential"},
        {"wiring": Rewire()},
        {"tol": 0.0},
        {"patience": 3},
        {"engine": "sites"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_concerns_the_rounds_on_the_way_runs_them_one_by_one(settings):
    rng = np.random.default_rng(0)
    network = Network(random_graph(rng, 5), public=rng.normal(size=(9, 3)))
    for label in range(5):
        held = rng.normal(size=(4, 3)), rng.normal(size=4)
        network.add(label, rng.normal(size=(6, 3)), rng.normal(size=6), Ridge(), validation=held)
    result = FedRelax(**({"alpha": 0.3, "rounds": None} | settings)).solve(network)
    assert result.history["round"].tolist() == list(range(len(result.history)))
    assert len(result.history) > 3


def test_without_coupling_nothing_moves():
    network = regression_network(np.random.default_rng(3), LinearRegression())
    result = FedRelax(alpha=0.0, rounds=None).solve(network)
    assert result.n_rounds == 1 and result.reason == "predictions converged"
    for label, model in result.models.items():
        assert np.array_equal(model.coef_, result.alone[label].estimator.coef_)

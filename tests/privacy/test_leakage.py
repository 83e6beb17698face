"""Membership inference: it finds what is there, and noise takes it away."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, Graph, LinearModel, Network
from fedrelax.privacy import PrivateStatistics
from fedrelax.privacy.leakage import Listener, leakage
from tests.conftest import regression_network


def network_of(model) -> Network:
    """Four nodes whose labels are noise, so that good answers can only be remembered."""
    rng = np.random.default_rng(0)
    network = Network(Graph.complete(range(4)), public=rng.normal(size=(100, 20)))
    for i in range(4):
        held = rng.normal(size=(200, 20)), rng.normal(size=200)
        network.add(i, rng.normal(size=(21, 20)), rng.normal(size=21), model, validation=held)
    return network


def attacked(network, *layers):
    listener = Listener()
    solver = FedRelax(alpha=0.0, rounds=1, tol=0, exchange=[*layers, listener])
    result = solver.solve(network)
    return leakage(network, listener.heard, result.local_models)


def test_what_was_remembered_is_found():
    found = attacked(network_of(LinearModel(ridge=0.01))).values()
    assert np.mean([one.by_model for one in found]) > 0.9
    assert np.mean([one.by_neighbour for one in found]) > 0.85
    for one in attacked(network_of(DecisionTreeRegressor())).values():
        assert one.by_model > 0.99


def test_noise_takes_it_away_from_neighbours_and_not_from_the_model():
    private = PrivateStatistics(epsilon=1.0, range=(-5.0, 5.0))
    found = attacked(network_of(LinearModel(ridge=0.01)), private)
    assert np.mean([one.by_neighbour for one in found.values()]) == pytest.approx(0.5, abs=0.1)
    assert np.mean([one.by_model for one in found.values()]) > 0.9


def test_a_listener_changes_nothing_and_rows_to_compare_with_are_needed():
    network = regression_network(np.random.default_rng(0), LinearModel(ridge=0.1))
    listener = Listener()
    with_ear = FedRelax(rounds=3, tol=0, exchange=listener).solve(network)
    without = FedRelax(rounds=3, tol=0, engine="sites").solve(network)
    assert np.array_equal(with_ear.history["objective"], without.history["objective"])
    with pytest.raises(FedRelaxError, match="no node that was heard has validation rows"):
        leakage(network, listener.heard, with_ear.local_models)

"""Offsets and units of a column change no error: alone, pooled, together, in each baseline and engine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxRegressor
from fedrelax.comparison import compare_ways

NODES, ROWS = 8, 12
CHANGES = {
    "Unix seconds": (1.7e9, 86400.0),
    "nano": (0.0, 1e-9),
}


def table(change=(0.0, 1.0)):
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(NODES * ROWS, 3)), np.repeat(np.arange(NODES), ROWS)
    weights = rng.normal(size=3) + 0.4 * rng.normal(size=(NODES, 3))
    y = (X * weights[nodes]).sum(axis=1) + 0.3 * nodes + rng.normal(size=len(X))
    X[:, 1] = change[0] + change[1] * X[:, 1]
    return X, y, nodes


@pytest.fixture(scope="module")
def usual():
    return compare_ways(FedRelaxRegressor(quick=True), *table(), splits=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_every_way_of_learning_is_indifferent_to_units(usual, name):
    found = compare_ways(FedRelaxRegressor(quick=True), *table(CHANGES[name]), splits=2)
    assert found.ways == usual.ways and len(found.ways) >= 9
    np.testing.assert_allclose(found.errors, usual.errors, rtol=0.01)


@pytest.mark.parametrize("engine", ["linear", "sites"])
@pytest.mark.parametrize("name", CHANGES)
def test_both_engines_are_indifferent_to_units(engine, name):
    def answers(change):
        X, y, nodes = table(change)
        solver = FedRelax(engine=engine)
        model = FedRelaxRegressor(Ridge(), alpha=0.1, rounds=20, solver=solver)
        return model.fit(X, y, nodes).predict(X, nodes)

    np.testing.assert_allclose(answers(CHANGES[name]), answers((0.0, 1.0)), atol=0.05)

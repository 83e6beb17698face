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


def table(*changes):
    """Return rows whose columns, the second one first, have other offsets and units."""
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(NODES * ROWS, 3)), np.repeat(np.arange(NODES), ROWS)
    weights = rng.normal(size=3) + 0.4 * rng.normal(size=(NODES, 3))
    y = (X * weights[nodes]).sum(axis=1) + 0.3 * nodes + rng.normal(size=len(X))
    for column, (offset, unit) in zip((1, 0, 2), changes, strict=False):
        X[:, column] = offset + unit * X[:, column]
    return X, y, nodes


@pytest.mark.slow
def test_every_way_of_learning_is_indifferent_to_units():
    """Every column has an offset or unit of its own, all at once."""
    usual = compare_ways(FedRelaxRegressor(quick=True), *table(), splits=2)
    changes = (CHANGES[name] for name in ("Unix seconds", "nano", "giga"))
    found = compare_ways(FedRelaxRegressor(quick=True), *table(*changes), splits=2)
    assert found.ways == usual.ways and len(found.ways) >= 9
    np.testing.assert_allclose(found.errors, usual.errors, rtol=0.01)


@pytest.mark.parametrize("engine", ["linear", "sites"])
@pytest.mark.parametrize("name", CHANGES)
def test_both_engines_are_indifferent_to_units(engine, name):
    def answers(*changes):
        X, y, nodes = table(*changes)
        solver = FedRelax(engine=engine)
        model = FedRelaxRegressor(Ridge(), alpha=0.1, rounds=20, solver=solver)
        return model.fit(X, y, nodes).predict(X, nodes)

    np.testing.assert_allclose(answers(CHANGES[name]), answers(), atol=0.05)

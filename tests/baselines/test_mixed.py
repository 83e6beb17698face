"""The mixed model against statsmodels called directly, and what it does not serve."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax.baselines import MixedModel
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.network import Network


@pytest.fixture
def statsmodels():
    return pytest.importorskip("statsmodels", reason="needs statsmodels (the extra mixed)")


def slopes(n=25, rows=8, seed=0, levels=2.0, spread=1.0):
    """Rows of two columns of other units, with a random level and random slopes at every node."""
    rng = np.random.default_rng(seed)
    X, node = rng.normal(size=(n * rows, 2)), np.repeat(np.arange(n), rows)
    own = np.array([1.0, -2.0]) + spread * rng.normal(size=(n, 2))
    y = 4.0 + levels * rng.normal(size=n)[node] + (X * own[node]).sum(axis=1)
    return X * [1.0, 50.0] + [3.0, 0.0], y + 0.5 * rng.normal(size=n * rows), node


def network_of(X, y, node):
    network = Network(Graph.complete(range(int(node.max()) + 1)))
    for i in np.unique(node):
        network.add(int(i), X[node == i], y[node == i], Ridge())
    return network


def answers(X, y, node, rows=None):
    models = MixedModel().run(network_of(X, y, node)).models
    rows = X if rows is None else rows
    out = np.empty(len(rows))
    for i in np.unique(node):
        out[node == i] = models[int(i)].predict(rows[node == i])[:, 0]
    return out


def direct(X, y, node, columns):
    """Predictions with the BLUPs of a fit by statsmodels, by another optimiser and on raw targets."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    A = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    fit = MixedLM(y, A, node, exog_re=A[:, columns]).fit(reml=True, method=["bfgs", "lbfgs"])
    own = np.array([np.asarray(fit.random_effects[i]) for i in range(int(node.max()) + 1)])
    return A @ np.asarray(fit.fe_params) + (A[:, columns] * own[node]).sum(axis=1)


def test_predictions_are_those_of_statsmodels(statsmodels):
    X, y, node = slopes()
    expected = direct(X, y, node, [0, 1, 2])
    np.testing.assert_allclose(answers(X, y, node), expected, atol=2e-3 * y.std())
    pooled = LinearRegression().fit(X, y).predict(X)
    assert np.abs(pooled - expected).max() > y.std()


def test_a_column_that_is_one_number_at_each_node_has_no_random_slope(statsmodels):
    X, y, node = slopes()
    height = np.random.default_rng(1).normal(size=25)[node]
    X = np.column_stack([X, height])
    found = answers(X, y + height, node)
    np.testing.assert_allclose(found, direct(X, y + height, node, [0, 1, 2]), atol=2e-3 * y.std())
    moved = X + np.array([0.0, 0.0, 1.0])
    step = answers(X, y + height, node, moved) - found
    np.testing.assert_allclose(step, step[0])


def test_columns_that_say_nothing_new_change_nothing(statsmodels):
    X, y, node = slopes()
    more = np.column_stack([X[:, 0], np.full(len(X), 7.0), X[:, 1], X @ [1.0, 0.1]])
    np.testing.assert_allclose(answers(more, y, node), answers(X, y, node), rtol=1e-6)


def test_without_a_covariance_it_has_a_random_intercept(statsmodels, monkeypatch):
    """And without differences between nodes it is least squares."""
    from fedrelax.baselines import mixed

    X, y, node = slopes()
    whole = mixed._fit

    def only_intercepts(X, y, g, varies):
        if len(varies) > 1:
            raise np.linalg.LinAlgError("Singular matrix")
        return whole(X, y, g, varies)

    monkeypatch.setattr(mixed, "_fit", only_intercepts)
    np.testing.assert_allclose(answers(X, y, node), direct(X, y, node, [0]), atol=2e-3 * y.std())
    np.testing.assert_allclose(answers(X, X @ [1.0, 2.0], node), X @ [1.0, 2.0], rtol=1e-6)
    assert answers(X, np.full(len(X), 3.0), node) == pytest.approx(3.0)


def test_what_it_does_not_serve(statsmodels):
    X, y, node = slopes(n=3)
    classes = Network(Graph.complete(range(3)), "classification")
    two, images = Network(Graph.complete(range(3))), Network(Graph.complete(range(3)))
    for i in range(3):
        own = X[node == i]
        classes.add(i, own, np.where(y[node == i] > 4, "high", "low"), Ridge())
        two.add(i, own, own, Ridge())
        images.add(i, own.reshape(-1, 2, 1), y[node == i], Ridge())
    way = MixedModel()
    assert way.unsupported_reason(network_of(X, y, node)) is None
    assert way.unsupported_reason(classes) == "it predicts numbers, and the target holds classes"
    assert way.unsupported_reason(two) == "it predicts one number, and the target has 2"
    assert way.unsupported_reason(images) == "node 0: its rows have the shape (2, 1)"
    assert (
        way.unsupported_reason(network_of(X[:8], y[:8], node[:8])) == "it needs at least two nodes"
    )
    with pytest.raises(FedRelaxError, match="mixed model: it predicts numbers"):
        way.run(classes)


def test_many_nodes_and_columns_take_too_long():
    X, y, node = slopes(n=20, rows=2)
    assert MixedModel().unsupported_reason(network_of(X, y, node)) is None
    wide = np.tile(X, 10)
    assert MixedModel().unsupported_reason(network_of(wide, y, node)) == (
        "it takes too long for 20 nodes and 20 columns"
    )


def test_a_missing_statsmodels_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    assert MixedModel().unsupported_reason(network_of(*slopes(n=3))) == (
        "statsmodels is not installed; pip install 'fedrelax[mixed]' adds it"
    )

"""One model of all rows with the node as a category, against scikit-learn itself."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from fedrelax.baselines import PooledNode
from fedrelax.baselines.grouped import MOST_NODES
from fedrelax.graph import Graph
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.network import Network
from tests.baselines.test_baselines import all_rows, predictions, small_network


def with_columns(network):
    """All rows, with a 0/1 column per node, made in another way."""
    X, y = all_rows(network)
    place = np.repeat(np.arange(len(network)), [len(node.y) for node in network])
    return np.column_stack([X, *(place == i for i in range(len(network)))]), y


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_it_is_one_ridge_with_a_column_per_node(factor):
    network = small_network(Ridge(2.0))
    X, y = with_columns(network)
    run = PooledNode(factor=factor).run(network)
    expected = Ridge(2.0 * factor).fit(X, y).predict(X)
    np.testing.assert_allclose(predictions(run, network)[:, 0], expected)
    same = np.zeros((1, 3))
    answers = [run.models[i].predict(same)[0, 0] for i in range(4)]
    assert len(set(np.round(answers, 6))) == 4  # a level for every node


def test_a_given_scale_is_kept_for_the_columns_that_have_one():
    network = small_network(LinearModel(ridge=0.5, scale=[1.0, 100.0, 0.01]))
    X, y = with_columns(network)
    own = LinearModel(ridge=0.5, scale=[1.0, 100.0, 0.01, 1.0, 1.0, 1.0, 1.0]).fit(X, y)
    np.testing.assert_allclose(
        predictions(PooledNode().run(network), network)[:, 0], own.predict(X)
    )


def test_classes():
    network = small_network(LogisticRegression(C=3.0, max_iter=2000), kind="classification")
    X, y = with_columns(network)
    expected = LogisticRegression(C=30.0, max_iter=2000).fit(X, y).predict_proba(X)
    found = predictions(PooledNode(factor=0.1).run(network), network)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_every_kind_of_model_sees_all_rows():
    network = small_network(Ridge())
    mixed = Network(network.graph)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    for node, model in zip(network, [Ridge(), tree, Ridge(), tree], strict=True):
        mixed.add(node.label, node.X, node.y, model)
    X, y = with_columns(network)
    models, place = PooledNode().run(mixed).models, np.argmax(X[:, 3:], axis=1)
    for i, kind in ((0, Ridge()), (3, tree)):
        expected = kind.fit(X, y).predict(X[place == i])
        np.testing.assert_allclose(models[i].predict(network.nodes[i].X)[:, 0], expected)


@pytest.mark.parametrize(
    ("model", "kind", "several"),
    [
        (Ridge(), "regression", True),
        (LinearModel(ridge=1.0), "regression", True),
        (make_pipeline(StandardScaler(), LogisticRegression()), "classification", True),
        (SoftmaxModel(), "classification", True),
        (LinearModel(), "regression", False),
        (DecisionTreeRegressor(), "regression", False),
    ],
    ids=["ridge", "linear", "logistic", "softmax", "no penalty", "tree"],
)
def test_penalties_are_tried_where_there_is_one(model, kind, several):
    found = PooledNode().candidates(small_network(model, kind=kind))
    assert {way.factor for way in found} == ({0.001, 0.1, 1.0, 10.0} if several else {1.0})


def test_what_it_does_not_serve():
    network = Network(Graph.complete(range(2)))
    for i in range(2):
        network.add(i, np.zeros((3, 2, 2)), np.arange(3.0), Ridge())
    assert PooledNode().unsupported_reason(network) == "node 0: its rows have the shape (2, 2)"
    n = MOST_NODES + 1
    many = Network(Graph.from_edges([(i, i + 1) for i in range(n - 1)]))
    for i in range(n):
        many.add(i, np.zeros((1, 1)), np.zeros(1), Ridge())
    assert PooledNode().unsupported_reason(many) == (
        "it has a column for every node, which takes too long for 501 of them"
    )


def test_nets_have_a_number_of_inputs():
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra torch)")
    network = small_network(torch.nn.Linear(3, 1))
    reason = PooledNode().unsupported_reason(network)
    assert reason == "node 0: its net cannot take more columns, one per node"

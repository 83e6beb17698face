"""A network made of one table is the network whose nodes were added one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxRegressor, Graph, Network, SoftmaxModel
from fedrelax.errors import FedRelaxError
from fedrelax.splits import RowGroups, group_rows

LABELS = ["b", "a", "c"]


def table(kind: str = "regression"):
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(30, 2)), rng.permutation(np.repeat(LABELS, [5, 15, 10]))
    y = X @ [1.0, 2.0] + rng.normal(size=30)
    if kind == "classification":
        y = np.where(y > 0, "up", "down")
    return X, y, nodes


def both(kind, models, public, share=0.0):
    X, y, nodes = table(kind)
    graph = Graph.from_edges([("a", "b"), ("b", "c", 0.5)])
    train, held = group_rows(nodes, len(X)).held_out(share, np.random.default_rng(1))
    at_once = Network.from_rows(graph, kind, X, y, train, models, public=public, held=held)
    one_by_one = Network(graph, kind, None if isinstance(public, dict) else public)
    for label, index in train.items():
        out = held[label]
        one_by_one.add(
            label,
            X[index],
            y[index],
            models[label] if isinstance(models, dict) else models,
            public=public[label] if isinstance(public, dict) else None,
            validation=(X[out], y[out]) if len(out) else None,
        )
    return at_once, one_by_one


COMMON = np.random.default_rng(2).normal(size=(9, 2))
APART = {label: COMMON + i for i, label in enumerate("abc")}


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("public", [COMMON, APART], ids=["common set", "a set per node"])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_all_that_a_network_knows_is_the_same(kind, public, share):
    one, other = Ridge(), Ridge(2.0)
    if kind == "classification":
        one, other = SoftmaxModel(), SoftmaxModel(ridge=2.0)
    for models in (one, {"a": one, "b": other, "c": one}):
        found, expected = both(kind, models, public, share)
        found.check()
        assert found.labels == expected.labels and found.graph == expected.graph
        assert list(found.nodes) == list(expected.nodes) and len(found) == 3
        assert found.distinct_models == expected.distinct_models
        assert found.models == expected.models and repr(found) == repr(expected)
        assert found.task.n_outputs == expected.task.n_outputs
        assert np.array_equal(found.task.classes, expected.task.classes)
        for label in found.labels:
            mine, theirs = found.nodes[label], expected.nodes[label]
            assert mine.label == label and mine.model is theirs.model
            assert np.array_equal(mine.X, theirs.X) and np.array_equal(mine.y, theirs.y)
            assert (mine.validation is None) == (theirs.validation is None)
            assert np.array_equal(found.public.of(label), expected.public.of(label))
        for name in ("own_rows", "validation_rows"):
            mine, theirs = getattr(found, name), getattr(expected, name)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                for part in ("X", "y", "offsets"):
                    assert np.array_equal(getattr(mine, part), getattr(theirs, part))
        for engine in ("auto", "sites"):
            settings = FedRelax(alpha=0.4, rounds=3, tol=0.0, engine=engine)
            results = [settings.solve(network) for network in (found, expected)]
            assert results[0].engine == results[1].engine
            for name in ("objective", "gtv", "node_local_loss", "node_validation_loss"):
                assert np.array_equal(
                    results[0].history[name], results[1].history[name], equal_nan=True
                )


def test_rows_that_cannot_be_used_are_named_with_their_node():
    X, y, nodes = table()
    graph, rows = Graph.complete(LABELS), group_rows(nodes, len(X))
    bad = rows["c"][4]
    X[bad, 1] = np.nan
    with pytest.raises(FedRelaxError, match="node 'c': X has a NaN or infinite value in row 4"):
        Network.from_rows(graph, "regression", X, y, rows, Ridge(), public=COMMON)
    X, y, nodes = table()
    with pytest.raises(FedRelaxError, match="node 'a' is not in the graph"):
        few = Graph.complete(["b", "c"])
        Network.from_rows(few, "regression", X, y, rows, Ridge(), public=COMMON)
    with pytest.raises(FedRelaxError, match="node 'x' has no rows"):
        none = RowGroups.of({"b": np.arange(3), "x": np.arange(0)})
        more = Graph.complete(["b", "x"])
        Network.from_rows(more, "regression", X, y, none, Ridge(), public=COMMON)
    with pytest.raises(FedRelaxError, match="public has no rows for node 'a'"):
        some = {"b": COMMON, "c": COMMON}
        Network.from_rows(graph, "regression", X, y, rows, Ridge(), public=some)
    network = Network.from_rows(graph, "regression", X, y, rows, Ridge(), public=COMMON[:, :1])
    with pytest.raises(FedRelaxError, match="public rows of node .* have 1 features"):
        FedRelax().solve(network)
    with pytest.raises(FedRelaxError, match="takes no more nodes"):
        network.add("d", X, y, Ridge())


def test_estimators_make_their_models_when_asked():
    X, y, nodes = table()
    fit = FedRelaxRegressor(alpha=0.3).fit(X, y, nodes)
    assert list(fit.models_) == sorted(set(nodes.tolist())) and len(fit.models_) == 3
    assert fit.models_["a"] is fit.models_["a"] and "x" not in fit.models_
    trees = FedRelaxRegressor(DecisionTreeRegressor(max_depth=2), rounds=1, alpha=0.1).fit(
        X, y, nodes
    )
    assert isinstance(trees.models_["a"], DecisionTreeRegressor)
    assert repr(trees.models_).startswith("{'")


def test_groups_of_rows_keep_their_labels_and_their_order():
    whole = group_rows(np.array([7, 3, 7, 5]), 4)
    assert list(whole) == [7, 3, 5] and all(type(label) is int for label in whole)
    assert {label: rows.tolist() for label, rows in whole.items()} == {7: [0, 2], 3: [1], 5: [3]}
    assert RowGroups.of(whole) is whole
    part = RowGroups.of({3: np.array([1])}, whole.labels)
    assert [rows.tolist() for rows in part.values()] == [[], [1], []]
    values = np.arange(4.0)
    assert group_rows(["a", "a", "b", "b"], 4).take(values) is values

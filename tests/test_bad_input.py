"""Bad input gets one clear sentence, before any work starts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import (
    FedRelax,
    FedRelaxClassifier,
    FedRelaxError,
    FedRelaxRegressor,
    Graph,
    Network,
)
from fedrelax.runtime import Callback

PAIR = Graph.from_edges([("a", "b")])
X, Y = np.arange(12.0).reshape(6, 2) % 5, np.arange(6.0)
NODES = np.array(list("aaabbb"))
PUBLIC = np.ones((4, 2))


class Tripwire(Ridge):
    """Fails the test if any work starts."""

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("work started before the input was checked")


def refused(match, **settings):
    fit = {"X": X, "y": Y, "nodes": NODES} | settings.pop("fit", {})
    model = FedRelaxRegressor(
        settings.pop("estimator", Tripwire()), settings.pop("graph", PAIR), **settings
    )
    with pytest.raises(ValueError, match=match):
        model.fit(**fit)


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf, "much", None, True])
def test_alpha(alpha):
    refused("alpha=.* must be a finite number of at least 0", alpha=alpha)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", -1),
        ("rounds", 2.5),
        ("tol", -1.0),
        ("damping", 1.0),
        ("order", "random"),
        ("objective", "gtv"),
        ("weighting", "none"),
        ("wiring", "rewird"),
        ("patience", 0),
        ("patience", 3),
        ("validation_share", 1.0),
        ("public", "gausian"),
        ("public_rows", 0),
        ("loss", "hinge"),
        ("discrepancy", "log"),
    ],
)
def test_settings(name, value):
    own = name in FedRelaxRegressor(alpha=0.1).get_params()
    refused(name, **({name: value} if own else {"solver": FedRelax(**{name: value})}))


def test_nan_and_infinity():
    for bad in (np.nan, np.inf):
        spoiled = X.copy()
        spoiled[4, 1] = bad
    refused("infinity", fit={"X": spoiled})
    network = Network(PAIR, public=PUBLIC)
    with pytest.raises(
        FedRelaxError, match="node 'b': X has 1 NaN or infinite value, the first in row 1"
    ):
        network.add("b", spoiled[3:], Y[3:], Ridge())
    with pytest.raises(FedRelaxError, match="node 'a': y has 1 NaN"):
        network.add("a", X[:3], [0.0, np.nan, 1.0], Ridge())


@pytest.mark.parametrize("estimator", [Tripwire(), "auto"])
@pytest.mark.parametrize("factor", [1e308, 1e160])
def test_finite_numbers_whose_squares_are_not(estimator, factor):
    sentence = "1e\\+100 are too large"
    settings = {"estimator": estimator, "alpha": 0.1 if estimator != "auto" else "auto"}
    table = pd.DataFrame(X, columns=["wind", "rain"]).assign(rain=X[:, 1] / X.max() * factor)
    refused(f"column 'rain' holds .*{sentence}", fit={"X": table}, **settings)
    refused(f"column 1 of X holds .*{sentence}", fit={"X": table.to_numpy()}, **settings)
    refused(f"the target holds .*{sentence}", fit={"y": Y / Y.max() * factor}, **settings)
    two = np.column_stack([Y, Y / Y.max() * factor])
    refused(f"target 1 holds .*{sentence}", fit={"y": two}, **settings)


def test_one_number_too_large_at_a_node_of_a_network():
    for which in (0, 1):
        rows = [X[:3].copy(), Y[:3].copy()]
        rows[which][1] = 1e308
        with pytest.raises(FedRelaxError, match=f"node 'a': {'Xy'[which]} holds 1e\\+308 in row 1"):
            Network(PAIR, public=PUBLIC).add("a", *rows, Tripwire())


@pytest.mark.parametrize("form", [np.asarray, lambda rows: pd.DataFrame(rows, columns=["x", "y"])])
def test_a_row_to_predict_with_a_number_too_large(form):
    model = FedRelaxRegressor(Ridge(), PAIR, alpha=0.1).fit(form(X), Y, nodes=NODES)
    with pytest.raises(FedRelaxError, match="column .* holds 1e\\+308 in row 0"):
        model.predict(form([[1e308, 1.0]]), nodes=["a"])


def test_text_features():
    refused("could not convert string to float", fit={"X": np.array([["x", "y"]] * 6)})
    with pytest.raises(FedRelaxError, match="node 'a': X has an entry that is not a number"):
        Network(PAIR, public=PUBLIC).add("a", [["x", "y"]], [1.0], Ridge())


def test_a_node_without_rows_and_with_one():
    network = Network(PAIR, public=PUBLIC)
    with pytest.raises(FedRelaxError, match="node 'a' has no rows; leave it out"):
        network.add("a", np.empty((0, 2)), np.empty(0), Ridge())
    network.add("a", X[:1], Y[:1], LinearRegression()).add("b", X[3:], Y[3:], LinearRegression())
    models = FedRelax(alpha=1.0, rounds=5).solve(network).models
    assert np.isfinite(models["a"].predict(X)).all()


def test_a_constant_target_at_a_node_is_legal():
    y = Y.copy()
    y[:3] = 2.0
    model = FedRelaxRegressor(DecisionTreeRegressor(), PAIR, alpha=0.1).fit(X, y, nodes=NODES)
    assert np.isfinite(model.predict(X, nodes=NODES)).all()


def test_one_class_everywhere():
    with pytest.raises(FedRelaxError, match="all rows of all nodes are of one class, 'x'"):
        FedRelaxClassifier(graph=PAIR, alpha=0.1).fit(X, ["x"] * 6, nodes=NODES)


def test_different_feature_counts():
    network = Network(PAIR, public=PUBLIC)
    network.add("a", X[:3], Y[:3], Tripwire()).add("b", np.ones((3, 5)), Y[3:], Tripwire())
    with pytest.raises(FedRelaxError, match="node 'b' has 5 features but node 'a' has 2"):
        FedRelax().solve(network)


def test_public_rows_of_the_wrong_shape_or_none():
    refused("public rows of node 'a' have 3 features but the nodes have 2", public=np.ones((4, 3)))
    refused("public rows of the common set have shape", public=np.empty((0, 2)))
    refused("public has no rows for node 'b'", public={"a": PUBLIC})
    refused("public rows of node 'b' have shape", public={"a": PUBLIC, "b": np.empty((0, 2))})
    network = Network(PAIR).add("a", X[:3], Y[:3], Ridge()).add("b", X[3:], Y[3:], Ridge())
    with pytest.raises(FedRelaxError, match="no public rows at nodes 'a', 'b'"):
        FedRelax().solve(network)


def test_duplicate_and_unknown_nodes():
    network = Network(PAIR, public=PUBLIC).add("a", X[:3], Y[:3], Ridge())
    with pytest.raises(FedRelaxError, match="node 'a' was already added"):
        network.add("a", X[:3], Y[:3], Ridge())
    with pytest.raises(FedRelaxError, match="node 'c' is not in the graph"):
        network.add("c", X[:3], Y[:3], Ridge())
    refused("the graph has no node 'c', which the rows name", fit={"nodes": list("aaabbc")})
    refused("nodes has a missing label in row 5", fit={"nodes": ["a", "a", "b", "b", "a", None]})
    refused("nodes has shape", fit={"nodes": ["a"]})
    refused("the graph has 2 nodes, but fit got no nodes", fit={"nodes": None})
    refused("nodes='city' names a column, but X is not a DataFrame", fit={"nodes": "city"})


def test_models_and_graphs_of_the_wrong_kind():
    refused("the dict of models has none for node 'b'", estimator={"a": Ridge()})
    refused("node 'a': the model is the class Ridge; pass an instance", estimator=Ridge)
    refused("node 'a': the model is the string 'ridge'", estimator="ridge")
    refused("node 'a': the model 5 has no fit and predict", estimator=5)
    refused("make a fedrelax.Graph of it", graph=np.eye(2))
    with pytest.raises(FedRelaxError, match="graph=3 must be a fedrelax.Graph"):
        Network(3)
    with pytest.raises(FedRelaxError, match="task='ranking' must be one of"):
        Network(PAIR, task="ranking")
    with pytest.raises(FedRelaxError, match="the network has no nodes"):
        FedRelax().solve(Network(PAIR, public=PUBLIC))


def test_rows_and_labels_of_different_length():
    with pytest.raises(FedRelaxError, match="node 'a': X has 3 rows but y has 2"):
        Network(PAIR, public=PUBLIC).add("a", X[:3], Y[:2], Ridge())


@pytest.mark.parametrize(
    ("model", "loss", "discrepancy", "why"),
    [
        (Ridge(), "absolute", None, "Ridge as configured minimises squared, not loss='absolute'"),
        (
            DecisionTreeRegressor(),
            "huber",
            None,
            "DecisionTreeRegressor as configured minimises squared",
        ),
        (Ridge(), "squared", "absolute", "needs a model that minimises a sum of two losses"),
        (
            DecisionTreeRegressor(),
            "absolute",
            "squared",
            "but DecisionTreeRegressor fits weighted rows",
        ),
    ],
)
def test_impossible_pairs_are_refused_with_the_reason(model, loss, discrepancy, why):
    solver = FedRelax(loss=loss, discrepancy=discrepancy)
    refused(f"node 'a': .*{why}", estimator=model, solver=solver, alpha=0.1)


def test_the_symmetric_objective_refuses_an_unsymmetric_discrepancy():
    with pytest.raises(FedRelaxError, match="objective='gtvmin' needs a symmetric discrepancy"):
        FedRelaxClassifier(graph=PAIR, solver=FedRelax(objective="gtvmin"), alpha=0.1).fit(
            X, list("xyxyxy"), nodes=NODES
        )


def test_predict_needs_nodes_and_a_fit():
    from sklearn.exceptions import NotFittedError

    model = FedRelaxRegressor(Ridge(), PAIR, alpha=0.1)
    with pytest.raises(NotFittedError):
        model.predict(X, nodes=NODES)
    with pytest.raises(
        FedRelaxError, match="the network has 2 nodes; say which one each row belongs to"
    ):
        model.fit(X, Y, nodes=NODES).predict(X)


# Arguments of another kind


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("callbacks", [1], r"callbacks\[0\] is 1, not a fedrelax.runtime.Callback"),
        ("callbacks", [Callback], r"callbacks\[0\] is <class .*Callback"),
        ("callbacks", Callback(), "callbacks=.*must be a list of"),
        ("callbacks", None, "callbacks=None must be a list of"),
        ("n_jobs", "a", "n_jobs='a' must be None, a whole number of workers"),
        ("n_jobs", 10**6, r"n_jobs=1000000 must be .* \(at most \d+ here\), or -1"),
        ("n_jobs", 0, "n_jobs=0 must be"),
        ("n_jobs", 2.5, "n_jobs=2.5 must be"),
        ("n_jobs", True, "n_jobs=True must be"),
        ("alone", 1, "alone=1 must be a list of nodes"),
        ("alone", "a", "alone='a' must be a list of nodes"),
        ("random_state", -1, "random_state=-1 must be a whole number of at least 0"),
        ("alpha", 10**400, "alpha=1000.* must be a finite number"),
    ],
)
@pytest.mark.parametrize("linear", [False, True])
def test_arguments_of_another_kind(name, value, sentence, linear):
    refused(sentence, **{name: value}, estimator=Ridge() if linear else Tripwire())
    refused(sentence, **{"alpha": "auto", name: value})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("distillation", "x", "distillation='x' must be None or a fedrelax.runtime.Distillation"),
        ("distillation", 100, "distillation=100 must be None or"),
        ("continued", "no", "continued='no' must be True or False"),
    ],
)
@pytest.mark.parametrize("linear", [False, True])
def test_settings_of_the_solver_of_another_kind(name, value, sentence, linear):
    solver = FedRelax(**{name: value})
    refused(sentence, solver=solver, estimator=Ridge() if linear else Tripwire())
    refused(sentence, solver=solver, alpha="auto")


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (dict(enumerate("aaabbb")), "nodes is a dict; pass one label per row"),
        (set("ab"), "nodes is a set"),
        (7, "nodes is a int"),
        ([["a"]] * 6, "nodes holds a label that cannot name a node"),
    ],
)
def test_nodes_of_another_kind(nodes, sentence):
    for graph in (PAIR, None):
        refused(sentence, graph=graph, fit={"nodes": nodes})
        refused(sentence, graph=graph, alpha="auto", fit={"nodes": nodes})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"alpha": {}}, "alpha={} must be a finite number of at least 0, several of them"),
        ({"alpha": []}, r"alpha=\[\] must be a finite number"),
        ({"alpha": [0.1, "x"]}, r"alpha=\[0.1, 'x'\] must be a finite number"),
        ({"wiring": ["fixed", 1]}, "wiring=1 must be one of fixed"),
        ({"alpha": "auto", "folds": "x"}, "folds='x' must be a whole number"),
    ],
)
def test_a_search_with_arguments_of_another_kind(settings, sentence):
    refused(sentence, **settings)


def test_a_solver_with_arguments_of_another_kind():
    network = Network(PAIR, public=PUBLIC)
    network.add("a", X[:3], Y[:3], Tripwire())
    network.add("b", X[3:], Y[3:], Tripwire())
    for settings, sentence in [
        ({"wiring": "rewire"}, "wiring='rewire' must be None or a fedrelax.wiring object"),
        ({"collapse": "x"}, "collapse='x' must be True or False"),
        ({"random_state": 2.5}, "random_state=2.5 must be a whole number"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ]:
        with pytest.raises(FedRelaxError, match=sentence):
            FedRelax(**settings).solve(network)
    with pytest.raises(FedRelaxError, match=r"callbacks\[0\] is 1"):
        FedRelax().solve(network, [1])
    with pytest.raises(FedRelaxError, match="network is a list, not a fedrelax.Network"):
        FedRelax().solve([1])


@pytest.mark.parametrize(
    ("label", "labels", "hint"),
    [
        ("site 3", [f"site {k:02d}" for k in range(24)], "; did you mean 'site 03'?"),
        ("Site_03", ["site 13", "site 3", "site 33"], "; did you mean 'site 3'?"),
        ("temp", ["time", "tempo rubato", "temperature"], "; did you mean 'temperature'?"),
        ("0", [0, 1], "; did you mean 0 (a number, not text)?"),
        (0, ["0", "1"], "; did you mean '0' (text, not a number)?"),
        ("Olso", ["Bergen", "Oslo"], "; did you mean 'Oslo'?"),
    ],
)
def test_the_suggestion_is_the_name_that_was_meant(label, labels, hint):
    with pytest.raises(FedRelaxError) as caught:
        Graph.complete(labels).index(label)
    assert f"unknown node {label!r}{hint or '; the graph has'}" in str(caught.value)


# More than the default can do in minutes


@pytest.mark.parametrize("estimator", ["auto", None])
def test_too_many_columns_or_classes_for_the_default(estimator):
    wide = np.random.default_rng(0).normal(size=(6, 5_001))
    refused("X has 5,001 columns, .* PCA", estimator=estimator, fit={"X": wide})
    many = np.arange(2_002) // 2
    model = FedRelaxClassifier(estimator, PAIR)
    with pytest.raises(FedRelaxError, match="y has 1,001 classes, .* merge rare classes"):
        model.fit(np.c_[many, -many], many, nodes=np.resize(["a", "b"], len(many)))


def test_wide_rows_are_left_to_solvers_whose_cost_follows_the_rows():
    """A matrix of columns x columns for every node, here 0.5 GB in all, is never made."""
    wide = np.random.default_rng(0).normal(size=(6, 6_000))
    model = FedRelaxRegressor(Ridge(), PAIR, alpha=0.1, rounds=2, public_rows=4)
    assert np.isfinite(model.fit(wide, Y, nodes=NODES).predict(wide, nodes=NODES)).all()
    refused("6000 columns are more than", solver=FedRelax(engine="linear"), alpha=0.1, rounds=2,
            estimator=Ridge(), fit={"X": wide})  # fmt: skip


def test_with_many_classes_no_other_models_are_tried():
    label = np.arange(124) % 31
    model = FedRelaxClassifier().fit(np.c_[label, label**2], label, nodes=np.arange(124) // 62)
    assert "with more than 30 classes no other models" in model.choice_.reason
    assert len(model.classes_) == 31

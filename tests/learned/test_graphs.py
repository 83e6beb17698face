"""Graphs learned beforehand: they find clusters, solve what they say, and refuse what they cannot."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax.datasets import clustered
from fedrelax.errors import FedRelaxError, NodeFitError
from fedrelax.graph import Graph
from fedrelax.learned import graph_from_models, pooling_graph, smooth_graph
from fedrelax.learned.signals import scale, smoothest
from fedrelax.models import LinearModel
from fedrelax.network import Network
from fedrelax.solvers import FedRelax


def network_of(data, model, kind="regression"):
    """A network of clustered data under labels that are not row numbers; classes are the signs."""
    labels = [f"node {i}" for i in range(len(data.X))]
    network = Network(Graph.complete(labels), kind, public=data.public[0])
    for label, X, y in zip(labels, data.X, data.y, strict=True):
        network.add(label, X, y if kind == "regression" else np.where(y > 0, "up", "down"), model)
    return network


def clusters(seed=0, sizes=(8, 8, 8), m=12):
    return clustered(sizes, m=m, d=3, sigma=0.3, random_state=seed)


def share_within(graph, groups):
    A = graph.adjacency.toarray()
    return A[groups[:, None] == groups].sum() / A.sum()


def pairs(n):
    return np.triu_indices(n, 1)


def random_problem(seed, n=9):
    i, j = pairs(n)
    return i, j, np.random.default_rng(seed).exponential(size=len(i))


def degrees(i, j, w, n):
    return np.bincount(i, w, n) + np.bincount(j, w, n)


def objective(i, j, z, n, w):
    return 2 * w @ z - np.log(degrees(i, j, w, n)).sum() + w @ w


def row_losses(model, X, y):
    """Squared errors, or log losses of probabilities that are at least 1 in a thousand."""
    if not is_classifier(model):
        return (model.predict(X) - y) ** 2
    likely = np.clip(model.predict_proba(X), 1e-3, None)
    likely /= likely.sum(axis=1, keepdims=True)
    return -np.log(likely[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def leave_one_out(X, y, kinds, rng):
    """Return the losses, (2 nodes, rows), of models trained alone and on both nodes' rows."""
    rows = X.shape[1]
    held = [rng.permutation(rows) for _ in kinds]  # The fold that holds out each row.
    alone, together = np.zeros((2, rows)), np.zeros((2, rows))
    for fold in range(rows):
        own = [(X[i][held[i] != fold], y[i][held[i] != fold]) for i in (0, 1)]
        both = [np.concatenate(parts) for parts in zip(*own, strict=True)]
        for i, kind in enumerate(kinds):
            row = np.flatnonzero(held[i] == fold)
            for losses, train in ((alone, own[i]), (together, both)):
                losses[i, row] = row_losses(clone(kind).fit(*train), X[i][row], y[i][row])
    return alone, together


class TestPooling:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_weight_lies_within_clusters(self, seed):
        data = clusters(seed)
        graph = pooling_graph(network_of(data, LinearRegression()))
        assert graph.labels == tuple(f"node {i}" for i in range(24))
        assert share_within(graph, data.clusters) >= 0.95
        assert graph.n_edges >= 24  # Of the 84 pairs within clusters.
        assert 0 < graph.adjacency.data.min() <= graph.adjacency.data.max() <= 1

    @pytest.mark.parametrize(
        "kinds",
        [
            (LinearRegression(), LinearRegression()),
            (Ridge(3.0), DecisionTreeRegressor(max_depth=2, random_state=0)),
            (LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0)),
        ],
        ids=["alike", "unlike", "classes"],
    )
    def test_weight_is_the_share_of_the_loss_that_is_clearly_saved(self, kinds):
        classes = is_classifier(kinds[0])
        rows, clear, unclear = 12 if classes else 6, 0, 0
        for seed in range(12):
            data = clusters(seed, sizes=(2,), m=rows)
            y = np.where(data.y > 0, "up", "down") if classes else data.y
            if classes and any((labels == "up").sum() not in range(3, 10) for labels in y):
                continue  # Too few of one class for the plain models of the comparison.
            network = Network(Graph.complete([0, 1]), "classification" if classes else "regression")
            for i in (0, 1):
                network.add(i, data.X[i], y[i], kinds[i])
            alone, together = leave_one_out(data.X, y, kinds, np.random.default_rng(seed))
            falls, total = alone - together, alone.mean(axis=1).sum()
            saved = falls.mean(axis=1).sum()
            error = np.sqrt((falls.var(axis=1, ddof=1) / rows).sum())
            found = pooling_graph(network, folds=rows, seed=seed).neighbours(0)
            assert found == ({1: pytest.approx(saved / total)} if saved > error else {})
            clear += saved > error
            unclear += 0 < saved <= error
        assert clear > 0
        assert unclear > 0

    def test_model_objects_shared_or_equal_give_the_same_graph(self):
        data = clusters(sizes=(3, 3))
        shared = network_of(data, DecisionTreeRegressor(max_depth=3, random_state=0))
        single = Network(Graph.complete(shared.nodes))
        for node in shared:
            model = DecisionTreeRegressor(max_depth=3, random_state=0)
            single.add(node.label, node.X, node.y, model)
        graph = pooling_graph(shared)
        assert graph.n_edges > 0
        assert graph == pooling_graph(single)

    def test_classification(self):
        data = clusters(m=40, sizes=(5, 5, 5))
        graph = pooling_graph(network_of(data, LogisticRegression(C=10), "classification"))
        assert graph.n_edges >= 10  # Of the 30 pairs within clusters.
        assert share_within(graph, data.clusters) >= 0.95

    def test_a_node_with_one_class_takes_part(self):
        data = clusters(sizes=(2,), m=20)
        network = Network(Graph.complete(["one", "both"]), "classification")
        positive = data.X[0][data.y[0] > 0]
        network.add("one", positive, np.full(len(positive), "up"), LogisticRegression())
        network.add("both", data.X[1], np.where(data.y[1] > 0, "up", "down"), LogisticRegression())
        # Alone, "one" is always right: it has nothing to gain, and much to lose.
        assert pooling_graph(network).neighbours("one") == {}

    def test_candidates_restrict_the_pairs_and_change_nothing_else(self):
        network = network_of(clusters(sizes=(6, 2)), LinearRegression())
        ring = Graph.from_edges([(f"node {i}", f"node {(i + 1) % 8}") for i in range(8)])
        every, few = pooling_graph(network), pooling_graph(network, candidates=ring)
        wanted = {(u, v): weight for u, v, weight in every.edges() if v in ring.neighbours(u)}
        assert few.labels == tuple(network.nodes)
        assert {(u, v): weight for u, v, weight in few.edges()} == wanted
        assert 0 < few.n_edges < every.n_edges

    def test_progress_counts_the_pairs_and_a_seed_decides_all(self):
        network = network_of(clusters(sizes=(3, 2)), RandomForestRegressor(3))
        seen = []
        graph = pooling_graph(network, folds=2, seed=1, progress=lambda *now: seen.append(now))
        assert seen == [(done, 10) for done in range(1, 11)]
        assert graph == pooling_graph(network, folds=2, seed=1)
        assert graph != pooling_graph(network, folds=2, seed=2)

    def test_rows_fewer_than_folds(self):
        network = Network(Graph.complete(["few", "many"]))
        X = np.arange(20.0)[:, None]
        network.add("few", X[[3, 17]], 2 * X[[3, 17], 0], LinearRegression())
        network.add("many", X, 2 * X[:, 0], LinearRegression())
        # One training row of "few" says nothing of the slope: pooling saves its whole loss.
        assert pooling_graph(network).neighbours("few")["many"] == pytest.approx(1.0)

    def test_refusals(self):
        crowd = Network(Graph.complete(range(301)))
        for i in range(301):
            crowd.add(i, np.zeros((2, 1)), np.zeros(2), LinearRegression())
        with pytest.raises(FedRelaxError, match="301 nodes; above 300, pass candidates="):
            pooling_graph(crowd)
        some = Graph.from_edges([(0, 1)], labels=range(301))
        assert pooling_graph(crowd, candidates=some).n_edges == 0  # Nobody has a loss to save.
        lone = Network(Graph.complete(["a", "b"]))
        lone.add("a", np.zeros((3, 1)), np.zeros(3), LinearRegression())
        lone.add("b", np.zeros((1, 1)), np.zeros(1), LinearRegression())
        with pytest.raises(FedRelaxError, match="node 'b' has a single row"):
            pooling_graph(lone)
        unlike = Network(Graph.complete(["a", "b"]))
        unlike.add("a", np.zeros((3, 1)), np.zeros(3), LinearRegression())
        unlike.add("b", np.zeros((3, 1)), np.zeros((3, 2)), LinearRegression())
        with pytest.raises(FedRelaxError, match=r"node 'b': y has shape \(3, 2\)"):
            pooling_graph(unlike)
        with pytest.raises(FedRelaxError, match="no nodes"):
            pooling_graph(Network(Graph.complete(["a"])))
        with pytest.raises(FedRelaxError, match="folds=1"):
            pooling_graph(lone, folds=1)
        with pytest.raises(FedRelaxError, match="'b'"):
            pooling_graph(unlike, candidates=Graph.complete(["a", "c"]))


class TestSmoothest:
    @pytest.mark.parametrize("seed", range(4))
    def test_no_other_weights_have_a_lower_objective(self, seed):
        n = 9
        i, j, z = random_problem(seed, n)
        w = smoothest(i, j, z, n)
        d = degrees(i, j, w, n)
        slope = 2 * z - 1 / d[i] - 1 / d[j] + 2 * w
        assert 0 < (w == 0).sum() < len(w)  # Both cases of the conditions occur.
        np.testing.assert_allclose(slope[w > 0], 0, atol=1e-4)
        assert (slope[w == 0] >= -1e-4).all()
        rng = np.random.default_rng(seed)
        for size in 10.0 ** rng.uniform(-4, 0, 200):
            other = np.maximum(0, w + size * rng.normal(size=len(w)))
            assert objective(i, j, z, n, other) >= objective(i, j, z, n, w)

    def test_a_node_far_from_all_others_does_not_stop_it(self):
        n = 9
        i, j, z = random_problem(0, n)
        z[i == 0] *= 1e6
        w = smoothest(i, j, z, n)
        d = degrees(i, j, w, n)
        # Its only edge is that to the nearest, k, where the slope 2 z - 1/d_0 - 1/d_k + 2 w is 0.
        near = np.argmin(np.where(i == 0, z, np.inf))
        assert np.flatnonzero(w[i == 0]).tolist() == [near]
        assert d[0] == pytest.approx(1 / (2 * z[near] - 1 / d[j[near]] + 2 * w[near]), rel=1e-5)
        rest = i > 0
        slope = 2 * z - 1 / d[i] - 1 / d[j] + 2 * w
        np.testing.assert_allclose(slope[rest & (w > 0)], 0, atol=1e-4)

    def test_equal_distances_have_the_closed_form_solution(self):
        # By symmetry w is one number: w = 1 / ((n - 1) w) - z.
        n, c = 6, 0.7
        i, j = pairs(n)
        w = smoothest(i, j, np.full(len(i), c), n)
        np.testing.assert_allclose(w, (-c + np.sqrt(c**2 + 4 / (n - 1))) / 2, rtol=1e-5)


class TestSmoothGraph:
    @pytest.mark.parametrize("neighbours", [2, 5, 10])
    def test_neighbours_are_as_many_as_wanted(self, neighbours):
        signals = np.random.default_rng(1).normal(size=(150, 6))
        W = smooth_graph(signals, neighbours)
        assert neighbours / 1.25 < W.nnz / 150 < neighbours * 1.25
        assert (W != W.T).nnz == 0
        assert W.diagonal().sum() == 0
        assert (W.sum(axis=1) > 0).all()
        assert W.data.mean() == pytest.approx(1)

    def test_it_is_the_minimiser_for_some_theta(self):
        # With W = w / c the conditions are c^2 W_e + c theta z_e >= (1/D_i + 1/D_j) / 2, and
        # equality where W_e > 0: two unknowns, found from the edges by least squares.
        signals = np.random.default_rng(2).normal(size=(25, 4))
        W = smooth_graph(signals, 8).toarray()  # 24 candidates: all pairs.
        i, j = pairs(25)
        z = np.square(signals[i] - signals[j]).mean(axis=1)
        D = W.sum(axis=1)
        right, on = (1 / D[i] + 1 / D[j]) / 2, W[i, j] > 0
        table = np.column_stack([W[i, j], z])
        found = np.linalg.lstsq(table[on], right[on], rcond=None)[0]
        assert 0 < on.sum() < len(on)
        assert (found > 0).all()
        np.testing.assert_allclose(table[on] @ found, right[on], rtol=1e-4)
        assert (table[~on] @ found >= right[~on] * (1 - 1e-4)).all()

    def test_units_of_the_signals_do_not_matter(self):
        signals = np.random.default_rng(3).normal(size=(40, 3))
        one, other = smooth_graph(signals, 4), smooth_graph(1e-5 * signals + 7, 4)
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-4)

    def test_every_node_has_a_neighbour_even_a_very_strange_one(self):
        signals = np.random.default_rng(4).normal(size=(60, 3))
        signals[0] += 1000
        W = smooth_graph(signals, 5)
        degree = W.sum(axis=1)
        assert 0 < degree[0] < 1e-3 * np.delete(degree, 0).min()
        assert 4 < W.nnz / 60 < 6.25

    def test_theta_is_exact_where_nodes_choose_alone(self):
        # Nodes 0 and 1 each have two leaves, far ones: theta^2 (k z_k^2 - b_k z_k) is known by hand.
        i, j = np.array([0, 0, 1, 1]), np.array([2, 3, 4, 5])
        z = np.array([1.0, 3.0, 2.0, 4.0])
        # Bounds: 0 for the nearest of all six; 2 * 9 - 4 * 3 = 6 and 2 * 16 - 6 * 4 = 8 for k = 2.
        assert scale(i, j, z, 6, 1) == pytest.approx(6**-0.25 * 8**-0.25)

    def test_twins_and_equal_distances(self):
        # Orthonormal rows are equally far from each other, but for rounding: all are joined alike.
        rows = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
        np.testing.assert_allclose(smooth_graph(rows, 10).toarray(), 1 - np.eye(30), rtol=1e-5)
        np.testing.assert_allclose(smooth_graph(np.ones((4, 3)), 3).toarray(), 1 - np.eye(4))
        twins = smooth_graph(np.repeat([[0.0], [1.0], [5.0]], 3, axis=0), 2).toarray()
        np.testing.assert_allclose(twins, np.kron(np.eye(3), 1 - np.eye(3)), rtol=1e-4)

    def test_many_nodes(self):
        rng = np.random.default_rng(5)
        groups = rng.integers(20, size=3000)
        models = rng.normal(size=(20, 15))[groups] + 0.1 * rng.normal(size=(3000, 15))
        W = smooth_graph(models @ rng.normal(size=(15, 40)), 6).tocoo()
        assert 6 / 1.25 < W.nnz / 3000 < 6 * 1.25
        assert W.data[groups[W.row] == groups[W.col]].sum() >= 0.95 * W.data.sum()

    def test_the_search_along_principal_directions_loses_nothing_of_few_dimensions(
        self, monkeypatch
    ):
        rng = np.random.default_rng(6)
        signals = rng.normal(size=(400, 10)) @ rng.normal(size=(10, 40))
        exact = smooth_graph(signals, 4)
        monkeypatch.setattr("fedrelax.learned.signals.EXACT", 100)
        np.testing.assert_allclose(smooth_graph(signals, 4).toarray(), exact.toarray(), atol=1e-4)

    def test_refusals(self):
        with pytest.raises(FedRelaxError, match="neighbours=0"):
            smooth_graph(np.eye(3), 0)
        with pytest.raises(FedRelaxError, match="at least 2 nodes"):
            smooth_graph(np.ones((1, 3)))
        with pytest.raises(FedRelaxError, match="finite"):
            smooth_graph([[0.0], [np.nan]])


class TestFromModels:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_weight_lies_within_clusters(self, seed):
        data = clusters(seed)
        models = {
            f"site {i}": LinearRegression().fit(X, y)
            for i, (X, y) in enumerate(zip(data.X, data.y, strict=True))
        }
        graph = graph_from_models(models, data.public[0], neighbours=5)
        assert graph.labels == tuple(models)
        assert share_within(graph, data.clusters) >= 0.95
        assert graph.adjacency.data.mean() == pytest.approx(1)
        assert graph == graph_from_models(models, data.public[0], neighbours=5)

    def test_answers_make_the_graph_whatever_the_model(self):
        data = clusters(sizes=(6, 6), m=40)
        kinds = [LinearRegression(), DecisionTreeRegressor(max_depth=5), LinearModel()]
        models = {i: kinds[i % 3].fit(data.X[i], data.y[i]) for i in range(3)}
        models |= {i: type(kinds[i % 3])().fit(data.X[i], data.y[i]) for i in range(3, len(data.X))}
        public = data.public[0]
        answers = np.array([model.predict(public) for model in models.values()])
        graph = graph_from_models(models, public, neighbours=3)
        assert graph == Graph(smooth_graph(answers, 3), list(models))

    def test_classification_with_classes_that_some_never_saw(self):
        data = clusters(sizes=(5, 5), m=60)
        models = {}
        for i, (X, y) in enumerate(zip(data.X, data.y, strict=True)):
            labels = np.digitize(y, [-1.0, 1.0])
            kept = labels < (2 if i % 2 else 3)  # Every other node has never seen class 2.
            models[i] = LogisticRegression().fit(X[kept], labels[kept])
        graph = graph_from_models(models, data.public[0], neighbours=3)
        aligned = np.zeros((10, 100, 3))
        for i, model in models.items():
            aligned[i, :, : len(model.classes_)] = model.predict_proba(data.public[0])
        assert graph == Graph(smooth_graph(aligned.reshape(10, -1), 3))
        assert share_within(graph, data.clusters) >= 0.95

    def test_classifiers_without_probabilities_answer_with_labels(self):
        data = clusters(sizes=(4, 4), m=40)
        names = [np.where(y > 0, "up", "down") for y in data.y]
        models = {
            i: Perceptron().fit(X, y) for i, (X, y) in enumerate(zip(data.X, names, strict=True))
        }
        graph = graph_from_models(models, data.public[0], neighbours=3)
        up = np.array([model.predict(data.public[0]) == "up" for model in models.values()])
        both = np.stack([~up, up], axis=2).reshape(8, -1)
        assert graph == Graph(smooth_graph(both.astype(float), 3))

    def test_a_trained_network_gives_a_graph_to_train_on(self):
        data = clusters(sizes=(5, 5))
        network = network_of(data, LinearRegression())
        result = FedRelax(alpha=0.0, rounds=1).solve(network)
        graph = graph_from_models(result.local_models, data.public[0], neighbours=3)
        assert graph == graph_from_models(result.models, data.public[0], neighbours=3)
        again = Network(graph, public=data.public[0])
        for node in network:
            again.add(node.label, node.X, node.y, node.model)

        def error(solved):
            answers = [model.predict(data.X_val[0])[:, 0] for model in solved.local_models.values()]
            return np.square(answers - data.true_weights @ data.X_val[0].T).mean()

        together = FedRelax(alpha=0.3, rounds=10).solve(again)
        assert error(together) < 0.8 * error(result)

    def test_refusals(self):
        X = np.random.default_rng(0).normal(size=(9, 2))
        one = LinearRegression().fit(X, X[:, 0])
        two = LinearRegression().fit(X, X)
        with pytest.raises(FedRelaxError, match=r"node 'b' predicts shape \(9, 2\)"):
            graph_from_models({"a": one, "b": two}, X)
        with pytest.raises(NodeFitError, match="node 'b': predict of LinearRegression failed"):
            graph_from_models({"a": one, "b": LinearRegression()}, X)
        lost = LinearRegression().fit(X, X[:, 0])
        lost.coef_ = lost.coef_ * np.nan
        with pytest.raises(FedRelaxError, match="node 'lost': the model predicts NaN"):
            graph_from_models({"a": one, "lost": lost}, X)
        for few in ({}, {"a": one}):
            with pytest.raises(FedRelaxError, match="at least 2 nodes"):
                graph_from_models(few, X)

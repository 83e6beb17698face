"""Every way of learning against a closed form, a slow loop, or what its formula implies."""

from itertools import islice

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from fedrelax.baselines import (
    IFCA,
    Alone,
    Ditto,
    FedAvg,
    FedMD,
    FedProx,
    NetworkLasso,
    Oracle,
    Pooled,
    PooledNode,
)
from fedrelax.baselines.descent import incidence
from fedrelax.baselines.objectives import LocalObjectives, objectives_of
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.network import Network

PARAMETRIC = [FedAvg(), FedProx(), Ditto(), IFCA(), NetworkLasso()]
ANY_MODEL = [
    Alone(),
    Pooled(),
    PooledNode(),
    FedMD(),
    Oracle(clusters={0: "a", 1: "a", 2: "b", 3: "b"}),
]


def small_network(model, *, kind="regression", seed=0, validation=False, rows=(8, 11, 9, 12)):
    """Two pairs of nodes with a truth each, features of very different units."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((2, 3))
    units = np.array([1.0, 100.0, 0.01])
    network = Network(
        Graph.complete(range(len(rows))), kind, public=rng.standard_normal((30, 3)) * units
    )
    for i, m in enumerate(rows):
        X = rng.standard_normal((m, 3))
        y = 5 + X @ truth[i // 2] + 0.1 * rng.standard_normal(m)
        if kind == "classification":
            y = np.where(y > 5, "high", "low")
        held = (X[:3] * units, y[:3]) if validation else None
        network.add(i, X * units, y, model, validation=held)
    return network


def all_rows(network):
    nodes = list(network)
    return np.concatenate([n.X for n in nodes]), np.concatenate([n.y for n in nodes])


def predictions(run, network):
    return np.concatenate([run.models[node.label].predict(node.X) for node in network])


def test_local_is_every_nodes_own_fit():
    network = small_network(Ridge(0.5))
    models = Alone().run(network).models
    for node in network:
        expected = Ridge(0.5).fit(node.X, node.y).predict(node.X)
        np.testing.assert_allclose(models[node.label].predict(node.X)[:, 0], expected)


def test_pooled_and_oracle_fit_the_rows_of_their_groups():
    network = small_network(LinearRegression())
    X, y = all_rows(network)
    expected = LinearRegression().fit(X, y).predict(X)
    np.testing.assert_allclose(predictions(Pooled().run(network), network)[:, 0], expected)
    models = Oracle(clusters={0: "a", 1: "a", 2: "b", 3: "b"}).run(network).models
    half = np.concatenate([network.nodes[k].X for k in (2, 3)])
    target = np.concatenate([network.nodes[k].y for k in (2, 3)])
    expected = LinearRegression().fit(half, target).predict(half)
    np.testing.assert_allclose(models[2].predict(half)[:, 0], expected)
    assert models[2] is models[3]


def test_an_oracle_that_does_not_know_a_node_says_so():
    with pytest.raises(FedRelaxError, match=r"cluster of nodes 2, 3 is not known"):
        Oracle(clusters={0: 0, 1: 0}).run(small_network(Ridge()))


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(2.0), LinearModel(ridge=0.3)])
def test_fedavg_converges_to_the_pooled_fit(model):
    """With one local step it is gradient descent on the pooled objective, penalty included."""
    network = small_network(model)
    found = predictions(FedAvg(rounds=20_000).run(network), network)
    pooled = predictions(Pooled().run(network), network)
    np.testing.assert_allclose(found, pooled, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(C=0.7),
        make_pipeline(StandardScaler(), LogisticRegression(C=0.7)),
        SoftmaxModel(ridge=0.2),
    ],
    ids=["logistic", "scaled logistic", "softmax"],
)
def test_fedavg_converges_to_the_pooled_classifier(model):
    network = small_network(model, kind="classification")
    found = predictions(FedAvg(rounds=10_000).run(network), network)
    pooled = predictions(Pooled().run(network), network)
    np.testing.assert_allclose(found, pooled, atol=1e-3)


def test_one_round_of_each_method_is_its_formula():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 6, 3)), rng.standard_normal((4, 6))
    F, rate, pull = LocalObjectives(X, y), 0.02, 0.3

    def gradient(i, w):
        return 2 * X[i].T @ (X[i] @ w - y[i]) / 6

    def first_two(way):
        W0, W1 = (W.copy() for W in islice(way.iterate(F, np.random.default_rng(1)), 2))
        return W0[:, :, 0], W1[:, :, 0]

    W0, W1 = first_two(FedAvg(rate=rate))
    np.testing.assert_allclose(
        W1[2], W0[0] - rate * np.mean([gradient(i, W0[0]) for i in range(4)], 0)
    )
    W0, W1 = first_two(FedProx(rate=rate, mu=pull, local_steps=3))
    ends = []
    for i in range(4):
        w = W0[i]
        for _ in range(3):
            w = w - rate / (1 + rate * pull) * (gradient(i, w) + pull * (w - W0[i]))
        ends.append(w)
    np.testing.assert_allclose(W1[0], np.mean(ends, 0))
    W0, W1 = first_two(Ditto(rate=rate, pull=pull))
    w = W0[0] - rate * np.mean([gradient(i, W0[0]) for i in range(4)], 0)
    for i in range(4):
        step = gradient(i, W0[i]) + pull * (W0[i] - w)
        np.testing.assert_allclose(W1[i], W0[i] - rate / (1 + rate * pull) * step)
    W0, W1 = first_two(IFCA(rate=rate, clusters=2))
    starts = np.random.default_rng(1).uniform(-(3**-0.5), 3**-0.5, (2, 3))
    losses = [[np.mean((X[i] @ w - y[i]) ** 2) for i in range(4)] for w in starts]
    choice = np.argmin(losses, axis=0)
    np.testing.assert_allclose(W0, starts[choice])
    moved = starts.copy()
    for k in set(choice.tolist()):
        slope = np.mean([gradient(i, starts[k]) for i in np.flatnonzero(choice == k)], 0)
        moved[k] = starts[k] - rate * slope
    losses = [[np.mean((X[i] @ w - y[i]) ** 2) for i in range(4)] for w in moved]
    np.testing.assert_allclose(W1, moved[np.argmin(losses, axis=0)])


def test_network_lasso_minimises_its_objective():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((4, 9, 2)), rng.standard_normal((4, 9))
    graph = Graph.from_edges([(0, 1, 2.0), (1, 2, 0.5), (2, 3, 1.0)])
    D, weights = incidence(graph.adjacency)
    F = LocalObjectives(X, y)

    def objective(W, smooth=0.0):
        gaps = D @ W.reshape(4, 2)
        return F.value(W.reshape(4, 2, 1)).sum() + 0.2 * weights @ np.sqrt(
            (gaps**2).sum(axis=1) + smooth
        )

    way = NetworkLasso(strength=0.2, adjacency=graph.adjacency)
    *_, W = islice(way.iterate(F, rng), 5000)
    start = np.zeros(8)
    for smooth in (1e-2, 1e-4, 1e-6, 1e-9):
        start = minimize(objective, start, args=(smooth,), method="BFGS").x
    assert objective(W) <= objective(start) + 1e-6
    assert objective(W) >= objective(start, 1e-9) - 1e-4


def test_a_strong_network_lasso_makes_one_model_of_a_component():
    network = small_network(LinearRegression())
    models = NetworkLasso(strength=1e3, rounds=4000).run(network).models
    pooled = [models[k].predict(network.nodes[0].X) for k in range(4)]
    for other in pooled[1:]:
        np.testing.assert_allclose(other, pooled[0], atol=1e-3)


def test_a_strong_pull_makes_ditto_the_average():
    network = small_network(LinearRegression(), rows=(10, 10, 10, 10))
    ditto = predictions(Ditto(pull=1e5, rounds=5000).run(network), network)
    common = predictions(FedAvg(rounds=5000).run(network), network)
    np.testing.assert_allclose(ditto, common, atol=1e-2)


def test_fedmd_learns_from_the_mean_of_all():
    """One round, weight w: the argmin of own mean loss and w times the distance to the consensus."""
    network = small_network(LinearRegression())
    public = network.public.common
    alone = [LinearRegression().fit(n.X, n.y).predict(public) for n in network]
    consensus = np.mean(alone, axis=0)
    run = FedMD(weight=2.0, rounds=1).run(network)
    for i, node in enumerate(network):
        # The consensus holds the node itself; that part pulls nowhere at the round's start, so the
        # others' mean has the weight (n-1)/n.
        others = (4 * consensus - alone[i]) / 3
        m = len(node.X)
        weight = np.r_[np.full(m, 1 / m), np.full(30, 2.0 * 3 / 4 / 30)]
        fit = LinearRegression().fit(np.r_[node.X, public], np.r_[node.y, others], weight)
        found = run.models[node.label].predict(node.X)[:, 0]
        np.testing.assert_allclose(found, fit.predict(node.X), rtol=1e-6)


@pytest.mark.parametrize("way", PARAMETRIC + ANY_MODEL, ids=lambda way: way.name)
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_every_way_runs_both_tasks_and_its_candidates(way, kind):
    model = LogisticRegression() if kind == "classification" else Ridge()
    network = small_network(model, kind=kind, validation=True)
    assert way.unsupported_reason(network) is None
    for candidate in way.candidates(network):
        run = candidate.run(network, seed=3)
        again = candidate.run(network, seed=3)
        assert list(run.models) == [0, 1, 2, 3]
        answer = predictions(run, network)
        assert np.isfinite(answer).all()
        np.testing.assert_array_equal(answer, predictions(again, network))
        if hasattr(candidate, "rounds"):
            assert 1 <= len(run.validation) <= candidate.rounds + 1


def test_the_validation_curve_is_the_loss_on_the_held_rows():
    network = small_network(Ridge(), validation=True)
    run = Ditto(rounds=40).run(network)
    errors = [
        np.square(run.models[n.label].predict(n.validation[0])[:, 0] - n.validation[1])
        for n in network
    ]
    assert run.validation[-1] == pytest.approx(np.concatenate(errors).mean())


@pytest.mark.parametrize("way", PARAMETRIC, ids=lambda way: way.name)
def test_parameters_of_trees_are_refused(way):
    network = small_network(DecisionTreeRegressor())
    assert "DecisionTreeRegressor" in way.unsupported_reason(network)
    with pytest.raises(FedRelaxError, match=r"exchanges parameters: node 0: DecisionTreeRegr"):
        way.run(network)


@pytest.mark.parametrize("way", ANY_MODEL, ids=lambda way: way.name)
def test_ways_for_any_model_take_unlike_models(way):
    network = small_network(Ridge())
    mixed = Network(network.graph, public=network.public.common)
    models = [Ridge(), DecisionTreeRegressor(max_depth=2), LinearRegression(), Ridge()]
    for node, model in zip(network, models, strict=True):
        mixed.add(node.label, node.X, node.y, model)
    assert way.unsupported_reason(mixed) is None
    assert np.isfinite(predictions(way.run(mixed), mixed)).all()


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_gradients_are_the_slopes_of_the_values(kind):
    model = SoftmaxModel(ridge=0.4) if kind == "classification" else Ridge(0.4)
    F = objectives_of(small_network(model, kind=kind)).own
    rng = np.random.default_rng(0)
    W, direction = rng.standard_normal((2, F.n, F.d, F.q))
    for objectives in (F, F.shared()):
        slope = (objectives.gradient(W) * direction).sum(axis=(1, 2))
        rise = objectives.value(W + 1e-5 * direction) - objectives.value(W - 1e-5 * direction)
        np.testing.assert_allclose(rise / 2e-5, slope, rtol=1e-5, atol=1e-7)
        curve = objectives._slopes(W + direction) - objectives._slopes(W)
        size = np.linalg.norm(direction, axis=(1, 2))
        assert (np.linalg.norm(curve, axis=(1, 2)) <= 1.1 * objectives.curvature * size).all()


def net_network(module, *, kind="classification", validation=False, **settings):
    """Three nodes with images of 4 x 4 pixels, of which the upper half tells the class."""
    torch = pytest.importorskip("torch", reason="nets need PyTorch")
    from fedrelax import TorchModel

    rng = np.random.default_rng(0)
    network = Network(Graph.complete(list("abc")), kind, public=rng.random((5, 1, 4, 4)))
    model = TorchModel(module(torch.nn), **settings)
    for label, rows in zip("abc", (6, 9, 12), strict=True):
        X = rng.random((rows, 1, 4, 4))
        y = X[:, 0, :2].mean((1, 2)) - X[:, 0, 2:].mean((1, 2))
        y = np.where(y > 0, "up", "down") if kind == "classification" else y
        network.add(label, X, y, model, validation=(X[:3], y[:3]) if validation else None)
    return network


def plain_net(nn):
    return lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2))


def net_with_statistics(nn):
    def make():
        layers = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten()
        return nn.Sequential(*layers, nn.Linear(8, 2))

    return make


@pytest.mark.parametrize("batched", [True, False])
def test_average_of_nets_with_one_plain_step_is_descent_on_all_rows(batched):
    """One step of every node from one net, averaged by rows, is one step on all rows."""
    network = net_network(plain_net, optimizer="sgd", steps=1, dtype="float64", batched=batched)
    import torch

    X, y = all_rows(network)
    run = FedAvg(rounds=7, rate=0.3).run(network, seed=4)
    start = FedAvg(rounds=0).run(network, seed=4).models["a"].estimator.module_
    target = torch.as_tensor(network.task.encode(y))
    optimizer = torch.optim.SGD(start.parameters(), lr=0.3)
    for _ in range(7):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(start(torch.as_tensor(X)), target).backward()
        optimizer.step()
    expected = start(torch.as_tensor(X)).softmax(1).detach().numpy()
    np.testing.assert_allclose(predictions(run, network), expected, atol=1e-10)


@pytest.mark.parametrize("module", [plain_net, net_with_statistics])
def test_average_of_nets_learns_and_reports_its_rounds(module):
    network = net_network(module, validation=True, lr=0.03, steps=5)
    ways = FedAvg(rounds=12).candidates(network)
    assert [way.rate for way in ways] == pytest.approx([0.03, 0.009, 0.09])
    run = ways[0].run(network)
    assert run.validation.shape == (13,)
    assert run.validation[-1] < 0.8 * run.validation[0]
    answers = [run.models[label].predict(network.nodes["a"].X) for label in "abc"]
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_patience_ends_only_runs_that_are_measured():
    """So large a rate gets worse at once; without validation rows all rounds are run."""
    measured = net_network(plain_net, validation=True, optimizer="sgd", steps=3)
    curve = FedAvg(rounds=40, rate=30.0, patience=4).run(measured).validation
    assert len(curve) == np.argmin(curve) + 5 < 41
    blind = net_network(plain_net, steps=1)
    settled, longer = (FedAvg(rounds=n, patience=4).run(blind) for n in (6, 12))
    assert np.abs(predictions(settled, blind) - predictions(longer, blind)).max() > 1e-3


def test_average_of_nets_wants_one_net():
    network = net_network(plain_net)
    other = net_network(plain_net, lr=0.5)
    mixed = Network(network.graph, network.kind, public=network.public.common)
    for label in "abc":
        node = (other if label == "b" else network).nodes[label]
        mixed.add(label, node.X, node.y, node.model)
    with pytest.raises(FedRelaxError, match="node 'b': its model differs from that of node 'a'"):
        FedAvg().run(mixed)
    assert "node 'b'" in FedAvg().unsupported_reason(mixed)
    assert "shape" in FedProx().unsupported_reason(network)

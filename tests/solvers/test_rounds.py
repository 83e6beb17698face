"""Rounds: what is recorded, when they stop, who may listen, and that workers change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeRegressor

from fedrelax import Callback, Distillation, FedRelax, FedRelaxError, Network, StopOnLocalLoss
from fedrelax.runtime import LocalExchange, Message
from fedrelax.wiring import Rewire
from tests.conftest import random_graph, regression_network


def validated_network(model, seed=0, n=5):
    rng = np.random.default_rng(seed)
    network = Network(random_graph(rng, n), public=rng.normal(size=(20, 2)))
    for i in range(n):
        X, V = rng.normal(size=(6, 2)), rng.normal(size=(30, 2))
        noise = rng.normal(size=6)
        network.add(i, X, X[:, 0] + noise, model, validation=(V, V[:, 0]))
    return network


def test_history_holds_the_definitions():
    """Local loss, GTV and objective, recomputed from the models with plain loops."""
    network = regression_network(np.random.default_rng(0), Ridge(), common=False)
    for objective, factor in (("paper", 0.5), ("gtvmin", 1.0)):
        result = FedRelax(engine="sites", alpha=0.3, rounds=4, tol=0, objective=objective).solve(
            network
        )
        last = result.history.records[-1]
        models, A = result.models, result.graph.adjacency.toarray()
        local = [np.mean((models[n.label].predict(n.X) - n.y) ** 2) for n in network]
        gtv = 0.0
        for i in models:
            for j in models:
                rows = network.public.of(j)
                d = np.mean((models[i].predict(rows) - models[j].predict(rows)) ** 2)
                gtv += A[i, j] * d
                if A[i, j]:
                    assert result.discrepancies[i, j] == pytest.approx(d)
        assert last.local_loss == pytest.approx(np.mean(local))
        assert last.node_local_loss == pytest.approx(local)
        assert last.gtv == pytest.approx(gtv)
        assert last.node_gtv.sum() == pytest.approx(gtv)
        assert last.objective == pytest.approx(np.sum(local) + factor * 0.3 * gtv)
    frame = result.history.nodes_to_frame()
    assert len(frame) == 5 * len(network)
    assert len(result.edges_to_frame()) == result.graph.n_edges


def test_stops_after_the_rounds_asked_for():
    result = FedRelax(engine="sites", rounds=3, tol=0).solve(validated_network(Ridge()))
    assert (result.n_rounds, len(result.history), result.reason) == (3, 4, "all rounds done")


def test_stops_when_predictions_rest():
    result = FedRelax(engine="sites", rounds=1000, tol=1e-6).solve(validated_network(Ridge()))
    assert result.reason == "predictions converged"
    assert result.history["change"][-1] <= 1e-6 < result.history["change"][-2]


def test_patience_brings_back_the_best_round():
    network = validated_network(DecisionTreeRegressor(max_depth=2), seed=3)
    result = FedRelax(engine="sites", alpha=3.0, rounds=40, tol=0, patience=2).solve(network)
    curve = result.history["validation_loss"]
    assert result.n_rounds == int(np.argmin(curve))
    errors = [
        np.mean((result.models[node.label].predict(node.validation[0]) - node.validation[1]) ** 2)
        for node in network
    ]
    assert np.mean(errors) == pytest.approx(curve.min())


class Listener(Callback):
    def __init__(self, stop_at=None):
        self.heard, self.stop_at = [], stop_at

    def begin(self, rounds, n_nodes):
        self.heard.append(("begin", rounds, n_nodes))

    def after_round(self, record):
        self.heard.append(("round", record.round))
        return record.round == self.stop_at

    def end(self, outcome):
        self.heard.append(("end", outcome.reason))


def test_callbacks_hear_three_things_and_may_stop():
    listener = Listener(stop_at=2)
    FedRelax(engine="sites", rounds=9, tol=0).solve(validated_network(Ridge()), [listener])
    assert listener.heard == [
        ("begin", 9, 5),
        ("round", 0),
        ("round", 1),
        ("round", 2),
        ("end", "stopped by a callback"),
    ]


def test_a_run_may_end_when_the_local_loss_rests():
    network = validated_network(Ridge())
    solver = FedRelax(engine="sites", alpha=0.5, rounds=60, tol=0)
    whole = solver.solve(network).history["local_loss"]
    result = solver.solve(network, [StopOnLocalLoss(tol=1e-2, rounds=2)])
    moved = np.abs(np.diff(whole)) <= 1e-2 * np.abs(whole[1:])
    expected = next(k for k in range(2, len(whole)) if moved[k - 2 : k].all())
    assert result.reason == "local loss converged"
    assert result.n_rounds == expected < 60
    with pytest.raises(FedRelaxError, match="rounds=0 at least 1"):
        StopOnLocalLoss(rounds=0)


class Onlooker(Callback):
    def __init__(self):
        self.seen = []

    def wired(self, labels, edges):
        self.seen.append((labels, edges.toarray()))


@pytest.mark.parametrize("engine", ["sites", "linear"])
def test_callbacks_hear_of_the_first_graph_and_of_every_change(engine):
    network = validated_network(Ridge())
    still, moving = Onlooker(), Onlooker()
    FedRelax(engine=engine, rounds=3, tol=0).solve(network, [still])
    settings = FedRelax(engine="sites", rounds=12, tol=0, wiring=Rewire())
    result = replace(settings, engine=engine).solve(network, [moving])
    given = network.graph.adjacency.toarray()
    assert len(still.seen) == 1 and len(moving.seen) == 1 + Rewire().stages
    for labels, first in (still.seen[0], moving.seen[0]):
        assert labels == network.graph.labels
        assert np.array_equal(first, given)
    assert np.array_equal(moving.seen[-1][1], result.kept.adjacency.toarray())


def mixed(i):
    kinds = [
        Ridge(),
        DecisionTreeRegressor(),
        KNeighborsRegressor(2),
        MLPRegressor(hidden_layer_sizes=(5,), max_iter=30),
    ]
    return kinds[i % 4]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [mixed, DecisionTreeRegressor()], ids=["processes", "threads"])
def test_the_number_of_workers_changes_nothing(model):
    answers = []
    for jobs in (1, 2, 3):
        network = regression_network(np.random.default_rng(0), model, n=6)
        settings = {"distillation": Distillation(10), "rounds": 3, "tol": 0, "random_state": 5}
        result = FedRelax(engine="sites", alpha=0.3, n_jobs=jobs, **settings).solve(network)
        grid = np.random.default_rng(1).normal(size=(40, 3))
        answers.append(np.array([m.predict(grid) for m in result.local_models.values()]))
        answers.append(result.history["node_gtv"])
    for again in answers[2:]:
        assert any(np.array_equal(again, first) for first in answers[:2])


def test_same_seed_same_result_other_seed_other_result():
    def grow(seed):
        network = regression_network(
            np.random.default_rng(0), DecisionTreeRegressor(max_features=1)
        )
        result = FedRelax(engine="sites", alpha=0.3, rounds=2, random_state=seed).solve(network)
        return result.history["gtv"]

    assert np.array_equal(grow(1), grow(1))
    assert not np.array_equal(grow(1), grow(2))


def test_weighting_by_rows_is_the_papers_tree_weighting():
    """Weight 1 for own rows, alpha A_ij for pseudo-rows: a weighted mean by hand."""
    from sklearn.dummy import DummyRegressor

    network = regression_network(np.random.default_rng(0), DummyRegressor(), n=3, common=False)
    result = FedRelax(engine="sites", alpha=0.7, rounds=1, tol=0, weighting="rows").solve(network)
    means = {node.label: node.y.mean() for node in network}
    for node in network:
        total, weight = node.y.sum(), float(len(node.y))
        for j, a in result.graph.neighbours(node.label).items():
            rows = len(network.public.of(j))
            total, weight = total + 0.7 * a * rows * means[j], weight + 0.7 * a * rows
        found = result.models[node.label].predict(np.zeros((1, 3)))[0]
        assert found == pytest.approx(total / weight)


def test_zeros_first_trains_against_zero_predictions():
    from sklearn.dummy import DummyRegressor

    network = regression_network(np.random.default_rng(0), DummyRegressor(), n=3)
    result = FedRelax(engine="sites", alpha=1.0, rounds=1, tol=0, first_exchange="zeros").solve(
        network
    )
    for node in network:
        degree = sum(result.graph.neighbours(node.label).values())
        found = result.models[node.label].predict(np.zeros((1, 3)))[0]
        assert found == pytest.approx(node.y.mean() / (1 + degree))


def test_distillation_keeps_a_forgetful_model_near_its_past():
    """With many rows of its own echo, a tree moves less in one round."""
    moved = {}
    for rows in (1, 400):
        network = regression_network(np.random.default_rng(0), DecisionTreeRegressor(max_depth=3))
        solver = FedRelax(
            engine="sites", alpha=1.0, rounds=1, tol=0, distillation=Distillation(rows)
        )
        moved[rows] = solver.solve(network).history["change"][-1]
    assert moved[400] < 0.7 * moved[1]


def test_a_lost_message_leaves_the_last_one():
    """An exchange that drops everything after round 0 freezes what nodes hear."""

    class Lossy(LocalExchange):
        def post(self, messages):
            super().post(m for m in messages if m.round == 0)

    from fedrelax.engines.sites import engine as module

    network = regression_network(np.random.default_rng(0), Ridge())
    whole = FedRelax(alpha=0.5, rounds=6, tol=0, engine="sites").solve(network)
    one = FedRelax(alpha=0.5, rounds=1, tol=0, engine="sites").solve(network)
    original = module.LocalExchange
    module.LocalExchange = Lossy
    try:
        lossy = FedRelax(alpha=0.5, rounds=6, tol=0, engine="sites").solve(network)
    finally:
        module.LocalExchange = original
    same = [np.allclose(lossy.models[i].coef_, one.models[i].coef_) for i in one.models]
    assert all(same)
    assert not np.allclose(lossy.models[0].coef_, whole.models[0].coef_)


def test_only_predictions_travel():
    """Nothing but ``Message`` objects pass the exchange, and they hold no row, label or model."""
    seen: list[Message] = []

    class Watched(LocalExchange):
        def post(self, messages):
            kept = list(messages)
            seen.extend(kept)
            super().post(kept)

    from fedrelax.engines.sites import engine as module

    network = regression_network(np.random.default_rng(0), Ridge())
    original = module.LocalExchange
    module.LocalExchange = Watched
    try:
        FedRelax(alpha=0.5, rounds=2, tol=0, engine="sites").solve(network)
    finally:
        module.LocalExchange = original
    assert len(seen) == 3 * len(network)
    assert {type(message) for message in seen} == {Message}
    assert all(message.predictions.shape == (12, 1) for message in seen)

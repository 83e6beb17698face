"""Boosted differences: when the default adds them, and what nodes get."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrelax import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.errors import FedRelaxError
from fedrelax.models.additive import (
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTrees,
    newton_step,
)
from fedrelax.pooling.boosting import NUMBERS, ROUNDS
from fedrelax.pooling.search import PoolingSearch
from fedrelax.public import BOOSTING_ROWS
from fedrelax.report.data.sharing import sharing_of
from fedrelax.selection.search import TRIES
from fedrelax.storage import read_result, save_result
from fedrelax.storage.formats import pack, unpack
from fedrelax.storage.insides import check_insides

NODES = 4


def table(seed, rows=60, bent=True, classes=False, test=300):
    """Nodes with lines of their own, and a step in common that no line can follow."""
    rng = np.random.default_rng(seed)
    W = np.array([1.0, -1.0, 0.5]) + 0.3 * rng.normal(size=(NODES, 3))

    def draw(rows):
        g = np.repeat(np.arange(NODES), rows)
        X = rng.normal(size=(len(g), 3))
        y = np.einsum("rd,rd->r", X, W[g]) + 0.3 * rng.normal(size=len(g))
        y += 3.0 * np.sign(X[:, 0]) * np.sign(X[:, 1]) * bent
        return X, (y > 0).astype(int) if classes else y, g

    return draw(rows), draw(test)


def rmse(model, T, t, h):
    return float(np.sqrt(np.mean(np.square(model.predict(T, nodes=h) - t))))


@pytest.fixture(scope="module")
def network():
    X, y, g = table(0)[0]
    return FedRelaxRegressor(minutes=5).fit(X, y, nodes=g)


@pytest.fixture(scope="module")
def classifiers():
    X, y, g = table(0, rows=80, classes=True)[0]
    return FedRelaxClassifier(minutes=5).fit(X, y, nodes=g)


def test_a_common_step_is_learned_together_and_better_than_alone(network):
    (X, y, g), (T, t, h) = table(0)
    linear = FedRelaxRegressor(quick=True).fit(X, y, nodes=g)
    assert "boosted differences" in network.choice_.reason
    assert rmse(network, T, t, h) < 0.6 * rmse(linear, T, t, h)
    alone, _ = network.default_.references(network.network_of(X, y, _rows(g), {}))
    left = np.concatenate([model.predict(T[h == i]) - t[h == i] for i, model in enumerate(alone)])
    assert rmse(network, T, t, h) < 0.9 * np.sqrt(np.mean(left**2))


def _rows(g):
    return {int(i): np.flatnonzero(g == i) for i in np.unique(g)}


@pytest.mark.parametrize("classes", [False, True])
def test_lines_stay_lines(classes):
    (X, y, g), _ = table(1, bent=False, classes=classes)
    model = (FedRelaxClassifier if classes else FedRelaxRegressor)(minutes=5).fit(X, y, nodes=g)
    assert "boost" not in model.choice_.reason
    assert not isinstance(model.models_[0], AdditiveRegressor | AdditiveClassifier)


@pytest.mark.slow
def test_what_nodes_are_too_small_to_see_is_better_pooled_and_said_to_be():
    rng = np.random.default_rng(0)
    parts, x = rng.integers(0, 2, size=(480, 3)), rng.uniform(-3.0, 3.0, size=(480, 2))
    bend = 4.0 * np.sin(2.0 * x[:, 0]) * np.sign(x[:, 1])
    y = bend + 2.0 * (parts.sum(axis=1) % 2) + 0.3 * rng.normal(size=480)
    model = FedRelaxRegressor(minutes=5).fit(
        np.column_stack([x, parts]), y, nodes=np.repeat(np.arange(8), 60)
    )
    assert "boosted differences" in model.choice_.reason
    assert "A boosted model of all rows in one place" in model.choice_.better


def test_classes_learn_a_common_step_too(classifiers):
    (X, y, g), (T, t, h) = table(0, rows=80, classes=True)
    linear = FedRelaxClassifier(quick=True).fit(X, y, nodes=g)
    assert "boosted differences" in classifiers.choice_.reason
    wrong = [np.mean(model.predict(T, nodes=h) != t) for model in (classifiers, linear)]
    assert wrong[0] < 0.6 * wrong[1]


def test_without_answers_on_public_rows_nothing_common_is_learned(network, monkeypatch):
    (X, y, g), (T, t, h) = table(0)

    class Silent(HistGradientBoostingRegressor):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, np.zeros(len(X)))

    monkeypatch.setattr("fedrelax.pooling.boosting.distiller", lambda first: Silent(max_iter=2))
    silent = FedRelaxRegressor(minutes=5).fit(X, y, nodes=g)
    assert rmse(silent, T, t, h) > 1.1 * rmse(network, T, t, h)


@pytest.mark.slow
def test_of_many_nodes_a_sample_chooses_and_all_are_boosted():
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(24), 30)
    X = rng.normal(size=(len(g), 2))
    y = 3.0 * np.sign(X[:, 0]) * np.sign(X[:, 1]) + 0.3 * rng.normal(size=len(g))
    model = FedRelaxRegressor(minutes=5).fit(X, y, nodes=g)
    assert "boosted differences" in model.choice_.reason
    assert all(isinstance(one, AdditiveRegressor) for one in model.models_.values())


def test_few_rows_are_left_to_lines():
    (X, y, g), _ = table(0, rows=20)
    assert "boost" not in FedRelaxRegressor(minutes=5).fit(X, y, nodes=g).choice_.reason


@pytest.mark.slow
def test_the_same_seed_gives_the_same_models_and_they_can_be_saved(network):
    (X, y, g), (T, _, h) = table(0)
    other = FedRelaxRegressor(minutes=5).fit(X, y, nodes=g)
    assert np.array_equal(network.predict(T, nodes=h), other.predict(T, nodes=h))
    model = network.models_[0]
    assert isinstance(model, AdditiveRegressor)
    assert np.array_equal(unpack(0, pack(0, model)).predict(T), model.predict(T))


@pytest.mark.slow
def test_rounds_and_what_left_each_node_are_those_of_boosting(tmp_path, monkeypatch):
    X, y, g = table(0)[0]
    linear, messages = [], PoolingSearch.messages

    def counted(search, replies):
        made = messages(search, replies)
        linear.extend(answers[0].size + search.design.told for answers, _ in made.values())
        return made

    monkeypatch.setattr(PoolingSearch, "messages", counted)
    network = FedRelaxRegressor(minutes=5, wiring="fixed").fit(X, y, nodes=g)
    save_result(tmp_path / "result", network)
    saved = read_result(tmp_path / "result")
    rounds = network.default_.boosting.rounds
    assert rounds > 0 and saved.about["rounds"] == network.n_rounds_ == rounds
    sharing = sharing_of(saved)
    chains = (TRIES + 1) * sum(ROUNDS.values()) * BOOSTING_ROWS + TRIES * NUMBERS
    assert sharing.public_rows == BOOSTING_ROWS and sharing.only_pooled
    assert sharing.pooled - chains == sum(linear) > 0


def test_classifiers_can_be_saved(classifiers):
    T, model = table(0)[1][0], classifiers.models_[0]
    assert isinstance(model, AdditiveClassifier)
    assert np.array_equal(unpack(0, pack(0, model)).predict_proba(T), model.predict_proba(T))


def test_rare_events_are_not_ruled_out_by_a_node_that_has_seen_none():
    rng = np.random.default_rng(1)
    g, h = np.repeat(np.arange(4), 60), np.repeat(np.arange(4), 500)
    X, T = rng.normal(size=(len(g), 2)), rng.normal(size=(len(h), 2))
    y, t = (rng.random(len(g)) < 0.03).astype(int), (rng.random(len(h)) < 0.03).astype(int)
    y[g == 3] = 0
    found = FedRelaxClassifier(minutes=5).fit(X, y, nodes=g).predict_proba(T, nodes=h)
    linear = FedRelaxClassifier(quick=True).fit(X, y, nodes=g).predict_proba(T, nodes=h)
    assert found.min() > 0.0
    losses = [-np.log(p[np.arange(len(t)), t]).mean() for p in (found, linear)]
    assert losses[0] <= 1.05 * losses[1]


def test_a_row_far_outside_does_not_carry_the_line_away(network):
    (_, y, _), _ = table(0)
    model = network.models_[0]
    low, high = model.limits_
    assert low < y.min() and high > y.max()
    far = model.predict(np.array([[1e6, 0.0, 0.0]]))
    assert abs(far[0]) < 3 * np.ptp(y)


def test_trees_in_one_array_predict_as_scikit_learn_does():
    X, y, _ = table(0)[0]
    parts = [HistGradientBoostingRegressor(max_iter=20, random_state=k).fit(X, y) for k in (0, 1)]
    packed = BoostedTrees.of(parts)
    assert np.allclose(
        packed.predict(X), sum(part.predict(X) for part in parts), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("damage", ["ends_", "left", "feature_idx", "value"])
def test_damaged_trees_are_refused(damage):
    X, y, _ = table(0)[0]
    packed = BoostedTrees.of([HistGradientBoostingRegressor(max_iter=5).fit(X, y)])
    if damage == "ends_":
        packed.ends_ = packed.ends_ + 1
    else:
        packed.nodes_[damage][0] = 10**6 if damage != "value" else np.nan
    with pytest.raises(FedRelaxError):
        check_insides(packed)


def test_newtons_step_is_the_residual_of_numbers_and_that_of_the_log_loss_for_classes():
    target, scores = np.array([[1.0], [2.0]]), np.array([[0.5], [2.5]])
    aims, weights = newton_step(target, scores, classes=False)
    assert aims.ravel().tolist() == [0.5, -0.5] and weights.ravel().tolist() == [1.0, 1.0]
    aims, weights = newton_step(np.array([[0.0, 1.0]]), np.zeros((1, 1)), classes=True)
    assert (aims[0, 0], weights[0, 0]) == (2.0, 0.25)  # (1 - 1/2) / (1/4), and 1/4


@parametrize_with_checks(
    [
        AdditiveRegressor((Ridge(), DecisionTreeRegressor(max_depth=2))),
        BoostedTrees(),
        AdditiveClassifier(LogisticRegression(), DecisionTreeRegressor(max_depth=2)),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)

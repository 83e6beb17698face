"""Forests and boosting, for single nodes and for the whole network."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from fedrelax import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.engines.whole.found import find
from fedrelax.models import Task, adapt
from fedrelax.selection import fold_rows
from fedrelax.selection.kinds import (
    _OneNode,
    choose_kinds,
    forest_network,
    nodes_to_try,
)
from fedrelax.splits import group_rows
from fedrelax.storage.formats import pack, unpack

COUNTS = np.array([200, 60, 45, 20, 20, 20])


def table(seed, counts=COUNTS, steps=(), noise=0.5, classes=False):
    """Linear nodes alike; at the nodes ``steps`` the target jumps where two columns change sign."""
    rng = np.random.default_rng(seed)
    W = np.array([1.0, -1.0, 0.5]) + 0.3 * rng.normal(size=(len(counts), 3))

    def draw(counts):
        g = np.repeat(np.arange(len(counts)), counts)
        X = rng.normal(size=(len(g), 3))
        jump = 3.0 * np.sign(X[:, 0]) * np.sign(X[:, 1])
        y = np.where(np.isin(g, steps), jump, np.einsum("rd,rd->r", X, W[g]))
        y += noise * rng.normal(size=len(g))
        return X, (y > 0).astype(int) if classes else y, g

    return draw(counts), draw(np.full(len(counts), 400))


def prepared(X, y, g, classes=False):
    """Return fold networks, masks of rows left out, linear models on the folds, and the network."""
    model = (FedRelaxClassifier if classes else FedRelaxRegressor)("auto", alpha="auto")
    rows = group_rows(g, len(g))
    parts = fold_rows(rows, 5, np.random.default_rng(3))
    folds = [model.network_of(X, y, *part) for part in parts]
    held = [np.isin(np.arange(len(y)), np.concatenate(list(out.values()))) for _, out in parts]
    return folds, held, [find(fold).together for fold in folds], model.network_of(X, y, rows, {})


def kinds(X, y, g, classes=False, **more):
    _, held, models, network = prepared(X, y, g, classes)
    together = find(network).together
    n = len(together)
    public = network.public.common
    found = choose_kinds(X, y, g, n, network.task, held, models, together, public, **more)
    return found, together


def error(model, T, t):
    return float(np.sqrt(np.mean(np.square(model.predict(T) - t))))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_node_with_steps_changes_and_its_error_falls_to_less_than_half(seed):
    (X, y, g), (T, t, h) = table(seed, steps=[0])
    found, together = kinds(X, y, g)
    assert list(found) == [0]
    choice, own = found[0], h == 0
    assert choice.name in ("forest", "boosting")
    assert error(choice.model, T[own], t[own]) < 0.5 * error(together[0], T[own], t[own])
    assert "120 held-out rows" in choice.reason


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_linear_node_changes(seed):
    (X, y, g), _ = table(seed)
    found, _ = kinds(X, y, g)
    assert found == {}


def test_a_node_of_fewer_than_forty_rows_stays_even_if_another_kind_were_better(monkeypatch):
    (X, y, g), _ = table(1, counts=np.array([39, 60, 60]), steps=[0], noise=0.01)
    assert kinds(X, y, g)[0] == {}
    monkeypatch.setattr("fedrelax.selection.kinds.LEAST_ROWS", 39)
    assert list(kinds(X, y, g)[0]) == [0]


def test_classes_change_too_and_the_model_is_a_plain_classifier():
    (X, y, g), (T, t, h) = table(0, steps=[0], classes=True)
    found, together = kinds(X, y, g, classes=True)
    assert list(found) == [0]
    own = h == 0
    wrong = [np.mean(model.predict(T[own]) != t[own]) for model in (found[0].model, together[0])]
    assert wrong[0] < 0.5 * wrong[1]
    forest = _OneNode(X[g == 0], y[g == 0], Task("classification", 2, np.arange(2)), T[:0], 0)
    model = forest.fit("forest", np.ones(COUNTS[0], bool), None).estimator
    assert model.predict_proba(T).min() > 0.0
    again = unpack(0, pack(0, model))
    assert np.array_equal(again.predict_proba(T), model.predict_proba(T))


def test_rare_events_are_not_ruled_out_by_a_node_that_has_seen_none():
    rng = np.random.default_rng(1)
    g, h = np.repeat(np.arange(4), 60), np.repeat(np.arange(4), 500)
    X, T = rng.normal(size=(len(g), 2)), rng.normal(size=(len(h), 2))
    y, t = (rng.random(len(g)) < 0.03).astype(int), (rng.random(len(h)) < 0.03).astype(int)
    y[g == 3] = 0
    found = FedRelaxClassifier().fit(X, y, nodes=g).predict_proba(T, nodes=h)
    linear = FedRelaxClassifier(quick=True).fit(X, y, nodes=g).predict_proba(T, nodes=h)
    assert found.min() > 0.0
    losses = [-np.log(p[np.arange(len(t)), t]).mean() for p in (found, linear)]
    assert losses[0] <= 1.05 * losses[1]


def test_the_same_seed_gives_the_same_model_and_progress_is_told():
    (X, y, g), (T, _, _) = table(0, counts=COUNTS[[0, 1]], steps=[0])
    told = []
    one, _ = kinds(X, y, g, tell=lambda done, total: told.append((done, total)))
    other, _ = kinds(X, y, g)
    assert told == [(1, 2), (2, 2)]
    assert np.array_equal(one[0].model.predict(T), other[0].model.predict(T))


def test_public_rows_with_the_networks_answers_reach_the_model():
    """With labels far off, what is fitted on them as well predicts something else."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(50, 2)), Task("regression", 1)
    one = _OneNode(X, np.zeros(50), task, rng.normal(size=(80, 2)), 0)
    far = adapt(DummyRegressor(strategy="constant", constant=1.0).fit(X, X[:, 0]), task)
    for name in ("forest", "boosting"):
        alone, taught = (one.fit(name, np.ones(50, bool), model) for model in (None, far))
        assert np.allclose(alone.predict(X), 0.0)
        # Own rows count 1 together and the public ones 0.3: between them, and nearer to the own.
        assert 0.0 < taught.predict(rng.normal(size=(500, 2))).mean() < 0.7


def test_nodes_with_most_rows_come_first_and_time_is_limited():
    node = np.repeat(np.arange(4), [50, 10, 90, 70])
    assert nodes_to_try(node, 4, 3) == [2, 3, 0]
    assert nodes_to_try(node, 4, 3, seconds=0.6) == [2]
    assert nodes_to_try(node, 4, 3, seconds=0.0) == []


def linear_losses(X, y, g, held, models):
    """Return the mean squared error on the rows left out at each node, one line per fold."""
    return [
        np.array(
            [
                np.square(model.predict(X[out & (g == i)]) - y[out & (g == i)]).mean()
                for i, model in enumerate(fitted)
            ]
        )
        for out, fitted in zip(held, models, strict=True)
    ]


@pytest.mark.parametrize("steps", [True, False])
def test_forests_at_all_nodes_are_chosen_for_steps_and_not_for_lines(steps):
    (X, y, g), _ = table(0, counts=np.full(5, 40), steps=range(5) if steps else ())
    folds, held, models, _ = prepared(X, y, g)
    told = []
    found = forest_network(
        folds,
        linear_losses(X, y, g, held, models),
        tell=lambda done, total: told.append((done, total)),
    )
    assert (found.alpha is not None) == steps
    assert told[-1] == ((4, 4) if steps else (2, 4))
    if steps:
        assert "lowered the mean loss" in found.reason
        assert found.alpha == min(found.losses, key=lambda a: found.losses[a].mean())
        assert found.settings.alpha == found.alpha


def test_forests_do_the_same_without_compiled_trees(monkeypatch):
    (X, y, g), _ = table(0, counts=np.full(3, 40), steps=range(3))
    folds, held, models, _ = prepared(X, y, g)
    linear = linear_losses(X, y, g, held, models)
    one = forest_network(folds, linear)
    monkeypatch.setattr("fedrelax.models.trees.node.has_numba", lambda: False)
    other = forest_network(folds, linear)
    assert one.alpha == other.alpha and one.losses.keys() == other.losses.keys()
    for alpha in one.losses:
        assert one.losses[alpha] == pytest.approx(other.losses[alpha])


def test_forests_are_not_tried_with_few_rows_or_little_time():
    (X, y, g), _ = table(0, counts=np.full(4, 20))
    folds, *_ = prepared(X, y, g)
    assert "20 rows on average" in forest_network(folds, []).reason
    (X, y, g), _ = table(0, counts=np.full(4, 40))
    folds, *_ = prepared(X, y, g)
    found = forest_network(folds, [], seconds=0.1)
    assert found.alpha is None and found.losses == {} and "on one core" in found.reason

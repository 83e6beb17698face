"""Whether a usual way on pooled rows would be better than the network."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from fedrelax import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.models import Task
from fedrelax.selection import beside
from fedrelax.selection.beside import PENALTIES, compare_beside
from fedrelax.splits import deal, group_rows

NUMBERS = Task("regression", 1)
CLASSES = Task("classification", 2, np.array(["no", "yes"]))


def table(seed, bent, n=20, rows=15):
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(n), rows)
    X = rng.normal(size=(len(node), 3))
    W = np.array([1.0, -1.0, 0.5]) + 0.5 * rng.normal(size=(n, 3))
    y = rng.normal(size=n)[node]
    y += 2.0 * np.sign(X[:, 0] * X[:, 1]) if bent else np.einsum("rd,rd->r", X, W[node])
    return X, y + 0.5 * rng.normal(size=len(node)), node


def masks(node):
    parts = deal(group_rows(node, len(node)), 5, np.random.default_rng(0))[:2]
    return [np.isin(np.arange(len(node)), np.concatenate(list(out.values()))) for _, out in parts]


def network_losses(X, y, node, held, Estimator=FedRelaxRegressor):
    """Return the losses of rows left out under models found without them."""
    losses = np.full(len(y), np.nan)
    for out in held:
        pooled = Estimator(wiring="fixed", minutes=0).fit(X[~out], y[~out], nodes=node[~out])
        pooled = pooled.default_.pooled
        losses[out] = pooled.losses(pooled.rounds[-1], X[out], y[out], node[out])
    return losses


@pytest.mark.parametrize("seed", [0, 1])
def test_an_interaction_that_all_nodes_share_is_named(seed):
    X, y, node = table(seed, bent=True)
    held = masks(node)
    found = compare_beside(X, y, node, 20, NUMBERS, network_losses(X, y, node, held), held)
    assert found.sentence.startswith("A boosted model of all rows in one place")
    assert f"{100 * (1 - found.errors['boosting'] / found.own):.0f} % lower error" in found.sentence


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_is_named_for_lines_whose_slopes_differ(seed):
    X, y, node = table(seed, bent=False)
    held = masks(node)
    found = compare_beside(X, y, node, 20, NUMBERS, network_losses(X, y, node, held), held)
    assert found.sentence is None
    assert found.own < min(found.errors.values())


def test_errors_are_of_the_rows_left_out_that_have_a_loss():
    """The linear way is scikit-learn's, and the network's own error the root of its mean loss."""
    X, y, node = table(0, bent=False)
    held = masks(node)[:1]
    losses = np.where(np.arange(len(y)) % 2 == 0, 4.0, np.nan)
    found = compare_beside(X, y, node, 20, NUMBERS, losses, held)
    judged, known = held[0] & np.isfinite(losses), ~held[0]
    A = np.hstack([(X - X[known].mean(axis=0)) / X[known].std(axis=0), np.eye(20)[node]])
    guess = RidgeCV(PENALTIES).fit(A[known], y[known]).predict(A[judged])
    assert found.own == 2.0
    assert found.errors["one linear model"] == pytest.approx(
        np.sqrt(np.mean((guess - y[judged]) ** 2))
    )
    assert compare_beside(X, y, node, 20, NUMBERS, np.full(len(y), np.nan), held) is None


def test_one_linear_model_is_named_where_only_the_level_differs():
    rng = np.random.default_rng(0)
    node = np.repeat(np.arange(20), 15)
    X = rng.normal(size=(300, 3))
    y = X.sum(axis=1) + rng.normal(size=20)[node] + 0.5 * rng.normal(size=300)
    worse = np.full(300, 0.5**2 * 1.5**2)  # errors of half as much again as the noise
    found = compare_beside(X, y, node, 20, NUMBERS, worse, masks(node))
    assert found.sentence.startswith("One linear model of all rows in one place")
    assert found.sentence.endswith("if rows may be pooled, consider it.")


@pytest.mark.parametrize("bent", [True, False])
def test_classes(bent):
    X, y, node = table(3, bent, n=20, rows=20)
    codes = (y > np.median(y)).astype(int)
    held = masks(node)
    losses = network_losses(X, CLASSES.classes[codes], node, held, FedRelaxClassifier)
    found = compare_beside(X, CLASSES.classes[codes], node, 20, CLASSES, losses, held)
    assert (found.sentence is not None) == bent


def test_a_large_network_is_sampled_by_whole_nodes():
    node = np.repeat(np.arange(1000), 7)
    rows = beside._sample(node, 1000, np.random.default_rng(0))
    counts = np.bincount(node[rows], minlength=1000)
    assert set(counts) == {0, 7} and np.count_nonzero(counts) == beside.MOST_NODES
    node = np.repeat(np.arange(30), 2000)
    rows = beside._sample(node, 30, np.random.default_rng(0))
    assert len(rows) == beside.MOST_ROWS and len(np.unique(node[rows])) == beside.LEAST_NODES

"""Ridge and softmax for a whole network with nothing to set."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax.engines.whole import softmax as network_softmax
from fedrelax.engines.whole.closed import level_and_shape
from fedrelax.engines.whole.ridge import choose_ridge
from fedrelax.engines.whole.softmax import choose_softmax, probabilities
from fedrelax.models.curves import Curves


def draw(rng, n, m, levels=0.0, slopes=0.0, bend=0.0, noise=0.5):
    """Rows of n nodes, m each, and a function that draws rows of the same nodes without noise."""
    level, slope = levels * rng.normal(size=n), 1.0 + slopes * rng.normal(size=n)

    def rows(many, noise):
        node = np.repeat(np.arange(n), many)
        X = rng.normal(size=(len(node), 2))
        y = (
            level[node]
            + slope[node] * X[:, 0]
            + bend * X[:, 0] ** 2
            + noise * rng.normal(size=len(node))
        )
        return X, y, node

    return rows(m, noise), rows(50, 0.0)


def error(found, new):
    X, y, node = new
    return float(np.mean((found.predict(X, node) - y) ** 2))


def test_nodes_that_differ_in_level_alone_share_their_slopes() -> None:
    (X, y, node), new = draw(np.random.default_rng(0), 40, 4, levels=5.0)
    found = choose_ridge(X, y, node, 40)
    slopes = found.models[:, 0]
    assert slopes.std() < 0.05 and found.models[:, -1].std() > 3
    assert found.errors["together"] < 0.5 * found.errors["alone"]
    assert found.errors["together"] < 0.1 * found.errors["one model"]
    ideal = 0.5**2 / 4
    assert error(found, new) < 1.4 * ideal


def test_equal_nodes_get_almost_one_model_and_unlike_ones_almost_their_own() -> None:
    (X, y, node), new = draw(np.random.default_rng(1), 30, 5)
    found = choose_ridge(X, y, node, 30)
    assert error(found, new) < 0.02
    (X, y, node), new = draw(np.random.default_rng(2), 30, 40, levels=5.0, slopes=5.0, noise=0.1)
    found = choose_ridge(X, y, node, 30)
    assert error(found, new) < 2 * 3 * 0.1**2 / 40


def test_curves_are_taken_where_the_relation_bends_and_not_elsewhere() -> None:
    (X, y, node), new = draw(np.random.default_rng(3), 30, 6, levels=2.0, bend=1.0)
    bent, straight = choose_ridge(X, y, node, 30), choose_ridge(X, y, node, 30, curves=False)
    assert bent.scale.curves is not None and "curves" in bent.words
    assert error(bent, new) < 0.2 * error(straight, new)
    (X, y, node), new = draw(np.random.default_rng(4), 30, 6, levels=2.0)
    bent, straight = choose_ridge(X, y, node, 30), choose_ridge(X, y, node, 30, curves=False)
    assert error(bent, new) < 1.1 * error(straight, new)


def test_unequal_nodes_even_with_a_single_row() -> None:
    rng = np.random.default_rng(5)
    (X, y, node), new = draw(rng, 20, 40, levels=3.0)
    many = np.append(1, rng.integers(2, 40, 19))
    kept = np.concatenate([np.flatnonzero(node == i)[: many[i]] for i in range(20)])
    found = choose_ridge(X[kept], y[kept], node[kept], 20)
    assert np.isfinite(found.models).all()
    assert error(found, new) < 0.2


def test_folds_that_keep_days_together_see_what_left_out_rows_hide() -> None:
    rng = np.random.default_rng(6)
    n, days = 15, 8
    node, day = np.repeat(np.arange(n), days), np.tile(np.arange(days), n)
    X = rng.normal(size=days)[day][:, None] + 0.01 * rng.normal(size=(n * days, 1))
    y = 3.0 * rng.normal(size=days)[day] + 0.1 * rng.normal(size=n * days)
    folds = [(day % 4 != f, day % 4 == f) for f in range(4)]
    honest, blind = choose_ridge(X, y, node, n, folds=folds), choose_ridge(X, y, node, n)
    assert honest.errors["together"] > 1.5 * blind.errors["together"]


def test_curves_are_orthogonal_to_lines_and_flat_outside() -> None:
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 2, 200)])
    curves = Curves.of(X)
    B = curves(X)
    assert set(curves.columns) == {0}
    assert np.abs(np.column_stack([np.ones(200), X]).T @ B).max() < 1e-8
    assert np.allclose(B.std(axis=0), 1.0)
    far, farther = X[:1].copy(), X[:1].copy()
    far[0, 0], farther[0, 0] = 50.0, 500.0
    assert np.allclose(curves(far), curves(farther))


@pytest.mark.parametrize("classes", [2, 3])
def test_softmax_of_a_network_is_where_no_step_helps(classes: int, monkeypatch) -> None:
    monkeypatch.setattr(network_softmax, "CLOSE", 1e-10)
    monkeypatch.setattr(network_softmax, "STEPS", 300)
    rng = np.random.default_rng(8)
    n, m = 6, 15
    node = np.repeat(np.arange(n), m)
    X = np.column_stack([rng.normal(size=(n * m, 2)), np.ones(n * m)])
    y = rng.integers(0, classes, n * m)
    ridge = np.array([0.5, 0.5, 0.1])
    P = 2.0 * level_and_shape(X.T @ X / len(X), X.mean(axis=0), 0.1)
    rows = network_softmax._Rows(X, y, node, n, classes)
    W = rows.fit(ridge, P, np.zeros((rows.scores, n, 3)))[0]
    p = probabilities(np.einsum("ri,kri->rk", X, W[:, node]))
    wrong = (p - np.eye(classes)[y])[:, 1:] if classes == 2 else p - np.eye(classes)[y]
    for k in range(rows.scores):
        gradient = np.array([X[node == i].T @ wrong[node == i, k] for i in range(n)])
        gradient += W[k] * ridge + (W[k] - W[k].mean(axis=0)) @ P
        assert np.abs(gradient).max() < (1e-8 if classes == 2 else 1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_softmax_loss_left_out_is_nearly_that_of_refitting(classes: int, monkeypatch) -> None:
    monkeypatch.setattr(network_softmax, "CLOSE", 1e-5)
    rng = np.random.default_rng(10)
    n, m = 4, 8
    node = np.repeat(np.arange(n), m)
    X = np.column_stack([rng.normal(size=(n * m, 2)), np.ones(n * m)])
    y = rng.integers(0, classes, n * m)
    ridge, P = np.array([0.5, 0.5, 0.1]), np.diag([1.0, 1.0, 0.2])
    rows = network_softmax._Rows(X, y, node, n, classes)
    W, loss = rows.fit(ridge, P, np.zeros((rows.scores, n, 3)))
    left = []
    for r in range(n * m):
        rest = np.arange(n * m) != r
        V = network_softmax._Rows(X[rest], y[rest], node[rest], n, classes).fit(ridge, P, W)[0]
        left.append(-np.log(probabilities((V[:, node[r]] @ X[r])[None])[0, y[r]]))
    assert loss == pytest.approx(np.mean(left), rel=0.03 if classes == 2 else 0.06)


def test_softmax_chooses_coupling_that_beats_alone_and_one_model() -> None:
    rng = np.random.default_rng(9)
    n, m = 40, 8
    level = 1.5 * rng.normal(size=n)

    def rows(many):
        node = np.repeat(np.arange(n), many)
        X = rng.normal(size=(len(node), 2))
        return X, (level[node] + 1.5 * X[:, 0] + rng.logistic(size=len(node)) > 0).astype(int), node

    X, y, node = rows(m)
    found = choose_softmax(X, y, node, n, 2)
    T, t, h = rows(200)

    def loss(p):
        return -np.log(p[np.arange(len(t)), t]).mean()

    one = loss(probabilities((T1(T, found) * found.one[0, 0]).sum(axis=1)[:, None]))
    alone = loss(probabilities(np.einsum("ri,kri->rk", T1(T, found), found.apart[:, h])))
    assert loss(found.predict(T, h)) < 0.95 * min(one, alone)
    assert found.losses["together"] < min(found.losses["alone"], found.losses["one model"])


def T1(T, found):  # noqa: N802
    return np.column_stack([(T - found.centre) / found.spread, np.ones(len(T))])

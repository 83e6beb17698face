"""New rows are predicted before they are learned, and who leaves is forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelaxRegressor
from fedrelax.errors import FedRelaxError

from .test_joining import D, N, ring, rows


def fitted() -> tuple[FedRelaxRegressor, Any]:
    X, y, nodes = rows(N)
    return FedRelaxRegressor(Ridge(), ring(N), alpha=0.3).fit(X, y, nodes), (X, y, nodes)


def test_new_rows_are_predicted_first() -> None:
    est, (X, _y, _nodes) = fitted()
    new = rows(N, seed=3)
    before = np.square(est.predict(new[0], new[2]) - new[1])
    change = est.update(*new)
    assert change.error == pytest.approx(before.mean())
    assert change.errors[4] == pytest.approx(before[new[2] == 4].mean())
    assert change.rows == len(X)
    assert np.square(est.predict(new[0], new[2]) - new[1]).mean() < before.mean()


def test_keep_is_a_window_of_the_newest_rows() -> None:
    est, _ = fitted()
    X, y, _ = rows(N, seed=3)
    est.update(X[:6], y[:6], [4] * 6, keep=5, tol=1e-10)
    other, _ = fitted()
    other.unplug(4, tol=1e-10)
    near = ring(N).neighbours(4)
    other.plug_in(4, X[1:6], y[1:6], neighbours=near, tol=1e-10)
    assert est.models_[4].coef_ == pytest.approx(other.models_[4].coef_, abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"nodes": ["strange"] * 6}, "node 'strange' has no model in this network"),
        ({"keep": 0}, "keep=0 must be a whole number"),
        ({"y": [1.0]}, "nodes has shape|X has 6 rows but y has 1"),
        ({"nodes": None}, "every row needs a node; pass nodes="),
    ],
)
def test_what_cannot_be_learned(asked: dict[str, Any], words: str) -> None:
    est, (X, y, nodes) = fitted()
    with pytest.raises(FedRelaxError, match=words):
        est.update(**{"X": X[:6], "y": y[:6], "nodes": nodes[:6], **asked})


MODELS = {"ridge": Ridge(), "tree": DecisionTreeRegressor(max_depth=3), "auto": "auto"}


@pytest.mark.parametrize("model", MODELS)
def test_rows_that_overflow_are_refused_and_nothing_changes(model: str) -> None:
    X, y, nodes = rows(6)
    settings: dict[str, Any] = {"quick": True} if model == "auto" else {"alpha": 0.3, "rounds": 2}
    est = FedRelaxRegressor(MODELS[model], ring(6), **settings)
    est.fit(X, y, nodes)
    before = est.answers(X, nodes)
    for feature, target in ((1e308, 0.0), (1e200, 0.0), (0.5, 1e308), (0.5, -1e160)):
        extreme = np.full((2, D), feature), np.array([target, 0.0])
        with pytest.raises(FedRelaxError, match="too large"):
            est.update(*extreme, [4, 4])
        with pytest.raises(FedRelaxError, match="too large"):
            est.plug_in("new", *extreme, neighbours=[3, 5])
    assert est.story_ == ()
    assert np.array_equal(est.answers(X, nodes), before)
    est.update(X[:6], y[:6] + 1.0, nodes[:6])
    other = clone(est).fit(X, y, nodes)
    other.update(X[:6], y[:6] + 1.0, nodes[:6])
    assert np.array_equal(est.answers(X, nodes), other.answers(X, nodes))


@pytest.mark.parametrize("model", ["ridge", "tree"])
def test_predictions_that_overflow_are_refused_and_nothing_changes(model: str) -> None:
    """Each number is small enough; a steep model's prediction for a large row is not."""
    X, y, nodes = rows(6)
    steep = FedRelaxRegressor(MODELS[model], ring(6), alpha=0.3, rounds=2).fit(X, 1e99 * y, nodes)
    before = steep.answers(X, nodes)
    large = np.full((2, D), 1e99), np.zeros(2)
    with pytest.raises(FedRelaxError, match="^node 4: .*(finite numbers|too large)"):
        steep.update(*large, [4, 4])
    with pytest.raises(FedRelaxError, match="^node 'new': .*(finite numbers|too large)"):
        steep.plug_in("new", *large, neighbours=[3, 5])
    assert steep.story_ == () and np.array_equal(steep.answers(X, nodes), before)


def test_the_last_change_can_be_undone() -> None:
    est, (X, y, nodes) = fitted()
    est.update(X[:6], y[:6] + 1.0, nodes[:6])
    before, graph = est.answers(X, nodes), est.whole_graph_
    for change in (
        lambda: est.update(X[-6:], y[-6:] + 9.0, nodes[-6:]),
        lambda: est.plug_in("new", X[:6], y[:6]),
        lambda: est.unplug(4),
    ):
        change()
        assert len(est.story_) == 2
        assert est.result_.local_models  # what was asked for in between is not used afterwards
        est.living_.undo()
        assert len(est.story_) == 1
        assert np.array_equal(est.answers(X, nodes), before)
        assert est.whole_graph_ == graph


def test_unplug_forgets() -> None:
    est, (X, y, _nodes) = fitted()
    change = est.unplug(4)
    assert change.what == "leave"
    assert set(change.refitted) >= set(ring(N).neighbours(4))
    assert 4 not in est.models_
    assert 4 not in est.whole_graph_
    with pytest.raises(FedRelaxError, match="node 4 was not in training"):
        est.set_params(unknown="raise").predict(X[:1], [4])
    with pytest.raises(FedRelaxError, match="node 4 is not in the network"):
        est.unplug(4)
    assert 4 in est.plug_in(4, X[:6], y[:6], neighbours=[3, 5]).nodes

"""What all nodes have in common beside their columns: smooth lines, and effects of single values."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax import FedRelaxRegressor
from fedrelax.engines.whole.ridge import choose_ridge
from fedrelax.models.curves import CurveColumns, Curves, Values
from fedrelax.storage import load_result, save_result

N = 20


def rows(many, seed, effect):
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(N), many)
    x = rng.uniform(-2, 2, size=len(node))
    year = rng.integers(2000, 2010, size=len(node)).astype(float)
    X = np.column_stack([x, year])
    level = 3.0 * np.random.default_rng(99).normal(size=N)
    return X, level[node] + x + effect(x, year) + 0.1 * rng.normal(size=len(node)), node


def shocks(x, year):
    return np.random.default_rng(7).normal(size=10)[(year - 2000).astype(int)]


def steep(x, year):
    return 2.0 * np.tanh(8.0 * (x - 0.5)) + 1.5 * np.tanh(8.0 * (x + 1.0))


@pytest.mark.parametrize(("effect", "basis"), [(shocks, "values"), (steep, "lines")])
def test_what_is_there_is_found_and_lowers_the_error(effect, basis):
    (X, y, node), (T, t, at) = rows(8, 0, effect), rows(100, 1, effect)
    found = choose_ridge(X, y, node, N)
    assert getattr(found.scale, basis)
    plain = choose_ridge(X, y, node, N, curves=False)
    error, before = (np.mean((one.predict(T, at) - t) ** 2) for one in (found, plain))
    assert error < 0.15 * before
    assert error < 0.12  # the noise has 0.01


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_made_up(seed):
    found = choose_ridge(*rows(8, seed, lambda x, year: 0.0), N)
    assert found.scale.lines is None and found.scale.values is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "words"), [(shocks, "effects of single values"), (steep, "smooth lines")]
)
def test_the_models_are_plain_pipelines_that_are_saved(tmp_path, effect, words):
    X, y, node = rows(8, 0, effect)
    model = FedRelaxRegressor().fit(X, y, nodes=node)
    assert words in model.choice_.reason
    save_result(tmp_path / "r", model)
    again = load_result(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(X, node), model.predict(X, node))
    new = X.copy()
    new[:, 1] = 1900.0  # a year that nobody has seen has no effect of its own
    assert np.isfinite(model.predict(new, node)).all()
    more = model.refitted(X, y, nodes=node)
    np.testing.assert_allclose(more.predict(X, node), model.predict(X, node), atol=1e-8)


def test_values_must_recur_at_several_nodes():
    node = np.repeat(np.arange(6), 5)
    common, own = np.tile(np.arange(5.0), 6), np.arange(30.0) // 5
    found = Values.of(np.column_stack([common, own, np.arange(30.0)]), node)
    assert found.columns.tolist() == [0] * 5
    np.testing.assert_array_equal(
        found(np.array([[3.0, 0, 0], [9.0, 0, 0]])), [[0, 0, 0, 1, 0], [0] * 5]
    )


def test_the_transformer_gives_the_columns_that_were_fitted():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 5, 60)])
    node = np.repeat(np.arange(6), 10)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    Z = (X - centre) / spread
    curves, lines, values = Curves.of(Z), Curves.of(Z, 8, power=1), Values.of(X, node)
    made = CurveColumns.made(curves, centre, spread, lines, values)
    expected = np.column_stack([Z, curves(Z), lines(Z), values(X)])
    np.testing.assert_allclose(made.transform(X), expected)
    bare = CurveColumns.made(None, centre, spread, lines, None)
    np.testing.assert_allclose(bare.transform(X), np.column_stack([Z, lines(Z)]))

"""Both engines give one answer on wild networks, or the linear one refuses.

Columns that repeat or nearly repeat others, features of unlike sizes and far from zero, edge weights
from 1e-6 to 1e6, nodes with a single row: drawn at random from a seed.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelax, Graph, LinearModel, Network
from fedrelax.engines import UnsupportedNetworkError

KINDS = ("plain", "duplicate", "combination", "nearly", "constant")
FOUND = (101, 115, 196, 302, 347, 365, 419, 561, 2586, 2783, 3076)
"""Networks on which the engines once differed by 1e-6 to 1e2 of the answers' size."""
CLOSE = 1e-6


def wild(seed: int) -> tuple[Network, FedRelax]:
    """Return a network and settings, all drawn at random."""
    rng = np.random.default_rng(seed)
    n, f, q = int(rng.integers(2, 6)), int(rng.integers(1, 6)), int(rng.integers(1, 3))
    kind = rng.choice(KINDS)
    mix, nearness = rng.normal(size=max(f - 1, 1)), 10 ** rng.uniform(-9, -2)
    scale = 10 ** rng.uniform(-3, 3, size=f) if rng.random() < 0.4 else np.ones(f)
    shift = rng.normal(size=f) * 10 ** rng.uniform(-1, 3) if rng.random() < 0.3 else np.zeros(f)
    intercept = bool(rng.random() < 0.7)
    pool = [
        LinearRegression(fit_intercept=intercept),
        Ridge(10 ** rng.uniform(-6, 3), fit_intercept=intercept),
        LinearModel(fit_intercept=intercept),
        LinearModel(ridge=10 ** rng.uniform(-6, 2), fit_intercept=intercept),
    ]
    mode, heavy = int(rng.integers(0, 5)), rng.random() < 0.7
    edges = [
        (i, j, float(10 ** rng.uniform(-6, 6)) if heavy else 1.0)
        for i in range(n)
        for j in range(i)
        if rng.random() < 0.6 or j == i - 1
    ]
    common, spoiled = rng.random() < 0.5, rng.random() < 0.7
    public_rows = int(rng.integers(1, 12))

    def rows(count: int, spoil: bool) -> np.ndarray:
        X = rng.normal(size=(count, f)) * scale + shift
        if not spoil:
            return X
        if f > 1 and kind == "duplicate":
            X[:, -1] = X[:, 0]
        elif f > 1 and kind == "combination":
            X[:, -1] = X[:, :-1] @ mix
        elif f > 1 and kind == "nearly":
            X[:, -1] = X[:, 0] + nearness * X[:, -1]
        elif kind == "constant":
            X[:, -1] = 3.0
        return X

    shared = {"public": rows(public_rows, spoiled)} if common else {}
    network = Network(Graph.from_edges(edges), **shared)
    for i in range(n):
        count = int(rng.integers(1, 12))
        X = rows(count, True)
        y = rng.normal(size=(count, q)) if q > 1 else rng.normal(size=count)
        model = pool[mode] if mode < 4 else pool[int(rng.integers(0, 4))]
        own = {} if common else {"public": rows(public_rows, spoiled)}
        network.add(i, X, y, model, **own)
    settings = FedRelax(
        alpha=float(10 ** rng.uniform(-3, 3)),
        objective=str(rng.choice(["gtvmin", "paper"])),
        rounds=int(rng.integers(1, 8)),
        tol=0.0,
    )
    return network, settings


def difference(seed: int) -> float | None:
    """Return how far the engines' predictions are apart, as a share of their size; None: refused."""
    network, settings = wild(seed)
    try:
        linear = replace(settings, engine="linear").solve(network)
    except UnsupportedNetworkError:
        return None
    general = replace(settings, engine="sites").solve(network)
    worst = 0.0
    for node in network:
        Z = np.concatenate([node.X, network.public.of(node.label)])
        for ones, others in (
            (linear.local_models, general.local_models),
            (linear.alone, general.alone),
        ):
            one, other = ones[node.label].predict(Z), others[node.label].predict(Z)
            size = max(np.abs(other).max(), np.abs(node.y).max())
            worst = max(worst, float(np.abs(one - other).max() / size))
    return worst


@pytest.mark.parametrize("seed", FOUND)
def test_networks_on_which_the_engines_once_differed(seed):
    found = difference(seed)
    assert found is None or found < CLOSE


@pytest.mark.slow
def test_the_engines_agree_on_wild_networks_or_the_linear_one_refuses():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [difference(seed) for seed in range(1000, 1080)]
    used = [value for value in found if value is not None]
    assert max(used) < CLOSE
    assert len(used) > len(found) / 2  # else there would be nothing to compare

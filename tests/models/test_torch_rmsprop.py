"""A linear net with one RMSprop step per round follows the linear engine, and so its figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("torch", reason="nets need torch: pip install 'fedrelax[torch]'")

import torch
from torch import nn

from fedrelax import Network, TorchModel
from fedrelax.datasets import clustered
from fedrelax.engines import SiteEngine
from fedrelax.engines.linear import GradientRounds
from fedrelax.linear import LinearProblem
from fedrelax.models import adapt
from fedrelax.paper.curves import RATE, START, Cell, linear_curve
from fedrelax.runtime import Coupling, LocalExchange, Site, Workers

ITERATIONS = 500


def linear_net(weights):
    """The paper's update: one RMSprop step per round from given weights, no bias."""
    module = nn.Linear(len(weights), 1, bias=False, dtype=torch.float64)
    module.weight.data[:] = torch.as_tensor(weights.T)
    options = {"alpha": 0.99, "eps": 1e-8}
    return TorchModel(
        module, "rmsprop", lr=RATE, options=options, first=0, steps=1, dtype="float64"
    )


def nets(data, alpha, start, first_exchange):
    """Yield the sites of all nets before every round."""
    network = Network(data.graph)
    for i in range(len(data.X)):
        network.add(i, data.X[i], data.y[i], linear_net(start[i]), public=data.public[i])
    coupling = Coupling(alpha, first_exchange=first_exchange)
    public, task = network.public, network.task
    sites = [
        Site(
            node,
            task,
            adapt(node.model, task),
            public,
            data.graph.neighbours(node.label),
            coupling,
            0,
        )
        for node in network
    ]
    workers = Workers(1, threads=False)
    engine = SiteEngine(sites, data.graph.adjacency, LocalExchange(), workers)
    with engine.working():
        engine.start()
        round = 0
        while True:
            yield sites
            engine.share(round)
            engine.update(round)
            round += 1


def weights_of(sites):
    return np.stack([s.model.estimator.module_.weight.detach().numpy().T for s in sites])


def rounds(data, alpha, start, first_exchange):
    """Yield the weights (n, d, 1) of the linear engine before every round."""
    problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public)
    engine = GradientRounds(problem, alpha, start, rate=RATE, first_exchange=first_exchange)
    while True:
        yield engine.models
        engine.step()


def first_weights(data, seed=0):
    n, d = data.true_weights.shape
    return np.random.default_rng([seed, START]).uniform(-(d**-0.5), d**-0.5, (n, d, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "first_exchange"), [(0.0, "zeros"), (0.05, "zeros"), (0.05, "models")]
)
def test_nets_follow_the_linear_engine_for_500_iterations(alpha, first_exchange):
    """Targets large enough that no node arrives: once gradients are rounding, RMSprop divides
    rounding by rounding, and no two orders of summation keep the same path."""
    data = clustered((3, 3), m=10, d=5, sigma=0.0, m_val=0, random_state=0)
    data = replace(data, y=30 * data.y + 100)
    settings = (data, alpha, first_weights(data), first_exchange)
    pairs = zip(nets(*settings), rounds(*settings), strict=False)
    for sites, theirs in islice(pairs, 0, ITERATIONS + 1, 20):
        assert np.abs(weights_of(sites) - theirs).max() <= 1e-4


@pytest.mark.figures
def test_nets_draw_the_papers_figure():
    """Figure 1a, d=2, alpha=0.01, its first run: the curve that is averaged for the targets."""
    cell = Cell("clustered", "linear", "fedrelax", "MSE_w", 2, 0.0, 0.8, 0.01, "zeros")
    data = cell.draw(0)
    curve = linear_curve(cell, 0)
    truth = data.true_weights[:, :, None]
    seen = {}
    for k, sites in enumerate(islice(nets(data, 0.01, first_weights(data), "zeros"), 100)):
        if k in (0, 24, 49, 99):
            seen[k] = float(np.square(weights_of(sites) - truth).mean())
    assert len(seen) == 4
    assert max(abs(value - curve[k]) for k, value in seen.items()) <= 1e-4
    assert curve[99] < 0.2 * curve[0]  # The curve does go down.

"""What a federation gives by default where nodes predict numbers: partial pooling by exchange."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.baselines.base import Baseline, Run
from fedrelax.engines.whole.found import estimators_of
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.public import draw_like
from fedrelax.selection.pooling import pooled_models
from fedrelax.solvers.whole import MOST
from fedrelax.threads import one_thread

PUBLIC_ROWS, ALL_PUBLIC_ROWS, FEWEST_PUBLIC_ROWS = 100, 5000, 10
"""Public rows of a node: as at a site, fewer if all nodes together would have more than this, at least."""


@dataclass(frozen=True)
class Federation(Baseline):
    """Linear models of nodes that exchange answers on public rows, each drawn by its node alone.

    It is the computation of ``fedrelax federate`` with all sites in one process; the nodes' own kinds of
    models and the graph play no part.
    """

    name = "federation"

    def unsupported_reason(self, network: Network) -> str | None:
        """Return what about the targets or the rows does not suit."""
        first = next(iter(network))
        if network.kind != "regression" or network.task.n_outputs != 1:
            return "it learns by partial pooling where the target is one number"
        if first.X.ndim != 2:
            return f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"
        return "it needs at least two nodes" if len(network) < 2 else None

    def too_large(self, network: Network) -> str | None:
        """Return a reason for many nodes or columns, whose matrices are inverted in every round."""
        nodes, columns = len(network), int(np.prod(next(iter(network)).X.shape[1:]))
        if nodes * (columns + 1) ** 3 <= MOST:
            return None
        return f"it takes too long for {nodes:,} nodes and {columns:,} columns"

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Let the nodes draw public rows and learn in twelve rounds; each gets a linear model."""
        own, task, public = network.own_rows, network.task, network.public
        X, y = np.asarray(own.X, dtype=float), task.encode(own.y)[:, 0]
        node = np.repeat(np.arange(len(network)), own.counts)
        count = min(PUBLIC_ROWS, max(ALL_PUBLIC_ROWS // len(network), FEWEST_PUBLIC_ROWS))
        rngs = np.random.default_rng(seed).spawn(len(network))
        drawn = [
            draw_like("blend", X[node == i], count, rng, public.pieces)
            for i, rng in enumerate(rngs)
            if own.counts[i]
        ]
        owner = np.repeat(np.flatnonzero(own.counts), count)
        with one_thread():
            scale, models = pooled_models(X, y, node, np.concatenate(drawn), owner, own.counts)
        made = (adapt(model, task) for model in estimators_of(scale, models))
        return Run(dict(zip(network.labels, made, strict=True)))

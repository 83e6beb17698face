"""Network Lasso: total variation without the square, which lets some edges break and others bind.

Hallac, Leskovec and Boyd, "Network Lasso: clustering and optimization in large graphs", KDD 2015;
solved by the primal-dual splitting of Condat (2013) and Vu (2013), one gradient a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from fedrelax.baselines.base import Run
from fedrelax.baselines.descent import Descent
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.network import Network
from fedrelax.typing import FloatArray, SparseMatrix

MOST_EDGES = 200_000


@dataclass(frozen=True)
class NetworkLasso(Descent):
    """min sum_i L_i(w_i) + strength sum over edges A_ij |w_i - w_j|.

    With D the signed incidence matrix, in every round
    w <- w - tau [grad L(w) + D'u],  u_e <- projection of u_e + sigma D(2 w_new - w_old) onto the ball
    of radius strength * A_e.
    """

    name = "network Lasso"

    strength: float = 0.1
    adjacency: SparseMatrix = field(default=None, repr=False)
    """The weights; ``run`` takes them from the network."""

    def unsupported_reason(self, network: Network) -> str | None:
        """Return a reason for very many edges, too, each of which has a variable per weight."""
        edges = network.graph.n_edges
        if edges > MOST_EDGES:
            return f"it takes too long on {edges:,} edges"
        return super().unsupported_reason(network)

    def candidates(self, network: Network) -> Sequence[NetworkLasso]:
        """Return strengths in proportion to the spread of the targets and to 1 / degree."""
        degree = float(np.mean(network.graph.degrees)) or 1.0
        regression = network.kind == "regression"
        size = (float(np.std(network.own_rows.y)) or 1.0 if regression else 1.0) / degree
        return [replace(self, strength=size * s) for s in (0.03, 0.1, 0.3, 1.0, 3.0)]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds over the network's graph."""
        here = replace(self, adjacency=network.graph.adjacency)
        return super(NetworkLasso, here).run(network, seed=seed, n_jobs=n_jobs)

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield all nodes' models."""
        D, weights = incidence(self.adjacency)
        radius = self.strength * weights[:, None]
        norm = 2.0 * max(1.0, float(np.abs(D).sum(axis=0).max()))  # at least |D|^2
        sigma = F.curvature / norm
        tau = 1.0 / (0.5 * F.curvature + sigma * norm)
        W = F.random_models(rng, F.n)
        u = np.zeros((len(weights), F.d * F.q))
        while True:
            yield W
            pull = (D.T @ u).reshape(W.shape)
            new = F.step(W, tau, pull)
            u = u + sigma * (D @ (2 * new - W).reshape(F.n, -1))
            size = np.sqrt(np.einsum("ep,ep->e", u, u))[:, None]
            u *= np.divide(radius, size, out=np.ones_like(size), where=size > radius)
            W = new


def incidence(adjacency: SparseMatrix) -> tuple[SparseMatrix, FloatArray]:
    """Return D (edges, nodes) with +1 and -1 at the ends of every edge, and the edges' weights."""
    upper = sparse.triu(adjacency, k=1).tocoo()
    edges = np.arange(upper.nnz)
    signs = np.concatenate([np.ones(upper.nnz), -np.ones(upper.nnz)])
    ends = (np.concatenate([edges, edges]), np.concatenate([upper.row, upper.col]))
    return sparse.csr_array((signs, ends), shape=(upper.nnz, adjacency.shape[0])), upper.data

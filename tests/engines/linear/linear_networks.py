"""Small random networks and slow, plain solutions to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.linear import LinearProblem


@dataclass
class Net:
    X: list[np.ndarray]
    y: list[np.ndarray]
    A: np.ndarray
    P: list[np.ndarray]  # one per node, or a list of one for a common set
    common: bool
    intercept: bool
    ridge: np.ndarray

    @property
    def n(self) -> int:
        return len(self.X)

    def rows(self, x: np.ndarray) -> np.ndarray:
        return np.column_stack([x, np.ones(len(x))]) if self.intercept else x

    def public(self, j: int) -> np.ndarray:
        return self.rows(self.P[0 if self.common else j])

    def problem(self, **options: Any) -> LinearProblem:
        offsets = np.cumsum([0, *(len(x) for x in self.X)])
        public: Any = self.P[0]
        more: dict[str, Any] = {}
        if not self.common:
            public = np.concatenate(self.P)
            more["public_offsets"] = np.cumsum([0, *(len(p) for p in self.P)])
        return LinearProblem(
            np.concatenate(self.X),
            np.concatenate(self.y),
            sparse.csr_array(self.A),
            public,
            offsets=offsets,
            intercept=self.intercept,
            ridge=self.ridge,
            **more,
            **options,
        )


def random_net(
    seed: int,
    *,
    n: int = 8,
    features: int = 3,
    q: int = 1,
    common: bool = False,
    intercept: bool = False,
    ridge: float = 0.0,
    most_rows: int = 6,
    least_rows: int = 1,
    most_public: int = 7,
    isolated: int = 1,
    density: float = 0.5,
) -> Net:
    rng = np.random.default_rng(seed)
    U = np.triu(rng.random((n, n)) < density, 1) * rng.uniform(0.2, 2.0, (n, n))
    U[:isolated] = 0
    U[:, :isolated] = 0
    X = [rng.normal(size=(rng.integers(least_rows, most_rows + 1), features)) for _ in range(n)]
    y = [x @ rng.normal(size=(features, q)) + rng.normal(size=(len(x), q)) for x in X]
    P = [
        rng.normal(size=(rng.integers(1, most_public + 1), features))
        for _ in range(1 if common else n)
    ]
    return Net(X, y, U + U.T, P, common, intercept, ridge * rng.uniform(0.5, 1.5, n))


def dense_system(net: Net, alpha: float, system: str) -> tuple[np.ndarray, np.ndarray]:
    """K (nd, nd) and b (nd, q), block by block with loops."""
    n, d = net.n, net.X[0].shape[1] + net.intercept
    q = net.y[0].shape[1]
    K, b = np.zeros((n, d, n, d)), np.zeros((n, d, q))
    Q = [net.public(j).T @ net.public(j) / len(net.public(j)) for j in range(n)]
    for i in range(n):
        Xi, m = net.rows(net.X[i]), max(1, len(net.X[i]))
        R = net.ridge[i] * np.eye(d)
        if net.intercept:
            R[-1, -1] = 0
        K[i, :, i] += Xi.T @ Xi / m + R
        b[i] = Xi.T @ net.y[i] / m
        for j in range(n):
            weight = Q[j] if system == "paper" else Q[i] + Q[j]
            K[i, :, i] += alpha * net.A[i, j] * weight
            K[i, :, j] -= alpha * net.A[i, j] * weight
    return K.reshape(n * d, n * d), b.reshape(n * d, q)


def dense_solution(net: Net, alpha: float, system: str) -> np.ndarray:
    K, b = dense_system(net, alpha, system)
    return np.linalg.solve(K, b).reshape(net.n, -1, b.shape[1])

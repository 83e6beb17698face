"""The plain way, for comparison: one PyTorch module per node, trained by autograd in a Python loop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fedrelax.bench.problems import BenchProblem


class AutogradLoop:
    """Algorithm 2 as it is written: every node takes one RMSprop step on its own loss.

    loss_i = mean (X_i w_i - y_i)^2 + alpha sum_j A_ij mean (P_j w_i - P_j w_j)^2, one term for each
    neighbour (or, ``stacked``, all neighbours' rows in one weighted term prepared beforehand).
    """

    def __init__(self, problem: BenchProblem, alpha: float, stacked: bool = False) -> None:
        import torch

        self.torch, self.alpha, self.stacked = torch, alpha, stacked
        n, _, d = problem.X.shape
        self.X = [torch.from_numpy(x) for x in problem.X]
        self.y = [torch.from_numpy(y) for y in problem.y]
        common = problem.public.ndim == 2
        self.public = [
            torch.from_numpy(problem.public if common else problem.public[i]) for i in range(n)
        ]
        graph = problem.adjacency.tocsr()
        self.near = [
            list(zip(graph.indices[a:b].tolist(), graph.data[a:b].tolist(), strict=True))
            for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)
        ]
        kind = self.X[0].dtype
        self.models = [torch.nn.Linear(d, 1, bias=False, dtype=kind) for _ in range(n)]
        self.optimizers = [
            torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.99, eps=1e-8)
            for model in self.models
        ]
        if stacked:
            self.rows = [torch.cat([self.public[j] for j, _ in near]) for near in self.near]
            self.weights = [
                torch.cat(
                    [
                        torch.full((len(self.public[j]),), a / len(self.public[j]), dtype=kind)
                        for j, a in near
                    ]
                )
                for near in self.near
            ]

    def step(self) -> None:
        """Run one round over all nodes."""
        with self.torch.no_grad():
            shared = [
                model(rows)[:, 0] for model, rows in zip(self.models, self.public, strict=True)
            ]
        for i, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
            optimizer.zero_grad()
            loss: Any = ((model(self.X[i])[:, 0] - self.y[i]) ** 2).mean()
            if self.stacked:
                theirs = self.torch.cat([shared[j] for j, _ in self.near[i]])
                loss = (
                    loss
                    + self.alpha
                    * (self.weights[i] * (model(self.rows[i])[:, 0] - theirs) ** 2).sum()
                )
            else:
                for j, a in self.near[i]:
                    loss = (
                        loss
                        + self.alpha * a * ((model(self.public[j])[:, 0] - shared[j]) ** 2).mean()
                    )
            loss.backward()
            optimizer.step()

    def seconds_per_round(self, rounds: int = 3) -> float:
        """Return the median time of a round, after one to warm up."""
        self.step()
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return float(np.median(times))

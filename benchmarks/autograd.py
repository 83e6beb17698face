"""The straightforward way, for comparison: one PyTorch module per node, trained by autograd in a loop.

``python -m benchmarks.autograd [FEATURES] [NODES]`` times one RMSprop round of the engine and of the plain
loop on the paper's problem (three clusters, p_in 0.8, p_out 0.2, 10 rows and 100 public rows per node) and
prints one JSON object. It needs the extra ``torch``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed.problems import BenchProblem, make_problem
from fedrelax.engines.linear import GradientRounds
from fedrelax.extras import need
from fedrelax.graph import Graph
from fedrelax.linear import LinearProblem

ALPHA = 0.01
CLUSTERS = 3


def papers_problem(
    nodes: int, features: int, rows: int = 10, public_rows: int = 100
) -> BenchProblem:
    """Return equal clusters, every node with its own public rows."""
    sizes = [nodes // CLUSTERS] * CLUSTERS
    sizes[0] += nodes - sum(sizes)
    graph, _ = Graph.stochastic_block(sizes, 0.8, 0.2, random_state=0)
    return make_problem(graph, rows, features, "per-node", public_rows)


class AutogradLoop:
    """Algorithm 2 as written in the paper: every node takes one RMSprop step on its own loss.

    loss_i = mean (X_i w_i - y_i)^2 + alpha sum_j A_ij mean (P_j w_i - P_j w_j)^2, one term for each
    neighbour (or, if ``stacked``, all neighbours' rows in one weighted term prepared beforehand).
    """

    def __init__(self, problem: BenchProblem, alpha: float, stacked: bool = False) -> None:
        need("torch", "torch")
        import torch

        self.torch, self.alpha, self.stacked = torch, alpha, stacked
        n, _, d = problem.X.shape
        self.X = [torch.from_numpy(x) for x in problem.X]
        self.y = [torch.from_numpy(y) for y in problem.y]
        common = problem.public.ndim == 2
        self.public = [
            torch.from_numpy(problem.public if common else problem.public[i]) for i in range(n)
        ]
        graph = problem.graph.adjacency.tocsr()
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


def compare(features: int = 10, nodes: int = 150) -> dict[str, Any]:
    """Return the seconds of a round of the engine and of both loops, and their ratios."""
    data = papers_problem(nodes, features)
    problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public)
    engine = _seconds(GradientRounds(problem, ALPHA).step, 300)
    found: dict[str, Any] = {"nodes": nodes, "features": features, "degree": round(data.degree, 1)}
    found["engine_seconds"] = engine
    for name, stacked in (("loop", False), ("stacked", True)):
        plain = _seconds(AutogradLoop(data, ALPHA, stacked).step, 1)
        found[f"{name}_seconds"] = plain
        found[f"times_faster_than_{name}"] = plain / engine
    return found


def _seconds(step: Callable[[], object], rounds: int) -> float:
    """Return the median over five runs of the mean time of a round, after a warm-up round."""
    step()
    means = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            step()
        means.append((time.perf_counter() - start) / rounds)
    return float(np.median(means))


if __name__ == "__main__":
    print(json.dumps(compare(*map(int, sys.argv[1:3])), indent=2))

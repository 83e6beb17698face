"""What the parametric baselines share: rounds of gradient steps on all nodes' models at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.objectives import LocalObjectives, objectives_of, reason_not_linear
from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Descent(Baseline):
    """A method that exchanges parameters: all nodes have the same linear model.

    A subclass writes its algorithm as the generator ``iterate``, which yields the models of all nodes
    (n, d, q) before every round; the loop and the measuring are here.

    rate : the step size; None takes 1 / (largest curvature of any node), with which a step never
        increases a node's own loss.
    """

    rounds: int = 300
    rate: float | None = None

    @abstractmethod
    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the models of round 0, 1, 2, ..., without end."""

    def refusal(self, network: Network) -> str | None:
        """Return why the nodes' models are not one linear model."""
        return reason_not_linear(network)

    def check(self, network: Network) -> None:
        """Refuse a network on which this way cannot learn."""
        reason = self.refusal(network)
        if reason is not None:
            raise FedRelaxError(f"{self.name} exchanges parameters: {reason}")

    def step_size(self, objectives: LocalObjectives) -> float:
        """Return the given rate or the safe one."""
        return 1.0 / objectives.curvature if self.rate is None else self.rate

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds in standardised coordinates and hand back plain models."""
        self.check(network)
        with threadpool_limits(1):
            linear = objectives_of(network)
            curve = []
            models = islice(self.iterate(linear.own, np.random.default_rng(seed)), self.rounds + 1)
            for W in models:
                if linear.held is not None:
                    curve.append(linear.held.mean_loss(W))
        return Run(linear.models(W), np.array(curve))


def group_means(
    values: FloatArray, member: IntArray, weights: FloatArray, groups: int
) -> FloatArray:
    """Return the weighted mean of ``values`` (n, ...) over each group; zero for an empty one.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]), 3)
    array([2., 5., 0.])
    """
    place = np.arange(len(member))
    matrix = sparse.csr_array((weights, (member, place)), shape=(groups, len(member)))
    total = (matrix @ values.reshape(len(values), -1)).reshape((groups, *values.shape[1:]))
    size = matrix.sum(axis=1).reshape((groups,) + (1,) * (values.ndim - 1))
    return np.asarray(np.divide(total, size, out=np.zeros_like(total), where=size > 0))

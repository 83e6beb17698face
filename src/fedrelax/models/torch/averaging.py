"""Nets of one architecture that continue from their average: what FedAvg needs of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from fedrelax.models.base import Rows, Task
from fedrelax.models.torch.batching import batch_key
from fedrelax.models.torch.description import TorchModel
from fedrelax.models.torch.node import TorchNode
from fedrelax.models.torch.stack import Stack, train_stack
from fedrelax.models.torch.state import Trained
from fedrelax.models.torch.training import started, train
from fedrelax.threads import one_torch_thread
from fedrelax.typing import FloatArray

Tensor = Any


class Averaging:
    """The nets of all nodes, whose weights are averaged after every round.

    All start from the same weights. If the model scales, every node keeps the scaling of its own rows.
    """

    def __init__(
        self, model: TorchModel, task: Task, problems: Sequence[Rows], shares: FloatArray, seed: int
    ) -> None:
        self._model = model
        self._task = task
        self._problems = [[rows] for rows in problems]
        self._shares = torch.as_tensor(shares / shares.sum(), dtype=model.number)
        self._shares = self._shares.to(model.place())
        self._seed = seed
        self._fits = 0
        with one_torch_thread():
            self.nets = [started(model, task, rows, seed) for rows in problems]
        self._at_once = batch_key(model, problems[0].X, task) is not None and len(problems) > 1
        self._memory: dict[str, Any] = {}

    def models(self) -> list[TorchNode]:
        """Return the nets as the models of the nodes."""
        return [TorchNode.of(self._model, self._task, net) for net in self.nets]

    def step(self) -> None:
        """Train every net on its node's rows, with a new optimiser, and average them all."""
        self._fits += 1
        before = [replace(net, fits=self._fits) for net in self.nets]
        trained = self._together(before) if self._at_once else self._one_by_one(before)
        mean = self._mean([net.module.state_dict() for net in trained])
        for net in trained:
            net.module.load_state_dict(mean)
        self.nets = [net.without_optimizer() for net in trained]

    def _together(self, nets: list[Trained]) -> list[Trained]:
        with one_torch_thread():
            stack = replace(Stack.of(nets, self._task), fits=self._fits)
            after = train_stack(self._model, stack, self._problems, self._memory)
            return [after.trained(place) for place in range(after.n)]

    def _one_by_one(self, nets: list[Trained]) -> list[Trained]:
        return [
            train(self._model, self._task, rows, net, self._seed + place)
            for place, (net, rows) in enumerate(zip(nets, self._problems, strict=True))
        ]

    def _mean(self, states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return the weighted mean of all floating-point values; integers (counts) are the first's."""
        found = {}
        for name, first in states[0].items():
            values = torch.stack([state[name] for state in states])
            whole = not first.is_floating_point()
            found[name] = first if whole else torch.tensordot(self._shares, values, 1)
        return found

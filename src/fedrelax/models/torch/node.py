"""Nets at nodes: the local model around a ``TorchModel``, and what FedAvg needs of nets."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import BatchedModel, Rows, Task
from fedrelax.models.torch.batching import batch_key
from fedrelax.models.torch.model import TorchModel
from fedrelax.models.torch.modules import name_of
from fedrelax.models.torch.stack import Stack, train_stack
from fedrelax.models.torch.trained import Trained
from fedrelax.models.torch.training import new_module, started, train
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray


class TorchNode(BatchedModel):
    """A ``TorchModel`` at a node. After a batched fit its weights are part of a stack of many nodes'."""

    gradients = True

    def __init__(self, model: TorchModel, task: Task, net: Trained | None = None) -> None:
        model.check()
        self.task = task
        self.recalls = model.schedule is None  # a schedule's state may be of any type
        self._model = model
        self._own = net
        self._stacked: tuple[Stack, int] | None = None
        self._key: tuple[Hashable | None] | None = None

    @property
    def estimator(self) -> TorchModel:
        """The ``TorchModel``, which can predict after the first fit."""
        net = self._net()
        if net is None:
            return self._model
        return self._model.fitted(net.without_optimizer(), self.task)

    def _net(self) -> Trained | None:
        """Return the net, taken out of the stack if it is part of one."""
        if self._own is None and self._stacked is not None:
            stack, place = self._stacked
            self._own = stack.trained(place)
        return self._own

    def _with(self, own: Trained | None, stacked: tuple[Stack, int] | None = None) -> TorchNode:
        node = copy.copy(self)
        node._own, node._stacked = own, stacked
        return node

    def __getstate__(self) -> dict[str, Any]:
        self._net()
        return {**self.__dict__, "_stacked": None, "_key": None}

    @property
    def name(self) -> str:
        """The module's class, or the name of its factory."""
        return name_of(self._model.module)

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the initial weights."""
        return not (self._model.warm_start or continued)

    def memory(self) -> dict[str, Any]:
        """Return the weights and the optimiser's state."""
        net = self._net()
        assert net is not None
        return net.memory()

    def remembering(self, memory: dict[str, Any]) -> TorchNode:
        """Return the net that had this memory."""
        net = self._net()
        assert net is not None
        return self._with(net.remembering(memory))

    def check(self, X: AnyArray) -> None:
        """Build the module once and pass one row through it."""
        new_module(self._model, self.task, X, seed=0)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> TorchNode:
        """Return the net after one more fit; see ``TorchModel`` on when it starts afresh."""
        before = self._net() if self._model.warm_start or continued else None
        return self._with(train(self._model, self.task, terms, before, seed))

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers or class probabilities."""
        net = self._net()
        return (self._model.trained() if net is None else net).predict(X, self.task)

    # All at once

    def batch_key(self, terms: Sequence[Rows]) -> Hashable | None:
        """Return architecture and settings, or None if the net must be trained alone."""
        if self._key is None:
            self._key = (batch_key(self._model, terms[0].X, self.task),)
        return self._key[0]

    @classmethod
    def fit_many(
        cls,
        models: Sequence[TorchNode],
        problems: Sequence[Sequence[Rows]],
        *,
        seeds: Sequence[int],
        continued: bool,
        memory: dict[str, Any],
    ) -> list[TorchNode]:
        """Return all nets after one more fit, their weights in one stack."""
        model, task = models[0]._model, models[0].task
        with one_torch_thread():
            stack = _common_stack(models) if model.warm_start or continued else None
            if stack is None:
                nets = [
                    started(node._model, task, terms[0], seed)
                    for node, terms, seed in zip(models, problems, seeds, strict=True)
                ]
                stack = Stack.of(nets, task)
            stack = train_stack(model, stack, problems, memory)
        return [node._with(None, (stack, place)) for place, node in enumerate(models)]

    @classmethod
    def predict_many(
        cls,
        models: Sequence[TorchNode],
        inputs: Sequence[Sequence[AnyArray]],
        memory: dict[str, Any],
    ) -> list[list[FloatArray]]:
        """Return all predictions, from one forward pass."""
        stack = _common_stack(models)
        assert stack is not None
        with one_torch_thread():
            return stack.answers(inputs, memory)


def _common_stack(models: Sequence[TorchNode]) -> Stack | None:
    """Return the stack of exactly these nodes in this order; None before their first fit."""
    places = [node._stacked for node in models]
    if places[0] is not None:
        stack = places[0][0]
        same = all(at is not None and at[0] is stack and at[1] == k for k, at in enumerate(places))
        if same and len(models) == len(next(iter(stack.parameters.values()))):
            return stack
    nets = [net for net in (node._net() for node in models) if net is not None]
    if not nets:
        return None
    if len(nets) < len(models) or len({net.fits for net in nets}) > 1:
        raise FedRelaxError("the nets have not been trained equally often")
    return Stack.of(nets, models[0].task)


def untrained(
    model: TorchModel, task: Task, problems: Sequence[Rows], seed: int
) -> list[TorchNode]:
    """Return nets that start from the same weights, each scaled by its own node's rows."""
    with one_torch_thread():
        nets = [replace(started(model, task, rows, seed), fits=1) for rows in problems]
    return [TorchNode(model, task, net) for net in nets]


def averaged(
    nodes: Sequence[TorchNode], problems: Sequence[Rows], seed: int, memory: dict[str, Any]
) -> list[TorchNode]:
    """Train every net on its node's rows, with a new optimiser, and average all weights: FedAvg."""
    terms, seeds = [[rows] for rows in problems], [seed + place for place in range(len(nodes))]
    if len(nodes) > 1 and nodes[0].batch_key(terms[0]) is not None:
        fitted = TorchNode.fit_many(nodes, terms, seeds=seeds, continued=True, memory=memory)
    else:
        fitted = [
            node.fit(own, seed=own_seed, continued=True)
            for node, own, own_seed in zip(nodes, terms, seeds, strict=True)
        ]
    nets = [net for net in (node._net() for node in fitted) if net is not None]
    shares = torch.tensor([len(rows) for rows in problems]).to(next(nets[0].module.parameters()))
    mean = {}
    for name, value in nets[0].module.state_dict().items():
        mean[name] = value  # of integers, which are counts, the first node's
        if value.is_floating_point():
            values = torch.stack([net.module.state_dict()[name] for net in nets])
            mean[name] = torch.tensordot(shares / shares.sum(), values, 1)
    for net in nets:
        net.module.load_state_dict(mean)
    return [node._with(net.without_optimizer()) for node, net in zip(fitted, nets, strict=True)]

"""Nets at nodes: the local model around a ``TorchModel``, which nets train at once, and FedAvg of nets."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.models.base import BatchedModel, Rows, Task
from fedrelax.models.torch.model import TorchModel, name_of, shaped_output
from fedrelax.models.torch.training import (
    Net,
    forward,
    new_module,
    new_net,
    predict_many,
    train,
)
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray, FloatArray

REMEMBERED = ("tensors", "optimizer", "fits")
"""The fields of a net that its later fits depend on."""


class TorchNode(BatchedModel):
    """A ``TorchModel`` at a node."""

    gradients = recalls = True

    def __init__(self, given: TorchModel | nn.Module, task: Task, net: Net | None = None) -> None:
        self._model = given if isinstance(given, TorchModel) else TorchModel(given)
        self._model.check()
        self.task, self._net = task, net

    @property
    def estimator(self) -> TorchModel:
        """The ``TorchModel``, which can predict after the first fit."""
        if self._net is None:
            return self._model
        return self._model.fitted(self._net.to_predict(), self.task)

    def _with(self, net: Net) -> TorchNode:
        node = copy.copy(self)
        node._net = net
        return node

    @property
    def name(self) -> str:
        """The module's class, or the name of its factory."""
        return name_of(self._model.module)

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the initial weights."""
        return not (self._model.warm_start or continued)

    def memory(self) -> dict[str, Any]:
        """Return the weights and the optimiser's state, as plain values and arrays."""
        return {
            name: tree_map(lambda x: x.numpy(force=True) if isinstance(x, Tensor) else x, state)
            for name, state in ((name, getattr(self._net, name)) for name in REMEMBERED)
        }

    def remembering(self, memory: dict[str, Any]) -> TorchNode:
        """Return the net that had this memory."""
        assert self._net is not None
        states = {
            name: tree_map(
                lambda x: torch.tensor(x) if isinstance(x, np.ndarray) else x, memory[name]
            )
            for name in REMEMBERED
        }
        shapes = {name: value.shape for name, value in self._net.tensors.items()}
        if shapes != {name: value.shape for name, value in states["tensors"].items()}:
            raise FedRelaxError("the saved weights of a net do not have the shapes of its module")
        return self._with(replace(self._net, **states))

    def check(self, X: AnyArray) -> None:
        """Build the module once and pass one row through it."""
        new_module(self._model, self.task, X, seed=0)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> TorchNode:
        """Return the net after one more fit; see ``TorchModel`` on when it starts afresh."""
        return _fitted([self], [terms], [seed], continued)[0]

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers or class probabilities."""
        net = self._model.trained() if self._net is None else self._net
        return net.predict(X, self.task)

    # All at once

    def batch_key(self, terms: Sequence[Rows]) -> Hashable | None:
        """Return module, settings and shapes, or None if the net must be trained alone."""
        described = self._model, terms[0].X, self.task
        return None if unsupported_reason(*described) else _description(*described)

    @classmethod
    def fit_many(
        cls,
        models: Sequence[TorchNode],
        problems: Sequence[Sequence[Rows]],
        *,
        seeds: Sequence[int],
        continued: bool,
    ) -> list[TorchNode]:
        """Return all nets after one more fit."""
        return _fitted(models, problems, seeds, continued)

    @classmethod
    def predict_many(
        cls,
        models: Sequence[TorchNode],
        inputs: Sequence[Sequence[AnyArray]],
    ) -> list[list[FloatArray]]:
        """Return all predictions, from one forward pass."""
        nets = [node._net for node in models if node._net is not None]
        with one_torch_thread():
            return predict_many(models[0]._model, models[0].task, nets, inputs)


def _fitted(
    nodes: Sequence[TorchNode],
    problems: Sequence[Sequence[Rows]],
    seeds: Sequence[int],
    continued: bool,
) -> list[TorchNode]:
    """Return one node, or several of one architecture, after one more fit."""
    model, task = nodes[0]._model, nodes[0].task
    nets = [node._net for node in nodes if not node.forgets(continued) and node._net]
    with one_torch_thread():
        if not nets:
            nets = [
                new_net(node._model, task, terms[0], seed)
                for node, terms, seed in zip(nodes, problems, seeds, strict=True)
            ]
        if len(nets) < len(nodes) or len({net.fits for net in nets}) > 1:
            raise FedRelaxError("the nets have not been trained equally often")
        fitted = train(model, task, nets, problems, seeds[0])
    return [node._with(net) for node, net in zip(nodes, fitted, strict=True)]


# Which nets are trained at once


ELEMENTWISE = (
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.Adamax,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.SGD,
)
"""Optimisers whose step is elementwise."""
_reasons: WeakKeyDictionary[TorchModel, dict[Hashable, str | None]] = WeakKeyDictionary()


def unsupported_reason(model: TorchModel, X: AnyArray, task: Task) -> str | None:
    """Return why nets of this description are trained one by one, or None if all at once.

    >>> import numpy as np
    >>> net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    >>> unsupported_reason(TorchModel(net), np.zeros((4, 3)), Task("regression", 1))
    'the module keeps statistics of its rows (running_mean)'
    """
    known, key = _reasons.setdefault(model, {}), _description(model, X, task)
    if key not in known:
        with one_torch_thread():
            known[key] = _reason(model, new_module(model, task, X, seed=0), X, task)
    return known[key]


def _description(model: TorchModel, X: AnyArray, task: Task) -> Hashable:
    """Return what nets that are trained together share: the module or its factory, settings and shapes."""
    settings = {name: value for name, value in vars(model).items() if not name.endswith("_")}
    module = settings.pop("module")
    shared = module if isinstance(module, Hashable) else id(module)
    return shared, repr(settings), X.shape[1:], task.kind, task.n_outputs


def _reason(model: TorchModel, net: nn.Module, X: AnyArray, task: Task) -> str | None:
    if not model.batched:
        return "batched=False"
    if model.batch_size is not None:
        return f"batch_size={model.batch_size} draws the rows of a step node by node"
    optimizer = model.make_optimizer(net.parameters())
    if type(optimizer) not in ELEMENTWISE or len(optimizer.param_groups) != 1:
        return f"the step of {type(optimizer).__name__} is not elementwise"
    for name, _ in net.named_buffers():
        return f"the module keeps statistics of its rows ({name.rpartition('.')[2]})"
    row = torch.as_tensor(X[:1], **model.form)
    both = {name: torch.stack([p, p]) for name, p in net.named_parameters()}
    net.train()
    try:
        together = forward(net, task, both, torch.stack([row, row]))
        together.sum().backward()
    except Exception as error:  # PyTorch refuses what it cannot batch in many ways.
        text = in_one_line(error, kind=False)
        return f"PyTorch cannot run the module for many nodes at once ({text})"
    alone = shaped_output(net, net(row), len(row), task)
    if not torch.allclose(together[1], alone, rtol=1e-3, atol=1e-5):
        return "the module gives different outputs when PyTorch runs it for many nodes at once"
    return None


# FedAvg


def untrained(
    model: TorchModel, task: Task, problems: Sequence[Rows], seed: int
) -> list[TorchNode]:
    """Return nets that start from the same weights, each scaled by its own node's rows."""
    with one_torch_thread():
        nets = [replace(new_net(model, task, rows, seed), fits=1) for rows in problems]
    return [TorchNode(model, task, net) for net in nets]


def averaged(nodes: Sequence[TorchNode], problems: Sequence[Rows], seed: int) -> list[TorchNode]:
    """Train every net on its node's rows, with a new optimiser, and average all weights: FedAvg."""
    terms, seeds = [[rows] for rows in problems], [seed + k for k in range(len(nodes))]
    if nodes[0].batch_key(terms[0]) is not None:
        fitted = _fitted(nodes, terms, seeds, continued=True)
    else:
        each = zip(nodes, terms, seeds, strict=True)
        fitted = [node.fit(own, seed=own_seed, continued=True) for node, own, own_seed in each]
    nets = [node._net for node in fitted if node._net is not None]
    mean = dict(nets[0].tensors)  # of integers, which are counts, the first node's
    for name, value in mean.items():
        if value.is_floating_point():
            shares = torch.tensor([len(rows) for rows in problems]).to(value)
            values = torch.stack([net.tensors[name] for net in nets])
            mean[name] = torch.tensordot(shares / shares.sum(), values, 1)
    return [
        node._with(replace(net, tensors=mean, optimizer=None))
        for node, net in zip(fitted, nets, strict=True)
    ]

"""Which nets can be trained at once, and why others cannot."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from fedrelax.errors import in_one_line
from fedrelax.models.base import Task
from fedrelax.models.torch.model import TorchModel
from fedrelax.models.torch.modules import shaped_output
from fedrelax.models.torch.stack import forward
from fedrelax.models.torch.training import new_module
from fedrelax.threads import one_torch_thread
from fedrelax.typing import AnyArray

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
INSIDE = frozenset(nn.Module().__dict__)
"""Attributes of every module, which do not tell two modules apart."""

Decision = tuple[Hashable | None, str | None, Any]
"""A key, the reason for none, and the objects whose identity it depends on, kept alive."""
_decisions: WeakKeyDictionary[TorchModel, dict[Hashable, Decision]] = WeakKeyDictionary()


def why_alone(model: TorchModel, X: AnyArray, task: Task) -> str | None:
    """Return why nets of this description are trained one by one, or None if all at once.

    >>> import numpy as np
    >>> net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    >>> why_alone(TorchModel(net), np.zeros((4, 3)), Task("regression", 1))
    'the module keeps statistics of its rows (running_mean)'
    """
    return _decided(model, X, task)[1]


def batch_key(model: TorchModel, X: AnyArray, task: Task) -> Hashable | None:
    """Return the architecture and settings that nets trained together must share, or None."""
    return _decided(model, X, task)[0]


def _decided(model: TorchModel, X: AnyArray, task: Task) -> Decision:
    settings = model.get_params(deep=False)
    module = settings.pop("module")
    common = (plain(settings), X.shape[1:], task.kind, task.n_outputs)
    known = _decisions.setdefault(model, {})
    asked = (id(module), common)
    if asked not in known:
        with one_torch_thread():
            net = new_module(model, task, X, seed=0)
            reason = _reason(model, net, X, task)
        key = None if reason else (structure(net), common)
        known[asked] = (key, reason, (module, net, settings))
    return known[asked]


def _reason(model: TorchModel, net: Any, X: AnyArray, task: Task) -> str | None:
    if not model.batched:
        return "batched=False"
    if model.batch_size is not None:
        return f"batch_size={model.batch_size} draws the rows of a step node by node"
    if model.patience is not None:
        return f"patience={model.patience} lets every node stop at a different step"
    optimizer, _ = model.make_optimizer(net.parameters())
    if type(optimizer) not in ELEMENTWISE or len(optimizer.param_groups) != 1:
        return f"the step of {type(optimizer).__name__} is not elementwise"
    for name, _ in net.named_buffers():
        return f"the module keeps statistics of its rows ({name.rpartition('.')[2]})"
    row = torch.as_tensor(X[:1], dtype=model.torch_dtype, device=model.find_device())
    both = {name: torch.stack([p, p]) for name, p in net.named_parameters()}
    net.train()
    try:
        found = forward(net, task, both, torch.stack([row, row]))
        found.sum().backward()
    except Exception as error:  # PyTorch refuses what it cannot batch in many ways.
        text = in_one_line(error, kind=False)
        return f"PyTorch cannot run the module for many nodes at once ({text})"
    alone = shaped_output(net, net(row), len(row), task)
    if not torch.allclose(found[1], alone, rtol=1e-3, atol=1e-5):
        return "the module gives different outputs when PyTorch runs it for many nodes at once"
    return None


def structure(module: Any) -> Hashable:
    """Return a key that is equal for modules that compute the same function of their parameters."""
    return tuple(
        (
            name,
            type(part),
            plain({k: v for k, v in vars(part).items() if k not in INSIDE}),
            tuple(
                (k, tuple(p.shape), p.requires_grad)
                for k, p in part.named_parameters(recurse=False)
            ),
        )
        for name, part in module.named_modules()
    )


def plain(value: Any) -> Hashable:
    """Return something to compare a setting by: its value if it is plain, else its identity."""
    if isinstance(value, dict):
        return tuple(sorted((str(key), plain(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if value is None or isinstance(value, bool | int | float | str | type):
        return (type(value).__name__, value if isinstance(value, type) else repr(value))
    return ("object", id(value))

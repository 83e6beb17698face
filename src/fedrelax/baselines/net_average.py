"""FedAvg for nets: all nodes have one architecture, and its averaged parameters are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from fedrelax.baselines.base import Run, validation_loss
from fedrelax.baselines.grouped import kind_of
from fedrelax.losses import usual_loss
from fedrelax.models import Rows
from fedrelax.models.registry import is_net
from fedrelax.network import Network

if TYPE_CHECKING:
    from fedrelax.models.torch import TorchModel


def has_nets(network: Network) -> bool:
    """Tell whether some node trains a PyTorch module."""
    return any(is_net(node.model) for node in network)


def unsupported_nets(network: Network) -> str | None:
    """Return which node's net differs from the others, or None."""
    first, *others = network
    kind = kind_of(first.model)
    for node in others:
        if kind_of(node.model) != kind:
            return f"node {node.label!r}: its model differs from the net of node {first.label!r}"
    return None


def net_of(network: Network) -> TorchModel:
    """Return the description of the net that all nodes hold."""
    from fedrelax.models.torch import TorchModel

    model = next(iter(network)).model
    return model if isinstance(model, TorchModel) else TorchModel(model)


def average_nets(
    network: Network,
    rounds: int,
    rate: float | None,
    local_steps: int | None,
    patience: int | None,
    seed: int,
) -> Run:
    """Return the common net at every node, after rounds of local training and averaging.

    Every node starts each round from the common net with a new optimiser. ``rate`` and
    ``local_steps`` default to what the model says. With ``patience``, a run with validation rows ends
    after that many rounds without a better loss on them.
    """
    from fedrelax.models.torch.node import averaged, untrained

    model = clone(net_of(network))
    if rate is not None:
        model.set_params(lr=rate)
    if local_steps is not None:
        model.set_params(steps=local_steps, epochs=None)
    task, loss = network.task, usual_loss(network.kind)
    rows = [Rows(node.X, task.encode(node.y), np.ones(len(node.y)), loss) for node in network]
    nets, curve = untrained(model, task, rows, seed), []
    memory: dict[str, Any] = {}
    for number in range(rounds + 1):
        if number:
            nets = averaged(nets, rows, seed, memory)
        models = dict(zip(network.nodes, nets, strict=True))
        loss_now = validation_loss(network, models)
        if not np.isnan(loss_now):
            curve.append(loss_now)
            if patience is not None and number - int(np.argmin(curve)) >= patience:
                break
    return Run(models, np.array(curve))

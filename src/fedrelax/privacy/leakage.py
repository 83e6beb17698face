"""A measure of leakage: can a neighbour tell which rows a node was trained on?

Membership inference: rows on which a model does better than on others are likely its training rows.
The attack's AUC is the probability that a training row has a smaller loss than a held-out row: 0.5 is a
coin toss, 1.0 identifies every row. A low AUC shows that this attack failed, not that none can succeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from fedrelax.errors import FedRelaxError
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.public import Smoother
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Exchange, Layer, Message, Wrapped
from fedrelax.typing import FloatArray, Label


class Listener(Layer):
    """A layer that changes nothing and keeps the latest predictions that every node has sent.

    Put it last, so that it hears what neighbours hear: ``exchange=[private, listener]``.
    """

    def __init__(self) -> None:
        self.heard: dict[Label, FloatArray] = {}

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange that keeps the messages posted to it."""
        return _Heard(inner, self.heard)

    def describe(self, network: Network, settings: Settings) -> str:
        """Say that someone listens."""
        return "a listener that changes nothing"


class _Heard(Wrapped):
    def __init__(self, inner: Exchange, heard: dict[Label, FloatArray]) -> None:
        super().__init__(inner)
        self._heard = heard

    def sent(self, message: Message) -> Message:
        """Keep what a node predicts for its own public rows."""
        if message.owner == message.sender:
            self._heard[message.sender] = message.predictions
        return message


@dataclass(frozen=True)
class Leakage:
    """The AUC of two attacks on one node."""

    by_neighbour: float
    """From the node's predictions on public rows, extended to other rows by a smoother."""
    by_model: float
    """From the node's own model: what would leak if the model itself were shared."""


def leakage(
    network: Network, heard: Mapping[Label, FloatArray], models: Mapping[Label, LocalModel]
) -> dict[Label, Leakage]:
    """Attack every node that has validation rows: try to tell its training rows from them.

    ``heard`` is what neighbours have heard from each node (``Listener.heard``), ``models`` the nodes'
    final models (``Result.local_models``).
    """
    task, loss = network.task, usual_loss(network.kind)
    found = {}
    for node in network:
        if node.validation is None or node.label not in heard:
            continue
        smoother = Smoother(network.public.of(node.label))
        told = smoother.coefficients(heard[node.label])
        X_held, y_held = node.validation
        X, y = np.concatenate([node.X, X_held]), np.concatenate([node.y, y_held])
        held, target = np.arange(len(X)) >= len(node.X), task.encode(y)
        answers = smoother.weights(X) @ told, models[node.label].predict(X)
        losses = (loss.per_row(target, task.plausible(answer)) for answer in answers)
        found[node.label] = Leakage(*(float(roc_auc_score(held, one)) for one in losses))
    if not found:
        raise FedRelaxError(
            "no node that was heard has validation rows, so there is nothing to tell training rows "
            "from; give validation rows with Network.add(..., validation=(X, y))"
        )
    return found

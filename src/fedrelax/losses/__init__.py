"""Losses, and what a pair of them asks of a local model."""

from __future__ import annotations

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.losses.base import Loss, Weighted
from fedrelax.losses.usual import Absolute, Huber, Log, Squared
from fedrelax.members import members

__all__ = [
    "Absolute",
    "Huber",
    "Log",
    "Loss",
    "Squared",
    "Weighted",
    "get_loss",
    "requirement",
    "usual_loss",
]

LOSSES: dict[str, type[Loss]] = members(__name__, Loss)


def usual_loss(task: str) -> Loss:
    """Return the loss that most people mean: squared for regression, log for classification."""
    return Log() if task == "classification" else Squared()


def get_loss(loss: str | Loss | None, task: str, argument: str = "loss") -> Loss:
    """Return the loss of a name, checked against the task.

    >>> get_loss("huber", "regression")
    Huber(delta=1)
    """
    if loss is None:
        return usual_loss(task)
    if isinstance(loss, str):
        if loss not in LOSSES:
            names = ", ".join(sorted(LOSSES))
            raise FedRelaxError(
                f"{argument}={loss!r} is not known (known: {names}){did_you_mean(loss, LOSSES)}"
            )
        loss = LOSSES[loss]()
    if not isinstance(loss, Loss):
        raise FedRelaxError(f"{argument}={loss!r} must be a loss name or a fedrelax.losses.Loss")
    if argument == "loss" and isinstance(loss, Weighted):
        raise FedRelaxError(
            f"loss={loss!r} weighs public rows and applies between neighbours only; pass it as "
            f"discrepancy=, and loss={loss.plain.name!r}"
        )
    if task not in loss.tasks:
        fitting = ", ".join(sorted(name for name, kind in LOSSES.items() if task in kind.tasks))
        raise FedRelaxError(f"{argument}={loss.name!r} does not apply to {task}; use {fitting}")
    return loss


def requirement(loss: Loss, discrepancy: Loss) -> str:
    """Return what a model must offer to train on this pair: "weighted rows" or "gradients".

    With one loss for both, the update is ordinary training on stacked weighted rows, which any
    model does. With two, the model must minimise a sum of different losses.
    """
    return "weighted rows" if loss == discrepancy.plain else "gradients"

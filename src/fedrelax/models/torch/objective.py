"""The library's losses in PyTorch, and the objective of a node: the weighted mean over its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from fedrelax.losses import Absolute, Huber, Log, Loss, Squared

Tensor = Any


FORMS: dict[type[Loss], Callable[[Any, Tensor], Tensor]] = {
    Squared: lambda loss, error: error.square(),
    Absolute: lambda loss, error: error.abs(),
    Huber: lambda loss, error: functional.huber_loss(
        error, torch.zeros_like(error), reduction="none", delta=loss.delta
    ),
}
"""Losses of numbers as functions of the errors."""


class _Foreign(torch.autograd.Function):  # type: ignore[misc]
    """Any other loss, through its ``per_row`` and ``gradient``."""

    @staticmethod
    def forward(context: Any, prediction: Tensor, target: Tensor, loss: Loss) -> Tensor:
        given = target.numpy(force=True), prediction.numpy(force=True)
        context.save_for_backward(prediction.new_tensor(loss.gradient(*given)))
        return prediction.new_tensor(loss.per_row(*given))

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return slopes[0][..., None] * gradient, None, None


def per_row(
    loss: Loss, target: Tensor, output: Tensor, classify: bool, temperature: float = 1.0
) -> Tensor:
    """Return the loss of each row; ``output`` holds numbers, or logits of classes.

    At a temperature T other than 1, the log loss learns soft labels at that temperature:
    T^2 KL(t', softmax(output / T)) with t' proportional to t^(1/T). Hard labels are learnt at
    temperature 1.
    """
    if isinstance(loss, Log):
        if temperature == 1.0:
            return _divergence(target, output)
        heat = torch.where(target.amax(-1, keepdim=True) < 1.0, temperature, 1.0).to(output.dtype)
        softer = target ** (1.0 / heat)
        softer = softer / softer.sum(-1, keepdim=True)
        return heat.squeeze(-1) ** 2 * _divergence(softer, output / heat)
    prediction, form = output.softmax(-1) if classify else output, FORMS.get(type(loss))
    if form is not None:
        return form(loss, target - prediction).sum(-1)
    return _Foreign.apply(*torch.broadcast_tensors(prediction, target), loss)


def _divergence(target: Tensor, output: Tensor) -> Tensor:
    return functional.kl_div(output.log_softmax(-1), target, reduction="none").sum(-1)


def weighted(
    weights: Sequence[tuple[Loss, Tensor]],
    target: Tensor,
    output: Tensor,
    classify: bool,
    temperature: float,
) -> Tensor:
    """Return for every row r the sum of weight_r loss(target_r, output_r) over the losses."""
    parts = [
        weight * per_row(loss, target, output, classify, temperature) for loss, weight in weights
    ]
    return sum(parts[1:], parts[0])

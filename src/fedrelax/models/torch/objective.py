"""The library's losses in PyTorch, and the objective of a node: the weighted mean over its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from fedrelax.losses import Absolute, Huber, Log, Loss, Squared

Tensor = Any


def _squared(loss: Loss, target: Tensor, prediction: Tensor) -> Tensor:
    return (target - prediction).square().sum(-1)


def _absolute(loss: Loss, target: Tensor, prediction: Tensor) -> Tensor:
    return (target - prediction).abs().sum(-1)


def _huber(loss: Huber, target: Tensor, prediction: Tensor) -> Tensor:
    size = (target - prediction).abs()
    near = size.clamp(max=loss.delta)
    return (near * (size - near / 2)).sum(-1)


FORMS: dict[type[Loss], Callable[[Any, Tensor, Tensor], Tensor]] = {
    Squared: _squared,
    Absolute: _absolute,
    Huber: _huber,
}


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
    prediction = output.softmax(-1) if classify else output
    form = FORMS.get(type(loss))
    if form is not None:
        return form(loss, target, prediction)
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

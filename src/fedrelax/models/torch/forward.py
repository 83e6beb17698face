"""The forward pass through many nets of one architecture at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, vmap

from fedrelax.models.base import Task
from fedrelax.models.torch.building import shaped_output

Tensor = Any
Parameters = dict[str, Tensor]
Forward = Callable[[Parameters, Tensor, bool], Tensor]

ACTIVATIONS = (
    nn.ELU,
    nn.GELU,
    nn.Identity,
    nn.LeakyReLU,
    nn.ReLU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
)
"""Elementwise layers."""


def forward_of(module: Any, task: Task, train: bool) -> Forward:
    """Return the function (parameters of n nets, rows, each) -> (n, rows, outputs).

    With ``each``, the rows are (n, rows, ...): every net has its own. Without it, all nets get the same
    (rows, ...), which are not copied. ``torch.vmap`` handles any module; a chain of linear layers takes
    a faster way to the same numbers.
    """
    module.train(train)
    layers = _dense_layers(module)
    flattens = layers is not None and len(layers) < len(module)

    def one(parameters: Parameters, X: Tensor) -> Tensor:
        return shaped_output(module, functional_call(module, parameters, (X,)), len(X), task)

    def all_at_once(parameters: Parameters, X: Tensor, each: bool) -> Tensor:
        if layers is not None and (flattens or X.ndim == 2 + each):
            return _dense(layers, parameters, X.flatten(1 + each))
        return vmap(one, in_dims=(0, 0 if each else None))(parameters, X)

    return all_at_once


def _dense_layers(module: Any) -> list[tuple[str, Any]] | None:
    """Return the named layers of a chain of linear layers and activations, or None."""
    if type(module) is not nn.Sequential:
        return None
    layers = list(module.named_children())
    if layers and type(layers[0][1]) is nn.Flatten and _flattens_rows(layers[0][1]):
        layers = layers[1:]
    known = (nn.Linear, *ACTIVATIONS)
    starts = bool(layers) and type(layers[0][1]) is nn.Linear
    return layers if starts and all(type(layer) in known for _, layer in layers) else None


def _flattens_rows(layer: Any) -> bool:
    return bool(layer.start_dim == 1 and layer.end_dim == -1)


def _dense(layers: list[tuple[str, Any]], parameters: Parameters, X: Tensor) -> Tensor:
    """Return the output of the layers; internally, rows are the last dimension: (n, features, rows).

    Rows that all nets share pass all first layers in a single matrix product.
    """
    n = len(parameters[f"{layers[0][0]}.weight"])
    h, rows, fresh = X.mT, X.shape[-2], False
    for name, layer in layers:
        if type(layer) is nn.Linear:
            weight, bias = parameters[f"{name}.weight"], parameters.get(f"{name}.bias")
            shared = layer is layers[0][1] and X.ndim == 2
            h = _first(weight, bias, h) if shared else _later(weight, bias, h.reshape(n, -1, rows))
            fresh = True
        else:
            # Nothing else needs the output of a linear layer, so it may be overwritten.
            h = torch.relu_(h) if fresh and type(layer) is nn.ReLU else layer(h)
            fresh = False
    return h.reshape(n, -1, rows).mT


class _First(torch.autograd.Function):  # type: ignore[misc]
    """weight (n * outputs, features) times rows (features, rows), plus a bias per output.

    The gradient of the weights is computed as a product of wide matrices, several times as fast as the
    product of tall matrices that PyTorch would compute. The gradient of the rows is never needed.
    """

    @staticmethod
    def forward(context: Any, weight: Tensor, bias: Tensor | None, rows: Tensor) -> Tensor:
        context.save_for_backward(rows)
        return weight @ rows if bias is None else torch.addmm(bias, weight, rows)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (rows,), (slope,) = context.saved_tensors, slopes
        bias = slope.sum(1, keepdim=True) if context.needs_input_grad[1] else None
        return (rows @ slope.mT).mT.contiguous(), bias, None


def _first(weight: Tensor, bias: Tensor | None, h: Tensor) -> Tensor:
    flat = weight.reshape(-1, weight.shape[2])
    return _First.apply(flat, None if bias is None else bias.reshape(-1, 1), h)


def _later(weight: Tensor, bias: Tensor | None, h: Tensor) -> Tensor:
    return weight @ h if bias is None else torch.baddbmm(bias[:, :, None], weight, h)

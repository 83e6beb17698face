"""The built-in nets: a perceptron with hidden layers, and a linear model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from fedrelax.models.torch.description import TorchModel


@dataclass(frozen=True)
class MLP:
    """A factory of perceptrons with ReLU between the layers, for rows of any shape."""

    hidden: tuple[int, ...] = (32,)

    def __call__(self, input_shape: tuple[int, ...], n_outputs: int) -> Any:
        """Return the module."""
        sizes = (math.prod(input_shape), *self.hidden)
        layers: list[Any] = [nn.Flatten()]
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


@dataclass(frozen=True)
class Linear:
    """A factory of linear models, for rows of any shape."""

    bias: bool = True

    def __call__(self, input_shape: tuple[int, ...], n_outputs: int) -> Any:
        """Return the module."""
        layer = nn.Linear(math.prod(input_shape), n_outputs, bias=self.bias)
        return nn.Sequential(nn.Flatten(), layer)


def mlp(classify: bool) -> TorchModel:
    """Return a perceptron with 32 hidden units for unscaled tables, for numbers as for classes.

    Weight decay takes the role of the penalty in other models: a node may have few rows.
    """
    return TorchModel(
        MLP(),
        optimizer="adamw",
        options={"weight_decay": 0.1 if classify else 0.03},
        first=200,
        steps=50,
        scale=True,
    )


def linear(classify: bool) -> TorchModel:
    """Return a linear model trained by gradient steps, for unscaled tables."""
    return TorchModel(
        Linear(),
        optimizer="adamw",
        lr=0.03,
        options={"weight_decay": 0.1 if classify else 0.03},
        first=300,
        steps=50,
        scale=True,
    )

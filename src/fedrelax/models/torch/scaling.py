"""Inputs and targets standardised by a node's own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from fedrelax.typing import AnyArray, FloatArray

Tensor = Any


@dataclass(frozen=True, eq=False)
class Scaling:
    """x -> (x - mean) / spread before the module, z -> z target_spread + target_mean after it.

    The columns of a table are scaled one by one, inputs of a higher dimension channel by channel.
    A constant column is only centred.
    """

    mean: Tensor
    spread: Tensor
    target_mean: Tensor
    target_spread: Tensor

    @classmethod
    def of(
        cls, X: AnyArray, target: FloatArray, classify: bool, dtype: Any, device: Any
    ) -> Scaling:
        """Learn from a node's rows; class probabilities are not scaled."""
        axes = (0, *range(2, X.ndim))
        shape = (X.shape[1],) + (1,) * (X.ndim - 2)
        outputs = target.shape[1]
        found = (
            X.mean(axis=axes).reshape(shape),
            _positive(X.std(axis=axes)).reshape(shape),
            np.zeros(outputs) if classify else target.mean(axis=0),
            np.ones(outputs) if classify else _positive(target.std(axis=0)),
        )
        return cls(*(torch.as_tensor(value, dtype=dtype, device=device) for value in found))

    @classmethod
    def stack(cls, scalings: Sequence[Scaling]) -> Scaling:
        """Return the scalings of many nodes as one, nodes first."""
        names = [field.name for field in fields(cls)]
        return cls(*(torch.stack([getattr(s, name) for s in scalings]) for name in names))

    def at(self, place: int) -> Scaling:
        """Return one node's scaling of a stack."""
        return Scaling(*(getattr(self, field.name)[place].clone() for field in fields(self)))

    def inputs(self, X: Tensor) -> Tensor:
        """Scale rows for the module."""
        return (X - self.mean) / self.spread

    def outputs(self, Z: Tensor) -> Tensor:
        """Return the module's outputs in the target's unit."""
        return Z * self.target_spread + self.target_mean

    @property
    def unit(self) -> Tensor:
        """The mean square of the target's unit: what a squared error is divided by."""
        return self.target_spread.square().mean(-1)


def _positive(spread: FloatArray) -> FloatArray:
    return np.where(spread > 0, spread, 1.0)

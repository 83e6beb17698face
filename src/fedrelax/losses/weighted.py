"""A discrepancy that depends on where two nodes are compared: L(x, t, p) = w(x) L(t, p)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.losses.base import Loss
from fedrelax.typing import AnyArray, FloatArray


@dataclass(frozen=True, repr=False)
class Weighted(Loss):
    """Another loss, times a weight w(x) >= 0 of the public row: agreement counts where it matters.

    ``by`` gets the public rows and returns one weight for each. It is for ``discrepancy=`` only. Where the
    loss on own rows is the same, the weight of a public row is one of its pseudo-rows: any model does it.

    >>> from fedrelax.losses import Squared
    >>> near_zero = Weighted(Squared(), lambda X: np.exp(-X[:, 0] ** 2))
    >>> near_zero.weights(np.array([[0.0], [9.0]])).round(2)
    array([1., 0.])
    """

    loss: Loss
    by: Callable[[AnyArray], AnyArray]

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss) or isinstance(self.loss, Weighted):
            raise FedRelaxError(
                f"Weighted(loss={self.loss!r}): loss must be a fedrelax.losses.Loss"
            )
        if not callable(self.by):
            raise FedRelaxError(
                f"Weighted(by={self.by!r}): by must be a function of the public rows that returns "
                "a weight for each"
            )
        for fact in ("tasks", "symmetric", "collapses"):
            object.__setattr__(self, fact, getattr(self.loss, fact))
        object.__setattr__(self, "name", f"weighted {self.loss.name}")

    @property
    def plain(self) -> Loss:
        """The loss without its weights."""
        return self.loss

    def weights(self, X: AnyArray) -> FloatArray:
        """Return w(x) of each row, checked."""
        weights = np.asarray(self.by(X), dtype=float)
        one_each = weights.shape == (len(X),)
        if not (one_each and np.isfinite(weights).all() and (weights >= 0).all()):
            raise FedRelaxError(
                f"{self!r}: by must return {len(X)} finite weights of at least 0, one for each public row, "
                f"and returned an array of shape {weights.shape}"
                + (f" from {weights.min():g} to {weights.max():g}" if one_each else "")
            )
        if not weights.any():
            raise FedRelaxError(f"{self!r}: by gives every public row a weight of 0")
        return weights

    def per_row(self, target: FloatArray, prediction: FloatArray) -> NoReturn:
        """Refuse: without the rows there is no value."""
        raise FedRelaxError(f"{self!r} depends on the rows; ask weights(X) and plain.per_row")

    def gradient(self, target: FloatArray, prediction: FloatArray) -> NoReturn:
        """Refuse: without the rows there is no value."""
        raise FedRelaxError(f"{self!r} depends on the rows; ask weights(X) and plain.gradient")

    def __repr__(self) -> str:
        return f"Weighted({self.loss!r}, {getattr(self.by, '__name__', self.by)})"

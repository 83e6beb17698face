"""What a loss is: a number per row from a target and a prediction, or times a weight of the row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray


class Loss(ABC):
    """A loss L(target, prediction), used locally, across an edge, or both.

    Targets and predictions are arrays of shape (rows, outputs). In classification the outputs are
    class probabilities, so a label is a one-hot row and a neighbour's answer is a soft label.
    """

    name: ClassVar[str]
    tasks: ClassVar[frozenset[str]]
    symmetric: ClassVar[bool]
    """L(a, b) = L(b, a). The symmetric objective needs it, see ``solvers``."""
    collapses: ClassVar[bool]
    """sum_j a_j L(t_j, p) = (sum_j a_j) L(mean, p) + constant, with the a-weighted mean of the t_j.

    Then the neighbours' answers on one common public set become one pseudo-row per public point.
    """

    @property
    def plain(self) -> Loss:
        """The loss as a function of target and prediction alone; see ``Weighted``."""
        return self

    def weights(self, X: AnyArray) -> FloatArray | None:
        """Return w(x) of each row of a loss that depends on x; None: it depends on the predictions only."""
        return None

    @abstractmethod
    def per_row(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return L for each row; leading axes are allowed, the last axis holds the outputs."""

    @abstractmethod
    def gradient(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the derivative of ``per_row`` by the prediction, in the prediction's shape."""

    def mean(self, target: FloatArray, prediction: FloatArray) -> float:
        """Return the mean loss over the rows."""
        losses = self.per_row(target, prediction)
        return float(losses.sum() / losses.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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

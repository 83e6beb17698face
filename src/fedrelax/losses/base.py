"""What a loss is: a number per row from a target and a prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

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

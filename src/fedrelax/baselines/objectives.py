"""All nodes' own objectives over linear models as one batch: values and gradients."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fedrelax.engines.linear.network import (
    Coordinates,
    LinearNetwork,
    unsupported_models,
    unsupported_rows,
    unsupported_shape,
)
from fedrelax.linear.arrays import centre_and_spread, nonzero, softmax
from fedrelax.linear.problem import Group, NodeRows
from fedrelax.losses import Log, Squared
from fedrelax.models import LocalModel, SoftmaxModel
from fedrelax.network import Network, StackedRows
from fedrelax.typing import FloatArray, IntArray, Label, Model

MOST_IN_A_GROUP = 4096


class LocalObjectives:
    """F_i(w) = L_i(w) + sum_f penalty_if w_f^2 for models w of shape (d, q), L_i a mean over rows.

    L_i(w) = |X_i w - y_i|^2 / m_i, or the mean cross-entropy of softmax(X_i w) with ``classes``, whose y
    is one-hot. ``ridge`` (n, d) is a node's penalty next to a *sum* over its rows, as its own ``fit`` has
    it. By default it is divided by the node's rows; ``shared()`` divides its mean by all rows of all
    nodes, so that a model common to all nodes minimises what one pooled fit would.
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        offsets: npt.ArrayLike | None = None,
        *,
        intercept: bool = False,
        ridge: FloatArray | None = None,
        classes: bool = False,
    ) -> None:
        rows = NodeRows(X, np.asarray(y, dtype=float), offsets, intercept=intercept)
        self.n, self.d, self.q = rows.n, rows.d, rows.q
        self.counts = rows.counts.astype(float)
        self._groups, self._classes = list(rows.groups(MOST_IN_A_GROUP)), classes
        self._ridge = np.zeros((self.n, self.d)) if ridge is None else ridge
        self._penalty = (self._ridge / np.maximum(self.counts, 1)[:, None])[:, :, None]

    def shared(self) -> Self:
        """Return the same objectives with the penalty of one model on all rows."""
        other: Self = copy.copy(self)
        mean = self._ridge.mean(axis=0) / max(self.counts.sum(), 1.0)
        other._penalty = np.broadcast_to(mean, self._ridge.shape)[:, :, None]
        return other

    def step(self, W: FloatArray, rate: float, pull: FloatArray | float = 0.0) -> FloatArray:
        """Return all models after a gradient step along grad L_i + pull.

        The penalty's part is taken at the end of the step, so that a large one needs no small rate:
        w <- (w - rate (grad L_i(w) + pull)) / (1 + 2 rate penalty).
        """
        return np.asarray((W - rate * (self._slopes(W) + pull)) / (1 + 2 * rate * self._penalty))

    def value(self, W: FloatArray) -> FloatArray:
        """Return F_i at every node's own model W_i."""
        return np.asarray(self.losses(W) + (self._penalty * W * W).sum(axis=(1, 2)))

    def gradient(self, W: FloatArray) -> FloatArray:
        """Return the gradient of F_i at every node's own model W_i, (n, d, q)."""
        return np.asarray(self._slopes(W) + 2.0 * self._penalty * W)

    def mean_loss(self, W: FloatArray) -> float:
        """Return the mean loss over all rows, without penalties."""
        return float(np.average(self.losses(W), weights=self.counts))

    def random_models(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return models to start from, uniform within 1/sqrt(d) of zero."""
        size = self.d**-0.5
        return rng.uniform(-size, size, (count, self.d, self.q))

    def losses(self, W: FloatArray) -> FloatArray:
        """Return L_i at W_i; zero for a node without rows."""
        losses, loss = np.zeros(self.n), Log() if self._classes else Squared()
        for group in self._groups:
            losses[group.nodes] = group.mean_losses(loss, self._predictions(group, W))
        return losses

    @property
    def curvature(self) -> float:
        """At least the largest second derivative of any node's loss, by eigenvalues of X_i'X_i / m_i."""
        most = 0.0
        for group in self._groups:
            scaled = group.rows / np.sqrt(group.mask.sum(axis=1))[:, None, None]
            most = max(most, float(np.square(np.linalg.norm(scaled, 2, axis=(1, 2))).max()))
        return (0.5 if self._classes else 2.0) * most or 1.0

    def _slopes(self, W: FloatArray) -> FloatArray:
        """Return the gradient of L_i at W_i."""
        slopes = np.zeros((self.n, self.d, self.q))
        for group in self._groups:
            gaps = (self._predictions(group, W) - group.targets) * group.mask[:, :, None]
            sizes = group.mask.sum(axis=1)[:, None, None]
            slopes[group.nodes] = group.rows.transpose(0, 2, 1) @ gaps / sizes
        return slopes if self._classes else 2.0 * slopes

    def _predictions(self, group: Group, W: FloatArray) -> FloatArray:
        """Return the numbers, or the probabilities of all classes, that nodes' models predict."""
        scores = group.rows @ W[group.nodes]
        return softmax(scores) if self._classes else np.asarray(scores)


def group_means(
    values: FloatArray, member: IntArray, weights: FloatArray, groups: int
) -> FloatArray:
    """Return the weighted mean of ``values`` (n, ...) over each group; zero for an empty one.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]), 3)
    array([2., 5., 0.])
    """
    entries = (weights, (member, np.arange(len(member))))
    matrix = sparse.csr_array(entries, shape=(groups, len(member)))
    means = (matrix @ values.reshape(len(values), -1)) / nonzero(matrix.sum(axis=1))[:, None]
    return np.asarray(means).reshape(groups, *values.shape[1:])


@dataclass(frozen=True)
class LinearTask:
    """A network of linear models: the objectives, those of held-out rows, and how to make plain models."""

    own: LocalObjectives
    held: LocalObjectives | None
    coordinates: Coordinates
    network: LinearNetwork

    def models(self, W: FloatArray) -> Mapping[Label, LocalModel]:
        """Return plain models with weights (n, d, q), given in standardised coordinates."""
        return self.network.fitted(self.coordinates.back(np.array(W)))


def objectives_of(network: Network) -> LinearTask:
    """Return the objectives of a network that ``unsupported_reason`` has not refused."""
    if network.kind == "classification":
        plain = {id(m): _as_softmax(m, network) for m in network.distinct_models.values()}
        network = network.with_models({node.label: plain[id(node.model)] for node in network})
    linear = LinearNetwork(network)
    intercept, ridge = linear.intercept, linear.ridge
    coordinates = Coordinates.standard(linear.own.X, intercept)
    penalty = np.zeros((len(linear.labels), linear.n_weights))
    penalty[:, : ridge.shape[1]] = ridge / coordinates.scale**2
    classes = linear.task.is_classification

    def objectives(rows: StackedRows, penalty: FloatArray) -> LocalObjectives:
        X = coordinates.rows(rows.X)
        return LocalObjectives(
            X, rows.y, rows.offsets, intercept=intercept, ridge=penalty, classes=classes
        )

    own, held = objectives(linear.own, penalty), None
    if linear.validation.counts.any():
        held = objectives(linear.validation, np.zeros_like(penalty))
    return LinearTask(own, held, coordinates, linear)


def unsupported_reason(network: Network) -> str | None:
    """Return which node's model is not the linear model that exchanging parameters needs, or None."""
    if network.kind == "regression":
        return unsupported_models(network.distinct_models) or unsupported_rows(network)
    reason = unsupported_shape(network)
    if reason is not None:
        return reason
    for label, given in network.distinct_models.items():
        model = _plain(given)
        if not isinstance(model, LogisticRegression | SoftmaxModel) or not model.fit_intercept:
            return (
                f"node {label!r}: {type(given).__name__} is not LogisticRegression or "
                "SoftmaxModel with an intercept"
            )
    return None


def _plain(model: Model) -> Model:
    """Return the model behind a scaler: the objectives are standardised anyway."""
    if isinstance(model, Pipeline) and len(model) == 2 and isinstance(model[0], StandardScaler):
        return model[-1]
    return model


def _as_softmax(model: Model, network: Network) -> Model:
    """Return the softmax model that minimises what a logistic one does."""
    inner = _plain(model)
    if isinstance(inner, SoftmaxModel):
        return inner
    if not np.isfinite(inner.C):
        return SoftmaxModel(ridge=0.0)
    # With two classes LogisticRegression has one weight vector, where softmax has w/2 and -w/2.
    ridge = (1.0 if network.task.n_outputs == 2 else 0.5) / inner.C
    scale = None if inner is model else centre_and_spread(network.own_rows.X)[1].tolist()
    return SoftmaxModel(ridge=ridge, scale=scale)

"""Noise on sums: a node releases its second moments once, and everything else follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import centre_and_spread, with_constant
from fedrelax.network import Network
from fedrelax.privacy.accountant import GaussianMechanism
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Exchange, Layer, Message, Promise, Wrapped
from fedrelax.typing import AnyArray, FloatArray, Label

REACH = 0.9
"""The share of the public rows short enough not to be clipped."""


@dataclass(kw_only=True, eq=False)
class PrivateStatistics(Layer):
    """A node releases noisy moments of its rows once; its neighbours hear a linear model made from them.

    Rows become u = (x, 1) / sqrt(2), x centred and scaled by the public rows and clipped to length 1,
    and t: the target scaled to [-1, 1] by its declared ``range``, or the class as a unit vector. A node
    releases sum u u' and sum u t' with Gaussian noise. Instead of its own answers, neighbours hear those
    of a regularised linear regression on the moments of the node and its neighbours together. They follow
    from what has already been released, so any number of rounds costs no more. The node's own model may be
    of any kind, and learns from its exact rows.

    **Neighbouring datasets**: two datasets of one node that differ in one row, the number of rows being
    known. Both sums together then change by at most sqrt(4.5), and by at most 2 for classes.

    A layer serves a single run: a second one on the same rows would reveal more than was promised. Copies
    of an estimator share this object, and it cannot be sent to other processes, so a search over alpha
    cannot spend the budget unnoticed: choose alpha without it, or on public data. The promise covers what
    leaves a node through the exchange. Others also learn when a run stopped, whom a node listens to and
    which round was best, so settings that decide these by the rows are refused.

    epsilon, delta : the promise for a row of a node.
    range : the smallest and the largest target; values beyond are clipped. Do not take it from the rows.
        Classes need none.
    random_state : the seed of the noise. Anyone who knows it can remove the noise: use None outside
        experiments.
    """

    epsilon: float
    delta: float = 1e-5
    range: tuple[float, float] | None = None
    random_state: int | None = 0
    spent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        GaussianMechanism.for_budget(self.epsilon, self.delta)  # refuses an invalid one
        if self.range is not None and not -math.inf < self.range[0] < self.range[1] < math.inf:
            raise FedRelaxError(f"range={self.range!r} must be two finite numbers, low < high")

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise FedRelaxError(
            "PrivateStatistics holds a budget that can be spent once, so it cannot be copied to "
            "another process or file; use n_jobs=1 and give alpha as a number"
        )

    def check(self, network: Network, settings: Settings) -> None:
        """Refuse a second run, several sets of public rows, and decisions by rows without noise."""
        if not network.task.is_classification and self.range is None:
            raise FedRelaxError(
                "range=None: numbers need the smallest and the largest value, such as range=(-30, 30); "
                "take it from what is known beforehand, not from the rows"
            )
        if self.spent:
            raise FedRelaxError(
                "exchange: the budget of this PrivateStatistics has been spent in an earlier run; make a "
                "new one, and add up the epsilons of both"
            )
        deciding = {
            "patience": (settings.patience, None),
            "tol": (settings.tol, 0),
            "wiring": (settings.wiring, None),
        }
        for name, (value, allowed) in deciding.items():
            if value != allowed:
                raise FedRelaxError(
                    f"{name}={value!r} takes decisions, as a search over alpha does, by rows without "
                    f"noise; with PrivateStatistics use {name}={allowed} and a single alpha"
                )
        if network.public.common is None:
            raise FedRelaxError(
                "PrivateStatistics needs one common set of public rows, by which all nodes scale "
                "their rows, and here every node has its own; pass one array as public"
            )

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return the exchange that carries the released models; from now on the budget is spent."""
        self.spent = True
        return _Released(inner, self.answers(network))

    def noise(self, network: Network) -> GaussianMechanism:
        """Return the noise on the single release."""
        most = _sensitivity(network.task.is_classification)
        return GaussianMechanism.for_budget(self.epsilon, self.delta, most)

    def promise(self, network: Network, settings: Settings) -> Promise:
        """Return the promise that holds for every node."""
        says = self.describe(network, settings)
        epsilon = self.noise(network).epsilon(self.delta)
        return Promise(epsilon, self.delta, "one row of a node, replaced by another", says)

    def describe(self, network: Network, settings: Settings) -> str:
        """Return the promise: noise, sensitivity, epsilon and delta."""
        noise = self.noise(network)
        return (
            f"moments of each node's rows with noise {noise.sigma:.4g}, released once, sensitivity "
            f"{noise.sensitivity:.4g} (one row replaced): epsilon {noise.epsilon(self.delta):.4g} at "
            f"delta {self.delta:g}"
        )

    def answers(self, network: Network) -> dict[Label, FloatArray]:
        """Return what neighbours hear from every node: answers on the public rows.

        They are those of a least-squares fit to the summed moments, regularised by the noise: a symmetric
        matrix of noise with sigma / sqrt(2) off the diagonal has eigenvalues up to sigma sqrt(2 columns),
        so smaller eigenvalues cannot be told from zero, and are raised to that size.
        """
        task, public = network.task, network.public.common
        assert public is not None
        scaling, sigma = Scaling.of(public), self.noise(network).sigma
        classes, middle, half, most = task.is_classification, 0.0, 1.0, 1.0
        if not classes:
            assert self.range is not None
            low, high = self.range
            middle, half = (low + high) / 2, (high - low) / 2 * math.sqrt(task.n_outputs)
            most /= math.sqrt(task.n_outputs)
        moments = {}
        streams = np.random.SeedSequence(self.random_state).spawn(len(network))
        for node, stream in zip(network, streams, strict=True):
            targets = np.clip((task.encode(node.y) - middle) / half, -most, most)
            exact = _moments(scaling.rows(node.X), targets)
            moments[node.label] = _noisy(*exact, sigma, np.random.default_rng(stream))
        answers, rows = {}, scaling.rows(public)
        for label in network.labels:
            near = network.graph.neighbours(label)
            largest = max(near.values(), default=1.0)
            shares = {label: 1.0} | {other: weight / largest for other, weight in near.items()}
            square = np.sum([share * moments[j][0] for j, share in shares.items()], axis=0)
            cross = np.sum([share * moments[j][1] for j, share in shares.items()], axis=0)
            least = sigma * math.sqrt(2 * len(square) * sum(a**2 for a in shares.values()))
            values, vectors = np.linalg.eigh(square)
            weights = vectors @ ((vectors.T @ cross) / np.maximum(values, least)[:, None])
            answer = rows @ weights
            limited = middle + half * np.clip(answer, -most, most)
            answers[label] = on_simplex(answer) if classes else np.asarray(limited)
        return answers


@dataclass(frozen=True)
class Scaling:
    """How rows are scaled to a length of at most 1, using the public rows only."""

    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, public: AnyArray) -> Scaling:
        """Scale columns by their spread, and rows so that most public ones are short enough."""
        flat = np.asarray(public, dtype=float).reshape(len(public), -1)
        centre, spread = centre_and_spread(flat)
        length = np.quantile(np.linalg.norm((flat - centre) / spread, axis=1), REACH)
        return cls(centre, spread * (float(length) or 1.0))

    def rows(self, X: AnyArray) -> FloatArray:
        """Return u = (x, 1) / sqrt(2) of every row."""
        x = (np.asarray(X, dtype=float).reshape(len(X), -1) - self.centre) / self.spread
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        return with_constant(x) / math.sqrt(2)


class _Released(Wrapped):
    """Sends the released answers instead of a node's own.

    A resumed run sends the same ones: different ones would be a second release.
    """

    changing = ("_answers",)

    def __init__(self, inner: Exchange, answers: dict[Label, FloatArray]) -> None:
        super().__init__(inner)
        self._answers = answers

    def sent(self, message: Message) -> Message:
        """Return the released answers as a message."""
        return replace(message, predictions=self._answers[message.sender])


def _sensitivity(classes: bool) -> float:
    """Return the most by which (sum u u', sum u t') changes when one row (u, t) is replaced by (w, s).

    With a = u'w and b = t's, the squared change is at most 2 - 2 a^2 + 2 (1 - a b). The constant column
    adds 1/2 to a, and lengths are at most 1, so a >= 0. For b = -1 the bound is largest at a = 1/2; unit
    vectors of classes have b >= 0.
    """
    return 2.0 if classes else math.sqrt(4.5)


def _moments(rows: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    return rows.T @ rows, rows.T @ targets


def _noisy(
    square: FloatArray, cross: FloatArray, sigma: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Add noise to both; two equal entries of the first count as one number, sqrt(2) times as large."""
    noise = np.triu(rng.normal(0.0, sigma / math.sqrt(2), square.shape), 1)
    noise = noise + noise.T + np.diag(rng.normal(0.0, sigma, len(square)))
    return square + noise, cross + rng.normal(0.0, sigma, cross.shape)


def on_simplex(values: FloatArray) -> FloatArray:
    """Return the nearest probabilities of every row, in Euclidean distance.

    >>> on_simplex(np.array([[0.5, 0.9], [2.0, -1.0]])).round(2).tolist()
    [[0.3, 0.7], [1.0, 0.0]]
    """
    ordered = -np.sort(-values, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1.0
    ranks = np.arange(1, values.shape[-1] + 1)
    above = (ordered * ranks > excess).sum(axis=-1, keepdims=True)
    shift = np.take_along_axis(excess, above - 1, axis=-1) / above
    return np.asarray(np.maximum(values - shift, 0.0))

"""Noise on predictions: privacy for any model, at a high price."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models import Task
from fedrelax.network import Network
from fedrelax.privacy.accountant import Budget, GaussianMechanism
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Exchange, Message, Wrapped
from fedrelax.typing import FloatArray, Label
from fedrelax.validation import check_count


@dataclass(kw_only=True, eq=False)
class PrivatePredictions(Budget):
    """Predictions are clipped to a declared range and get Gaussian noise before they leave a node.

    rounds : the number planned; a run with more is refused. A node sends once more than there are
        rounds, and the budget covers all exchanges together.
    epsilon, delta : the promise. Or give ``sigma``, the noise of each number; epsilon follows from it.
    range : the smallest and the largest prediction to be sent. It must not be taken from the rows.
        Classes need none: their probabilities are points of the simplex.

    **Neighbouring datasets**: any two datasets of one node, whatever the number of rows that differ.
    Nothing is known about an arbitrary model but its range, so one row may change every answer, and the
    sensitivity of an exchange is the diameter of the set of possible answers on all m_pub public rows:

        (high - low) sqrt(m_pub outputs),   for classes sqrt(2 m_pub).

    That protects a node as a whole, and costs accordingly: a quarter of the public rows, or of the
    exchanges, halves the noise. ``PrivateStatistics`` promises less (it protects one row) for far less
    noise.
    """

    protects = "a whole node: any change of its rows"

    rounds: int
    epsilon: float | None = None
    sigma: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.sigma is None):
            raise FedRelaxError("PrivatePredictions needs epsilon= or sigma=, and not both")
        check_count("rounds", self.rounds, least=0)
        super().__post_init__()
        self.mechanism_for(1.0)  # refuses an invalid epsilon, sigma or delta

    def mechanism_for(self, sensitivity: float) -> GaussianMechanism:
        """Return the noise on all exchanges of one node."""
        releases = self.rounds + 1
        if self.sigma is not None:
            return GaussianMechanism(float(self.sigma), sensitivity, releases)
        assert self.epsilon is not None
        return GaussianMechanism.for_budget(self.epsilon, self.delta, sensitivity, releases)

    def sensitivity(self, rows: int, task: Task) -> float:
        """Return the Euclidean diameter of the set of possible answers on so many public rows."""
        if task.is_classification:
            return math.sqrt(2 * rows)
        low, high = self.limits
        return (high - low) * math.sqrt(rows * task.n_outputs)

    def check(self, network: Network, settings: Settings) -> None:
        """Refuse more rounds than planned, and settings under which nodes send more often."""
        super().check(network, settings)
        if settings.rounds is None or settings.rounds > self.rounds:
            raise FedRelaxError(
                f"rounds={settings.rounds!r}: the budget is planned for {self.rounds} rounds; give "
                f"rounds={self.rounds} or fewer, or plan for more"
            )
        if settings.order != "simultaneous":
            raise FedRelaxError(
                f"order={settings.order!r} sends twice per round, and the budget is planned for once; "
                "use order='simultaneous'"
            )
        if settings.objective == "gtvmin" and network.public.common is None:
            raise FedRelaxError(
                "objective='gtvmin' sends answers for several public sets per round if every node has "
                "its own, and the budget is planned for one; give one common public set"
            )

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return the exchange that adds the noise; from now on the budget is spent."""
        self.spent = True
        return _Noisy(inner, self, network)

    def noise(self, network: Network) -> GaussianMechanism:
        """Return the noise on all exchanges of the node with the most public rows."""
        rows = max(len(network.public.of(label)) for label in network.labels)
        return self.mechanism_for(self.sensitivity(rows, network.task))

    def describe(self, network: Network, settings: Settings) -> str:
        """Return the promise: noise, sensitivity, epsilon and delta."""
        noise = self.noise(network)
        return (
            f"predictions with noise {noise.sigma:.4g} in {noise.releases} exchanges, sensitivity "
            f"{noise.sensitivity:.4g} (any change of a node's rows): epsilon "
            f"{noise.epsilon(self.delta):.4g} at delta {self.delta:g}"
        )


class _Noisy(Wrapped):
    """Adds fresh noise for every node and round.

    A resumed run adds the noise that it would have added anyway: different noise on answers already sent
    would be a release beyond the budget.
    """

    changing = ("_sent", "_streams")

    def __init__(self, inner: Exchange, layer: PrivatePredictions, network: Network) -> None:
        super().__init__(inner)
        self._layer, self._task = layer, network.task
        self._sent: Counter[Label] = Counter()
        streams = np.random.SeedSequence(layer.random_state).spawn(len(network))
        self._streams = dict(zip(network.labels, map(np.random.default_rng, streams), strict=True))

    def post(self, messages: Iterable[Message]) -> None:
        """Pass on noisy messages; restored models (round -1) repeat what was sent, so they send nothing."""
        self.inner.post([self._noisy(message) for message in messages if message.round >= 0])

    def state(self) -> dict[str, Any]:
        """Return how often every node has sent, and the state of its noise generator."""
        streams = {label: rng.bit_generator.state for label, rng in self._streams.items()}
        return {"sent": dict(self._sent), "streams": streams}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue counting and drawing from a saved state."""
        self._sent = Counter(state["sent"])
        for label, stream in state["streams"].items():
            self._streams[label].bit_generator.state = stream

    def _noisy(self, message: Message) -> Message:
        self._sent[message.sender] += 1
        if self._sent[message.sender] > self._layer.rounds + 1:
            raise FedRelaxError(
                f"node {message.sender!r} would send more often than the {self._layer.rounds + 1} times "
                "for which its privacy budget was planned; plan for more rounds"
            )
        exact, layer = self._clipped(message.predictions), self._layer
        sigma = layer.mechanism_for(layer.sensitivity(len(exact), self._task)).sigma
        noise = self._streams[message.sender].normal(0.0, sigma, exact.shape)
        return replace(message, predictions=self._clipped(exact + noise))

    def _clipped(self, answers: FloatArray) -> FloatArray:
        """Return the nearest admissible answers; after the noise this costs no privacy."""
        if self._task.is_classification:
            return on_simplex(answers)
        return np.asarray(np.clip(answers, *self._layer.limits))


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

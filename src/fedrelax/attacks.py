"""Attackers as layers around the exchange: nodes that train as they should and lie about it.

    FedRelax(exchange=SignFlipped(share=0.2), combine="median")

Liars are drawn by ``seed``, or named in ``nodes``. An attacker knows what an honest node would send in
its place, and the others' public rows, as any neighbour does; colluding ones know each other, too.
Flipped labels are an attack before the first round: :func:`flip_labels`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.errors import FedRelaxError, named
from fedrelax.network import Network
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Exchange, Layer, Message, Wrapped
from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True, kw_only=True)
class Attack(Layer):
    """``share`` of the nodes lie, or those in ``nodes``."""

    share: float = 0.2
    nodes: tuple[Label, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise FedRelaxError(
                f"{type(self).__name__}(share={self.share!r}) must be a share from 0 to 1"
            )

    def attackers(self, labels: Sequence[Label]) -> tuple[Label, ...]:
        """Return who lies: ``nodes`` as given, or those drawn, in the order of the network."""
        if self.nodes is not None:
            return self.nodes
        count = round(self.share * len(labels))
        chosen = np.random.default_rng(self.seed).choice(len(labels), count, replace=False)
        return tuple(labels[k] for k in sorted(chosen))

    def check(self, network: Network, settings: Settings) -> None:
        """Refuse attackers that are not in the network."""
        unknown = [label for label in self.attackers(network.labels) if label not in network.nodes]
        if unknown:
            raise FedRelaxError(
                f"{type(self).__name__}(nodes=...): {named('node', unknown, 'is')} not in the network"
            )

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange in which some lie."""
        return _Lying(inner, self, network)

    @abstractmethod
    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return what is sent instead; ``rng`` is that of the node and round."""


class _Lying(Wrapped):
    changing = ("_copied",)

    def __init__(self, inner: Exchange, attack: Attack, network: Network) -> None:
        super().__init__(inner)
        self._attack, self._classes = attack, network.task.is_classification
        numbers = {label: number for number, label in enumerate(network.labels)}
        self._liars = {label: numbers[label] for label in attack.attackers(network.labels)}
        self._copied: FloatArray | None = None

    def sent(self, message: Message) -> Message:
        """Return a lie in place of an attacker's message."""
        if message.sender not in self._liars:
            return message
        honest, round = message.predictions, max(message.round, 0)
        if isinstance(self._attack, Colluding):
            if message.sender == next(iter(self._liars)) or self._copied is None:
                self._copied = honest
            honest = self._copied
        rng = np.random.default_rng([self._attack.seed, self._liars[message.sender], round])
        # 1/classes is to probabilities what zero is to numbers: to know nothing.
        centre = 1.0 / honest.shape[1] if self._classes else 0.0
        lie = centre + self._attack.lie(honest - centre, round, rng)
        return replace(message, predictions=lie)


@dataclass(frozen=True, kw_only=True)
class Constant(Attack):
    """Always the same number."""

    value: float = 10.0

    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return it; with classes, in favour of the first one."""
        lie = np.zeros_like(honest)
        lie[:, 0] = self.value
        return lie


@dataclass(frozen=True, kw_only=True)
class Scaled(Attack):
    """The truth times ``factor``."""

    factor: float = 10.0

    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return multiples."""
        return self.factor * honest


@dataclass(frozen=True, kw_only=True)
class SignFlipped(Scaled):
    """The opposite of the truth."""

    factor: float = -1.0


@dataclass(frozen=True, kw_only=True)
class Random(Attack):
    """Noise, ``scale`` times as large as the truth, new in every round."""

    scale: float = 3.0

    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return noise."""
        return rng.normal(0.0, self.scale * _size(honest), honest.shape)


@dataclass(frozen=True, kw_only=True)
class NotANumber(Attack):
    """NaN, or another ``value`` that is not finite."""

    value: float = float("nan")

    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return it everywhere."""
        return np.full_like(honest, self.value)


@dataclass(frozen=True, kw_only=True)
class Colluding(Scaled):
    """All attackers send the same lie: ``factor`` times the honest answer of the first one."""

    factor: float = -3.0


@dataclass(frozen=True, kw_only=True)
class Drifting(Attack):
    """The truth at first, then off by ``step`` times its size more in every round."""

    step: float = 0.1

    def lie(self, honest: FloatArray, round: int, rng: np.random.Generator) -> FloatArray:
        """Return answers that are off by a little more than before."""
        lie = honest.copy()
        lie[:, 0] += self.step * round * _size(honest)
        return lie


def _size(answers: FloatArray) -> float:
    return float(np.sqrt(np.square(answers).mean()))


def flip_labels(network: Network, nodes: Iterable[Label]) -> Network:
    """Return the network with the labels of some nodes flipped: -y, or the classes in reverse order."""
    changed, classes = set(nodes), network.task.classes
    made = Network(network.graph, network.kind, network.public.common)
    for node in network:
        y = node.y
        if node.label in changed:
            y = -y if classes is None else classes[::-1][np.searchsorted(classes, y)]
        made.add(node.label, node.X, y, node.model, public=node.public, validation=node.validation)
    return made

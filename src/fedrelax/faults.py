"""Faults as layers around the exchange: nodes that are away, messages that are lost, late or out of order.

    FedRelax(exchange=[Absent(0.5), Lost(0.2), Delayed(3)], rounds=100)

A node that hears nothing new keeps using what it heard last. Solver and sites know nothing of faults. What
happens depends only on the seed, the round and the nodes, not on the order of the calls. A round in which
little arrives changes little, so such a run does not stop when predictions settle: it runs all rounds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.runtime.exchange import Exchange, Layer, Message, Settings, Wrapped
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label

__all__ = ["Absent", "Churn", "Delayed", "Lost", "Reordered"]

ABSENT, CHURN, LOST, DELAYED, REORDERED = range(5)
"""Separate the draws of different faults under one seed."""


class _Rounds(Wrapped):
    """An exchange that knows the nodes' places and which round it is."""

    changing: ClassVar[tuple[str, ...]] = ("round",)

    def __init__(self, inner: Exchange, labels: Iterable[Label]) -> None:
        super().__init__(inner)
        self.place = {label: place for place, label in enumerate(labels)}
        self.round = 0

    def post(self, messages: Iterable[Message]) -> None:
        """Note the round; models restored at the end are sent as round -1 and leave it as it is."""
        kept = list(messages)
        rounds = [message.round for message in kept if message.round >= 0]
        self.round = max([self.round, *rounds])
        self.inner.post(self.passing(kept))

    def passing(self, messages: list[Message]) -> list[Message]:
        """Return the messages that leave their sender."""
        return messages


# Nodes that are away


@dataclass(frozen=True)
class _Away(Layer):
    """Nodes that neither send nor hear in some rounds."""

    interrupts = True

    @abstractmethod
    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Return who is away in each of the first rounds, (rounds, nodes)."""

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange without those who are away."""
        return _WithoutSome(inner, network.labels, self)


class _WithoutSome(_Rounds):
    def __init__(self, inner: Exchange, labels: Iterable[Label], layer: _Away) -> None:
        super().__init__(inner, labels)
        self._layer, self._known = layer, layer.away(1, len(self.place))

    def _is_away(self, label: Label) -> bool:
        if self.round >= len(self._known):
            self._known = self._layer.away(2 * self.round + 1, len(self.place))
        return bool(self._known[self.round, self.place[label]])

    def passing(self, messages: list[Message]) -> list[Message]:
        return [message for message in messages if not self._is_away(message.sender)]

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        return [] if self._is_away(receiver) else self.inner.collect(receiver, senders)


@dataclass(frozen=True)
class Absent(_Away):
    """In every round each node is away with probability ``share``."""

    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        _check_share("Absent", "share", self.share)

    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Draw independently for every round."""
        draws = np.random.default_rng([self.seed, ABSENT]).random((rounds, nodes))
        return np.asarray(draws < self.share)


@dataclass(frozen=True)
class Churn(_Away):
    """Nodes go away for several rounds: present ones ``leave``, and absent ones come ``back``, in every
    round with these probabilities. ``leave / (leave + back)`` of them are away, from the first round on."""

    leave: float = 0.1
    back: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        _check_share("Churn", "leave", self.leave)
        _check_share("Churn", "back", self.back)
        if self.back == 0:
            raise FedRelaxError("Churn(back=0): nodes that leave never return; give back > 0")

    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Follow every node from round to round."""
        draws = np.random.default_rng([self.seed, CHURN]).random((rounds, nodes))
        found = np.empty((rounds, nodes), dtype=bool)
        gone = draws[0] < self.leave / (self.leave + self.back)
        for round, draw in enumerate(draws):
            found[round] = gone
            gone = np.where(gone, draw >= self.back, draw < self.leave)
        return found


# Messages that are lost or late


@lru_cache(maxsize=4096)
def _drawn(seed: int, kind: int, round: int, receiver: int, senders: int) -> FloatArray:
    """Return numbers in [0, 1) for all messages to a node in a round."""
    return np.random.default_rng([seed, kind, max(round, 0), receiver]).random(senders)


@dataclass(frozen=True)
class Lost(Layer):
    """Every message is lost on its way to a neighbour with probability ``share``."""

    interrupts = True

    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        _check_share("Lost", "share", self.share)

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange that loses messages."""
        return _Losing(inner, network.labels, self)


class _Losing(_Rounds):
    def __init__(self, inner: Exchange, labels: Iterable[Label], layer: Lost) -> None:
        super().__init__(inner, labels)
        self._layer = layer

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Return what is not lost; an earlier round's message is lost or not as it was then."""
        found = self.inner.collect(receiver, senders)
        return [message for message in found if self._arrives(receiver, message)]

    def _arrives(self, receiver: Label, message: Message) -> bool:
        place = self.place[receiver], len(self.place)
        draws = _drawn(self._layer.seed, LOST, message.round, *place)
        return bool(draws[self.place[message.sender]] >= self._layer.share)


class _Late(Layer):
    """Messages that arrive some rounds after they were sent."""

    interrupts = True
    in_order: ClassVar[bool]
    """Whether a message is dropped if a later one of the same sender has arrived before it."""

    @abstractmethod
    def delays(self, round: int, receiver: int, senders: int) -> IntArray:
        """Return by how many rounds the messages sent to a node in a round are late, by sender."""

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange that holds messages back."""
        return _Holding(inner, network.labels, self)


@dataclass(frozen=True)
class Delayed(_Late):
    """Every message is late by 0 to ``most`` rounds, all equally likely; a newer one replaces it."""

    in_order = True

    most: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 0:
            raise FedRelaxError(f"Delayed(most={self.most!r}) must be a whole number of rounds")

    def delays(self, round: int, receiver: int, senders: int) -> IntArray:
        """Draw a delay for every message."""
        draws = _drawn(self.seed, DELAYED, round, receiver, senders)
        return np.asarray(draws * (self.most + 1), dtype=np.int64)


@dataclass(frozen=True)
class Reordered(_Late):
    """Messages arrive after the next one of their sender with probability ``share``, and replace it."""

    in_order = False

    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        _check_share("Reordered", "share", self.share)

    def delays(self, round: int, receiver: int, senders: int) -> IntArray:
        """Hold some back for one round."""
        draws = _drawn(self.seed, REORDERED, round, receiver, senders)
        return np.asarray(draws < self.share, dtype=np.int64)


class _Holding(_Rounds):
    """Keeps messages that have been sent but have not arrived."""

    changing = ("round", "_count", "_taken", "_given", "_waiting")

    def __init__(self, inner: Exchange, labels: Iterable[Label], layer: _Late) -> None:
        super().__init__(inner, labels)
        self._layer, self._count = layer, 0
        self._taken: dict[tuple[Label, Label, Label], Message] = {}
        self._given: dict[tuple[Label, Label, Label], int] = {}
        self._waiting: dict[Label, list[tuple[int, int, Message]]] = {}

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Take in what is new, and return what has arrived by now; the last of a sender counts."""
        waiting = self._waiting.setdefault(receiver, [])
        for message in self.inner.collect(receiver, senders):
            key = receiver, message.sender, message.owner
            if self._taken.get(key) is not message:
                self._taken[key] = message
                self._count += 1
                waiting.append((self.round + self._delay(receiver, message), self._count, message))
        self._waiting[receiver] = [one for one in waiting if one[0] > self.round]
        arrived = [(number, message) for when, number, message in waiting if when <= self.round]
        arrived.sort(key=lambda one: one[0], reverse=not self._layer.in_order)
        return [message for number, message in arrived if self._counts(receiver, number, message)]

    def _delay(self, receiver: Label, message: Message) -> int:
        place = self.place[receiver], len(self.place)
        return int(self._layer.delays(message.round, *place)[self.place[message.sender]])

    def _counts(self, receiver: Label, number: int, message: Message) -> bool:
        key = receiver, message.sender, message.owner
        if self._layer.in_order and number < self._given.get(key, 0):
            return False
        self._given[key] = number
        return True


def _check_share(layer: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise FedRelaxError(f"{layer}({name}={value!r}) must be a share of at least 0 and below 1")

"""Faults as layers around the exchange: nodes that are away, messages that are lost, late or out of order.

    FedRelax(exchange=[Absent(0.5), Lost(0.2), Delayed(3)], rounds=100)

A node that hears nothing new keeps using what it heard last. Solver and sites know nothing of faults. What
happens depends only on the seed, the round and the nodes, not on the order of the calls. A round in which
little arrives changes little, so such a run does not stop when predictions settle: it runs all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import ClassVar

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Exchange, Layer, Message, Wrapped
from fedrelax.typing import AnyArray, FloatArray, Label


class _Fault(Layer):
    """Who is away in a round, and how late a message is."""

    interrupts = True
    number: ClassVar[int]
    """Separates the draws of different faults under one seed."""
    shares: ClassVar[tuple[str, ...]] = ("share",)
    in_order: ClassVar[bool] = True
    """Whether a message is dropped if a later one of the same sender has arrived before it."""
    seed: int

    def __post_init__(self) -> None:
        for name in self.shares:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
                raise FedRelaxError(
                    f"{type(self).__name__}({name}={value!r}) must be a share of at least 0 and below 1"
                )

    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Return who neither sends nor hears in each of the first rounds, (rounds, nodes)."""
        return np.zeros((rounds, nodes), dtype=bool)

    def delay(self, draw: float) -> float:
        """Return by how many rounds a message is late; ``draw`` is its number in [0, 1)."""
        return 0

    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange with this fault."""
        return _FaultyExchange(inner, network.labels, self)


class _FaultyExchange(Wrapped):
    """Keeps messages that have been sent but have not arrived."""

    changing = ("round", "_count", "_taken", "_given", "_waiting")

    def __init__(self, inner: Exchange, labels: Sequence[Label], fault: _Fault) -> None:
        super().__init__(inner)
        self._numbers = {label: number for number, label in enumerate(labels)}
        self._fault, self._away = fault, fault.away(1, len(labels))
        self.round = self._count = 0
        self._taken: dict[tuple[Label, Label, Label], Message] = {}
        self._given: dict[tuple[Label, Label, Label], int] = {}
        self._waiting: dict[Label, list[tuple[float, int, Message]]] = {}

    def post(self, messages: Iterable[Message]) -> None:
        """Note the round; models restored at the end are sent as round -1 and leave it as it is."""
        messages = list(messages)
        self.round = max([self.round, *(message.round for message in messages)])
        self.inner.post([message for message in messages if not self._is_away(message.sender)])

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Take in what is new, and return what has arrived by now; the last of a sender counts."""
        if self._is_away(receiver):
            return []
        waiting = self._waiting.setdefault(receiver, [])
        for message in self.inner.collect(receiver, senders):
            key = receiver, message.sender, message.owner
            if self._taken.get(key) is not message:
                self._taken[key] = message
                self._count += 1
                late = self._fault.delay(self._draw(receiver, message))
                if late < math.inf:
                    waiting.append((self.round + late, self._count, message))
        self._waiting[receiver] = [one for one in waiting if one[0] > self.round]
        arrived = [(number, message) for when, number, message in waiting if when <= self.round]
        arrived.sort(key=lambda one: one[0], reverse=not self._fault.in_order)
        messages = []
        for number, message in arrived:
            key = receiver, message.sender, message.owner
            if not self._fault.in_order or number >= self._given.get(key, 0):
                self._given[key] = number
                messages.append(message)
        return messages

    def _is_away(self, label: Label) -> bool:
        if self.round >= len(self._away):
            self._away = self._fault.away(2 * self.round + 1, len(self._numbers))
        return bool(self._away[self.round, self._numbers[label]])

    def _draw(self, receiver: Label, message: Message) -> float:
        """Return the number that decides about one message."""
        fault, to = self._fault, self._numbers[receiver]
        draws = _draws(fault.seed, fault.number, max(message.round, 0), to, len(self._numbers))
        return float(draws[self._numbers[message.sender]])


@lru_cache(maxsize=4096)
def _draws(seed: int, fault: int, round: int, receiver: int, senders: int) -> FloatArray:
    return np.random.default_rng([seed, fault, round, receiver]).random(senders)


@dataclass(frozen=True)
class Absent(_Fault):
    """In every round each node is away with probability ``share``."""

    number = 0

    share: float = 0.5
    seed: int = 0

    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Draw independently for every round."""
        draws = np.random.default_rng([self.seed, self.number]).random((rounds, nodes))
        return np.asarray(draws < self.share)


@dataclass(frozen=True)
class Churn(_Fault):
    """Nodes go away for several rounds: present ones ``leave``, and absent ones come ``back``, in every
    round with these probabilities. ``leave / (leave + back)`` of them are away, from the first round on."""

    number = 1
    shares = ("leave", "back")

    leave: float = 0.1
    back: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.back == 0:
            raise FedRelaxError("Churn(back=0): nodes that leave never return; give back > 0")

    def away(self, rounds: int, nodes: int) -> AnyArray:
        """Follow every node from round to round."""
        draws = np.random.default_rng([self.seed, self.number]).random((rounds, nodes))
        away = np.empty((rounds, nodes), dtype=bool)
        gone = draws[0] < self.leave / (self.leave + self.back)
        for round, draw in enumerate(draws):
            away[round] = gone
            gone = np.where(gone, draw >= self.back, draw < self.leave)
        return away


@dataclass(frozen=True)
class Lost(_Fault):
    """Every message is lost on its way to a neighbour with probability ``share``."""

    number = 2

    share: float = 0.2
    seed: int = 0

    def delay(self, draw: float) -> float:
        """Return infinity for a message that never arrives."""
        return math.inf if draw < self.share else 0


@dataclass(frozen=True)
class Delayed(_Fault):
    """Every message is late by 0 to ``most`` rounds, all equally likely; a newer one replaces it."""

    number = 3
    shares = ()

    most: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 0:
            raise FedRelaxError(f"Delayed(most={self.most!r}) must be a whole number of rounds")

    def delay(self, draw: float) -> float:
        """Return a delay of at most ``most`` rounds."""
        return int(draw * (self.most + 1))


@dataclass(frozen=True)
class Reordered(_Fault):
    """Messages arrive after the next one of their sender with probability ``share``, and replace it."""

    number = 4
    in_order = False

    share: float = 0.2
    seed: int = 0

    def delay(self, draw: float) -> float:
        """Return a delay of one round for some."""
        return int(draw < self.share)

"""What passes between nodes, and how: nothing but predictions on public rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Message:
    """A node's predictions on public rows.

    ``owner`` says on whose public rows: the sender's own, or, for the symmetric objective, the
    receiver's. The rows themselves are public and known to both ends.
    """

    sender: Label
    owner: Label
    round: int
    predictions: FloatArray


class Exchange(Protocol):
    """Carries messages. It may lose or change them: a node then works with what it has."""

    def post(self, messages: Iterable[Message]) -> None:
        """Take messages that a node sends in this round."""

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Return the messages waiting for a node."""


class LocalExchange:
    """An exchange within one process, which holds each sender's latest messages."""

    def __init__(self) -> None:
        self._latest: dict[Label, dict[Label, Message]] = {}

    def post(self, messages: Iterable[Message]) -> None:
        """Keep the messages until newer ones replace them."""
        for message in messages:
            self._latest.setdefault(message.sender, {})[message.owner] = message

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Return each sender's messages on its own rows and on the receiver's."""
        found: list[Message] = []
        for sender in senders:
            posted = self._latest.get(sender, {})
            found += [posted[owner] for owner in (sender, receiver) if owner in posted]
        return found

    def state(self) -> list[Message]:
        """Return all messages held."""
        return [message for posted in self._latest.values() for message in posted.values()]

    def resume(self, state: Iterable[Message]) -> None:
        """Hold the messages that ``state`` returned."""
        self._latest = {}
        self.post(state)

"""What passes between nodes, predictions on public rows, and layers around it: noise, faults, attacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.typing import FloatArray, Label

if TYPE_CHECKING:
    from fedrelax.runtime.settings import Settings


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


@dataclass(frozen=True)
class Promise:
    """A layer's promise to every node: (epsilon, delta) differential privacy of what ``protects`` names."""

    epsilon: float
    delta: float
    protects: str
    says: str
    """The promise in one sentence, with noise and sensitivity."""


class Layer(ABC):
    """Something between the nodes in a run: ``FedRelax(exchange=[one, another])``.

    The first of several is nearest to the sender. A layer is only a description; ``around`` builds the
    exchange of one run from it.
    """

    interrupts: ClassVar[bool] = False
    """Whether nodes may miss messages, so that a round without change does not mean convergence."""

    def check(self, network: Network, settings: Settings) -> None:  # noqa: B027 - most suit any run
        """Refuse a network, or settings of ``solvers.FedRelax``, that the layer cannot work with."""

    @abstractmethod
    def around(self, inner: Exchange, network: Network, settings: Settings) -> Exchange:
        """Return an exchange that does the layer's part and leaves the rest to ``inner``."""

    def describe(self, network: Network, settings: Settings) -> str:
        """Return how a result describes the layer."""
        return repr(self)

    def promise(self, network: Network, settings: Settings) -> Promise | None:
        """Return the privacy that the layer promises every node, or None."""
        return None


class Wrapped:
    """An exchange that passes everything on; a layer's own subclass overrides what it changes."""

    changing: ClassVar[tuple[str, ...] | None] = None
    """The attributes that change during a run, which a checkpoint must save. None means not declared: a run
    with this layer cannot have a checkpoint."""

    def __init__(self, inner: Exchange) -> None:
        self.inner = inner

    def post(self, messages: Iterable[Message]) -> None:
        """Pass messages on, each as ``sent`` leaves it."""
        self.inner.post([self.sent(message) for message in messages])

    def sent(self, message: Message) -> Message:
        """Return what is passed on in place of a message."""
        return message

    def collect(self, receiver: Label, senders: Iterable[Label]) -> list[Message]:
        """Return what ``inner`` holds for a node."""
        return self.inner.collect(receiver, senders)

    def state(self) -> dict[str, Any]:
        """Return the attributes in ``changing`` as plain values."""
        return {name: getattr(self, name) for name in self.changing or ()}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore the attributes that ``state`` returned."""
        for name in self.changing or ():
            setattr(self, name, state[name])


def as_layers(given: Any) -> tuple[Layer, ...]:
    """Return the layers of ``exchange=``: None, one layer, or several."""
    if given is None:
        return ()
    layers = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    for layer in layers:
        if not isinstance(layer, Layer):
            raise FedRelaxError(
                f"exchange={given!r} must be None, a layer of fedrelax.privacy, fedrelax.faults or "
                f"fedrelax.attacks, or a list of layers; {layer!r} is not a layer"
            )
    return tuple(layers)


def layered(
    inner: Exchange, layers: Sequence[Layer], network: Network, settings: Settings
) -> Exchange:
    """Return the exchange wrapped in all layers; posted messages pass through the first layer first."""
    for layer in reversed(layers):
        inner = layer.around(inner, network, settings)
    return inner


def parts_of(exchange: Any) -> list[Any]:
    """Return an exchange and those inside it, from the outside in."""
    found = [exchange]
    while isinstance(found[-1], Wrapped):
        found.append(found[-1].inner)
    return found


def unsupported_checkpoint(exchange: Exchange) -> str | None:
    """Return why an exchange cannot be saved in a checkpoint, or None if it can."""
    for part in parts_of(exchange):
        known = part.changing is not None if isinstance(part, Wrapped) else hasattr(part, "resume")
        if not known:
            return (
                f"{type(part).__name__}, which wraps the exchange, does not declare what changes during "
                "a run; name those attributes in changing"
            )
    return None

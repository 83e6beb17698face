"""Which engine runs: the first that does not refuse."""

from __future__ import annotations

from fedrelax.combining import Mean, as_combine
from fedrelax.engines.base import Engine, Settings, Unsuited
from fedrelax.errors import FedRelaxError
from fedrelax.members import members
from fedrelax.network import Network
from fedrelax.runtime.exchange import as_layers

ENGINES: tuple[type[Engine], ...] = tuple(
    sorted(members("fedrelax.engines", Engine).values(), key=lambda kind: kind.rank)
)
"""From the most specialised to the one for any models."""
NAMES = ("auto", *(engine.name for engine in ENGINES))


def engine_for(name: str, network: Network, settings: Settings) -> type[Engine]:
    """Return the engine of this name, or with "auto" the first whose cheap check does not refuse."""
    for kind in ENGINES[:-1]:
        if name in ("auto", kind.name) and _refusal(kind, network, settings) is None:
            return kind
    return ENGINES[-1]


def _refusal(kind: type[Engine], network: Network, settings: Settings) -> str | None:
    """Return why an engine does not support the network with these settings, or None."""
    if not kind.sends and as_layers(settings.exchange):
        return "it sends no messages for exchange= to act on"
    if not kind.sends and not isinstance(as_combine(settings.combine), Mean):
        return f"it always takes the neighbours' mean, but combine={settings.combine!r} is given"
    if not kind.sends and settings.update != "refit":
        return f"it fits one model at each node, and update={settings.update!r} fits two"
    if not kind.sends and settings.order == "asynchronous":
        return "it computes all nodes at once, but order='asynchronous' updates them one by one"
    return kind.refusal(network, settings)


def prepare(name: str, network: Network, settings: Settings) -> Engine:
    """Return the engine of this name, or with "auto" the first that does not refuse.

    All give the same result; they differ in speed.
    """
    for kind in ENGINES:
        if name not in ("auto", kind.name):
            continue
        reason = _refusal(kind, network, settings)
        if reason is None:
            try:
                return kind.of(network, settings)
            except Unsuited as unsuited:
                reason = unsuited.reason
        if kind is ENGINES[-1]:
            raise FedRelaxError(reason)
        if name == kind.name:
            raise Unsuited(name, reason)
    raise AssertionError(f"no engine is called {name!r}")

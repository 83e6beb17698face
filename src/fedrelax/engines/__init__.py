"""Engines: ways to compute the same rounds, each for the networks it supports."""

from fedrelax.engines.base import Engine, UnsupportedNetworkError
from fedrelax.engines.linear.engine import LinearEngine
from fedrelax.engines.sites.engine import SiteEngine
from fedrelax.engines.softmax import SoftmaxEngine
from fedrelax.errors import FedRelaxError
from fedrelax.members import members
from fedrelax.network import Network
from fedrelax.runtime import Settings

__all__ = [
    "ENGINES",
    "NAMES",
    "Engine",
    "LinearEngine",
    "SiteEngine",
    "SoftmaxEngine",
    "UnsupportedNetworkError",
    "engine_for",
    "prepare",
]

ENGINES: tuple[type[Engine], ...] = tuple(
    sorted(members("fedrelax.engines", Engine).values(), key=lambda kind: kind.rank)
)
"""From the most specialised to the one for any models."""
NAMES = ("auto", *(engine.name for engine in ENGINES))


def engine_for(name: str, network: Network, settings: Settings) -> type[Engine]:
    """Return the engine of this name, or with "auto" the first whose cheap check does not refuse."""
    for kind in ENGINES[:-1]:
        if name in ("auto", kind.name) and kind.unsupported_reason(network, settings) is None:
            return kind
    return ENGINES[-1]


def prepare(name: str, network: Network, settings: Settings) -> Engine:
    """Return the engine of this name, or with "auto" the first that does not refuse.

    All give the same result; they differ in speed.
    """
    for kind in ENGINES:
        if name not in ("auto", kind.name):
            continue
        reason = kind.unsupported_reason(network, settings)
        if reason is None:
            try:
                return kind.of(network, settings)
            except UnsupportedNetworkError as error:
                reason = error.reason
        if kind is ENGINES[-1]:
            raise FedRelaxError(reason)
        if name == kind.name:
            raise UnsupportedNetworkError(name, reason)
    raise AssertionError(f"no engine is called {name!r}")

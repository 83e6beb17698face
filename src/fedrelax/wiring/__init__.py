"""Wiring: graphs that change while the nodes learn, and graphs learned before they do."""

from fedrelax.wiring.base import View, Wiring
from fedrelax.wiring.discover import Discover
from fedrelax.wiring.reweight import Reweight
from fedrelax.wiring.rewire import Rewire

__all__ = ["Discover", "Reweight", "Rewire", "View", "Wiring"]

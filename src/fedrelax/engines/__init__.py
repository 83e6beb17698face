"""Engines: ways to compute the same rounds, each for the networks it supports."""

from fedrelax.engines.base import Engine, Settings, Unsuited, losses_of
from fedrelax.engines.dispatch import ENGINES, NAMES, engine_for, prepare
from fedrelax.engines.linear.engine import LinearEngine
from fedrelax.engines.sites.engine import SiteEngine
from fedrelax.engines.softmax import SoftmaxEngine
from fedrelax.engines.trees.engine import TreeEngine

__all__ = [
    "ENGINES",
    "NAMES",
    "Engine",
    "LinearEngine",
    "Settings",
    "SiteEngine",
    "SoftmaxEngine",
    "TreeEngine",
    "Unsuited",
    "engine_for",
    "losses_of",
    "prepare",
]

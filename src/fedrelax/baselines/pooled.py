"""Pooled: all rows in one place, one model per kind. What nodes that may not share rows give up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from fedrelax.baselines.grouped import Grouped
from fedrelax.network import Network
from fedrelax.typing import Label


@dataclass(frozen=True)
class Pooled(Grouped):
    """h = argmin over all rows of all nodes; a network of one kind of model trains a single one."""

    name = "pooled"

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return all nodes as one group."""
        return dict.fromkeys(network.nodes, 0)

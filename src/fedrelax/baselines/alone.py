"""Alone: every node by itself. What learning together has to beat."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from fedrelax.baselines.grouped import Grouped
from fedrelax.network import Network
from fedrelax.typing import Label


@dataclass(frozen=True)
class Alone(Grouped):
    """h_i = argmin L_i(h): FedRelax at alpha = 0."""

    name = "alone"

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return every node as a group of its own."""
        return {label: label for label in network.nodes}

"""What was chosen, and among what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.graph import Graph
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring import Wiring

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""alpha times the mean degree: how much the neighbours count together against a node's own rows."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the validation loss of every candidate after every round.

    A candidate is a wiring (None: fixed) with an alpha. ``losses`` has the shape (candidates,
    rounds + 1); column 0 is each node alone.
    """

    alpha: float
    rounds: int
    wiring: Wiring | None
    alphas: tuple[float, ...]
    wirings: tuple[Wiring | None, ...]
    losses: FloatArray
    reason: str
    """Why it was chosen, in words."""
    alone: tuple[Label, ...] = ()
    """The nodes that have enough rows to tell that they do better alone."""

    def to_frame(self) -> Any:
        """Return a DataFrame: wiring, alpha, round, validation loss."""
        import pandas as pd

        rounds = self.losses.shape[1]
        return pd.DataFrame(
            {
                "wiring": np.repeat([wiring_name(wiring) for wiring in self.wirings], rounds),
                "alpha": np.repeat(self.alphas, rounds),
                "round": np.tile(np.arange(rounds), len(self.alphas)),
                "validation_loss": self.losses.ravel(),
            }
        )


def wiring_name(wiring: Wiring | None) -> str:
    """Return how tables call a wiring."""
    return "fixed" if wiring is None else wiring.name


def usual_alphas(graph: Graph) -> tuple[float, ...]:
    """Return alphas to try, in proportion to the graph's mean degree."""
    degree = float(np.mean(graph.degrees)) or 1.0
    return tuple(strength / degree for strength in STRENGTHS)

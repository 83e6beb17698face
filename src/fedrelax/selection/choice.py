"""What was chosen, and from which candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedrelax.selection.candidates import Candidate
from fedrelax.solvers import FedRelax
from fedrelax.typing import DataFrame, FloatArray, Label
from fedrelax.wiring import Wiring, wiring_name


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the validation loss of every candidate after every round.

    ``losses`` has the shape (candidates, rounds + 1); column 0 is each node alone.
    """

    chosen: Candidate
    rounds: int
    candidates: tuple[Candidate, ...]
    losses: FloatArray
    reason: str
    """Why it was chosen, in words."""
    to_rest: bool = False
    """Whether it is run to its fixed point, not for ``rounds`` rounds."""
    alone: tuple[Label, ...] = ()
    """The nodes with enough rows to tell that they do better alone."""
    better: str | None = None
    """A sentence on what would clearly do better if rows may be pooled; None if nothing is known to."""

    left_out: str = ""
    """What was not tried because the time was up, and how to allow for more; "" for nothing."""

    @property
    def alpha(self) -> float:
        """The alpha that was chosen."""
        return self.chosen.alpha

    @property
    def wiring(self) -> Wiring | None:
        """The wiring that was chosen; None is the fixed graph."""
        return self.chosen.wiring

    @property
    def level(self) -> float:
        """The level that was chosen: the share of the pull that applies to it."""
        return self.chosen.level

    @property
    def alphas(self) -> tuple[float, ...]:
        """The alpha of every candidate."""
        return tuple(candidate.alpha for candidate in self.candidates)

    @property
    def wirings(self) -> tuple[Wiring | None, ...]:
        """The wiring of every candidate."""
        return tuple(candidate.wiring for candidate in self.candidates)

    def but(self, note: str, left_out: str = "") -> Choice:
        """Return this choice with a further part of its reason, and with what was left out."""
        return replace(self, reason=f"{self.reason}; {note}", left_out=self.left_out or left_out)

    def settings(self, settings: FedRelax) -> FedRelax:
        """Return a solver's settings with the chosen values."""
        rounds = None if self.to_rest else self.rounds
        return self.chosen.settings(settings, rounds, settings.patience)

    def to_frame(self) -> DataFrame:
        """Return a DataFrame: wiring, level, alpha, round, validation loss."""
        import pandas as pd

        rounds = self.losses.shape[1]
        return pd.DataFrame(
            {
                "wiring": np.repeat([wiring_name(wiring) for wiring in self.wirings], rounds),
                "level": np.repeat([one.level for one in self.candidates], rounds),
                "alpha": np.repeat(self.alphas, rounds),
                "round": np.tile(np.arange(rounds), len(self.candidates)),
                "validation_loss": self.losses.ravel(),
            }
        )

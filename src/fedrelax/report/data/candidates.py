"""The candidates among which alpha and the wiring were chosen, each with its curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.selection import Choice
from fedrelax.storage import SavedResult
from fedrelax.typing import FloatArray
from fedrelax.wiring import WIRINGS, Wiring, wiring_name


@dataclass(frozen=True, eq=False)
class Candidate:
    """A wiring with an alpha, and its validation loss after every round."""

    wiring: str
    alpha: float
    losses: FloatArray
    best_round: int
    """Of a wiring only rounds on its final graph count."""
    chosen: bool
    rounds: int
    """How many were chosen."""

    @property
    def least(self) -> float:
        """The loss at the best round."""
        return float(self.losses[self.best_round])


def candidates_of_choice(choice: Choice) -> list[Candidate]:
    """Return the candidates of a choice that was just made."""
    chosen, lines = (wiring_name(choice.wiring), choice.alpha), []
    for wiring, alpha, losses in zip(choice.wirings, choice.alphas, choice.losses, strict=True):
        lines.append(_candidate(wiring_name(wiring), wiring, alpha, losses, chosen, choice.rounds))
    return lines


def candidates_of_saved(saved: SavedResult) -> list[Candidate]:
    """Return the candidates of a saved choice; none if nothing was chosen."""
    if saved.choice is None:
        return []
    about, lines = saved.about, []
    for (name, alpha), part in saved.choice.groupby(["wiring", "alpha"], sort=False):
        losses = part["validation_loss"].to_numpy(float)
        wiring = WIRINGS[name]().paced(len(losses) - 1) if name in WIRINGS else None
        chosen = (about["wiring"], about["alpha"])
        lines.append(
            _candidate(str(name), wiring, float(alpha), losses, chosen, int(about["rounds"]))
        )
    return lines


def _candidate(
    name: str,
    wiring: Wiring | None,
    alpha: float,
    losses: FloatArray,
    chosen: tuple[str, float],
    rounds: int,
) -> Candidate:
    settled = [wiring is None or wiring.settled(k) for k in range(len(losses))]
    counted = np.where(np.isfinite(losses) & settled, losses, np.inf)
    best = int(np.argmin(counted)) if np.isfinite(counted).any() else len(losses) - 1
    same = bool(np.isclose(alpha, chosen[1], rtol=1e-9, atol=0.0))
    return Candidate(name, alpha, losses, best, same and (name == chosen[0] or alpha == 0), rounds)

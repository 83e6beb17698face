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
    """Its name, and the share of the level where that is not 1."""
    alpha: float
    losses: FloatArray
    best_round: int
    """With a wiring, only rounds on its final graph count."""
    chosen: bool
    rounds: int
    """The number of rounds that was chosen."""

    @property
    def least(self) -> float:
        """The loss at the best round."""
        return float(self.losses[self.best_round])


def candidates_of_choice(choice: Choice) -> list[Candidate]:
    """Return the candidates of a choice that was just made."""
    chosen = (_name(wiring_name(choice.wiring), choice.level), choice.alpha)
    lines = []
    for one, losses in zip(choice.candidates, choice.losses, strict=True):
        name = _name(wiring_name(one.wiring), one.level)
        lines.append(_candidate(name, one.wiring, one.alpha, losses, chosen, choice.rounds))
    return lines


def candidates_of_saved(saved: SavedResult) -> list[Candidate]:
    """Return the candidates of a saved choice; none if nothing was chosen."""
    import pandas as pd

    if saved.choice is None:
        return []
    about, lines = saved.about, []
    level = about.get("level")
    level = float(level) if isinstance(level, int | float) else 1.0
    chosen = (_name(about["wiring"], level), about["alpha"])
    table = saved.choice if "level" in saved.choice else saved.choice.assign(level=1.0)
    table = table.assign(level=pd.to_numeric(table["level"], errors="coerce").fillna(1.0))
    for (name, share, alpha), part in table.groupby(["wiring", "level", "alpha"], sort=False):
        losses = part["validation_loss"].to_numpy(float)
        wiring = WIRINGS[name]().paced(len(losses) - 1) if name in WIRINGS else None
        rounds = int(about["rounds"])
        named = _name(str(name), float(share))
        lines.append(_candidate(named, wiring, float(alpha), losses, chosen, rounds))
    return lines


def _name(wiring: str, level: float) -> str:
    return wiring if level == 1.0 else f"{wiring}, level {level:g}"


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

"""``alpha="auto"`` in a federation: all candidates and folds side by side, in the same letters.

Every candidate also runs on all rows, so that the chosen run is already there: the search takes no more
rounds than a single run. The rule is that of ``selection.search.decide``; it needs sums of losses on
rows that the sites hold out, which they report with every round anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.federation.lanes import Lane
from fedrelax.federation.plan import LaneSpec
from fedrelax.graph import Graph
from fedrelax.runtime import Outcome
from fedrelax.selection import Candidate, Choice
from fedrelax.selection.candidates import Alphas, alphas_for, check_alpha
from fedrelax.selection.losses import Losses
from fedrelax.selection.search import TRIES, decide
from fedrelax.typing import IntArray
from fedrelax.wiring import Wiring


def lanes_for(graph: Graph, alpha: Alphas, folds: int, rows: Mapping[str, int]) -> list[LaneSpec]:
    """Return the lanes of a run: one for a given alpha, else one per candidate and fold.

    After these comes one lane on all rows per candidate. ``rows`` gives every site's number of training
    rows.
    """
    check_alpha(alpha)
    if isinstance(alpha, int | float | np.number):
        return [LaneSpec(float(alpha), None)]
    alphas = alphas_for(graph, alpha)
    used = [fold for fold in range(min(folds, TRIES)) if held_out(rows, folds, fold).any()]
    if not used:
        raise FedRelaxError(
            "every site has a single row, so none can be held out to choose alpha; give a number for alpha"
        )
    whole = [LaneSpec(strength, None) for strength in alphas]
    return [LaneSpec(strength, fold) for strength in alphas for fold in used] + whole


def held_out(rows: Mapping[str, int], folds: int, fold: int) -> IntArray:
    """Return how many rows every site holds out in a fold."""
    return np.array([len(range(fold, m, folds)) if m > 1 else 0 for m in rows.values()])


def choose_lane(
    lanes: Sequence[Lane],
    outcomes: Sequence[Outcome],
    *,
    rounds: int,
    level: float,
    wiring: Wiring | None,
    folds: int,
    rows: Mapping[str, int],
) -> tuple[Choice, int]:
    """Return the choice among the candidates, and the number of its lane on all rows."""
    alphas = list(dict.fromkeys(lane.spec.alpha for lane in lanes))
    used = sorted({lane.spec.fold for lane in lanes if lane.spec.fold is not None})
    counts = np.array([held_out(rows, folds, fold) for fold in used])
    losses = Losses(list(rows), counts, rounds)
    for alpha in alphas:
        losses.append(
            outcome
            for lane, outcome in zip(lanes, outcomes, strict=True)
            if lane.spec.alpha == alpha and lane.spec.fold is not None
        )
    candidates = [Candidate(alpha, wiring, level=level) for alpha in alphas]
    choice = decide(candidates, losses, early=True)
    whole = LaneSpec(choice.alpha, None)
    specs = [lane.spec for lane in lanes]
    number = specs.index(whole if whole in specs else LaneSpec(alphas[0], None))
    return choice, number

"""How long a search may take, and how much of it fits.

The cost of a run is measured once. If all runs fit, the clock changes nothing. If not, the candidates that
tell most come first, the search ends when the time is up, and the choice says what was left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from fedrelax.network import Network
from fedrelax.runtime import Callback, Record
from fedrelax.selection.candidates import Candidate
from fedrelax.selection.losses import Recorded
from fedrelax.selection.trials import Tell
from fedrelax.solvers import FedRelax

SECONDS, QUICK_SECONDS = 30.0, 5.0
"""How long a search may take, and how long with ``quick``, unless ``minutes`` is given."""
FIRST_SHARE = 0.5
"""The share of the time that the first run, by which the cost of the others is judged, may take."""
FINAL_SHARE = 0.5
"""The share of the time that a run with the chosen settings may take; ``fit`` makes two of them."""


class Budget:
    """The seconds that a search may take from now on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock, self._begun = seconds, clock, clock()

    @property
    def spent(self) -> float:
        """The seconds so far."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """The seconds left, negative if it has taken longer."""
        return self.seconds - self.spent

    @property
    def words(self) -> str:
        """The time as text.

        >>> Budget(30.0).words, Budget(600.0).words
        ('30 s', '10 minutes')
        """
        return f"{self.seconds:.3g} s" if self.seconds < 120 else f"{self.seconds / 60:.3g} minutes"

    def telling(self, tell: Tell | None) -> Tell:
        """Return a ``tell`` that also ends the search when the time is up."""

        def told(done: int, total: int) -> bool | str | None:
            answer = None if tell is None else tell(done, total)
            return answer or (f"stopped after {self.words}" if self.left < 0 else None)

        return told


class Overtime(Callback):
    """Ends a run after the round in which the time is up; ``cut`` says whether it did.

    At least the models of round 1 are trained.
    """

    cut = False

    def __init__(self, budget: Budget, share: float = 1.0) -> None:
        self._budget, self._until = budget, share * budget.seconds

    def after_round(self, record: Record) -> str | None:
        """Stop if the time is up."""
        self.cut = record.round > 0 and self._budget.spent > self._until
        return "out of time" if self.cut else None


def first_run(
    candidate: Candidate,
    fold: Network,
    trial: Callable[[Candidate], FedRelax],
    budget: Budget,
    rounds: int,
    heavier: float | None,
) -> tuple[Recorded, float, int]:
    """Return a run on a fold, its seconds, and how many rounds the others and the final one may take.

    ``heavier`` is how many times longer the final models take than those of trials; None if rounds must
    not be cut.
    """
    before, probe = budget.spent, Overtime(budget, FIRST_SHARE)
    run = trial(candidate).solve(fold, [] if heavier is None else [probe])
    seconds, length = budget.spent - before, len(run.history.records)
    if heavier is None:
        return run, seconds, rounds
    share = FINAL_SHARE * budget.seconds / heavier / max(seconds, 1e-12)
    if probe.cut or share < 1:
        rounds = max(1, min(length - 1, int(share * length) - 1))
    return run, seconds, rounds


def most_telling(candidates: Sequence[Candidate], usual: float) -> list[Candidate]:
    """Return candidates by how much they tell: the usual alpha, then far ones, stronger first."""
    alphas = sorted(candidates, key=lambda one: one.alpha)
    middle = min(range(len(alphas)), key=lambda k: abs(math.log(alphas[k].alpha / usual)))
    steps = [0, 2, -2, 1, -1, *(k for far in range(3, len(alphas)) for k in (far, -far))]
    return [alphas[middle + k] for k in steps if 0 <= middle + k < len(alphas)]

"""How long a search may take, and how much of it fits.

The cost of a run is measured once. If all runs fit, the clock changes nothing; if not, what is left
out depends on the speed of the machine, and the choice says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fedrelax.network import Network
from fedrelax.runtime import History, Record
from fedrelax.selection.candidates import Candidate, unit
from fedrelax.selection.journal import Recalled
from fedrelax.selection.losses import Recorded
from fedrelax.selection.trials import Cut, Tell
from fedrelax.solvers import FedRelax

SECONDS, QUICK_SECONDS = 30.0, 5.0
"""How long a search may take, and how long with ``quick``, unless ``minutes`` is given."""
FIRST_SHARE = 0.5
"""The share of the time that the first run, by which the cost of the others is judged, may take."""
FINAL_SHARE = 0.5
"""The share of the time that a run with the chosen settings may take; ``fit`` makes two of them."""


@dataclass(frozen=True)
class Budget:
    """The seconds that a search may take from now on."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.clock())

    @property
    def spent(self) -> float:
        """The seconds so far."""
        return self.clock() - self.begun

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


class Overtime(Cut):
    """Ends a run after the round in which the time is up; ``cut`` says whether it did.

    At least the models of round 1 are trained.
    """

    def __init__(self, budget: Budget, share: float = 1.0) -> None:
        self._budget, self._until = budget, share * budget.seconds

    def after_round(self, record: Record) -> str | None:
        """Stop if the time is up."""
        self.cut = record.round > 0 and self._budget.spent > self._until
        return "out of time" if self.cut else None


@dataclass(frozen=True)
class Effort:
    """How much is tried: strengths, folds, rounds of a run, and whether levels and wirings are."""

    strengths: int
    folds: int
    rounds: int
    more: bool

    def left_out(self, full: Effort) -> str:
        """Return what a full search would also have tried, "" for nothing.

        >>> Effort(2, 1, 20, False).left_out(Effort(7, 3, 20, True))
        'only 2 of 7 strengths, 1 of 3 folds and no levels or wirings were tried'
        """
        parts = []
        if self.strengths < full.strengths:
            parts.append(f"{self.strengths} of {full.strengths} strengths")
        if self.folds < full.folds:
            parts.append(f"{self.folds} of {full.folds} folds")
        if self.rounds < full.rounds:
            parts.append(f"{self.rounds} of {full.rounds} rounds")
        if full.more and not self.more:
            parts.append("no levels or wirings")
        if not parts:
            return ""
        *first, last = parts
        return f"only {', '.join(first)}{' and ' * bool(first)}{last} were tried"


def affordable(
    full: Effort, extra: int, run: Callable[[int], float], seconds: float, final: float = math.inf
) -> Effort:
    """Return the largest effort that fits into the seconds, or the least there is.

    ``run(rounds)`` is the time of a run of at most so many rounds; one has been made. ``extra`` is the
    number of levels and wirings. If the final run must not take longer than ``final``, rounds are cut.

    >>> affordable(Effort(7, 3, 20, True), 4, lambda rounds: 0.1 * rounds, 70.0)
    Effort(strengths=7, folds=3, rounds=20, more=True)
    >>> affordable(Effort(7, 3, 20, True), 4, lambda rounds: 0.1 * rounds, 5.0, 5.0)
    Effort(strengths=3, folds=1, rounds=20, more=False)
    """
    most = max((r for r in range(1, full.rounds + 1) if run(r) <= final), default=1)
    tried = shortened = replace(full, rounds=min(most, full.rounds))
    for tried in _efforts(shortened, math.isfinite(final)):
        runs = (tried.strengths + extra * tried.more) * tried.folds - 1
        if runs * run(tried.rounds) <= seconds:
            break
    return tried


def _efforts(full: Effort, cuttable: bool) -> Iterator[Effort]:
    """Yield efforts from full to least: extras go first, then folds, strengths and rounds."""
    rounds = [full.rounds]
    while cuttable and rounds[-1] > 1:
        rounds.append(math.ceil(rounds[-1] / 2))
    few = min(full.strengths, 3)
    yield full
    for folds in range(full.folds, 0, -1):
        yield Effort(full.strengths, folds, full.rounds, False)
    for strengths in range(full.strengths - 1, few - 1, -1):
        yield Effort(strengths, 1, full.rounds, False)
    for most in rounds[1:]:
        yield Effort(few, 1, most, False)
    for strengths in range(few - 1, 0, -1):
        yield Effort(strengths, 1, rounds[-1], False)


@dataclass(frozen=True)
class FirstRun:
    """What is tried by the cost of a first run: candidates, folds, rounds, and the runs known so far."""

    candidates: Sequence[Candidate]
    folds: int
    rounds: int
    known: Sequence[tuple[Candidate, Recorded]]
    left_out: str

    @classmethod
    def of(
        cls,
        fixed: Sequence[Candidate],
        folds: Sequence[Network],
        rounds: int,
        extra: int,
        trial: Callable[[Candidate], FedRelax],
        budget: Budget,
        heavier: float | None,
    ) -> FirstRun | None:
        """Run the candidate of the usual strength on the first fold; None if there is none.

        ``extra`` is how many levels and wirings would follow, and ``heavier`` how much longer the final
        models take than those of trials; None if rounds must not be cut. A run that was not cut off is
        one of those that are needed anyway.
        """
        ranked = _ranked([one for one in fixed if one.alpha > 0], unit(folds[0].graph))
        if not ranked:
            return None
        before, probe = budget.spent, Overtime(budget, FIRST_SHARE)
        run = trial(ranked[0]).solve(folds[0], [] if heavier is None else [probe])
        seconds, length = budget.spent - before, len(run.history.records)
        full = Effort(len(ranked), len(folds), rounds, extra > 0)
        effort = affordable(
            replace(full, rounds=length - 1) if probe.cut else full,
            extra,
            lambda most: seconds * min(1 + most, length) / length,
            budget.left,
            math.inf if heavier is None else FINAL_SHARE * budget.seconds / heavier,
        )
        left_out = effort.left_out(full)
        if not left_out:
            return cls(fixed, full.folds, rounds, [(ranked[0], run)], "")
        alone = [one for one in fixed if one.alpha == 0]
        known = [(one, _shorter(run.history, 0)) for one in alone]
        known.append((ranked[0], _shorter(run.history, effort.rounds)))
        chosen = [*alone, *ranked[: effort.strengths]]
        return cls(chosen, effort.folds, effort.rounds, known, left_out)


def _ranked(candidates: Sequence[Candidate], usual: float) -> list[Candidate]:
    """Return candidates by how much they tell: the usual alpha, then far ones, stronger first."""
    alphas = sorted(candidates, key=lambda one: one.alpha)
    if not alphas:
        return []
    middle = min(range(len(alphas)), key=lambda k: abs(math.log(alphas[k].alpha / usual)))
    steps = [0, 2, -2, 1, -1, *(k for far in range(3, len(alphas)) for k in (far, -far))]
    return [alphas[middle + k] for k in steps if 0 <= middle + k < len(alphas)]


def _shorter(history: History, rounds: int) -> Recorded:
    return Recalled(History(history.labels, history.records[: rounds + 1]))

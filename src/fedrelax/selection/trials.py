"""Candidates tried on folds, one fold after another; those clearly behind are dropped early.

A search that was stopped does not repeat the trials it has run: a checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sklearn.base import clone

from fedrelax.network import Network
from fedrelax.runtime import Callback, History, Keeper
from fedrelax.runtime.history import columns_of, records_of
from fedrelax.selection.candidates import Candidate
from fedrelax.selection.losses import Losses, Recorded
from fedrelax.solvers import FedRelax
from fedrelax.solvers.base import identity_of

if TYPE_CHECKING:
    from fedrelax.selection.budget import Overtime

Tell = Callable[[int, int], bool | str | None]
"""Called with how many runs are done, out of how many; returning anything true ends the search."""


class Enough(Exception):  # noqa: N818 - not an error
    """The search is to end; the text says why."""


def heard(tell: Tell | None) -> Tell | None:
    """Wrap ``tell`` for a search of many parts: a true answer raises ``Enough``."""
    if tell is None:
        return None

    def told(done: int, total: int) -> None:
        reason = tell(done, total)
        if reason:
            raise Enough(why(reason))

    return told


def why(answer: bool | str) -> str:
    """Return why a search ends, from what a callback has returned."""
    return answer if isinstance(answer, str) else "stopped by a callback"


class Trials:
    """Runs candidates on folds. ``halving`` drops those that are clearly behind after a fold.

    ``known`` are runs on the first fold that have been made already. ``overtime`` makes a callback that
    cuts a run off when the time is up; such a run does not count.
    """

    def __init__(
        self,
        folds: Sequence[Network],
        losses: Losses,
        settings: Callable[[Candidate], FedRelax],
        planned: int,
        *,
        halving: bool,
        tell: Tell | None = None,
        keeper: Keeper | None = None,
        known: Mapping[Candidate, Recorded] | None = None,
        overtime: Callable[[], Overtime] | None = None,
    ) -> None:
        self._folds, self._losses, self._settings = folds, losses, settings
        self._known, self._overtime = known or {}, overtime
        self._halving, self._tell, self._keeper = halving, tell, keeper
        self._done, self._total = 0, planned * len(folds)
        self.tried: list[Candidate] = []
        self.stopped = ""

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Try more candidates, unless asked to stop."""
        first = not self.tried
        lines: list[int] = []
        going_on = set(range(len(candidates)))
        for number, fold in enumerate(self._folds):
            for place, candidate in enumerate(candidates):
                if place not in going_on:
                    continue
                if self.stopped and not self._is_known(candidate, number):
                    if first:  # judge by the folds on which all were tried
                        self._losses.used = max(number, 1)
                    return
                run = self._run(candidate, number, fold)
                if run is None:
                    self._say(0)
                    continue
                if number == 0:
                    lines.append(self._losses.new())
                    self.tried.append(candidate)
                self._losses.record(lines[place], run)
                self._say(1)
            going_on = self._ahead(lines, number + 1)

    def _run(self, candidate: Candidate, number: int, fold: Network) -> Recorded | None:
        """Return a candidate's run on a fold, or None if it was cut off; the very first never is."""
        if self._is_known(candidate, number):
            return self._known[candidate]
        cut = None if self._overtime is None or not self.tried else self._overtime()
        watching = () if cut is None else (cut,)
        run = tried(self._settings(candidate), fold, self._done, self._keeper, watching)
        return None if cut is not None and cut.cut else run

    def _is_known(self, candidate: Candidate, number: int) -> bool:
        return number == 0 and candidate in self._known

    def _ahead(self, lines: Sequence[int], folds: int) -> set[int]:
        """Return the positions of the candidates that go on; the very first, nodes alone, always does."""
        left = [place for place, line in enumerate(lines) if self._losses.tried(line) == folds]
        rest = len(self._folds) - folds
        if not self._halving or rest == 0:
            return set(left)
        behind = set(self._losses.behind([lines[place] for place in left], folds)) - {0}
        ahead = {place for place in left if lines[place] not in behind}
        self._total -= rest * (len(left) - len(ahead))
        return ahead

    def _say(self, runs: int) -> None:
        self._done += runs
        told = None if self._tell is None else self._tell(self._done, self._total)
        if told:
            self.stopped = why(told)

    def plan(self, candidates: int) -> None:
        """Correct how many candidates are still to come."""
        self._total = self._done + candidates * len(self._folds)


@contextmanager
def remembering(folds: Sequence[Network]) -> Iterator[None]:
    """Let engines cache what all runs on a fold have in common; folds must not change in between."""
    for fold in folds:
        fold.memory = {}
    try:
        yield
    finally:
        for fold in folds:
            fold.memory = None


class Recalled(NamedTuple):
    """A trial run by an earlier process: its history is all that a choice needs."""

    history: History


def tried(
    settings: FedRelax,
    fold: Network,
    number: int,
    keeper: Keeper | None,
    callbacks: Sequence[Callback] = (),
) -> Recorded:
    """Run a trial on a fold, or recall it; ``number`` counts the search's trials, whose order is fixed.

    ``callbacks`` may end a trial early, unless it is kept.
    """
    if keeper is None:
        return settings.solve(fold, callbacks)
    name, identity = f"trial-{number:04d}", identity_of(fold, settings)
    saved = keeper.recall(name, identity)
    if saved is not None:
        with keeper.using(name):
            return Recalled(History(fold.labels, records_of(saved["records"], len(fold))))
    run = settings.solve(fold)
    keeper.keep(name, identity, lambda: {"records": columns_of(run.history)}, 0, True)
    return run


ENOUGH_TREES = 25
"""This many trees are enough to tell candidates apart (``benchmarks/halving.py``)."""
FEW_TREES = 10
"""This many with ``quick``."""
MANY_TREES = 1000
"""Networks with fewer trees in total are tried as they are, unless ``quick``."""


def lighter(folds: Sequence[Network], quick: bool = False) -> tuple[list[Network], str, float]:
    """Return the folds for trials, a note on what is lighter there, "" for nothing, and how much."""
    models, trees = folds[0].distinct_models, FEW_TREES if quick else ENOUGH_TREES
    large = [model for model in models.values() if _trees(model) > trees]
    few = sum(_trees(model) for model in folds[0].models) < MANY_TREES
    if not large or (few and not quick):
        return list(folds), "", 1.0
    small = {id(model): clone(model).set_params(n_estimators=trees) for model in large}
    found = [
        fold.with_models(
            {
                label: small.get(id(model), model)
                for label, model in zip(fold.labels, fold.models, strict=True)
            }
        )
        for fold in folds
    ]
    most = max(map(_trees, large))
    return found, f"tried with forests of {trees} trees", most / trees


def _trees(model: Any) -> int:
    """Return how many trees a forest of scikit-learn itself has, and 0 for anything else."""
    forest = type(model).__module__ == "sklearn.ensemble._forest"
    count = model.n_estimators if forest and hasattr(model, "n_estimators") else 0
    return count if isinstance(count, int) else 0

"""Saved trials: a search that was stopped does not repeat what it has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrelax.network import Network
from fedrelax.runtime import Callback, History, Keeper
from fedrelax.runtime.callbacks import columns_of, records_of
from fedrelax.selection.losses import Recorded
from fedrelax.solvers import FedRelax
from fedrelax.solvers.identity import identity_of


@dataclass(frozen=True)
class Recalled:
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
    known = keeper.recall(name, identity)
    if known is not None:
        with keeper.using(name):
            return Recalled(History(fold.labels, records_of(known["records"], len(fold))))
    run = settings.solve(fold)
    keeper.keep(name, identity, lambda: {"records": columns_of(run.history)}, 0, True)
    return run

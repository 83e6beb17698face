"""Which ways are compared, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedrelax.baselines import BASELINES, Alone, Baseline, MixedModel, Pooled, PooledNode
from fedrelax.comparison.together import Together
from fedrelax.engines import SiteEngine
from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor

PENALTIES = (1.0, 1e-4, 1e-3, 1e-2, 0.1, 10.0, 100.0)
"""Factors of the usual penalty that ways which choose theirs try."""


def usual_ways(
    estimator: FedRelaxRegressor | FedRelaxClassifier, alpha: float | None = None
) -> list[Baseline]:
    """Return all ways; FedRelax has the estimator's settings, and the given alpha or a chosen one.

    Where FedRelax chooses its penalty, so do each node alone and pooled.
    """
    rounds = SiteEngine.usual_rounds if estimator.rounds is None else estimator.rounds
    usual = {name: kind.usual(rounds) for name, kind in BASELINES.items()}
    usual |= {way.name: way for way in simple_ways(estimator)}
    first = [usual.pop(kind.name) for kind in (Alone, Pooled, PooledNode, MixedModel)]
    every = (*first, Together.of(estimator, alpha), *usual.values())
    return [way for way in every if way is not None]


def simple_ways(estimator: FedRelaxRegressor | FedRelaxClassifier) -> tuple[Alone, Pooled]:
    """Return each node alone and pooled: with penalties to choose among if the estimator finds its own."""
    factors = PENALTIES if estimator.finds_all else ()
    return Alone(factors=factors), Pooled(factors=factors)


def ways_by_name(names: Iterable[str], ways: Sequence[Baseline]) -> list[Baseline]:
    """Return those of ``ways`` with these names; lower case, and hyphens for spaces, will do.

    >>> from fedrelax.baselines import FedMD, NetworkLasso
    >>> [way.name for way in ways_by_name(["fedmd", "network-lasso"], [FedMD(), NetworkLasso()])]
    ['FedMD', 'network Lasso']
    """
    known = {_plain(way.name): way for way in ways}
    found: dict[str, Baseline] = {}
    for name in names:
        if _plain(name) not in known:
            hint = did_you_mean(_plain(name), known) or f"; known: {', '.join(known)}"
            raise FedRelaxError(f"the way {name!r} is not known{hint}")
        found[_plain(name)] = known[_plain(name)]
    return list(found.values())


def _plain(name: str) -> str:
    return "-".join(name.lower().replace("-", " ").replace("_", " ").split())


def with_the_needed(ways: Iterable[Baseline], needed: Iterable[Baseline]) -> list[Baseline]:
    """Return the ways, after those of ``needed`` that are missing; refuse a name that occurs twice."""
    given = list(ways)
    names = [way.name for way in given]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FedRelaxError(f"two ways are called {twice[0]!r}; give each a name of its own")
    return [way for way in needed if way.name not in names] + given

"""What "auto" chooses among: the one place that says which strengths and wirings are tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.models import LocalModel
from fedrelax.models.difference import suits
from fedrelax.network import Network
from fedrelax.solvers import FedRelax
from fedrelax.validation import check_number
from fedrelax.wiring import Discover, Rewire, Wiring, as_wiring

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""alpha times the mean degree: how much the neighbours count together against a node's own rows."""

DIFFERENCES = (0.0, 1e-6, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The same for models that learn their difference, to which neighbours matter already at the smallest."""

FAR = (300.0, 3e3, 3e4)
"""Further strengths for a graph that does not join everybody: what one end knows has far to travel."""
LEVELS = (0.1, 0.01)
"""Levels that are tried besides 1."""

Alphas = float | str | Sequence[float]
"""A number, several to choose among, or "auto" for the usual ones."""
Wirings = str | Wiring | None | Sequence[str | Wiring | None]
"""A wiring, several to choose among, or "auto" for those that suit the graph."""
Levels = float | str
"""The share of the pull that applies to the level, or "auto"."""


@dataclass(frozen=True)
class Candidate:
    """Settings that can be chosen; a wiring of None is the fixed graph."""

    alpha: float
    wiring: Wiring | None = None
    level: float = 1.0
    """The share of the pull that applies to the level."""

    def settings(
        self, settings: FedRelax, rounds: int | None, patience: int | None = None
    ) -> FedRelax:
        """Return a solver's settings with these, for this many rounds, or (None) to the fixed point."""
        return replace(
            settings,
            alpha=self.alpha,
            wiring=self.wiring,
            level=self.level,
            rounds=rounds,
            patience=patience,
        )


def is_open(alpha: Alphas, wiring: Wirings) -> bool:
    """Tell whether there is anything to choose."""
    return not isinstance(alpha, int | float | np.number) or not _is_one(wiring)


def given(alpha: Alphas, wiring: Wirings, level: Levels = 1.0) -> Candidate:
    """Return what is given; an open alpha becomes 0, an open wiring the fixed graph, an open level 1."""
    check_alpha(alpha)
    check_wiring(wiring)
    check_level(level)
    return Candidate(
        float(alpha) if isinstance(alpha, int | float | np.number) else 0.0,
        as_wiring(wiring) if _is_one(wiring) else None,
        1.0 if isinstance(level, str) else float(level),
    )


def candidates_for(
    network: Network, settings: FedRelax, alpha: Alphas = "auto", wiring: Wirings = "fixed"
) -> list[Candidate]:
    """Return what to try with a solver's other settings: the fixed graph and small alphas first.

    Where runs on the fixed graph converge, however strong the coupling, stronger ones are tried as well.
    """
    rounds, level, update = settings.rounds_for(network), settings.level, settings.update
    usual = alphas_for(network.graph, alpha, update=update)
    strong = alphas_for(network.graph, alpha, far=settings.settles(network), update=update)
    wirings = [way if way is None else way.paced(rounds) for way in wirings_for(network, wiring)]
    found = [Candidate(0.0, level=level)] if 0.0 in usual and None not in wirings else []
    for way in wirings:
        found += [Candidate(a, way, level) for a in (usual if way else strong) if a > 0 or not way]
    return found


def alphas_for(
    graph: Graph, alpha: Alphas = "auto", far: bool = False, update: str = "refit"
) -> tuple[float, ...]:
    """Return the alphas to try; the usual ones are proportional to 1 / mean degree.

    On a graph that does not join everybody, ``far`` adds stronger ones.

    On a graph without edges the neighbours are still to be found, so the degree is that of discovery.

    >>> [round(alpha, 2) for alpha in alphas_for(Graph.from_edges([("a", "b")]))]
    [0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    """
    if alpha == "auto":
        more = FAR if far and graph.n_edges and not graph.is_uniform else ()
        strengths = DIFFERENCES if update == "difference" else STRENGTHS
        return tuple(strength * unit(graph) for strength in strengths + more)
    check_alpha(alpha)
    return tuple(map(float, alpha if isinstance(alpha, Iterable) else (alpha,)))


def update_for(alpha: Alphas, models: Iterable[LocalModel] | None = None) -> str:
    """Return the update where none is asked for: the paper's, "refit", with an alpha that is given.

    Where alpha is chosen it is "difference", if that suits the models, as far as these are known.
    """
    if isinstance(alpha, int | float | np.number) or (models is not None and not suits(models)):
        return "refit"
    return "difference"


def unit(graph: Graph) -> float:
    """Return the alpha of strength 1: one over the mean degree."""
    return 1.0 / (float(np.mean(graph.degrees)) if graph.n_edges else Discover().candidates)


def wirings_for(network: Network, wiring: Wirings) -> list[Wiring | None]:
    """Return the wirings to try; None is the fixed graph.

    A complete graph with equal weights says nothing about who is close, and one without edges leaves
    everything to be found: there neighbours are discovered, if all nodes answer on the same public rows.
    Any other graph is rewired.
    """
    if wiring == "auto":
        graph, common = network.graph, network.public.common is not None
        if common and len(graph) > 1 and not graph.n_edges:
            return [Discover()]
        return [None, Discover() if common and graph.is_uniform else Rewire()]
    if _is_one(wiring):
        return [as_wiring(wiring)]
    return [as_wiring(way) for way in cast(Sequence[Any], wiring)]


def check_alpha(alpha: Alphas) -> None:
    """Refuse anything but numbers and "auto"."""
    values = [] if alpha == "auto" else list(alpha) if isinstance(alpha, Iterable) else [alpha]
    bad = [value for value in values if not isinstance(value, int | float | np.number)]
    if bad or (isinstance(alpha, str) and alpha != "auto") or (alpha != "auto" and not values):
        raise FedRelaxError(
            f"alpha={alpha!r} must be a finite number of at least 0, several of them, or 'auto'"
        )
    for value in values:
        check_number("alpha", value, least=0.0)


def check_level(level: Levels) -> None:
    """Refuse anything but a share and "auto"."""
    number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
    if level != "auto" and not (number and 0.0 <= float(level) <= 1.0):
        raise FedRelaxError(f"level={level!r} must be a share, from 0 to 1, or 'auto'")


def check_wiring(wiring: Wirings) -> None:
    """Refuse anything but one or several wirings and "auto"; names are checked where they are used."""
    if _is_one(wiring) or wiring == "auto":
        return
    if not isinstance(wiring, list | tuple) or not wiring:
        raise FedRelaxError(
            f"wiring={wiring!r} must be a name, a fedrelax.wiring object, a list of these, or 'auto'"
        )


def _is_one(wiring: Wirings) -> TypeGuard[str | Wiring | None]:
    return wiring != "auto" and (wiring is None or isinstance(wiring, str | Wiring))

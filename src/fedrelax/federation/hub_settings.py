"""The hub's settings: the sites, the method, and how long to wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrelax.errors import FedRelaxError
from fedrelax.federation.plan import plain_settings
from fedrelax.schema import Schema
from fedrelax.selection import FOLDS
from fedrelax.selection.candidates import Alphas
from fedrelax.solvers import FedRelax
from fedrelax.solvers.base import USUAL_TOL

USUAL_ROUNDS = 20
"""The most rounds if none are given."""


@dataclass(frozen=True)
class HubSettings:
    """The hub's settings.

    sites : the names of all sites; the order does not matter to them.
    alpha : a number, several to choose among, or "auto".
    settings : all other settings of ``FedRelax``; its alpha is ignored.
    folds : how many folds sites split their rows into where alpha is chosen.
    validation_share : share of the rows that sites hold out for ``patience``, where alpha is given.
    open : whether the hub may read what sites share; every site must have the same setting.
    wait : seconds to wait for the answers of a round; later ones are left out of it.
    join : seconds to wait for all sites to join.
    schema : what the columns mean; if None, made from what the sites say about theirs.
    staleness : rounds for which the others keep using the last predictions of a silent site.
    """

    sites: tuple[str, ...]
    alpha: Alphas = "auto"
    settings: FedRelax = field(default_factory=FedRelax)
    folds: int = FOLDS
    validation_share: float = 0.0
    open: bool = False
    wait: float = 600.0
    join: float = 600.0
    staleness: int = 3
    schema: Schema | None = None

    @property
    def rounds(self) -> int:
        """The most rounds."""
        return USUAL_ROUNDS if self.settings.rounds is None else self.settings.rounds

    @property
    def tol(self) -> float:
        """The change below which a run has converged."""
        return USUAL_TOL if self.settings.tol is None else self.settings.tol

    def check(self) -> None:
        """Refuse settings that make no sense, before any letter is sent."""
        if len(set(self.sites)) != len(self.sites) or not self.sites:
            raise FedRelaxError(f"sites={self.sites!r} must name every site once")
        plain_settings(self.settings)
        given = isinstance(self.alpha, int | float)
        if self.settings.patience is not None and not given:
            raise FedRelaxError(
                "patience needs a given alpha: where alpha is chosen, so is the number of rounds"
            )

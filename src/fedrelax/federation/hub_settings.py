"""What the hub is told: the sites, the method, and how long to wait."""

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
"""The most rounds where none are given."""


@dataclass(frozen=True)
class HubSettings:
    """What the hub is told.

    sites : the names of all sites; the order does not matter to them.
    alpha : a number, several to choose among, or "auto".
    settings : all else that ``FedRelax`` can be told; alpha there is not used.
    folds : parts into which sites deal their rows where alpha is open.
    validation_share : share of the rows that sites hold out for ``patience``, where alpha is given.
    open : whether the hub may read what sites share; every site must say the same.
    wait : seconds to wait for the answers of a round; who is later is left out of it.
    join : seconds to wait for all sites to come.
    schema : what the columns mean; without one it is made of what the sites tell of theirs.
    staleness : rounds for which the others go on with the last predictions of a silent site.
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
        """The change that counts as rest."""
        return USUAL_TOL if self.settings.tol is None else self.settings.tol

    def check(self) -> None:
        """Refuse what makes no sense, before anybody is written to."""
        if len(set(self.sites)) != len(self.sites) or not self.sites:
            raise FedRelaxError(f"sites={self.sites!r} must name every site once")
        plain_settings(self.settings)
        given = isinstance(self.alpha, int | float)
        if self.settings.patience is not None and not given:
            raise FedRelaxError(
                "patience cannot be given with an alpha that is chosen: the round is chosen with it"
            )

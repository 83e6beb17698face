"""A privacy budget that can be spent once: what all private layers have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.privacy.accountant import GaussianMechanism
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Layer, Promise


@dataclass(kw_only=True, eq=False)
class Budget(Layer):
    """A layer for a single run: a second run on the same rows would reveal more than was promised.

    Copies of an estimator share this object, and it cannot be sent to other processes, so a search
    over alpha cannot spend it unnoticed: choose alpha without it, or on public data.

    The promise covers what leaves a node through the exchange. Others also learn when a run stopped,
    whom a node listens to and which round was best, so settings that decide these by the rows are refused.
    """

    protects: ClassVar[str]

    range: tuple[float, float] | None = None
    """The smallest and the largest number that a node may use. It must not be taken from the rows."""
    delta: float = 1e-5
    random_state: int | None = 0
    """The seed of the noise. Anyone who knows it can remove the noise: use None outside experiments."""
    spent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.range is not None and not -math.inf < self.range[0] < self.range[1] < math.inf:
            raise FedRelaxError(f"range={self.range!r} must be two finite numbers, low < high")

    @property
    def limits(self) -> tuple[float, float]:
        """The range, which numbers need and classes do not."""
        if self.range is None:
            raise FedRelaxError(
                "range=None: numbers need the smallest and the largest value, such as range=(-30, 30); "
                "take it from what is known beforehand, not from the rows"
            )
        return self.range

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise FedRelaxError(
            f"{type(self).__name__} holds a budget that can be spent once, so it cannot be copied to "
            "another process or file; use n_jobs=1 and give alpha as a number"
        )

    @abstractmethod
    def noise(self, network: Network) -> GaussianMechanism:
        """Return the noise on everything that leaves a node."""

    def promise(self, network: Network, settings: Settings) -> Promise:
        """Return the promise that holds for every node."""
        says = self.describe(network, settings)
        epsilon = self.noise(network).epsilon(self.delta)
        return Promise(epsilon, self.delta, self.protects, says)

    def check(self, network: Network, settings: Settings) -> None:
        """Refuse a second run, and settings that take decisions by the rows without noise."""
        name = type(self).__name__
        if not network.task.is_classification:
            _ = self.limits
        if self.spent:
            raise FedRelaxError(
                f"exchange: the budget of this {name} has been spent in an earlier run; make a new one, "
                "and add up the epsilons of both"
            )
        unseen = "by rows without noise"
        if settings.patience is not None:
            raise FedRelaxError(
                f"patience={settings.patience!r}: the best round would be chosen {unseen}, as in a search "
                f"over alpha; with {name} use patience=None and a single alpha"
            )
        if settings.tol != 0:
            raise FedRelaxError(
                f"tol={settings.tol!r}: the last round would be chosen {unseen}; with {name} use tol=0"
            )
        if settings.wiring is not None:
            raise FedRelaxError(
                f"wiring={settings.wiring.name!r}: whom a node keeps would be chosen {unseen}; with "
                f"{name} use wiring=None"
            )

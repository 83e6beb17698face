"""A budget that is spent once: what every private layer has in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.privacy.accountant import GaussianMechanism
from fedrelax.runtime.layers import Layer, Promise


@dataclass(kw_only=True, eq=False)
class Budget(Layer):
    """A layer that may serve one run: a second run on the same rows would tell more than was promised.

    Copies of an estimator share the object, and it does not travel to other processes, so a search
    over alpha cannot spend it unseen: choose alpha without it, or on public data.

    The promise is for what leaves a node through the exchange. When to stop, whom to hear and which
    round was best are told to others too, so those decisions are refused where rows would take them.
    """

    protects: ClassVar[str]

    delta: float = 1e-5
    random_state: int | None = 0
    """The seed of the noise. Who knows it can take the noise away: use None outside of experiments."""
    spent: bool = field(default=False, init=False)

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise FedRelaxError(
            f"{type(self).__name__} holds a budget that is spent once, so it cannot be copied to "
            "another process or file; use n_jobs=1 and give alpha as a number"
        )

    @abstractmethod
    def noise(self, network: Network) -> GaussianMechanism:
        """Return the noise of everything that leaves a node."""

    def promise(self, network: Network, settings: Any) -> Promise:
        """Return the promise to every node."""
        says = self.describe(network, settings)
        epsilon = self.noise(network).epsilon(self.delta)
        return Promise(epsilon, self.delta, self.protects, says)

    def check(self, network: Network, settings: Any) -> None:
        """Refuse a second run, and decisions that would tell of rows without noise."""
        name = type(self).__name__
        if self.spent:
            raise FedRelaxError(
                f"exchange: the budget of this {name} has been spent in an earlier run; make a new one, "
                "and add up what both have told"
            )
        if settings.patience is not None:
            raise FedRelaxError(
                f"patience={settings.patience!r}: the best round would be chosen by rows without noise, "
                f"as a search over alpha does, too; with {name} use patience=None and one alpha"
            )
        if settings.tol is None or settings.tol > 0:
            raise FedRelaxError(
                f"tol={settings.tol!r}: the last round would be chosen by rows without noise; with "
                f"{name} use tol=0"
            )
        if settings.wiring is not None:
            raise FedRelaxError(
                f"wiring={settings.wiring.name!r}: whom a node keeps would be chosen by rows without "
                f"noise; with {name} use wiring=None"
            )

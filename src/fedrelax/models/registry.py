"""From a user's object to a local model: the adapters, built-in and registered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import LocalModel, Task
from fedrelax.models.boost import LIBRARIES, BoostModel
from fedrelax.models.criteria import last_step, package_of
from fedrelax.models.elsewhere import Elsewhere, ElsewhereModel
from fedrelax.models.keras import KerasNode, is_keras
from fedrelax.models.linear import LinearModel, LinearNode, SoftmaxModel
from fedrelax.models.scikit import GaussianProcessModel, ScikitModel
from fedrelax.models.viewed import Seen, Viewed
from fedrelax.typing import Model

Matches = Callable[[Model], bool]
Builds = Callable[[Model, Task], LocalModel]

ENTRY_POINTS = "fedrelax.models"
_adapters: list[tuple[Matches, Builds]] = []


def register_adapter(matches: Matches, builds: Builds) -> None:
    """Let ``builds(estimator, task)`` make the local model wherever ``matches(estimator)`` is true.

    The last adapter registered is asked first. A package can do the same without a call, through an
    entry point in the group ``fedrelax.models`` that names a pair (matches, builds).
    """
    _adapters.append((matches, builds))


@cache
def _installed_adapters() -> tuple[tuple[Matches, Builds], ...]:
    return tuple(point.load() for point in entry_points(group=ENTRY_POINTS))


def is_net(estimator: Model) -> bool:
    """Tell whether this is a ``TorchModel`` or a PyTorch module, without importing PyTorch."""
    if sys.modules.get("torch") is None:
        return False
    from torch.nn import Module

    from fedrelax.models.torch import TorchModel

    return isinstance(estimator, TorchModel | Module)


def _net(estimator: Model, task: Task) -> LocalModel:
    from fedrelax.models.torch import TorchNode

    return TorchNode(estimator, task)


def _seen(estimator: Model, task: Task) -> LocalModel:
    return Viewed(adapt(estimator.estimator, task), estimator.view)


OURS: tuple[tuple[Matches, Builds], ...] = (
    (lambda given: isinstance(given, Seen), _seen),
    (lambda given: isinstance(given, LinearModel | SoftmaxModel), LinearNode),
    (lambda given: isinstance(given, Elsewhere), ElsewhereModel),
    (lambda given: type(given).__name__ == "GaussianProcessRegressor", GaussianProcessModel),
    (is_keras, KerasNode),
    (lambda given: package_of(last_step(given)) in LIBRARIES, BoostModel),
    (is_net, _net),
)


def _known_adapters() -> tuple[tuple[Matches, Builds], ...]:
    """Return all pairs (matches, builds) in the order in which they are asked."""
    return (*reversed(_adapters), *_installed_adapters(), *OURS)


def is_model(given: Model) -> bool:
    """Tell whether an object, or an instance of a given class, can be a node's model."""
    if hasattr(given, "fit") and hasattr(given, "predict"):
        return True
    return any(matches(given) for matches, _ in _known_adapters())


def adapt(estimator: Model, task: Task) -> LocalModel:
    """Return the local model for an estimator or another object of the user's."""
    if isinstance(estimator, LocalModel):
        return estimator
    if isinstance(estimator, type):
        raise FedRelaxError(
            f"the model is the class {estimator.__name__}; pass an instance: {estimator.__name__}()"
        )
    if isinstance(estimator, str):
        raise FedRelaxError(
            f"the model is the string {estimator!r}; pass an estimator, or for a model of the command "
            f"line fedrelax.models.names.model_by_name({estimator!r}, {task.kind!r})"
        )
    for matches, builds in _known_adapters():
        if matches(estimator):
            return builds(estimator, task)
    if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
        raise FedRelaxError(
            f"the model {estimator!r} has no fit and predict; pass a scikit-learn style estimator "
            "or register an adapter with fedrelax.models.register_adapter"
        )
    return ScikitModel(estimator, task)

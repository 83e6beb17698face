"""FedRelax for networks of softmax models on one common public set: all nodes at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear import require_memory
from fedrelax.losses import Log
from fedrelax.models import LocalModel, SoftmaxModel, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.models.newton import MOST_WEIGHTS
from fedrelax.network import Network
from fedrelax.runtime import Callback, Stopping, run
from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.checks import check_rounds
from fedrelax.solvers.edges import EdgeValues, kept_graph
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.linear_checks import Unsuited
from fedrelax.solvers.linear_network import LinearNetwork
from fedrelax.solvers.softmax_engine import SoftmaxEngine
from fedrelax.typing import FloatArray, Label

ONLY = {
    "objective": "paper",
    "order": "simultaneous",
    "weighting": "mean",
    "first_exchange": "models",
}
"""The settings that the softmax engine serves."""


def why_not_softmax(network: Network, settings: FedRelax) -> str | None:
    """Return why the softmax engine does not serve this network under these settings, or None."""
    for name, loss in zip(("loss", "discrepancy"), settings.losses(network), strict=True):
        if not isinstance(loss, Log):
            return f"{name}={loss.name!r} is not log"
    if settings.distillation is not None:
        return "distillation rows are drawn afresh in every round"
    for name, value in ONLY.items():
        if getattr(settings, name) != value:
            return f"softmax models at once need {name}={value!r}, not {getattr(settings, name)!r}"
    reason = _reason_in_models(network)
    if reason is None and network.public.common is None:
        return "softmax models at once need one common set of public rows"
    return reason


def _reason_in_models(network: Network) -> str | None:
    task = network.task
    first: tuple[Label, bool] | None = None
    for node in network:
        model, name = node.model, f"node {node.label!r}"
        if type(model) is not SoftmaxModel:
            return (
                f"the task is {task.kind}, and {name} has {type(model).__name__}, not SoftmaxModel"
            )
        if type(adapt(model, task)) is not LinearNode:
            return f"{name}: SoftmaxModel has an adapter of its own"
        if not (isinstance(model.ridge, Real) and 0 < float(model.ridge) < math.inf):
            return f"{name}: SoftmaxModel has ridge={model.ridge!r}, not one number above 0"
        if node.X.ndim != 2:
            return f"{name}: its rows have the shape {node.X.shape[1:]}"
        intercept = bool(model.fit_intercept)
        weights = (node.X.shape[1] + intercept) * task.n_outputs
        if weights > MOST_WEIGHTS:
            return f"{name}: a model has {weights} weights, more than {MOST_WEIGHTS}"
        if first is None:
            first = node.label, intercept
        elif intercept != first[1]:
            return f"{name} has fit_intercept={intercept} and node {first[0]!r} has {first[1]}"
    return None


@dataclass
class SoftmaxFedRelax(Solver):
    """``FedRelax`` when every model is ``SoftmaxModel``: the same rounds, by batched Newton steps."""

    settings: FedRelax = field(default_factory=FedRelax)

    def check(self, network: Network) -> None:
        """Check settings, then every node's model."""
        check_rounds(self.settings, network)
        if network.kind != "classification":
            raise Unsuited(f"the task is {network.kind}")
        reason = why_not_softmax(network, self.settings)
        if reason is not None:
            raise Unsuited(reason)

    def _solve(self, network: Network, callbacks: Sequence[Callback]) -> Result:
        settings, models = self.settings, [node.model for node in network]
        features = next(iter(network)).X.shape[1]
        ridge = np.array([model.penalties(features) for model in models])
        stacked = replace(LinearNetwork.of(network), ridge=ridge)
        _check_memory(stacked)
        shape = (stacked.n_weights, stacked.task.n_outputs)
        start = np.stack([model._last_weights(shape) for model in models])
        engine = SoftmaxEngine(stacked, float(settings.alpha), float(settings.damping), start)
        stopping = Stopping(settings.rounds_for(network), float(settings.tol), settings.patience)
        outcome = run(engine, stopping, callbacks, settings.wiring)
        return Result(
            local_models=_fitted(stacked, engine.W),
            alone=_fitted(stacked, engine.alone),
            task=stacked.task,
            graph=stacked.graph,
            discrepancies=EdgeValues(stacked.graph, engine.discrepancies(engine.given)),
            kept=kept_graph(stacked.graph, engine.edges, settings.wiring),
            history=outcome.history,
            n_rounds=outcome.n_rounds,
            reason=outcome.reason,
            losses=("log", "log"),
            engine="linear",
        )


def _fitted(network: LinearNetwork, W: FloatArray) -> dict[Label, LocalModel]:
    """Return the models of weights (n, d, K), the intercept last if there is one."""
    features, task = network.own.X.shape[1], network.task
    found: dict[Label, LocalModel] = {}
    for label, template, weights in zip(network.labels, network.models, W, strict=True):
        model: Any = copy.deepcopy(template)
        model.coef_ = np.ascontiguousarray(weights[:features].T)
        model.intercept_ = weights[-1].copy() if network.intercept else np.zeros(W.shape[2])
        model.classes_, model.n_features_in_ = task.classes, features
        found[label] = LinearNode(model, task)
    return found


def _check_memory(network: LinearNetwork) -> None:
    """Refuse a problem that will not fit before any of it is built."""
    n, d, K = len(network.labels), network.n_weights, network.task.n_outputs
    held = 0 if network.validation is None else len(network.validation.X)
    rows = 2 * (len(network.own.X) + held)  # Padding at most doubles them.
    numbers = rows * (d + K) + 8 * n * len(network.public) * K + 6 * n * d * K
    try:
        require_memory(8 * numbers, n=n, d=d, common=True, dtype=np.float32)
    except FedRelaxError as error:
        raise Unsuited(str(error)) from None

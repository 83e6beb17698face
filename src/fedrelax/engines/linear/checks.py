"""Does the linear engine apply, and would it be exact? If not, one sentence says why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax.engines.base import UnsupportedNetworkError
from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import with_constant
from fedrelax.losses import Squared
from fedrelax.models import LinearModel, LocalModel, ScikitModel, SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.network import Network
from fedrelax.typing import FloatArray, Label, Model

if TYPE_CHECKING:
    from fedrelax.engines.linear.measures import Prepared
    from fedrelax.linear.fixed_point import ExactUpdate

APART_CONDITION, TOGETHER_CONDITION = 1e11, 1e8
"""Largest condition numbers: round 0 is corrected with the rows themselves, later rounds are not."""
LEAST_SPREAD, OWN_SPREAD = 1e-6, 1e-12
"""Share of the largest spread below which a direction counts as constant for ``LinearRegression``, unless
its ``tol`` is larger, and for ``LinearModel``, which goes down to rounding."""
MARGIN = 10.0
BARELY = 1e-5
"""A Gram matrix may not tell so small a singular value of its rows from zero."""
MOST_LOST = 1e-6
"""Largest rounding error times squared ratio of feature scales where undetermined weights are filled in."""

EXACT_SOLVERS = ("auto", "svd", "cholesky")
"""Settings of ``Ridge(solver=)`` that do not stop early."""
WIDE = 1500
"""Columns above which a matrix of columns x columns for every node costs more than it saves."""


def unsupported_models(
    models: Mapping[Label, Model],
    check: Callable[[Model], str | None] | None = None,
    kind: str = "regression",
) -> str | None:
    """Return which node's model ``check`` refuses or has another intercept setting, or None.

    By default, models must be linear least squares.
    """
    task = Task(kind, 1) if kind == "regression" else Task(kind, 2, np.arange(2))
    intercepts = {label: getattr(model, "fit_intercept", None) for label, model in models.items()}
    first = next(iter(models))
    for label, model in models.items():
        reason = (check or _reason_in_model)(model) or _reason_in_adapter(model, task)
        if reason is not None:
            return f"node {label!r}: {reason}"
        if bool(intercepts[label]) != bool(intercepts[first]):
            return (
                f"node {label!r} has fit_intercept={intercepts[label]} and node {first!r} has "
                f"fit_intercept={intercepts[first]}"
            )
    return None


def _reason_in_adapter(model: Model, task: Task) -> str | None:
    try:
        adapted: LocalModel = adapt(model, task)
    except FedRelaxError as error:
        return str(error)
    if type(adapted) not in (ScikitModel, LinearNode):
        return f"{type(model).__name__} has its own adapter, {type(adapted).__name__}"
    return None


def unsupported_shape(network: Network) -> str | None:
    """Return why the rows, alike at all nodes, are not rows of features, or None."""
    first = next(iter(network))
    plain = first.X.ndim == 2
    return None if plain else f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"


def unsupported_rows(network: Network) -> str | None:
    """Return why the rows are not rows of features, or of too many for linear models, or None."""
    reason = unsupported_shape(network)
    if reason is not None:
        return reason
    first, models = next(iter(network)), network.distinct_models.values()
    if first.X.shape[1] > WIDE and all(isinstance(m, Ridge | LinearRegression) for m in models):
        return (
            f"{first.X.shape[1]} columns are more than {WIDE}, where scikit-learn's own solver is faster: "
            "it has as many unknowns as there are rows"
        )
    return None


def ridge_of(model: Model, features: int) -> FloatArray:
    """Return the factor of each ``coef^2``, relative to a sum over own rows of weight 1."""
    if isinstance(model, LinearModel | SoftmaxModel):
        return model.penalties(features)
    return np.full(features, float(model.alpha) if isinstance(model, Ridge) else 0.0)


def minimum_norm_of(model: Model) -> str | None:
    """Return the norm that the model minimises where its rows leave weights undetermined."""
    if isinstance(model, LinearModel):
        return "all" if model.fit_intercept else "coefficients"
    return "coefficients" if isinstance(model, LinearRegression) else None


def _reason_in_model(model: Model) -> str | None:
    reason = None
    if type(model) not in (LinearRegression, Ridge, LinearModel):
        return f"{type(model).__name__} is not LinearRegression, Ridge or LinearModel"
    if getattr(model, "positive", False):
        reason = "positive=True"
    elif isinstance(model, Ridge):
        reason = _penalty("alpha", model.alpha)
        if model.solver not in EXACT_SOLVERS:
            reason = f"solver={model.solver!r}, which stops at its own tolerance"
    elif isinstance(model, LinearModel):
        reason = _penalty("ridge", model.ridge)
        if not (model.loss == "squared" or isinstance(model.loss, Squared)):
            reason = f"loss={model.loss!r}"
    return None if reason is None else f"{type(model).__name__} has {reason}"


def _penalty(name: str, value: object) -> str | None:
    if isinstance(value, Real) and 0 <= float(value) < math.inf:
        return None
    return f"{name}={value!r}, not one number of at least 0"


def check_safe(prepared: Prepared, together: ExactUpdate) -> None:
    """Refuse nodes for which Gram matrices, whose condition is squared, would give other weights.

    These are nodes with barely determined weights, or undetermined ones that models fill in differently,
    and features that differ so much in scale that a model's own solver would take some for constant.
    """
    for node, reason in _unsafe_nodes(prepared, together):
        label = prepared.network.labels[prepared.network.given(node)]
        raise UnsupportedNetworkError("linear", f"node {label!r}: {reason}")


def _unsafe_nodes(prepared: Prepared, together: ExactUpdate) -> Iterator[tuple[int, str]]:
    network, coordinates, apart = prepared.network, prepared.coordinates, prepared.apart
    for exact, most in ((apart, APART_CONDITION), (together, TOGETHER_CONDITION)):
        worst = int(np.argmax(exact.condition))
        if not exact.condition[worst] <= most:
            yield (
                worst,
                f"its rows barely determine a weight (condition number {exact.condition[worst]:.1e}), so "
                "the linear engine would not be exact",
            )
    norm = network.minimum_norm
    condition = np.maximum(apart.condition, together.condition)
    singular = np.minimum(apart.rank, together.rank) < network.n_weights
    differs = network.per_node(lambda model: minimum_norm_of(model) != norm) & singular
    if differs.any():
        yield (
            int(np.argmax(differs)),
            "its rows leave weights undetermined, and the models of the network fill them in differently",
        )
    if singular.any():
        sizes = np.linalg.svd(coordinates.least(norm), compute_uv=False)
        lost = np.finfo(float).eps * (sizes[0] / sizes[-1]) ** 2 * condition * singular
        if not lost.max() <= MOST_LOST:
            yield (
                int(np.argmax(lost)),
                "its rows leave weights undetermined, and its features differ too much in scale to fill "
                "them in exactly from Gram matrices",
            )
    offset = 1 + float(np.abs(coordinates.centre / coordinates.scale).max())
    for rank, coupled in ((apart.rank, None), (together.rank, together)):
        for i in np.flatnonzero(rank < network.n_weights).tolist():
            if minimum_norm_of(network.model(i)) and not _has_clear_rank(
                prepared, coupled, i, int(rank[i]), offset
            ):
                yield (
                    i,
                    "its rows determine a weight so barely that the linear engine would treat it as "
                    "undetermined",
                )

    def limit(model: Model) -> float:
        if isinstance(model, LinearModel):
            return OWN_SPREAD * offset
        own = max(LEAST_SPREAD, float(getattr(model, "tol", 0.0)))
        return MARGIN * own if isinstance(model, LinearRegression) else 0.0

    stretch = float(coordinates.scale.max() / coordinates.scale.min())
    risk = network.per_node(limit) * stretch * np.sqrt(condition)
    worst = int(np.argmax(risk))
    if risk[worst] > 1:
        kind = type(network.model(worst)).__name__
        yield (
            worst,
            f"its features differ so much in scale that {kind} may treat some as constant",
        )


def _has_clear_rank(
    prepared: Prepared, exact: ExactUpdate | None, i: int, rank: int, offset: float
) -> bool:
    """Tell whether node i's rows, with the neighbours' if ``exact`` is given, have this rank for sure.

    A weight that rows determine barely, or with a tiny weight of theirs, looks undetermined in a Gram
    matrix. The rows themselves can tell: their singular values must be clearly zero or clearly not.
    """
    network, coordinates, problem = prepared.network, prepared.coordinates, prepared.problem
    parts = [network.own.part(network.given(i))[0]]
    others = problem.adjacency[[i]].indices.tolist()
    if others and exact is not None and exact.coupling.alpha:
        owners = [*others, i] if exact.coupling.symmetric else others
        parts += [network.public_of(j) for j in (owners if problem.common is None else [i])]
    rows = with_constant(coordinates.rows(np.vstack(parts)), network.intercept)
    penalised = np.eye(network.n_weights)[: len(coordinates.scale)][network.ridge[i] > 0]
    sizes = np.linalg.svd(np.vstack([rows, penalised]), compute_uv=False)
    clear = sizes > BARELY * sizes[0]
    zero = sizes <= max(rows.shape) * np.finfo(float).eps * offset * sizes[0]
    return bool((clear | zero).all() and clear.sum() == rank)

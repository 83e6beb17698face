"""What a run is known by, so that no other is mistaken for it: rows, graph, models and settings."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import joblib
import numpy as np

from fedrelax.losses import Weighted
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.typing import Model

NO_MATTER = ("n_jobs", "found")
"""Settings that do not change a result, and what is found again from the rows."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|, spent=(True|False)")
"""What texts say of an object in memory and not of the run."""


def identity_of(network: Network, solver: Any) -> dict[str, str]:
    """Return what a run of a solver on a network is known by."""
    graph, public = network.graph.adjacency, network.public
    models = {id(model): described(model) for model in network.distinct_models.values()}
    common = public.common
    sets = [common] if common is not None else [public.of(label) for label in network.labels]
    discrepancy = getattr(solver, "discrepancy", None)
    weights = [discrepancy.weights(X) for X in sets] if isinstance(discrepancy, Weighted) else []
    settings = [
        f"{field.name}={plain_text(getattr(solver, field.name))}"
        for field in fields(solver)
        if field.name not in NO_MATTER
    ]
    own, held = network.own_rows, network.validation_rows
    return {
        "rows": joblib.hash([vars(rows) for rows in (own, held) if rows is not None]),
        "graphs": joblib.hash([repr(network.labels), graph.data, graph.indices, graph.indptr]),
        "public rows": joblib.hash(sets),
        "models": joblib.hash([models[id(model)] for model in network.models]),
        "settings": joblib.hash([type(solver).__name__, *settings, *weights]),
    }


def described(model: Model) -> str:
    """Return a model's kind and settings as a text that is the same in every process.

    >>> from sklearn.linear_model import Ridge
    >>> described(Ridge(2.0)) == described(Ridge(2.0)), described(Ridge(2.0)) == described(Ridge())
    (True, False)
    """
    if isinstance(model, LocalModel):
        model = model.estimator
    if hasattr(model, "estimator") and hasattr(model, "view"):  # a model that sees some columns
        return f"{described(model.estimator)} {plain_text(model.view)}"
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if not hasattr(model, "get_params") or isinstance(model, type):
        return f"{kind} {plain_text(model)}"
    params = model.get_params(deep=True)
    return f"{kind} {[(name, plain_text(params[name])) for name in sorted(params)]}"


def plain_text(value: Any) -> str:
    """Return a value as a text without addresses in memory; of an array, its checksum."""
    if isinstance(value, np.ndarray):
        return str(joblib.hash(value))
    return ADDRESS.sub("", repr(value))

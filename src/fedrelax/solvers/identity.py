"""What a run is known by, so that no other is mistaken for it: rows, graph, models and settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from fedrelax.losses import Weighted
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.typing import AnyArray, Model

NO_MATTER = ("n_jobs", "found")
"""Settings that do not change a result, and what is found again from the rows."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|, spent=(True|False)")
"""What texts say of an object in memory and not of the run."""


def identity_of(network: Network, solver: Any) -> dict[str, str]:
    """Return what a run of a solver on a network is known by."""
    graph, public = network.graph.adjacency, network.public
    models = {id(node.model): described(node.model) for node in network}
    common = public.common
    sets = [common] if common is not None else [public.of(label) for label in network.labels]
    discrepancy = getattr(solver, "discrepancy", None)
    weights = [discrepancy.weights(X) for X in sets] if isinstance(discrepancy, Weighted) else []
    settings = [
        f"{field.name}={plain_text(getattr(solver, field.name))}"
        for field in fields(solver)
        if field.name not in NO_MATTER
    ]
    rows = (part for node in network for part in (node.X, node.y, *(node.validation or ())))
    return {
        "rows": _digest(rows),
        "graphs": _digest([repr(network.labels), graph.data, graph.indices, graph.indptr]),
        "public rows": _digest(sets),
        "models": _digest(models[id(node.model)] for node in network),
        "settings": _digest([type(solver).__name__, *settings, *weights]),
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
        return _digest([value])
    return ADDRESS.sub("", repr(value))


def _digest(parts: Iterable[AnyArray | str | Any]) -> str:
    """Return a checksum of arrays and texts, with their types and shapes."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            data = part.encode("utf-8", "surrogatepass")
        else:
            array = np.asarray(part)
            found.update(f"{array.dtype.str}{array.shape}".encode())
            plain = array.dtype != object
            data = array.tobytes() if plain else repr(array.tolist()).encode("utf-8", "replace")
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()

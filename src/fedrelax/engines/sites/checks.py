"""Can every node's model minimise its objective? If not, one sentence says why."""

from __future__ import annotations

import warnings
from dataclasses import replace

from fedrelax.combining import as_combine
from fedrelax.errors import FedRelaxError, FedRelaxWarning, named
from fedrelax.losses import requirement
from fedrelax.models import LocalModel, adapt
from fedrelax.models.difference import local_model
from fedrelax.network import Network
from fedrelax.runtime import Coupling, Settings

STEADY = 0.999
"""Damping for models that do not settle where messages may be lost: they keep sending first answers."""


def steadied(coupling: Coupling, model: LocalModel) -> Coupling:
    """Return a node's coupling for exchanges in which messages may be lost or late.

    A model that drifts is most useful to its neighbours as it was when trained alone: refitted
    to refitted models, it loses detail. If all nodes hear each other in every round, its first answers
    arrive in the first round. If some are away, it has to keep sending them until they arrive. Damping
    that was given is kept.
    """
    if coupling.damping or coupling.continued or not model.drifts:
        return coupling
    return replace(coupling, damping=STEADY)


def unsupported_models(network: Network, settings: Settings) -> str | None:
    """Return which node's model cannot take its rows or minimise the pair of losses, or None."""
    combine = as_combine(settings.combine)
    if combine.compares and network.public.common is None:
        return (
            f"combine={combine.name!r} compares the neighbours' answers on the same rows, but every node "
            "has its own public rows; pass one array as public"
        )
    nodes = network.nodes
    for label, given in network.distinct_models.items():
        try:
            model = local_model(given, network.task, settings.update)
            model.check(nodes[label].X)
        except FedRelaxError as error:
            return f"node {label!r}: {error}"
        reason = _reason_in_model(model, settings, network.kind)
        if reason is not None:
            return f"node {label!r}: {reason}"
    return None


def _reason_in_model(model: LocalModel, settings: Settings, kind: str) -> str | None:
    loss, discrepancy = settings.losses(kind)
    mixed = requirement(loss, discrepancy) == "gradients" and settings.alpha > 0
    if mixed and not model.gradients:
        return (
            f"loss={loss.name!r} with discrepancy={discrepancy.name!r} needs a model that minimises "
            f"a sum of two losses by gradients, but {model.name} fits weighted rows under one loss; "
            "use one loss for both, or fedrelax.models.LinearModel"
        )
    asked = settings.loss is not None or settings.discrepancy is not None
    if asked and model.fits is not None and loss.name not in model.fits:
        own = " or ".join(sorted(model.fits)) or "another loss"
        return (
            f"{model.name} as configured minimises {own}, not loss={loss.name!r}; configure the "
            "model for it, or choose another model or loss"
        )
    return None


def warn_of_resampling(network: Network, settings: Settings) -> None:
    """Warn, once, which models take no sample weights."""
    models = [adapt(given, network.task) for given in network.distinct_models.values()]
    resampled = {model.name: None for model in models if model.weights == "resampled"}
    if resampled and settings.alpha > 0 and settings.update != "difference":
        warnings.warn(
            f"{named('model', resampled, 'takes')} no sample weights: rows are resampled in "
            "proportion to the weights instead, with a fixed seed",
            FedRelaxWarning,
            stacklevel=6,
        )

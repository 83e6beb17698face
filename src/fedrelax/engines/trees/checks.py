"""Does the tree engine apply? If not, one sentence says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedrelax.engines.base import Settings, losses_of
from fedrelax.engines.sites.checks import reason_in_models
from fedrelax.losses import Log, Squared
from fedrelax.models.trees import node
from fedrelax.models.trees.settings import why_not
from fedrelax.network import Network
from fedrelax.typing import Label


def refusal_of(kind: str, models: Mapping[Label, Any], settings: Settings) -> str | None:
    """Return which setting or which node's model the engine does not support, or None."""
    if not node.has_numba():
        return "it needs numba (pip install 'fedrelax[fast]')"
    for label, model in models.items():
        if not node.is_tree(model):
            return f"node {label!r}: {type(model).__name__} is not a scikit-learn tree or forest"
        reason = why_not(model)
        if reason is not None:
            return f"node {label!r}: {reason}"
    loss, discrepancy = losses_of(settings, kind)
    if type(loss) is not type(discrepancy) or not isinstance(loss, Squared | Log):
        return (
            "it needs squared or log as both loss and discrepancy, and found "
            f"discrepancy={discrepancy.name!r}"
        )
    if settings.order != "simultaneous":
        return f"it needs order='simultaneous', not {settings.order!r}"
    if not settings.collapse:
        return "it averages the neighbours' answers first, so it needs collapse=True"
    if settings.distillation is not None:
        return "distillation draws new rows in every round"
    return None


def reason_in_rows(network: Network, settings: Settings) -> str | None:
    """Return what about the rows the engine does not support, or None."""
    if network.public.common is None:
        return "it needs one common set of public rows"
    width = network.public.common.shape[1:]
    if len(width) != 1 or width[0] == 0:
        return f"the rows have the shape {width}, not (features,)"
    return reason_in_models(network, settings)

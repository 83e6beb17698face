"""Does the tree engine apply? One sentence if it does not."""

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
    """Return what in the settings or in which node's model the engine does not serve."""
    if not node.has_numba():
        return "trees at once need numba (pip install 'fedrelax[fast]')"
    for label, model in models.items():
        if not node.is_tree(model):
            return f"node {label!r}: {type(model).__name__} is not a tree or forest of scikit-learn"
        reason = why_not(model)
        if reason is not None:
            return f"node {label!r}: {reason}"
    loss, discrepancy = losses_of(settings, kind)
    if type(loss) is not type(discrepancy) or not isinstance(loss, Squared | Log):
        return f"trees at once need one loss that is squared or log, not {discrepancy.name!r}"
    if settings.order != "simultaneous":
        return f"trees at once need order='simultaneous', not {settings.order!r}"
    if not settings.collapse:
        return "trees at once average the neighbours' answers first, so collapse must be on"
    if settings.distillation is not None:
        return "distillation rows are drawn afresh in every round"
    return None


def reason_in_rows(network: Network, settings: Settings) -> str | None:
    """Return what in the rows the engine does not serve."""
    if network.public.common is None:
        return "trees at once need one common set of public rows"
    width = network.public.common.shape[1:]
    if len(width) != 1 or width[0] == 0:
        return f"the rows have the shape {width}"
    return reason_in_models(network, settings)

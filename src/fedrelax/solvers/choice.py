"""Which engine solves a network: the general one, or the linear one where it applies."""

from __future__ import annotations

from collections.abc import Sequence

from fedrelax.network import Network
from fedrelax.runtime import Callback
from fedrelax.solvers.base import Result
from fedrelax.solvers.checks import check_choice
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.linear import LinearFedRelax
from fedrelax.solvers.linear_checks import Unsuited, reason_in_models, reason_in_settings
from fedrelax.solvers.linear_network import LinearNetwork
from fedrelax.solvers.softmax import SoftmaxFedRelax, why_not_softmax


def why_not_linear(network: Network, settings: FedRelax) -> str | None:
    """Return why the linear engine does not serve this network under these settings, or None.

    >>> from sklearn.linear_model import Ridge
    >>> from fedrelax import Graph
    >>> network = Network(Graph.from_edges([("a", "b")]), public=[[0.0], [1.0]])
    >>> _ = network.add("a", [[1.0], [2.0]], [1.0, 2.0], Ridge())
    >>> _ = network.add("b", [[1.0], [3.0]], [1.0, 2.0], Ridge(positive=True))
    >>> why_not_linear(network, FedRelax())
    "node 'b': Ridge has positive=True"
    """
    if network.kind == "classification":
        return why_not_softmax(network, settings)
    reason = reason_in_settings(settings, network) or reason_in_models(network)
    if reason is not None:
        return reason
    try:
        LinearFedRelax.like(settings).prepare(LinearNetwork.of(network))
    except Unsuited as unsuited:
        return unsuited.reason
    return None


def is_linear(network: Network, settings: FedRelax) -> bool:
    """Tell whether every model is linear least squares under these settings."""
    return reason_in_settings(settings, network) is None and reason_in_models(network) is None


def solve_by_engine(
    engine: str, settings: FedRelax, network: Network, callbacks: Sequence[Callback] = ()
) -> Result:
    """Solve by the "general" engine, the "linear" one, or the linear one where it applies ("auto").

    The linear one serves least-squares models, and softmax models with a common public set. Both
    give the same result: the choice is one of time.
    """
    check_choice("engine", engine, ("auto", "general", "linear"))
    if engine == "general":
        return settings.solve_by_sites(network, callbacks)
    try:
        if network.kind == "classification":
            return SoftmaxFedRelax(settings).solve(network, callbacks)
        reason = reason_in_settings(settings, network)
        if reason is not None:
            raise Unsuited(reason)
        return LinearFedRelax.like(settings).solve(network, callbacks)
    except Unsuited:
        if engine == "linear":
            raise
    return settings.solve_by_sites(network, callbacks)

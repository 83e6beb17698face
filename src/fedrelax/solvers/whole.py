"""All nodes' linear models at once, with nothing to set."""

from __future__ import annotations

from dataclasses import dataclass

from fedrelax.engines import UnsupportedNetworkError
from fedrelax.engines.whole.engine import WholeEngine
from fedrelax.engines.whole.found import Found, find, sample_size
from fedrelax.engines.whole.graphs import NODES, OPERATIONS, operations
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss, usual_loss
from fedrelax.network import Network
from fedrelax.solvers.base import Solver
from fedrelax.wiring import Wiring

MOST, MOST_NUMBERS = 5e8, 3e8
"""Nodes times columns cubed, and times columns squared, up to which all nodes are solved at once."""

MOST_COLUMNS, MOST_CLASSES = 5_000, 1_000
"""Beyond these, the default would take minutes to hours."""


def check_default(network: Network) -> None:
    """Refuse a network with too many columns or classes for the default."""
    X, classes = network.own_rows.X, _classes(network)
    columns = X.shape[1] if X.ndim == 2 else 0
    if columns > MOST_COLUMNS:
        raise FedRelaxError(
            f"X has {columns:,} columns, and with more than {MOST_COLUMNS:,} the default takes too long; "
            "choose columns beforehand (SelectKBest, PCA), or give a model and an alpha of your own, such "
            "as make_pipeline(PCA(50), Ridge()) with alpha 0.1"
        )
    if classes > MOST_CLASSES:
        raise FedRelaxError(
            f"y has {classes:,} classes, and with more than {MOST_CLASSES:,} the default takes too long; "
            "merge rare classes, or give a model and an alpha of your own, such as "
            "DecisionTreeClassifier() with alpha 0.1"
        )


@dataclass
class WholeNetwork(Solver):
    """Finds penalty, coupling, level and curves of a network from the rows of its nodes.

    For numbers, candidates are judged by their evidence (the restricted likelihood of a mixed model),
    strengths of single columns are learned from there, and curves of the columns join if they have the
    better evidence; what is chosen must beat every node alone and one model for all on rows left out.
    A graph that does not join all nodes alike is solved by sparse factorisation, without learned
    strengths; where joining all nodes alike does better on rows left out, the graph is left aside.
    For classes, on a complete graph only, candidates are judged by the log loss of rows left out. Every
    node ends with one plain model: ``Ridge``, a pipeline of curves and ``Ridge``, or
    ``LogisticRegression``.

    The fixed point is one of exchanged predictions; finding the settings takes sums over all nodes'
    rows (Gram matrices of the features), which in a federation would have to be shared or summed
    securely.
    """

    found: Found | None = None
    rounds: int | None = 1
    tol: float | None = 0.0
    patience: int | None = None
    wiring: Wiring | None = None

    @classmethod
    def unsupported_reason(cls, network: Network) -> str | None:
        """Return why this way does not serve a network, or None."""
        alike = len(network) == 1 or network.graph.is_uniform or not network.graph.n_edges
        if network.task.is_classification and not alike:
            return "the graph does not join all nodes alike, which classes need"
        reason = cls.unsupported_rows(network)
        if reason is not None:
            return reason
        columns, classes = network.own_rows.X.shape[1], _classes(network)
        if len(network) * (columns + 1) ** 2 * classes > MOST_NUMBERS:
            return f"{len(network)} nodes are too many to solve for all at once"
        return None if alike else _too_large(network)

    @staticmethod
    def unsupported_rows(network: Network) -> str | None:
        """Return why no settings can be found from a network's rows, whatever its graph, or None."""
        if network.public.common is None:
            return "every node has public rows of its own"
        if network.task.n_outputs > 1 and not network.task.is_classification:
            return "there are several outputs"
        rows = network.own_rows
        if rows.X.ndim != 2:
            return "rows are not rows of features"
        classes = _classes(network)
        if sample_size(len(network), rows.X.shape[1]) * (rows.X.shape[1] + 1) ** 3 * classes > MOST:
            return f"{rows.X.shape[1]} columns are too many to find all settings at once"
        return None

    def check(self, network: Network) -> None:
        """Refuse networks that it does not serve."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise UnsupportedNetworkError("whole", reason)

    def prepare(self, network: Network) -> WholeEngine:
        """Find the settings, unless that has been done, and return the engine."""
        return WholeEngine(network, find(network) if self.found is None else self.found)

    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return the usual loss for both."""
        return usual_loss(kind), usual_loss(kind)


def _classes(network: Network) -> int:
    return network.task.n_outputs if network.task.is_classification else 1


def _too_large(network: Network) -> str | None:
    """Return why a network on a graph of its own is too large to be factorised again and again."""
    many, columns = len(network), network.own_rows.X.shape[1]
    if many > NODES:
        return f"the graph does not join all nodes alike, and {many} nodes are more than {NODES}"
    if operations(network.graph.laplacian(), columns + 1) > OPERATIONS:
        return (
            f"the graph of {many} nodes does not join all alike, and with {columns} features solving "
            "for all models at once takes too long"
        )
    return None

"""Partial pooling of linear models: nothing to set."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedrelax.engines import Engine, UnsupportedNetworkError
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss, usual_loss
from fedrelax.network import Network
from fedrelax.pooling.engine import PoolingEngine
from fedrelax.pooling.network import MOST_NODES, PooledNetwork, find, sample_size
from fedrelax.runtime import Stopping
from fedrelax.solvers.base import Solver
from fedrelax.wiring import Wiring

MOST, MOST_NUMBERS = 5e8, 3e8
"""Nodes times columns cubed, and times columns squared, up to which nodes are pooled."""

MOST_COLUMNS, MOST_CLASSES = 5_000, 1_000
"""Beyond these, the default would take minutes to hours."""


def check_default(network: Network) -> None:
    """Refuse a network with too many columns or classes for the default."""
    X, classes = network.own_rows.X, network.task.n_outputs
    columns = X.shape[1] if X.ndim == 2 else 0
    if columns > MOST_COLUMNS:
        raise FedRelaxError(
            f"X has {columns:,} columns, and with more than {MOST_COLUMNS:,} the default takes too long; "
            "choose columns beforehand (SelectKBest, PCA), or give a model and an alpha of your own, such "
            "as make_pipeline(PCA(50), Ridge()) with alpha 0.1"
        )
    if network.task.is_classification and classes > MOST_CLASSES:
        raise FedRelaxError(
            f"y has {classes:,} classes, and with more than {MOST_CLASSES:,} the default takes too long; "
            "merge rare classes, or give a model and an alpha of your own, such as "
            "DecisionTreeClassifier() with alpha 0.1"
        )


@dataclass
class PartialPooling(Solver):
    """Linear models with partial pooling, as in a mixed model; see ``pooling.exchange``.

    In nine rounds nodes exchange answers on public rows, and a few numbers about their models, from which
    everybody knows the consensus, how strongly each column is coupled, and whether curves of the columns,
    nodes alone or one model for all have the better evidence. Every node ends with one plain model:
    ``Ridge``, ``LogisticRegression``, or a pipeline of curves and one of these.
    """

    pooled: PooledNetwork | None = None
    rounds: int | None = None
    tol: float | None = 0.0
    patience: int | None = None
    wiring: Wiring | None = None

    @classmethod
    def unsupported_reason(cls, network: Network) -> str | None:
        """Return why this way does not serve a network, or None."""
        n, graph = len(network), network.graph
        if n > MOST_NODES and graph.n_edges and not graph.is_uniform:
            return f"the graph does not join all nodes alike, and {n:,} nodes are more than {MOST_NODES:,}"
        return cls.unsupported_rows(network)

    @staticmethod
    def unsupported_rows(network: Network) -> str | None:
        """Return why no settings can be found from a network's rows, whatever its graph, or None."""
        if network.public.common is None:
            return "every node has public rows of its own"
        if network.task.n_outputs > 1 and not network.task.is_classification:
            return "there are several outputs"
        X, n = network.own_rows.X, len(network)
        if X.ndim != 2:
            return "rows are not rows of features"
        columns, scores = X.shape[1] + 1, max(network.task.n_outputs - 1, 1)
        if sample_size(n, X.shape[1]) * columns**3 * scores > MOST:
            return f"{X.shape[1]} columns are too many to find all settings at once"
        if n * columns**2 * scores > MOST_NUMBERS:
            return f"{n} nodes are too many to solve for all at once"
        return None

    def stopping(self, engine: Engine) -> Stopping:
        """Go through all rounds: they are computed first, so callbacks hear of them but stop none."""
        return replace(super().stopping(engine), by_callbacks=False)

    def check(self, network: Network) -> None:
        """Refuse networks that it does not serve."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise UnsupportedNetworkError("pooling", reason)

    def prepare(self, network: Network) -> PoolingEngine:
        """Run the rounds, unless that has been done, and return the engine that goes through them."""
        pooled = find(network) if self.pooled is None else self.pooled
        return PoolingEngine(network, pooled)

    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return the usual loss for both."""
        return usual_loss(kind), usual_loss(kind)

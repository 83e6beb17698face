"""The pooling test: two nodes are joined if pooling their rows trains better models.

The paper: "the presence of an edge between two local datasets can also be tested by the effect of
pooling them for the training of local models". It cites Ghosh, Chung, Yin and Ramchandran, "An
efficient framework for clustered federated learning", NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedrelax.engines.sites.refits import refit
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.graph.matrices import from_pairs
from fedrelax.losses import usual_loss
from fedrelax.models import Rows, adapt
from fedrelax.network import Network
from fedrelax.runtime.site import Inputs
from fedrelax.splits import deal
from fedrelax.threads import one_thread
from fedrelax.typing import FloatArray
from fedrelax.validation import check_count

MOST = 300
"""The most nodes without ``candidates``: about 45,000 pairs."""


def pooling_graph(
    network: Network,
    *,
    folds: int = 3,
    seed: int = 0,
    candidates: Graph | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Graph:
    """Return the graph that joins the pairs of nodes which gain by pooling their rows.

    The test needs the rows of two nodes in one place: a trusted place that holds all rows, or a
    simulation. It is **not for a federation**, whose nodes do not show their rows.

    Every node's rows are split into ``folds`` folds. L_i is node i's mean loss on held-out rows
    (squared, or log loss for classes) when its model learns from the node's other folds only, and
    L_ij when it also learns from the same folds of node j. With
    gain_ij = (L_i - L_ij) + (L_j - L_ji), the nodes are joined with the weight

        A_ij = gain_ij / (L_i + L_j)  if  gain_ij > its standard error over the held-out rows

    and not at all otherwise, so a weight is the share of their loss that two nodes save, at most 1.
    One node may lose if the other gains more: an edge is one decision for both ends. Nodes that do
    well alone have little to gain, so they get light edges or none, even between identical nodes.

    This takes ``folds`` fits per node and per pair, and twice as many for a pair that was not given
    the same model object. ``candidates`` restricts the pairs to the edges of a graph, and is required
    above 300 nodes. ``progress(done, total)`` is called after every pair. The network needs no public
    rows, and its own graph is not used.

    >>> from sklearn.linear_model import LinearRegression
    >>> rng, model = np.random.default_rng(0), LinearRegression()
    >>> network = Network(Graph.complete(["a", "b", "c", "d"]))
    >>> for label, slope in {"a": 1, "b": 1, "c": -1, "d": -1}.items():
    ...     X = rng.normal(size=(6, 3))
    ...     _ = network.add(label, X, slope * X.sum(axis=1) + 0.3 * rng.normal(size=6), model)
    >>> pooling_graph(network).components()
    [['a', 'b'], ['c', 'd']]
    """
    check_count("folds", folds, least=2)
    network.check_rows()
    single = next((node.label for node in network if len(node.X) < 2), None)
    if single is not None:
        raise FedRelaxError(
            f"node {single!r} has a single row, so none can be held out; the pooling test needs at least "
            "two rows at every node"
        )
    labels = list(network.nodes)
    if candidates is None:
        if len(labels) > MOST:
            raise FedRelaxError(
                f"the pooling test tries all pairs, and the network has {len(labels)} nodes; above "
                f"{MOST}, pass candidates=, a graph of the pairs to try"
            )
        i, j = np.triu_indices(len(labels), 1)
    else:
        pairs = candidates.subgraph(labels).adjacency.tocoo()
        once = pairs.row < pairs.col
        i, j = pairs.row[once], pairs.col[once]
    test, weights = _PoolingTest(network, folds, seed), np.zeros(len(i))
    with one_thread():  # As in the rounds: more threads only slow down small fits.
        alone = [test.losses(k, [k], [k])[0] for k in range(len(labels))]
        for pair, (one, two) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
            both = [one, two]
            if test.nodes[one].model is test.nodes[two].model:
                together = test.losses(one, both, both)
            else:
                together = [test.losses(k, both, [k])[0] for k in both]
            falls = [alone[k] - pooled for k, pooled in zip(both, together, strict=True)]
            gain = sum(float(fall.mean()) for fall in falls)
            error = np.sqrt(sum(fall.var(ddof=1) / len(fall) for fall in falls))
            if gain > error:
                weights[pair] = gain / sum(float(alone[k].mean()) for k in both)
            if progress is not None:
                progress(pair + 1, len(i))
    return Graph(from_pairs(len(labels), i, j, weights), labels)


class _PoolingTest:
    """The rows of all nodes, split into folds, and the losses of models that learn from some of them."""

    def __init__(self, network: Network, folds: int, seed: int) -> None:
        self.nodes, self.task, self.seed = list(network), network.task, seed
        numbers = {node.label: np.arange(len(node.X)) for node in self.nodes}
        self.folds = deal(numbers, folds, np.random.default_rng(seed))
        self.targets = [self.task.encode(node.y) for node in self.nodes]

    def losses(
        self, learner: int, sources: Sequence[int], asked: Sequence[int]
    ) -> list[FloatArray]:
        """Return the loss of every row of the ``asked`` nodes under a model that never saw its fold."""
        nodes, targets, loss = self.nodes, self.targets, usual_loss(self.task.kind)
        losses = {k: np.zeros(len(nodes[k].X)) for k in asked}
        model = adapt(nodes[learner].model, self.task)
        for train, held in self.folds:
            rows = {k: held[nodes[k].label] for k in asked if len(held[nodes[k].label])}
            if not rows:
                continue
            inputs: Inputs = {("held", k): nodes[k].X[own] for k, own in rows.items()}
            terms = []
            for k in sources:
                own = train[nodes[k].label]
                terms.append(Rows(nodes[k].X[own], targets[k][own], np.ones(len(own)), loss))
            _, answers = refit(nodes[learner].label, model, terms, inputs, self.seed, False)
            for k, own in rows.items():
                answer = self.task.plausible(answers["held", k])
                losses[k][own] = loss.per_row(targets[k][own], answer)
        return [losses[k] for k in asked]

"""The pooling test: two nodes are joined if pooling their rows trains better models.

The paper: "the presence of an edge between two local datasets can also be tested by the effect of
pooling them for the training of local models". It cites Ghosh, Chung, Yin and Ramchandran, "An
efficient framework for clustered federated learning", NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.engines.sites.refits import Inputs, refit
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.graph.matrices import from_pairs
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, Rows, Task, adapt
from fedrelax.network import Network
from fedrelax.splits import deal
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, Label
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
    sites, task, weights = _sites(network, folds, seed), network.task, np.zeros(len(i))
    with one_thread():  # As in the rounds: more threads only slow down small fits.
        alone = [_losses(site, [site], [site], task, seed)[0] for site in sites]
        for pair, numbers in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
            both = [sites[k] for k in numbers]
            if both[0].given is both[1].given:
                together = _losses(both[0], both, both, task, seed)
            else:
                together = [_losses(site, both, [site], task, seed)[0] for site in both]
            weights[pair] = _weight([alone[k] for k in numbers], together)
            if progress is not None:
                progress(pair + 1, len(i))
    return Graph(from_pairs(len(labels), i, j, weights), labels)


@dataclass(frozen=True)
class _Site:
    """A node's encoded rows, and which of them each fold trains on and holds out."""

    label: Label
    given: object
    model: LocalModel
    X: AnyArray
    target: FloatArray
    folds: Sequence[tuple[AnyArray, AnyArray]]


def _sites(network: Network, folds: int, seed: int) -> list[_Site]:
    numbers = {node.label: np.arange(len(node.X)) for node in network}
    parts, task = deal(numbers, folds, np.random.default_rng(seed)), network.task
    sites = []
    for node in network:
        own = [(train[node.label], held[node.label]) for train, held in parts]
        model = adapt(node.model, task)
        sites.append(_Site(node.label, node.model, model, node.X, task.encode(node.y), own))
    return sites


def _losses(
    learner: _Site, sources: Sequence[_Site], asked: Sequence[_Site], task: Task, seed: int
) -> list[FloatArray]:
    """Return the loss of every row of the ``asked`` nodes under a model that never saw the row's fold."""
    loss = usual_loss(task.kind)
    losses = [np.zeros(len(site.X)) for site in asked]
    for fold in range(len(learner.folds)):
        held = [(s, s.folds[fold][1], out) for s, out in zip(asked, losses, strict=True)]
        held = [(s, rows, out) for s, rows, out in held if len(rows)]
        if not held:
            continue
        inputs: Inputs = {("held", s.label): s.X[rows] for s, rows, _ in held}
        train = [(s, s.folds[fold][0]) for s in sources]
        terms = [Rows(s.X[rows], s.target[rows], np.ones(len(rows)), loss) for s, rows in train]
        _, answers = refit(learner.label, learner.model, terms, inputs, seed, False)
        for s, rows, out in held:
            out[rows] = loss.per_row(s.target[rows], task.plausible(answers["held", s.label]))
    return losses


def _weight(alone: Sequence[FloatArray], together: Sequence[FloatArray]) -> float:
    """Return the share of the loss that pooling saves, or 0 if the gain is within its standard error."""
    falls = [apart - pooled for apart, pooled in zip(alone, together, strict=True)]
    gain = sum(float(fall.mean()) for fall in falls)
    error = np.sqrt(sum(fall.var(ddof=1) / len(fall) for fall in falls))
    return gain / sum(float(apart.mean()) for apart in alone) if gain > error else 0.0

"""Ways that train ordinary models on the rows of groups of nodes: alone, by cluster, and pooled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.objectives import LocalObjectives, group_means
from fedrelax.engines.linear.gradient import RMSprop
from fedrelax.engines.linear.network import unsupported_shape
from fedrelax.errors import FedRelaxError, named
from fedrelax.losses import usual_loss
from fedrelax.models import LinearModel, LocalModel, Rows, SoftmaxModel, adapt
from fedrelax.models.criteria import last_step
from fedrelax.models.keras import is_keras
from fedrelax.models.registry import is_net
from fedrelax.models.viewed import Seen, Viewed
from fedrelax.network import Network
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, Label, Model

FACTORS = (1.0, 0.001, 0.1, 10.0)
"""Factors of the usual penalty, of which one is chosen where nodes have columns."""
MOST_NODES = 500
MOST_NUMBERS = 20_000_000
"""In all the nodes' columns together."""


@dataclass(frozen=True)
class Grouped(Baseline):
    """h_i = argmin over the rows of all nodes in i's group, within i's own kind of model.

    Nodes of one group that were given equal models share one fit.

    factor : multiplies the penalty of Ridge, LinearModel, LogisticRegression and SoftmaxModel.
    factors : those to choose among; without any, the penalty is that of the models.
    """

    factor: float = field(default=1.0, kw_only=True)
    factors: tuple[float, ...] = field(default=(), kw_only=True)

    def candidates(self, network: Network) -> Sequence[Grouped]:
        """Return the penalties to choose among, if some node's model has one."""
        if not any(penalty_of(model)[1] for model in network.distinct_models.values()):
            return [self]
        return [replace(self, factor=factor, factors=()) for factor in self.factors] or [self]

    def settings(self) -> dict[str, object]:
        """Return the factor of the penalty, where it is not 1."""
        hidden = {"factors"} if self.factor != 1.0 else {"factors", "factor"}
        return {name: value for name, value in vars(self).items() if name not in hidden}

    @abstractmethod
    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return the group of every node."""

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Fit one model per group and kind of model."""
        groups, task = self.groups(network), network.task
        members: dict[Hashable, list[Label]] = {}
        for label in network.nodes:
            members.setdefault(groups[label], []).append(label)
        fitted: dict[tuple[Hashable, str], LocalModel] = {}
        models: dict[Label, LocalModel] = {}
        distinct = network.distinct_models.values()
        changed = {id(model): with_penalty(model, self.factor) for model in distinct}
        kinds = {key: kind_of(model) for key, model in changed.items()}
        with one_thread():  # As in the rounds: more threads only slow small fits down.
            for group, labels in members.items():
                X = np.concatenate([network.nodes[label].X for label in labels])
                target = np.concatenate([task.encode(network.nodes[label].y) for label in labels])
                rows = Rows(X, target, np.ones(len(X)), usual_loss(task.kind))
                for label in labels:
                    key = id(network.nodes[label].model)
                    kind, model = (group, kinds[key]), changed[key]
                    if kind not in fitted:
                        own = rows if not network.has_gaps else _seen_rows(rows, model, network)
                        fitted[kind] = adapt(model, task).fit([own], seed=seed)
                    models[label] = fitted[kind]
        return Run(models)


@dataclass(frozen=True)
class Alone(Grouped):
    """h_i = argmin L_i(h), every node by itself: FedRelax at alpha = 0, which it has to beat."""

    name = "alone"

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return every node as a group of its own."""
        return {label: label for label in network.nodes}


@dataclass(frozen=True)
class Pooled(Grouped):
    """h = argmin over all rows of all nodes; a network of one kind of model trains a single one.

    What nodes that may not share rows give up.
    """

    name = "pooled"

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return all nodes as one group."""
        return dict.fromkeys(network.nodes, 0)


@dataclass(frozen=True)
class PooledNode(Pooled):
    """h = argmin over all rows (x, e_i) of all nodes i, e_i = 1 in the column of node i and else 0.

    As in ``Pooled``, a network of one kind of model trains a single one.
    """

    name = "pooled+node"

    factors: tuple[float, ...] = field(default=FACTORS, kw_only=True)

    def unsupported_reason(self, network: Network) -> str | None:
        """Return which node's rows or model cannot take more columns, or that there are too many nodes."""
        nodes = len(network)
        if nodes > MOST_NODES or nodes * len(network.own_rows.X) > MOST_NUMBERS:
            return f"it has a column for every node, which takes too long for {nodes:,} of them"
        reason = unsupported_shape(network)
        if reason is not None:
            return reason
        for label, model in network.distinct_models.items():
            if is_net(model) or is_keras(model):
                return f"node {label!r}: its net cannot take more columns, one per node"
        return None

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Fit one model per kind to the rows with the nodes' columns."""
        n = len(network)
        models = {id(m): with_columns(m, n) for m in network.distinct_models.values()}
        wide = Network(network.graph, network.kind)
        for i, node in enumerate(network):
            wide.add(node.label, with_node(node.X, i, n), node.y, models[id(node.model)])
        fitted = super().run(wide, seed=seed, n_jobs=n_jobs).models
        return Run(
            {
                label: Viewed(fitted[label], partial(with_node, i=i, n=n))
                for i, label in enumerate(network.labels)
            }
        )


@dataclass(frozen=True)
class Oracle(Grouped):
    """h_i = argmin over the rows of all nodes in i's true cluster; ``clusters`` maps node to cluster.

    No method that has to find out which nodes belong together can expect to beat it. ``iterate`` is the
    same for linear models as the paper's benchmark trains them: RMSprop steps along the mean over the
    cluster's rows of grad L(w_c).
    """

    name = "oracle"

    clusters: Mapping[Label, Hashable] = field(default_factory=dict)
    rate: float = 0.01

    @classmethod
    def usual(cls, rounds: int) -> None:
        """Leave it out: it needs to know the clusters."""
        return None

    def unsupported_reason(self, network: Network) -> str | None:
        """Return which nodes have no known cluster."""
        missing = [label for label in network.nodes if label not in self.clusters]
        return f"the cluster of {named('node', missing)} is not known" if missing else None

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return the true clusters."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise FedRelaxError(f"oracle: {reason}; name it in clusters=")
        return self.clusters

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield all nodes' models before every step; here ``clusters`` is keyed by position."""
        member = np.unique([self.clusters[i] for i in range(F.n)], return_inverse=True)[1]
        F = F.shared()
        w = F.random_models(rng, int(member.max()) + 1)
        step = RMSprop(w, self.rate)
        while True:
            yield w[member]
            w = w - step(group_means(F.gradient(w[member]), member, F.counts, len(w)))


def _seen_rows(rows: Rows, model: Model, network: Network) -> Rows:
    """Return the rows without gaps in the columns that a model sees; of tables, all: models handle gaps."""
    ready = network.preparation
    if ready is None or not ready.schema.is_plain:
        return rows
    columns = list(model.view.columns) if isinstance(model, Seen) else slice(None)
    full = ~np.isnan(rows.X[:, columns]).any(axis=1)
    return replace(rows, X=rows.X[full], target=rows.target[full], weight=rows.weight[full])


def kind_of(model: Model) -> str:
    """Return a text that two models share if they are of one class with equal settings.

    >>> from sklearn.linear_model import Ridge
    >>> kind_of(Ridge(2.0)) == kind_of(Ridge(2.0)), kind_of(Ridge(2.0)) == kind_of(Ridge(3.0))
    (True, False)
    """
    try:
        return str(joblib.hash(model))
    except Exception:  # What cannot be hashed, such as a model with a lambda, is a kind of its own.
        return str(id(model))


def with_penalty(model: Model, factor: float) -> Model:
    """Return a model with its penalty multiplied by ``factor``, or the model itself if it has none.

    >>> with_penalty(Ridge(2.0), 0.1), with_penalty(LogisticRegression(), 0.1)
    (Ridge(alpha=0.2), LogisticRegression(C=10.0))
    """
    name, penalty = penalty_of(model)
    if not penalty or factor == 1.0:
        return model
    changed = clone(model)
    step = last_step(changed)
    step.set_params(**{name: step.C / factor if name == "C" else factor * penalty})
    return changed


def penalty_of(model: Model) -> tuple[str, float]:
    """Return the parameter that sets the penalty, and the penalty; 0 where there is none."""
    step = last_step(model)
    if isinstance(step, Ridge) and np.ndim(step.alpha) == 0:
        return "alpha", float(step.alpha)
    if isinstance(step, LinearModel | SoftmaxModel):
        return "ridge", float(step.ridge)
    if isinstance(step, LogisticRegression):
        return "C", 1.0 / step.C
    return "", 0.0


def with_node(X: AnyArray, i: int, n: int) -> FloatArray:
    """Return the rows with ``n`` more columns, 1 in that of node number ``i``.

    >>> with_node(np.array([[5.0], [6.0]]), 1, 3)
    array([[5., 0., 1., 0.],
           [6., 0., 1., 0.]])
    """
    columns = np.zeros((len(X), n))
    columns[:, i] = 1.0
    return np.hstack([X, columns])


def with_columns(model: Model, n: int) -> Model:
    """Return a model for ``n`` more columns: one that is told the spread of its columns gets 1 for each.

    >>> with_columns(LinearModel(scale=[2.0]), 2).scale
    [2.0, 1.0, 1.0]
    """
    step = last_step(model)
    scale = getattr(step, "scale", None) if isinstance(step, LinearModel | SoftmaxModel) else None
    if scale is None:
        return model
    changed = clone(model)
    last_step(changed).set_params(scale=[*scale, *[1.0] * n])
    return changed

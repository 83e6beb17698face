"""A network: a graph, and at each node its own rows, its own model and its public rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.public import PublicRows
from fedrelax.typing import AnyArray, Label
from fedrelax.views import view

TASKS = ("regression", "classification")


@dataclass(frozen=True)
class Node:
    """What one place holds: rows that never leave it, and a model of its own kind."""

    label: Label
    X: AnyArray
    y: AnyArray
    model: Any
    public: AnyArray | None = None
    validation: tuple[AnyArray, AnyArray] | None = None


class Network:
    """Nodes over a graph, for people who bring nodes one by one.

    ``public`` is the common set of public rows; without it every node brings its own.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> network = Network(Graph.from_edges([("a", "b")]), public=rng.normal(size=(20, 2)))
    >>> _ = network.add("a", rng.normal(size=(5, 2)), rng.normal(size=5), Ridge())
    >>> _ = network.add("b", rng.normal(size=(7, 2)), rng.normal(size=7), DecisionTreeRegressor())
    >>> network
    Network(regression, 2 nodes, 1 edge)
    """

    def __init__(
        self, graph: Graph, task: str = "regression", public: AnyArray | None = None
    ) -> None:
        if not isinstance(graph, Graph):
            raise FedRelaxError(f"graph={graph!r} must be a fedrelax.Graph; see Graph.from_edges")
        if task not in TASKS:
            raise FedRelaxError(f"task={task!r} must be one of {', '.join(TASKS)}")
        self.kind = task
        self._given_graph = graph
        self._common = None if public is None else _public_rows(public, "the common set")
        self._nodes: dict[Label, Node] = {}

    def add(
        self,
        label: Label,
        X: Any,
        y: Any,
        model: Any,
        *,
        public: Any | None = None,
        validation: tuple[Any, Any] | None = None,
    ) -> Network:
        """Add a node and return the network, so that calls can be chained."""
        if label in self._nodes:
            raise FedRelaxError(f"node {label!r} was added before; every node is added once")
        if label not in self._given_graph:
            hint = did_you_mean(label, self._given_graph.labels)
            raise FedRelaxError(
                f"node {label!r} is not in the graph{hint or '; add it to the graph'}"
            )
        if public is not None and self._common is not None:
            raise FedRelaxError(
                f"node {label!r}: the network has a common public set; leave out public="
            )
        X, y = self._own_rows(label, X, y, "")
        if validation is not None:
            validation = self._own_rows(label, *validation, "validation ")
        shared = None if public is None else _public_rows(public, f"node {label!r}")
        self._nodes[label] = Node(label, X, y, model, shared, validation)
        return self

    def _own_rows(self, label: Label, X: Any, y: Any, which: str) -> tuple[AnyArray, AnyArray]:
        """Return checked arrays of one node's rows."""
        rows = _numbers(X, f"node {label!r}: {which}X")
        if rows.ndim < 2:
            raise FedRelaxError(
                f"node {label!r}: {which}X has shape {rows.shape}; rows x features is needed"
            )
        target = np.asarray(y)
        if self.kind == "regression":
            target = _numbers(y, f"node {label!r}: {which}y")
        if len(rows) != len(target):
            raise FedRelaxError(
                f"node {label!r}: {which}X has {len(rows)} rows but y has {len(target)}"
            )
        if len(rows) == 0:
            raise FedRelaxError(
                f"node {label!r} has no {which}rows; leave it out (a node that is only in the "
                "graph is predicted by the mean of its neighbours)"
            )
        if self.kind == "classification" and target.ndim != 1:
            raise FedRelaxError(
                f"node {label!r}: y has shape {target.shape}; one label per row is needed"
            )
        return rows, target

    @property
    def nodes(self) -> Mapping[Label, Node]:
        """The nodes in the order in which they were added."""
        return self._nodes

    @property
    def distinct_models(self) -> dict[Label, Any]:
        """The model objects, each once, under the first node that has it."""
        first: dict[int, tuple[Label, Any]] = {}
        for node in self._nodes.values():
            first.setdefault(id(node.model), (node.label, node.model))
        return dict(first.values())

    @property
    def graph(self) -> Graph:
        """The graph among the nodes that hold data, in the order of the nodes."""
        return self._given_graph.subgraph(list(self._nodes))

    @property
    def public(self) -> PublicRows:
        """The public rows of every node."""
        if self._common is not None:
            return PublicRows(common=self._common)
        sets = {label: node.public for label, node in self._nodes.items()}
        without = [label for label, rows in sets.items() if rows is None]
        if without:
            raise FedRelaxError(
                f"no public rows at node {listing(without)}; pass public= to add(), or one common "
                "set to Network()"
            )
        return PublicRows(per_node={k: rows for k, rows in sets.items() if rows is not None})

    @property
    def task(self) -> Task:
        """What the nodes predict; the classes are the union over all nodes."""
        labels = [node.y for node in self._nodes.values()]
        if self.kind == "classification":
            labels += [node.validation[1] for node in self._nodes.values() if node.validation]
            classes = np.unique(np.concatenate(labels))
            if len(classes) < 2:
                raise FedRelaxError(
                    f"all rows of all nodes have one class, {classes.tolist()[0]!r}: nothing to learn"
                )
            return Task("classification", len(classes), classes)
        return Task("regression", 1 if labels[0].ndim == 1 else labels[0].shape[1])

    def check(self) -> None:
        """Refuse what cannot be trained, before any work starts."""
        if not self._nodes:
            raise FedRelaxError("the network has no nodes; call add() for each")
        first, public = next(iter(self._nodes.values())), self.public
        for node in self:
            if node.X.shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r} has {_width(node.X)} features but node {first.label!r} "
                    f"has {_width(first.X)}; all nodes need the same features"
                )
            if node.y.ndim != first.y.ndim or node.y.shape[1:] != first.y.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r}: y has shape {node.y.shape} but node {first.label!r} "
                    f"has {first.y.shape}; all nodes need the same outputs"
                )
            rows = public.of(node.label)
            if rows.shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"the public rows of node {node.label!r} have {_width(rows)} features but the "
                    f"nodes have {_width(first.X)}"
                )
            if node.validation and node.validation[0].shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r}: validation X has {_width(node.validation[0])} features "
                    f"but X has {_width(first.X)}"
                )

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        edges = self.graph.n_edges if self._nodes else 0
        return (
            f"Network({self.kind}, {len(self)} node{'s' * (len(self) != 1)}, "
            f"{edges} edge{'s' * (edges != 1)})"
        )

    def _repr_html_(self) -> str:
        text: str = view("notebook").network_html(self)
        return text


def _width(X: AnyArray) -> str:
    return str(X.shape[1]) if X.ndim == 2 else f"shape {X.shape[1:]}"


def _numbers(values: Any, what: str) -> AnyArray:
    """Return a float array without NaN or infinity."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise FedRelaxError(f"{what} holds something that is not a number ({error})") from error
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row = int(bad[0][0]) if array.ndim else 0
        raise FedRelaxError(
            f"{what} holds {len(bad)} NaN or infinite value{'s' * (len(bad) != 1)}, the first in "
            f"row {row}; fill them in or leave out the rows"
        )
    return array


def _public_rows(values: Any, what: str) -> AnyArray:
    rows = _numbers(values, f"public rows of {what}")
    if rows.ndim < 2 or len(rows) == 0:
        raise FedRelaxError(
            f"the public rows of {what} have shape {rows.shape}; at least one row is needed "
            "(rows x features)"
        )
    return rows

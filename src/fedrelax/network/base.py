"""A network: a graph, and at each node its own rows, its own model and its public rows."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedrelax.errors import FedRelaxError, counted, did_you_mean, named
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.network.rows import (
    StackedRows,
    coded_rows,
    distinct,
    named_rows,
    numbers_of,
    public_rows,
    public_rows_of,
    seen_by,
    seen_like,
    width_of,
)
from fedrelax.public import PublicRows
from fedrelax.schema import Preparation
from fedrelax.schema.kinds import is_frame
from fedrelax.splits import RowGroups
from fedrelax.typing import AnyArray, Label, Model
from fedrelax.validation import check_choice

CACHED = ("labels", "models", "distinct_models", "own_rows", "validation_rows", "task", "graph")
"""What is computed once, until another node is added."""


@dataclass(frozen=True)
class Node:
    """What one node holds: its own rows, which never leave it, and its own model."""

    label: Label
    X: AnyArray
    y: AnyArray
    model: Model
    public: AnyArray | None = None
    validation: tuple[AnyArray, AnyArray] | None = None


class Network:
    """Nodes over a graph, added one by one.

    ``public`` is the common set of public rows; without it, every node needs its own. If it is a
    DataFrame, or ``columns`` names its columns, nodes may have DataFrames as well, and each may lack
    some of the columns: its model then learns and predicts from those it has.

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
        self,
        graph: Graph,
        task: str = "regression",
        public: object = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise FedRelaxError(f"graph={graph!r} must be a fedrelax.Graph; see Graph.from_edges")
        check_choice("task", task, ("regression", "classification"))
        self.kind = task
        self._whole_graph = graph
        self.preparation: Preparation | None = None
        """What the columns mean, if they have names."""
        if columns is not None or is_frame(public):
            self.preparation, public = named_rows(public, columns)
        self._public: PublicRows | None = None
        if public is not None:
            common = public_rows_of(public, "the common set", self.has_gaps)
            self._public = public_rows(self.preparation, common=common)
        self._nodes: dict[Label, Node] = {}
        self.memory: dict[Hashable, Any] | None = None
        """A cache for what all runs on these rows share, used by engines during a search with many runs;
        None where rows or models may change between two runs."""

    def add(
        self,
        label: Label,
        X: object,
        y: object,
        model: Model,
        *,
        public: object = None,
        validation: tuple[object, object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Network:
        """Add a node and return the network, so that calls can be chained.

        ``columns`` names the columns of X if the network has named columns and X is not a DataFrame.
        """
        if label in self._nodes:
            raise FedRelaxError(f"node {label!r} was already added; add every node once")
        if label not in self._whole_graph:
            hint = did_you_mean(label, self._whole_graph.labels) or "; add it to the graph"
            raise FedRelaxError(f"node {label!r} is not in the graph{hint}")
        if public is not None and self._public is not None:
            raise FedRelaxError(
                f"node {label!r}: the network has a common public set; leave out public="
            )
        if self.preparation is None and columns is not None:
            raise FedRelaxError(
                f"node {label!r}: columns= is given, but the network has no named columns; give the public "
                "rows as a DataFrame: Network(graph, public=frame)"
            )
        rows, target, has = self._own_rows(label, X, y, columns)
        held = None
        if validation is not None:
            held = self._own_rows(label, *validation, columns, "validation ")[:2]
        if self.preparation is not None:
            model = seen_by(self.preparation, model, has)
        shared = None if public is None else public_rows_of(public, f"node {label!r}")
        self._nodes[label] = Node(label, rows, target, model, shared, held)
        for name in CACHED:
            self.__dict__.pop(name, None)
        return self

    @property
    def has_gaps(self) -> bool:
        """Whether rows may have gaps, because every model has its own view of them."""
        return self.preparation is not None and not self.preparation.encoded

    def _own_rows(
        self, label: Label, X: object, y: object, columns: Sequence[str] | None, which: str = ""
    ) -> tuple[AnyArray, AnyArray, tuple[int, ...]]:
        """Return checked arrays of one node's rows, and which of the network's columns they have."""
        has: tuple[int, ...] = ()
        if self.preparation is not None:
            what = f"node {label!r}: validation" if which else f"node {label!r}"
            X, has = coded_rows(self.preparation, X, columns, what)
        rows = numbers_of(X, f"node {label!r}: {which}X", self.has_gaps)
        if rows.ndim < 2:
            raise FedRelaxError(
                f"node {label!r}: {which}X has shape {rows.shape}; give rows x features"
            )
        target = np.asarray(y)
        if self.kind == "regression":
            target = numbers_of(y, f"node {label!r}: {which}y")
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
                f"node {label!r}: y has shape {target.shape}; give one label per row"
            )
        return rows, target, has

    @classmethod
    def from_rows(
        cls,
        graph: Graph,
        task: str,
        X: AnyArray,
        y: AnyArray,
        rows: RowGroups,
        models: Model | Mapping[Label, Model],
        *,
        public: AnyArray | Mapping[Label, AnyArray] | PublicRows,
        held: RowGroups | None = None,
        preparation: Preparation | None = None,
    ) -> Network:
        """Make a network from one table: node i has the rows of X and y with the numbers ``rows[i]``.

        ``models`` is one model for all nodes, or a dict node -> model; ``public`` is one array, or a dict
        node -> array; ``held`` are the numbers of the validation rows. The rows are stored as one array,
        so a million nodes take seconds; no nodes can be added to such a network. ``preparation`` says
        what the columns mean if they are more than plain numbers.
        """
        from fedrelax.network.stacked import StackedNetwork

        return StackedNetwork(graph, task, X, y, rows, models, public, held, preparation)

    @property
    def nodes(self) -> Mapping[Label, Node]:
        """The nodes by label, in the order in which they were added."""
        return self._nodes

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the nodes, in order."""
        return tuple(self._nodes)

    @cached_property
    def models(self) -> list[Model]:
        """The unfitted models of the nodes, in order."""
        return [node.model for node in self]

    @cached_property
    def own_rows(self) -> StackedRows:
        """The nodes' own rows, stacked."""
        self.check_rows()
        return StackedRows.of([node.X for node in self], [node.y for node in self])

    @cached_property
    def validation_rows(self) -> StackedRows | None:
        """The nodes' validation rows, stacked; None if no node has any."""
        held = [node.validation for node in self]
        if not any(held):
            return None
        first = next(iter(self))
        pairs = [part or (first.X[:0], first.y[:0]) for part in held]
        return StackedRows.of([X for X, _ in pairs], [y for _, y in pairs])

    def with_models(self, models: Model | Mapping[Label, Model]) -> Network:
        """Return a network of the same rows with other models: one for all, or a dict node -> model."""
        other = copy.copy(self)
        other.memory = None
        for name in ("models", "distinct_models"):
            other.__dict__.pop(name, None)
        by_node = models if isinstance(models, Mapping) else dict.fromkeys(self._nodes, models)
        other._nodes = {
            label: replace(node, model=seen_like(self.preparation, by_node[label], node.model))
            for label, node in self._nodes.items()
        }
        return other

    def with_public(self, public: PublicRows) -> Self:
        """Return a network of the same nodes with other public rows."""
        other = copy.copy(self)
        other._public, other.memory = public, None
        return other

    @cached_property
    def distinct_models(self) -> dict[Label, Model]:
        """The distinct model objects, each under the first node that has it."""
        return distinct(self.labels, self.models)

    @cached_property
    def graph(self) -> Graph:
        """The graph among the nodes with data, in the order of the nodes."""
        whole = self._whole_graph
        return whole if whole.labels == self.labels else whole.subgraph(self.labels)

    @property
    def public(self) -> PublicRows:
        """The public rows of every node."""
        if self._public is not None:
            return self._public
        without = [label for label, node in self._nodes.items() if node.public is None]
        if without:
            raise FedRelaxError(
                f"no public rows at {named('node', without)}; pass public= to add(), or one common "
                "set to Network()"
            )
        sets = {label: node.public for label, node in self._nodes.items()}
        return public_rows(self.preparation, per_node=sets)

    @cached_property
    def task(self) -> Task:
        """What the nodes predict; the classes are the union over all nodes."""
        y, held = self.own_rows.y, self.validation_rows
        if self.kind == "regression":
            return Task("regression", 1 if y.ndim == 1 else y.shape[1])
        classes = np.unique(y if held is None else np.concatenate([y, held.y]))
        if len(classes) < 2:
            raise FedRelaxError(
                f"all rows of all nodes are of one class, {classes.tolist()[0]!r}: nothing to learn"
            )
        return Task("classification", len(classes), classes)

    def check(self) -> None:
        """Refuse a network that cannot be trained, before any work starts."""
        first, public = self.check_rows(), self.public
        for label in self.labels if public.common is None else self.labels[:1]:
            rows = public.of(label)
            if rows.shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"the public rows of node {label!r} have {width_of(rows)} features but the "
                    f"nodes have {width_of(first.X)}"
                )

    def check_rows(self) -> Node:
        """Refuse nodes whose rows differ in features or outputs; return the first node."""
        if not self._nodes:
            raise FedRelaxError("the network has no nodes; call add() for each")
        first = next(iter(self))
        width, outputs = first.X.shape[1:], first.y.shape[1:]
        for node in self:
            if node.X.shape[1:] != width:
                raise FedRelaxError(
                    f"node {node.label!r} has {width_of(node.X)} features but node {first.label!r} "
                    f"has {width_of(first.X)}; all nodes need the same features"
                )
            if node.y.shape[1:] != outputs:
                raise FedRelaxError(
                    f"node {node.label!r}: y has shape {node.y.shape} but node {first.label!r} "
                    f"has {first.y.shape}; all nodes need the same outputs"
                )
            if node.validation and node.validation[0].shape[1:] != width:
                raise FedRelaxError(
                    f"node {node.label!r}: validation X has {width_of(node.validation[0])} features "
                    f"but X has {width_of(first.X)}"
                )
        return first

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        edges = self.graph.n_edges if len(self) else 0
        return f"Network({self.kind}, {counted(len(self), 'node')}, {counted(edges, 'edge')})"

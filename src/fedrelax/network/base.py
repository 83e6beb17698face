"""A network: a graph, and at each node its own rows, its own model and its public rows."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, named
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.network.rows import (
    StackedRows,
    coded_rows,
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
from fedrelax.views import view

TASKS = ("regression", "classification")


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
        public: Any | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise FedRelaxError(f"graph={graph!r} must be a fedrelax.Graph; see Graph.from_edges")
        if task not in TASKS:
            raise FedRelaxError(f"task={task!r} must be one of {', '.join(TASKS)}")
        self.kind = task
        self._given_graph = graph
        self.preparation: Preparation | None = None
        """What the columns mean, if they have names."""
        if columns is not None or is_frame(public):
            self.preparation, public = named_rows(public, columns)
        self._common = None
        if public is not None:
            self._common = public_rows_of(public, "the common set", self.has_gaps)
        self._nodes: dict[Label, Node] = {}
        self._graph: Graph | None = None
        self.memory: dict[Hashable, Any] | None = None
        """A cache for what all runs on these rows share, used by engines during a search with many runs;
        None where rows or models may change between two runs."""

    def add(
        self,
        label: Label,
        X: Any,
        y: Any,
        model: Model,
        *,
        public: Any | None = None,
        validation: tuple[Any, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Network:
        """Add a node and return the network, so that calls can be chained.

        ``columns`` names the columns of X if the network has named columns and X is not a DataFrame.
        """
        if label in self._nodes:
            raise FedRelaxError(f"node {label!r} was already added; add every node once")
        if label not in self._given_graph:
            hint = did_you_mean(label, self._given_graph.labels)
            raise FedRelaxError(
                f"node {label!r} is not in the graph{hint or '; add it to the graph'}"
            )
        if public is not None and self._common is not None:
            raise FedRelaxError(
                f"node {label!r}: the network has a common public set; leave out public="
            )
        if self.preparation is not None:
            X, has = coded_rows(self.preparation, X, columns, f"node {label!r}")
            model = seen_by(self.preparation, model, has)
            if validation is not None:
                held, _ = coded_rows(
                    self.preparation, validation[0], columns, f"node {label!r}: validation"
                )
                validation = held, validation[1]
        elif columns is not None:
            raise FedRelaxError(
                f"node {label!r}: columns= is given, but the network has no named columns; give the public "
                "rows as a DataFrame: Network(graph, public=frame)"
            )
        X, y = self._own_rows(label, X, y, "")
        if validation is not None:
            validation = self._own_rows(label, *validation, "validation ")
        shared = None if public is None else public_rows_of(public, f"node {label!r}")
        self._nodes[label] = Node(label, X, y, model, shared, validation)
        return self

    @property
    def has_gaps(self) -> bool:
        """Whether rows may have gaps, because every model has its own view of them."""
        return self.preparation is not None and not self.preparation.encoded

    def _own_rows(self, label: Label, X: Any, y: Any, which: str) -> tuple[AnyArray, AnyArray]:
        """Return checked arrays of one node's rows."""
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
        return rows, target

    @classmethod
    def from_rows(
        cls,
        graph: Graph,
        task: str,
        X: AnyArray,
        y: AnyArray,
        rows: RowGroups,
        models: Any,
        *,
        public: AnyArray | Mapping[Label, AnyArray],
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

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the nodes, in order."""
        return tuple(self._nodes)

    @property
    def models(self) -> list[Any]:
        """The unfitted models of the nodes, in order."""
        return [node.model for node in self]

    @property
    def own_rows(self) -> StackedRows:
        """The nodes' own rows, stacked."""
        return StackedRows.of([node.X for node in self], [node.y for node in self])

    @property
    def validation_rows(self) -> StackedRows | None:
        """The nodes' validation rows, stacked; None if no node has any."""
        held = [node.validation for node in self]
        if not any(held):
            return None
        first = next(iter(self))
        none = (first.X[:0], first.y[:0])
        pairs = [none if part is None else part for part in held]
        return StackedRows.of([X for X, _ in pairs], [y for _, y in pairs])

    def with_models(self, models: Any) -> Network:
        """Return a network of the same rows with other models: one for all, or a dict node -> model."""
        made = copy.copy(self)
        made.memory = None
        given = models if isinstance(models, Mapping) else dict.fromkeys(self._nodes, models)
        made._nodes = {
            label: replace(node, model=seen_like(self.preparation, given[label], node.model))
            for label, node in self._nodes.items()
        }
        return made

    @property
    def distinct_models(self) -> dict[Label, Any]:
        """The distinct model objects, each under the first node that has it."""
        first: dict[int, tuple[Label, Any]] = {}
        for label, model in zip(self.labels, self.models, strict=True):
            first.setdefault(id(model), (label, model))
        return dict(first.values())

    @property
    def graph(self) -> Graph:
        """The graph among the nodes with data, in the order of the nodes."""
        if self._graph is None or len(self._graph) != len(self):
            same = self._given_graph.labels == self.labels
            self._graph = self._given_graph
            if not same:
                self._graph = self._given_graph.subgraph(self.labels)
        return self._graph

    @property
    def public(self) -> PublicRows:
        """The public rows of every node."""
        if self._common is not None:
            return self.public_rows(common=self._common)
        sets = {label: node.public for label, node in self._nodes.items()}
        without = [label for label, rows in sets.items() if rows is None]
        if without:
            raise FedRelaxError(
                f"no public rows at {named('node', without)}; pass public= to add(), or one common "
                "set to Network()"
            )
        return self.public_rows(per_node={k: rows for k, rows in sets.items() if rows is not None})

    def public_rows(self, **sets: Any) -> PublicRows:
        """Return public rows that carry what their columns mean."""
        return public_rows(self.preparation, **sets)

    @property
    def task(self) -> Task:
        """What the nodes predict; the classes are the union over all nodes."""
        targets = [node.y for node in self]
        targets += [node.validation[1] for node in self if node.validation]
        return self._task_of(targets)

    def _task_of(self, targets: list[AnyArray]) -> Task:
        if self.kind == "classification":
            classes = np.unique(np.concatenate(targets))
            if len(classes) < 2:
                raise FedRelaxError(
                    f"all rows of all nodes are of one class, {classes.tolist()[0]!r}: nothing to learn"
                )
            return Task("classification", len(classes), classes)
        return Task("regression", 1 if targets[0].ndim == 1 else targets[0].shape[1])

    def check(self) -> None:
        """Refuse a network that cannot be trained, before any work starts."""
        first, public = self.check_rows(), self.public
        for label in self.labels:
            rows = public.of(label)
            if rows.shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"the public rows of node {label!r} have {width_of(rows)} features but the "
                    f"nodes have {width_of(first.X)}"
                )
            if public.common is not None:
                return

    def check_rows(self) -> Node:
        """Refuse nodes whose rows differ in features or outputs; return the first node."""
        if not self._nodes:
            raise FedRelaxError("the network has no nodes; call add() for each")
        first = next(iter(self))
        for node in self:
            if node.X.shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r} has {width_of(node.X)} features but node {first.label!r} "
                    f"has {width_of(first.X)}; all nodes need the same features"
                )
            if node.y.shape[1:] != first.y.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r}: y has shape {node.y.shape} but node {first.label!r} "
                    f"has {first.y.shape}; all nodes need the same outputs"
                )
            if node.validation and node.validation[0].shape[1:] != first.X.shape[1:]:
                raise FedRelaxError(
                    f"node {node.label!r}: validation X has {width_of(node.validation[0])} features "
                    f"but X has {width_of(first.X)}"
                )
        return first

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        edges = self.graph.n_edges if len(self) else 0
        return (
            f"Network({self.kind}, {len(self)} node{'s' * (len(self) != 1)}, "
            f"{edges} edge{'s' * (edges != 1)})"
        )

    def _repr_html_(self) -> str:
        text: str = view("notebook").network_html(self)
        return text

"""A network from one table: all nodes' rows in one array, and nodes made on demand."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Never

import numpy as np

from fedrelax.errors import FedRelaxError, named
from fedrelax.graph import Graph
from fedrelax.network.base import Network, Node
from fedrelax.network.rows import Lookup, StackedRows, public_rows, public_rows_of
from fedrelax.public import PublicRows
from fedrelax.schema import Preparation
from fedrelax.splits import RowGroups
from fedrelax.typing import AnyArray, Label, Model
from fedrelax.validation import are_usable, check_sizes


class StackedNetwork(Network):
    """A network whose rows are one array; made by ``Network.from_rows``."""

    def __init__(
        self,
        graph: Graph,
        task: str,
        X: AnyArray,
        y: AnyArray,
        rows: RowGroups,
        models: Model | Mapping[Label, Model],
        public: AnyArray | Mapping[Label, AnyArray] | PublicRows,
        held: RowGroups | None,
        preparation: Preparation | None = None,
    ) -> None:
        super().__init__(graph, task)
        self.preparation = preparation
        labels, gaps = rows.labels, self.has_gaps
        self.labels, self._rows, self._held_rows = labels, rows, held
        self.models = _listed(models, labels)
        self.own_rows = _taken(X, y, rows, task, "", gaps)
        self.validation_rows = None
        if held is not None and len(held.order):
            self.validation_rows = _taken(X, y, held, task, "validation ", gaps)
        if isinstance(public, Mapping):
            missing = [label for label in labels if label not in public]
            if missing:
                raise FedRelaxError(f"public has no rows for {named('node', missing)}")
            sets = {j: public_rows_of(public[j], f"node {j!r}", gaps) for j in labels}
            self._public = public_rows(preparation, per_node=sets)
        else:
            drawn = public if isinstance(public, PublicRows) else PublicRows(common=public)
            common = public_rows_of(drawn.common, "the common set", gaps)
            self._public = public_rows(preparation, common=common, owner=drawn.owner)
        strangers = graph.lacks(labels)
        if strangers:
            raise FedRelaxError(
                f"{named('node', strangers, 'is')} not in the graph; give one with all nodes"
            )

    def add(self, label: Label, *rest: object, **more: object) -> Never:
        """Refuse: the rows are one fixed table."""
        raise FedRelaxError(
            f"node {label!r}: a network from one table takes no more nodes; use Network() and add()"
        )

    @property
    def nodes(self) -> Mapping[Label, Node]:
        """The nodes by label, made on demand."""
        return Lookup(self._rows, lambda label: self.node(self._rows.place(label)))

    def with_models(self, models: Model | Mapping[Label, Model]) -> StackedNetwork:
        """Return a network of the same rows with other models: one for all, or a dict node -> model."""
        other = copy.copy(self)
        other.models, other.memory = _listed(models, self.labels), None
        other.__dict__.pop("distinct_models", None)
        return other

    def masks_of(self, fold: StackedNetwork) -> tuple[AnyArray, AnyArray]:
        """Return masks of this network's own rows that a fold of the same table trains on and holds out."""
        held = fold._held_rows
        trained = np.isin(self._rows.order, fold._rows.order)
        return trained, np.isin(self._rows.order, [] if held is None else held.order)

    def check_rows(self) -> Node:
        """Return the first node: the rows of one table have the same features and outputs."""
        return self.node(0)

    def node(self, i: int) -> Node:
        """Return node number i."""
        label, apart = self.labels[i], self.public.per_node
        held = None if self.validation_rows is None else self.validation_rows.part(i)
        return Node(
            label,
            *self.own_rows.part(i),
            self.models[i],
            public=None if apart is None else apart[label],
            validation=held if held and len(held[1]) else None,
        )

    def __iter__(self) -> Iterator[Node]:
        return map(self.node, range(len(self)))


def _taken(
    X: AnyArray, y: AnyArray, rows: RowGroups, task: str, which: str, gaps: bool
) -> StackedRows:
    """Return the nodes' rows stacked, and checked."""
    stacked = StackedRows(rows.take(X), rows.take(y), rows.offsets)
    numeric = [] if gaps else [("X", stacked.X)]
    numeric += [("y", stacked.y)] if task == "regression" else []
    for name, values in numeric:
        if are_usable(values):
            continue
        sound = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if not sound.all():
            row = int(np.argmin(sound))
            node = int(np.searchsorted(rows.offsets, row, side="right")) - 1
            raise FedRelaxError(
                f"node {rows.labels[node]!r}: {which}{name} has a NaN or infinite value in row "
                f"{row - int(rows.offsets[node])}; fill it in or leave out the row"
            )
        check_sizes(values, f"{which}{name}")
    if not which and (stacked.counts == 0).any():
        label = rows.labels[int(np.argmin(stacked.counts))]
        raise FedRelaxError(
            f"node {label!r} has no rows; leave it out (a node that is only in the graph is "
            "predicted by the mean of its neighbours)"
        )
    return stacked


def _listed(models: Model | Mapping[Label, Model], labels: tuple[Label, ...]) -> list[Model]:
    if isinstance(models, Mapping):
        return [models[label] for label in labels]
    return [models] * len(labels)

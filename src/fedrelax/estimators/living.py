"""What happens after ``fit``: nodes join, learn new rows, and leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError, did_you_mean, named
from fedrelax.estimators.rows import TableRows, split_off_nodes
from fedrelax.graph import Graph
from fedrelax.living import Change, LivingNetwork, joining, updating
from fedrelax.living.network import Origin, OwnRows
from fedrelax.living.snapshot import result_of
from fedrelax.models import LocalModel, adapt
from fedrelax.network.rows import numbers_of
from fedrelax.solvers import Result
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray, Label, Model

CLOSED = (
    "this network cannot change after fit: its common public rows and answers are not known (it was "
    "pickled, saved by an earlier version, trained elsewhere, or trained with public rows per node, a "
    "layer around the exchange, a discrepancy that depends on x or update='difference'); fit it again"
)


class LivesOn(TableRows):
    """What the estimators can do after ``fit``: ``plug_in``, ``update`` and ``unplug``."""

    _result: Result
    _whole_graph: Graph
    _origin: Origin | None = None
    _living: LivingNetwork | None = None
    _seen: tuple[Change, Result, Graph] | None = None

    def plug_in(
        self,
        label: Label,
        X: Any = None,
        y: Any = None,
        model: Model = None,
        neighbours: Mapping[Label, float] | Iterable[Label] | None = None,
        *,
        position: Any = None,
        ripple: int | None = None,
        tol: float | None = None,
    ) -> Change:
        """Add a node: it finds its neighbours and fits its model; others are refitted where it matters.

        neighbours : labels, or a dict label -> weight. By default, the nodes nearest to ``position`` if
            that is given (the graph must have been made from coordinates); the neighbours in the graph if
            the newcomer is already in it; otherwise those whose answers on the public rows fit its rows,
            and then its model: see ``fedrelax.living.neighbourhood``.
        model : an unfitted model; by default, one of the same kind as the nearest neighbour's.
        ripple : how many edges away from the newcomer others are refitted, 0 for none. By default, as far
            as answers move by more than ``tol`` relative to their size (1e-4, or 0.1 for models such as
            trees, which never quite settle). Nodes whose rows are not available stay as they are.

        A newcomer without rows is predicted by the mean of its neighbours. One with rows is fitted with
        the network's alpha. If models were found for all nodes together (``alpha="auto"`` with
        ``estimator="auto"``), there is no alpha for a single node: the newcomer then chooses its own
        balance between its rows and its neighbours' answers by cross-validation, and the others stay
        as they are.
        """
        network = self.living_
        rows = None if X is None else self._new_rows(label, X, y)
        made = None if model is None else self._new_model(label, model)
        return joining.plug_in(network, label, rows, made, neighbours, position, ripple, tol)

    def update(
        self,
        X: Any,
        y: Any,
        nodes: Any = None,
        *,
        keep: int | None = None,
        ripple: int | None = None,
        tol: float | None = None,
    ) -> Change:
        """Predict new rows, then learn from them: their nodes are refitted, and others where it matters.

        ``nodes`` as in ``fit``. ``keep`` is how many of its newest rows a node keeps; ``ripple`` and
        ``tol`` are those of ``plug_in``. What is returned has the error before learning, and names nodes
        whose neighbours no longer suit them. If a wiring found the neighbours, such a node looks for new
        ones and keeps only its new rows.
        """
        new = self._by_node(X, y, nodes)
        return updating.update(self.living_, new, keep, ripple, tol)

    def unplug(
        self, label: Label, *, ripple: int | None = None, tol: float | None = None
    ) -> Change:
        """Remove a node: forget its model, answers, rows and edges, and refit its neighbours without it."""
        return joining.unplug(self.living_, label, ripple, tol)

    def know_rows(self, X: Any, y: Any, nodes: Any) -> None:
        """Supply the rows that nodes were trained on, so that a loaded network can refit these nodes.

        A saved result holds no rows. Nodes without rows here stay as they are when others change.
        """
        check_is_fitted(self, "_result")
        if self._living is not None or self._origin is None:
            raise FedRelaxError(
                CLOSED if self._origin is None else "call know_rows before the first change"
            )
        rows = {i: own for i, own in self._by_node(X, y, nodes).items() if i in self._local_models}
        self._origin = replace(self._origin, rows=rows)

    @property
    def story_(self) -> tuple[Change, ...]:
        """The changes since ``fit``, in order."""
        return () if self._living is None else tuple(self._living.story)

    # Fitted attributes, up to date

    @property
    def result_(self) -> Result:
        """The trained network, up to date."""
        return self._present()[0] if self.story_ else self._result

    @property
    def whole_graph_(self) -> Graph:
        """The graph, including the nodes without rows."""
        return self._present()[1] if self.story_ else self._whole_graph

    @property
    def graph_(self) -> Graph:
        """The graph among the nodes with a model."""
        return self.result_.graph

    @property
    def _local_models(self) -> Mapping[Label, LocalModel]:
        """The up-to-date models, without building a result."""
        return self._result.local_models if self._living is None else self._living.models

    def _present(self) -> tuple[Result, Graph]:
        network = self._living
        assert network is not None
        if self._seen is None or self._seen[0] is not network.story[-1]:
            self._seen = network.story[-1], *result_of(network)
        return self._seen[1:]

    @property
    def can_go_on(self) -> bool:
        """Whether nodes can join, learn new rows and leave: the public rows and answers must be known."""
        return self._living is not None or self._origin is not None

    @property
    def living_(self) -> LivingNetwork:
        """The network behind ``plug_in``, ``update`` and ``unplug``."""
        check_is_fitted(self, "_result")
        if self._living is None:
            if self._origin is None:
                raise FedRelaxError(CLOSED)
            self._living = LivingNetwork(self._result, self._whole_graph, self._origin)
        return self._living

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the up-to-date network, without anybody's rows."""
        state: Any = super().__getstate__()
        if "_result" in state:
            state = {**state, "_result": self.result_, "_whole_graph": self.whole_graph_}
        left_out = ("_origin", "_living", "_seen")
        return {name: value for name, value in state.items() if name not in left_out}

    # From user input to the rows of one node

    def _new_rows(self, label: Label, X: Any, y: Any) -> OwnRows:
        """Return a node's rows in the shared form, and its targets, both checked."""
        if y is None:
            raise FedRelaxError(f"node {label!r}: X is given but y is not; give both")
        coded, target = self._coded_later(X, [label]), self._new_target(f"node {label!r}: y", y)
        if len(coded) != len(target):
            raise FedRelaxError(f"node {label!r}: X has {len(coded)} rows but y has {len(target)}")
        if len(coded) == 0:
            raise FedRelaxError(f"node {label!r}: X has no rows; leave X and y out")
        return self._shared(label, coded), target

    def _shared(self, label: Label, coded: FloatArray) -> FloatArray:
        ready = self.preparation_
        return coded if ready is None else ready.of_node(label, coded)

    def _new_target(self, what: str, y: Any) -> AnyArray:
        """Return targets of the kind that the network predicts, checked."""
        task, target = self._result.task, np.asarray(y)
        if task.classes is None:
            target = numbers_of(target, what)
            if target.size != len(target) * task.n_outputs:
                raise FedRelaxError(
                    f"{what} has shape {target.shape}, but the network has {task.n_outputs} outputs"
                )
            return target
        target = np.asarray(self._check_target(target))
        strange = sorted(set(target.tolist()) - set(task.classes.tolist()), key=str)
        if strange:
            hint = did_you_mean(strange[0], task.classes.tolist())
            raise FedRelaxError(
                f"{what} has the {named('class', strange)}, which no node had in training{hint}; fit again "
                "with these rows"
            )
        return target

    def _by_node(self, X: Any, y: Any, nodes: Any) -> dict[Label, OwnRows]:
        """Return rows and targets by node."""
        X, nodes, _ = split_off_nodes(X, self.node_column_ if nodes is None else nodes)
        if nodes is None:
            raise FedRelaxError("every row needs a node; pass nodes=...")
        target, groups = self._new_target("y", y), group_rows(nodes, len(X))
        coded = self._coded_later(X, groups)
        if len(target) != len(coded):
            raise FedRelaxError(f"X has {len(coded)} rows but y has {len(target)}")
        return {
            label: (self._shared(label, coded[index]), target[index])
            for label, index in groups.items()
        }

    def _new_model(self, label: Label, model: Model) -> LocalModel:
        return adapt(self._views({label: model})[label], self._result.task)

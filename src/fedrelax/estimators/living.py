"""What happens after ``fit``: nodes predict, join, learn new rows, and leave."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError, FedRelaxWarning, counted, did_you_mean, named
from fedrelax.estimators.rows import TableRows, split_off_nodes
from fedrelax.graph import Graph
from fedrelax.living import Change, LivingNetwork, changes
from fedrelax.living.network import Origin, OwnRows
from fedrelax.living.snapshot import result_of
from fedrelax.models import LocalModel
from fedrelax.models.difference import local_model
from fedrelax.network.rows import numbers_of
from fedrelax.schema.kinds import is_frame
from fedrelax.solvers import Result
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray, Label, Model
from fedrelax.validation import check_choice

CLOSED = (
    "this network cannot change after fit: its common public rows and answers are not known (it was "
    "pickled, saved by an earlier version or with update='difference', trained elsewhere, or trained with "
    "public rows per node, a layer around the exchange or a discrepancy that depends on x); fit it again, "
    "with update='refit' if it is to be saved"
)


UNKNOWN = ("consensus", "raise")
"""What can be done about rows of nodes that neither have a model nor a neighbour with one."""


class FittedNetwork(TableRows):
    """What the estimators can do after ``fit``: ``answers``, ``plug_in``, ``update`` and ``unplug``."""

    unknown: str
    _result: Result
    _whole_graph: Graph
    _origin: Origin | None = None
    _living: LivingNetwork | None = None
    _seen: tuple[Change, Result, Graph] | None = None

    def plug_in(
        self,
        label: Label,
        X: Any,
        y: Any,
        model: Model = None,
        neighbours: Mapping[Label, float] | Iterable[Label] | None = None,
        *,
        position: Any = None,
        tol: float | None = None,
    ) -> Change:
        """Add a node: it finds its neighbours and fits its model; others are refitted where it matters.

        neighbours : labels, or a dict label -> weight. By default, the nodes nearest to ``position`` if
            that is given (the graph must have been made from coordinates); the neighbours in the graph if
            the newcomer is already in it; otherwise those whose answers on the public rows fit its rows,
            and then its model: see ``fedrelax.living.neighbourhood``.
        model : an unfitted model; by default, one of the same kind as the nearest neighbour's.
        tol : others are refitted as far as answers move by more than this relative to their size (1e-4, or
            0.1 for models such as trees, which never quite settle). Nodes whose rows are not available stay
            as they are.

        A newcomer is fitted with the network's alpha. If models were found for all nodes together
        (``alpha="auto"`` with ``estimator="auto"``), there is no alpha for a single node: the newcomer then
        chooses its own balance between its rows and its neighbours' answers by cross-validation, and the
        others stay as they are.
        """
        network, who = self.living_, f"node {label!r}: "
        rows = self._by_node(X, y, [label] * len(X), who).get(label)
        if rows is None:
            raise FedRelaxError(f"{who}X has no rows")
        if model is not None:
            view, update = self._views({label: model})[label], network.coupling.update
            model = local_model(view, self._result.task, update)
        return changes.plug_in(network, label, rows, model, neighbours, position, tol)

    def update(
        self,
        X: Any,
        y: Any,
        nodes: Any = None,
        *,
        keep: int | None = None,
        tol: float | None = None,
    ) -> Change:
        """Predict new rows, then learn from them: their nodes are refitted, and others where it matters.

        ``nodes`` as in ``fit``. ``keep`` is how many of its newest rows a node keeps; ``tol`` is that
        of ``plug_in``. What is returned has the error before learning.
        """
        return changes.update(self.living_, self._by_node(X, y, nodes), keep, tol)

    def unplug(self, label: Label, *, tol: float | None = None) -> Change:
        """Remove a node: forget its model, answers, rows and edges, and refit its neighbours without it."""
        return changes.unplug(self.living_, label, tol)

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

    # Predictions

    def predict(self, X: Any, nodes: Any = None) -> AnyArray:
        """Predict each row, a number or the most likely class, with the model of its node.

        ``nodes`` as in ``fit``. A node of the graph that has no model gets the weighted mean of its
        neighbours' predictions, and any other node what ``unknown`` says.
        """
        answers = self.answers(X, nodes)
        return self._result.task.decode(answers)

    def answers(self, X: Any, nodes: Any = None) -> FloatArray:
        """Return the predictions of each row's node, (rows, outputs): numbers, or class probabilities."""
        check_is_fitted(self, "_result")
        if nodes is None:
            nodes = self.node_column_
        X, nodes, _ = split_off_nodes(X, nodes)
        if not is_frame(X):
            X = self._coded_later(X, ())
        models, graph = self._local_models, self.whole_graph_
        if nodes is None:
            if len(models) > 1:
                raise FedRelaxError(
                    f"the network has {len(models)} nodes; say which one each row belongs "
                    "to: predict(X, nodes=...)"
                )
            nodes = [next(iter(models))] * len(X)
        groups = group_rows(nodes, len(X))
        weights: dict[Label, dict[Label, float]] = {}
        for label in groups:  # a node answers itself; without a model its neighbours do, or nobody
            near = graph.neighbours(label) if label in graph else {}
            answering = {j: weight for j, weight in near.items() if j in models}
            weights[label] = {label: 1.0} if label in models else answering
        strange = {label: groups[label] for label in groups if not weights[label]}
        self._check_unknown(strange)
        coded = self._coded_later(X, groups) if is_frame(X) else X
        answer = np.empty((len(coded), self._result.task.n_outputs))
        for label, index in groups.items():
            if label not in strange:
                answer[index] = self._mean(weights[label], coded[index])
        if strange:
            index = np.concatenate(list(strange.values()))
            answer[index] = self._mean(dict.fromkeys(models, 1.0), coded[index])
        return answer

    def _check_unknown(self, strange: Mapping[Label, AnyArray]) -> None:
        """Refuse rows of unknown nodes, or warn that the consensus answers."""
        check_choice("unknown", self.unknown, UNKNOWN)
        if not strange:
            return
        labels, names = self.whole_graph_.labels, list(strange)
        hint = next(filter(None, (did_you_mean(label, labels) for label in names[:5])), "")
        who = f"{named('node', names, 'was')} not in training"
        if self.unknown == "raise":
            raise FedRelaxError(
                f"{who}, and no neighbour in the graph has a model{hint}; unknown='consensus' predicts "
                "such rows by the mean of all nodes"
            )
        hint = hint and f" ({hint.removeprefix('; ')})"
        rows = sum(map(len, strange.values()))
        warnings.warn(
            f"{who}{hint}: {counted(rows, 'row')} predicted by the network's consensus, the mean of "
            f"{counted(len(self._local_models), 'node')}",
            FedRelaxWarning,
            stacklevel=4,
        )

    def _mean(self, weights: Mapping[Label, float], coded: FloatArray) -> FloatArray:
        """Return the weighted mean of what nodes' models predict for coded rows."""
        ready, total = self.preparation_, sum(weights.values())
        answer = np.zeros((len(coded), self._result.task.n_outputs))
        forms: dict[
            Collection[int], FloatArray
        ] = {}  # as nodes that lack the same columns see them
        for label, weight in weights.items():
            lacks = () if ready is None else ready.lacks.get(label, ())
            if lacks not in forms:
                forms[lacks] = self._shared(label, coded)
            answer += weight / total * self._local_models[label].predict(forms[lacks])
        return answer

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

    def _by_node(self, X: Any, y: Any, nodes: Any, who: str = "") -> dict[Label, OwnRows]:
        """Return rows in the shared form and targets by node, checked; errors begin with ``who``."""
        X, nodes, _ = split_off_nodes(X, self.node_column_ if nodes is None else nodes)
        if nodes is None:
            raise FedRelaxError("every row needs a node; pass nodes=...")
        target, groups = self._new_target(f"{who}y", y), group_rows(nodes, len(X))
        coded = self._coded_later(X, groups)
        if len(target) != len(coded):
            raise FedRelaxError(f"{who}X has {len(coded)} rows but y has {len(target)}")
        return {
            label: (self._shared(label, coded[index]), target[index])
            for label, index in groups.items()
        }

"""Predictions: by the model of each row's node, by its neighbours' models, or by all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError, FedRelaxWarning, counted, did_you_mean, named
from fedrelax.estimators.living import LivesOn
from fedrelax.estimators.rows import split_off_nodes
from fedrelax.schema.kinds import index_of, is_frame
from fedrelax.solvers.checks import check_choice
from fedrelax.splits import group_rows
from fedrelax.typing import FloatArray, Label

UNKNOWN = ("consensus", "raise")
"""What can be done about rows of nodes that neither have a model nor a neighbour with one."""


class Predicts(LivesOn):
    """How the estimators predict: ``answers``, from which ``predict`` and ``predict_proba`` are made."""

    unknown: str

    def answers(
        self, X: Any, nodes: Any = None, note: Callable[[str], None] | None = None
    ) -> FloatArray:
        """Return the predictions of each row's node, (rows, outputs): numbers, or class probabilities.

        ``note`` is called with a sentence about each column whose values are far outside those of training.
        """
        check_is_fitted(self, "_result")
        if nodes is None:
            nodes = self.node_column_
        X, nodes, _ = split_off_nodes(X, nodes)
        if not is_frame(X):
            X = self._coded_later(X, ())
        if nodes is None:
            models = self._local_models
            if len(models) > 1:
                raise FedRelaxError(
                    f"the network has {len(models)} nodes; say which one each row belongs "
                    "to: predict(X, nodes=...)"
                )
            nodes = [next(iter(models))] * len(X)
        groups = group_rows(nodes, len(X))
        weights = {label: self._weights_for(label) for label in groups}
        strange = [label for label in groups if not weights[label]]
        rows = [groups[label] for label in strange]
        self._check_unknown(strange, sum(map(len, rows)))
        coded = self._coded_later(X, groups) if is_frame(X) else X
        if note is not None and self.preparation_ is not None:
            for text in self.preparation_.schema.far_outside(coded, index_of(X)):
                note(text)
        answer = np.empty((len(coded), self._result.task.n_outputs))
        for label, index in groups.items():
            if weights[label]:
                answer[index] = self._mean(weights[label], coded[index])
        if strange:
            index = np.concatenate(rows)
            answer[index] = self._mean(dict.fromkeys(self._local_models, 1.0), coded[index])
        return answer

    def _weights_for(self, label: Label) -> Mapping[Label, float]:
        """Return the nodes that answer for a node, with weights: itself, or its neighbours, or nobody."""
        models = self._local_models
        if label in models:
            return {label: 1.0}
        if label not in self.whole_graph_:
            return {}
        return {j: a for j, a in self.whole_graph_.neighbours(label).items() if j in models}

    def _check_unknown(self, strange: list[Label], rows: int) -> None:
        """Refuse rows of unknown nodes, or warn that the consensus answers."""
        check_choice("unknown", self.unknown, UNKNOWN)
        if not strange:
            return
        labels = self.whole_graph_.labels
        hint = next(filter(None, (did_you_mean(label, labels) for label in strange[:5])), "")
        who = f"{named('node', strange, 'was')} not in training"
        if self.unknown == "raise":
            raise FedRelaxError(
                f"{who}, and no neighbour in the graph has a model{hint}; unknown='consensus' predicts "
                "such rows by the mean of all nodes"
            )
        hint = hint and f" ({hint.removeprefix('; ')})"
        warnings.warn(
            f"{who}{hint}: {counted(rows, 'row')} predicted by the network's consensus, the mean of "
            f"{counted(len(self._local_models), 'node')}",
            FedRelaxWarning,
            stacklevel=4,
        )

    def _mean(self, weights: Mapping[Label, float], coded: FloatArray) -> FloatArray:
        """Return the weighted mean of what nodes' models predict for coded rows."""
        ready, answer = self.preparation_, np.zeros((len(coded), self._result.task.n_outputs))
        share = 1.0 / sum(weights.values())
        forms: dict[Any, FloatArray] = {}  # rows as nodes that lack the same columns see them
        for label, weight in weights.items():
            lacks = () if ready is None else ready.lacks.get(label, ())
            if lacks not in forms:
                forms[lacks] = coded if ready is None else ready.of_node(label, coded)
            answer += weight * share * self._local_models[label].predict(forms[lacks])
        return answer
